"""The port: MCP over HTTP and the API of `rest` at one address of this machine."""
