"""How anything in Mailroom runs a program: through one door, in a jail."""

from shared.sandbox.check import check_jail
from shared.sandbox.command import CommandResult, Limits, run_command
from shared.sandbox.folders import remove_tree

__all__ = ["CommandResult", "Limits", "check_jail", "remove_tree", "run_command"]
