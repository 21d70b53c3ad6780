"""Messages to other agents and people: subtasks, mail, approvals, and waiting for their answers."""
