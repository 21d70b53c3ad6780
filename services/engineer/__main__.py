import asyncio
from pathlib import Path

from services.engineer.history import read_history
from services.engineer.summary import cite_tests, tell_changes, tell_history, tell_log, tell_tests
from services.engineer.testing import TestPlan, plan_tests, run_tests
from services.engineer.workspace import Workspace, clean_workspaces, require_folder, working_copy
from shared.actions import Outcome, register_action
from shared.agent import BaseAgent
from shared.contracts import HistoryReading, TestRun
from shared.errors import ActionError
from shared.process import run

REPO = {"repo": "Absolute path of the repository"}


class Engineer(BaseAgent):
    """Works with files, the shell and git: runs a project's tests in a copy of it and tells its history."""

    async def on_start(self) -> None:
        """Remove working copies that a crash left behind."""
        await asyncio.to_thread(clean_workspaces, self.settings.workspaces)

    @register_action("Find out how a project is tested, and run its tests in a copy of it", REPO)
    async def run_tests(self, repo: str) -> Outcome:
        """A TestRun in data key ``tests``; failing tests, or none that can be run, are findings."""
        folder = require_folder(repo)
        await self.progress(f"copies {folder}")
        keep = bool(self.profile.options.get("keep_workspaces", False))
        async with working_copy(folder, self._place(), keep=keep) as workspace:
            plan = await plan_tests(folder, workspace)
            tests = plan if isinstance(plan, TestRun) else await self._run(plan, workspace)
        return _report_tests(tests, workspace.skipped)

    @register_action("Tell a git repository's branch and its uncommitted changes", REPO)
    async def git_status(self, repo: str) -> Outcome:
        """A HistoryReading in data key ``history``."""
        history = await self._read(repo, 1)
        return _report_history(history, tell_changes(history))

    @register_action(
        "Tell a git repository's latest commits", {**REPO, "limit": "How many commits at most, 1 to 1000"}
    )
    async def git_log(self, repo: str, limit: int = 10) -> Outcome:
        """A HistoryReading in data key ``history``, its commits as evidence."""
        if not 1 <= limit <= 1000:
            raise ActionError(f"limit must be between 1 and 1000, not {limit}")
        history = await self._read(repo, limit)
        return _report_history(history, tell_log(history))

    @register_action("Tell where a git repository stands: branch, changes, latest commits", REPO)
    async def read_history(self, repo: str) -> Outcome:
        """A HistoryReading in data key ``history``; a folder without git is told in its ``problem``."""
        history = await read_history(require_folder(repo))
        return _report_history(history, tell_history(history))

    async def _read(self, repo: str, limit: int) -> HistoryReading:
        history = await read_history(require_folder(repo), limit)
        if history.problem:
            raise ActionError(history.problem, "Name a folder that lies in a git repository")
        return history

    async def _run(self, plan: TestPlan, workspace: Workspace) -> TestRun:
        await self.progress(f"runs {plan.line}, found in {plan.command.found}")
        async with self.effect(f"run the tests in a copy: {plan.line}", repeatable=True):
            return await run_tests(plan, workspace, self._log_path(), self.settings.command_timeout)

    def _place(self) -> Path:
        return self.settings.workspaces / self.job.task.task_id / f"attempt-{self.job.attempt}"

    def _log_path(self) -> Path:
        task = self.job.task
        return self.settings.outputs / (task.parent_goal_id or task.goal_id or task.task_id) / "tests.log"


def _report_tests(tests: TestRun, skipped: tuple[str, ...]) -> Outcome:
    return Outcome(
        output=tell_tests(tests, skipped),
        data={"tests": tests.to_dict(), "not_copied": list(skipped)},
        evidence_refs=cite_tests(tests),
        output_paths=(tests.log_path,) if tests.log_path else (),
    )


def _report_history(history: HistoryReading, output: str) -> Outcome:
    sources = tuple(commit.source for commit in history.latest)
    return Outcome(output=output, data={"history": history.to_dict()}, evidence_refs=sources)


if __name__ == "__main__":
    run(Engineer, __file__)
