"""The ``mailroom`` command: a client of the bus, and the supervisor of ``mailroom up``."""
