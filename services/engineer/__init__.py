"""The engineer: files, shell, git."""
