"""The native contract: the commands of the action loop, which its MCP tools are made from."""
