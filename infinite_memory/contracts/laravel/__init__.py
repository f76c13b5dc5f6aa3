"""The Laravel contract: structured memories of organizations, repositories and users, with statuses, versions and links.

`server.LaravelServer` is one client's MCP view of it. All its memories are in one scope of the engine, named `Laravel`; their
owners say to whom they belong (`access`).
"""
