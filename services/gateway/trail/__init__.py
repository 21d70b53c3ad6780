"""Sealing the log, and giving the seals to witnesses outside (docs/audit.md)."""
