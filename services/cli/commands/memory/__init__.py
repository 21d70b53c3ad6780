"""``mailroom memory`` and ``mailroom brief``: what the office knows, for people."""
