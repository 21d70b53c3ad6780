"""What the desk knows of the office: its goals, letters, agents and plans, asked for as one query."""
