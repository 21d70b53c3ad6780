"""Small functions on text."""
