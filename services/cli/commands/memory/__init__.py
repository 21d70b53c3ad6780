"""The commands of ``mailroom memory``, and ``mailroom brief``."""
