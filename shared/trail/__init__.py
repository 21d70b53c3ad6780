"""Proof of the log: commitments to its messages, seals over them, and what checks both (docs/audit.md)."""
