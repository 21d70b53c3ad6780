"""Cortex: plans, scripts, and the overnight queue."""
