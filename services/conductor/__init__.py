"""Turns a goal into tasks, hands them out, has them reviewed, reports."""
