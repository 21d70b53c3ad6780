"""Prepares a project of a stranger: what it needs is installed for it alone, in the jail."""

from shared.projects.environments import Environment
from shared.projects.preparation import prepare

__all__ = ["Environment", "prepare"]
