"""Memory on disk: its tables, up to where they follow the log, its past states."""
