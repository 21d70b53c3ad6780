"""Forgetting: a person's order to erase the texts of nodes from the store and the log."""
