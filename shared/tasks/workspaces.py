"""Where the workspace of a task is."""

from pathlib import Path

from shared.contracts import Task
from shared.settings import Settings


def workspace_name(task: Task) -> str:
    """The name of a task's workspace and of the folder of its outputs: its goal's id, else its own."""
    return task.parent_goal_id or task.goal_id or task.task_id


def workspace_path(settings: Settings, task: Task) -> Path:
    """The path of a task's workspace, which may not exist."""
    return settings.workspaces.absolute() / workspace_name(task)
