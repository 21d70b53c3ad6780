"""The graph of memory: its edges in RAM, their weights over time, walks and paths."""
