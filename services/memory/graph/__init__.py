"""The edges of memory: walked, weighed, faded."""
