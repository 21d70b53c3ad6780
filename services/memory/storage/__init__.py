"""Memory on disk: its tables, its ledger, its commits, its past."""
