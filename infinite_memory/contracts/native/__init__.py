"""The native contract: the commands of the action loop, from which its MCP tools are generated."""
