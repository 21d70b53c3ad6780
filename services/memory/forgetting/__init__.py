"""Forgetting: a person's order to erase the texts of nodes from the store, the log and the audit."""
