"""An agent with the skills of the hands, called as a task would call it; only the bus is missing."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from shared.agent.base import Agent
from shared.contracts import CommandVerdict, Task
from shared.policy import Ruling
from shared.settings import Settings
from shared.tasks.actions import Outcome
from shared.tasks.context import TaskContext, current_task
from shared.tasks.profiles import Profile

SKILLS = ("files.Files", "shell.Shell", "git.Git", "python.Python", "lint.Lint")
PROFILE = Profile(
    name="hand",
    description="Has the skills of the hands",
    skills=tuple(f"shared.skills.{name}Skill" for name in SKILLS),
)


class Journal:
    """Stands in for the claim of a task: keeps what would be written into its record."""

    def __init__(self, task_id: str = "task_1", goal_id: str = "goal_1", **more: Any) -> None:
        self.task = Task(
            task_id=task_id, goal_id=goal_id, text="x", assignee="hand", requester="user", **more
        )
        self.attempt = 1
        self.effects: list[str] = []

    async def note(self, text: str, others: object = ()) -> None:
        pass

    @contextlib.asynccontextmanager
    async def effect(
        self, what: str, *, repeatable: bool = False, confined: bool = False, step: str = ""
    ) -> AsyncIterator[None]:
        self.effects.append(what)
        yield


class Hand:
    """The agent, its workspace, and a policy that says what a test wants."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(state_dir=folder / "state", command_timeout=20)
        self.agent = Agent(PROFILE, self.settings, SimpleNamespace(name="engineer", host="office"))  # type: ignore[arg-type]
        self.workspace = self.settings.workspaces / "goal_1" / "task_1"
        self.asked: list[str] = []
        self.verdict = CommandVerdict.ALLOW
        self.agent.context.judge_command = self._judge  # type: ignore[method-assign]
        self.agent.context.judge_read = self._judge_read  # type: ignore[method-assign]
        self.agent.context.approvals.require = self._ask  # type: ignore[method-assign]
        self.journal = Journal()

    async def _judge(self, command: str, workspace: str = "") -> Ruling:
        return Ruling(command=command, verdict=self.verdict, rule="test-rule", why="The test says so.")

    async def _judge_read(self, path: str, *, deep: bool = False, workspace: str = "") -> Ruling:
        return await self._judge(path, workspace)

    async def _ask(self, what: str, *, rule: str = "", why: str = "", reach: object = ()) -> frozenset[str]:
        self.asked.append(what)
        return frozenset()

    async def call(self, name: str, **params: Any) -> Outcome:
        """Perform an action as a task's."""
        token = current_task.set(TaskContext(self.journal))  # type: ignore[arg-type]
        try:
            return await self.agent.context.actions.perform(name, params)
        finally:
            current_task.reset(token)
