"""Which agent or tool a message is for."""
