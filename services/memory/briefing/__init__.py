"""Briefings: what an agent needs to know now, composed, cached, and what reading them leads to."""
