"""What waits for people: open requests, questions, letters, and what was put aside."""
