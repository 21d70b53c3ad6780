"""How anything in Mailroom runs a program: through one door."""

from shared.sandbox.command import CommandResult, Limits, run_command
from shared.sandbox.folders import remove_tree

__all__ = ["CommandResult", "Limits", "remove_tree", "run_command"]
