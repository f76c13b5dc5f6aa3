"""The HTTP port: MCP and the API at one address of this machine."""
