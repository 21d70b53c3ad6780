"""The commands of ``mailroom memory``, but for its briefings."""
