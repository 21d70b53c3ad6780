"""What an agent sends to others and waits for: tasks, mail, approvals."""
