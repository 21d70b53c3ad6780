"""The process that starts commands in the jail: the standard library alone, so that it forks quickly."""
