"""The Laravel contract: structured memories of organisations, repositories and users, with states, versions and links.

`server.LaravelServer` is one client's view of it by MCP. All its memories live in one scope of the engine, named `Laravel`; who a
memory belongs to stands in its owners (`access`).
"""
