"""Figures: what Prometheus scrapes, and the targets that people look at, both from the index."""
