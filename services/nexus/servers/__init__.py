"""Messages for tools of MCP servers: which tool, with which arguments, without a model."""
