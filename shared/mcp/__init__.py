"""Tools of MCP servers for agents: servers in the jail or elsewhere, pinned tools, calls as actions."""
