"""What the log says, for whoever shows it: goals, timelines, results, metrics, the audit log."""
