"""Erasing in OFFICE, AUDIT and files what quotes a text that a person had forgotten, with the admin's key."""
