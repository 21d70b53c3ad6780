"""The commands of ``mailroom``, a module each."""
