"""The office for programs that speak MCP: tools, resources and prompts over the functions of the API."""
