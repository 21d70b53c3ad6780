"""Briefings: what an agent needs to know now, composed, cached, and their accesses counted."""
