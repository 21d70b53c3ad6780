"""How anything in Mailroom runs a program: through one door, in a jail."""

from shared.sandbox.command import CommandResult, connection_observer, run_command
from shared.sandbox.confined import is_older, remove_tree
from shared.sandbox.execution import OutputCapture, check_jail, read_processor_time
from shared.sandbox.jail import Limits, Reach

__all__ = [
    "CommandResult",
    "Limits",
    "OutputCapture",
    "Reach",
    "check_jail",
    "connection_observer",
    "is_older",
    "read_processor_time",
    "remove_tree",
    "run_command",
]
