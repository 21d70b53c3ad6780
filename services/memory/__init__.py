"""The memory daemon: the only owner of the team's memory, and of lancedb and pyarrow."""
