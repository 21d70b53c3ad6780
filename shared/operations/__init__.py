"""What people do to the office, for the command and the gateway alike."""
