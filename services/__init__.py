"""The processes of the office: an agent each, memory, and the command."""
