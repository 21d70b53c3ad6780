"""What pages show of goals, tasks and agents: read from the index and the log, for the API to answer with."""
