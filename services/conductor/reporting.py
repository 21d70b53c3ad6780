"""The end of a goal: the report on disk, and what it found in memory."""

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from services.conductor.findings import remembered
from services.conductor.playbook import Playbook
from shared.contracts import (
    Goal,
    HistoryReading,
    Inspection,
    RepositoryReading,
    TaskStatus,
    TestRun,
    Verdict,
)
from shared.errors import BusError
from shared.log import logger
from shared.memory import Memory

PARTS = (
    ("reading", "reading", RepositoryReading),
    ("tests", "tests", TestRun),
    ("history", "history", HistoryReading),
    ("inspection", "inspection", Inspection),
)
"""The tasks of a check-up, the key of their data, and what it is."""

log = logger(__name__)


class Reporter:
    """Writes reports beneath ``outputs`` and tells memory what they found; doing it twice changes nothing."""

    def __init__(self, outputs: Path, memory: Memory, derive_id: Callable[..., str]) -> None:
        self._outputs = outputs
        self._memory = memory
        self._derive_id = derive_id

    async def report(self, goal: Goal, playbook: Playbook | None, results: Mapping[str, Any]) -> Goal:
        """``goal`` with its report written and its answer set."""
        if not goal.tasks:
            return goal
        from services.conductor.report import headline

        text = _compose(goal, playbook, results)
        path = self._outputs / goal.goal_id / "report.md"
        try:
            await asyncio.to_thread(_write, path, text)
        except OSError as error:
            reason = f"the report could not be written to {path}: {error.strerror}"
            return msgspec.structs.replace(
                goal, status=TaskStatus.FAILED, reason=reason, answer=text[:50_000]
            )
        goal = msgspec.structs.replace(goal, report_path=str(path), answer=goal.answer or headline(text))
        await self._remember(goal, results, path)
        return goal

    async def _remember(self, goal: Goal, results: Mapping[str, Any], path: Path) -> None:
        nodes, edges = remembered(goal, results, path, self._derive_id)
        try:
            await self._memory.add(*nodes, edges=edges, insist=True)
        except BusError as error:
            # The write is in line in any case; the report does not wait for a daemon that is down.
            log.warning("findings_not_confirmed", goal_id=goal.goal_id, reason=str(error))


def _compose(goal: Goal, playbook: Playbook | None, results: Mapping[str, Any]) -> str:
    from services.conductor.report import compose_checkup, compose_plain

    if playbook is None or playbook.report != "checkup":
        return compose_plain(goal, results)
    parts, failures = checkup_parts(results)
    verdict = Verdict.from_dict(goal.verdict) if goal.verdict else None
    return compose_checkup(goal=goal, verdict=verdict, failures=failures, **parts)


def checkup_parts(results: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The parts of a check-up that were done, and why the others were not."""
    parts: dict[str, Any] = {}
    failures: dict[str, str] = {}
    for name, key, contract in PARTS:
        result = results.get(name, {})
        data = result.get("metadata", {}).get(key)
        try:
            parts[name] = contract.from_dict(data) if data else None
        except ValueError as error:
            parts[name], failures[name] = None, f"its data cannot be read: {error}"
        if parts[name] is None:
            failures.setdefault(name, result.get("error_message") or "it gave no data")
    return parts, failures


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
