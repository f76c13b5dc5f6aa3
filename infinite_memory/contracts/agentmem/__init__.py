"""The AgentMem contract: memories of users, agents, runs and sessions, with search, chat and prompts.

`server.AgentMemServer` is one client's view of it by MCP. All its memories live in one scope of the engine, named `AgentMem`. A user
reads nothing but their own: every search is narrowed by the user before anything is ranked, and each hit is checked again (`access`).
"""
