"""What the log says, for the command and the gateway: goals, timelines, results, metrics, the audit log."""
