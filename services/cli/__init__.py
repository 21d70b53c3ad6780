"""The `mailroom` command, and the supervisor of an office on this machine."""
