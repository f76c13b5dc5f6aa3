"""The AgentMem contract: memories of users, agents, runs and sessions, with search, chat and prompts.

`server.AgentMemServer` is one client's MCP view of it. All its memories are in one scope of the engine, named `AgentMem`. A user
reads only their own: every search is filtered by user before ranking, and each hit is checked again (`access`).
"""
