"""Memory on disk: its tables, its write-ahead log, its commits, its past states."""
