"""The index of the log: a projection of the audit streams in SQLite, for pages, search and figures."""
