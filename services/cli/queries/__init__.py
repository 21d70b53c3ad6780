"""Reading JetStream for the commands: records, audit log, metrics."""
