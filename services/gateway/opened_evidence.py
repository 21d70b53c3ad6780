"""Opens what the evidence of a goal names, as text, and nothing else."""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from services.gateway.call import Gateway
from services.gateway.problems import Failure, not_found
from shared.contracts import TOKEN, CommandVerdict, Goal
from shared.errors import ActionError, MailroomError
from shared.memory import Memory
from shared.queries.records import read_tasks
from shared.queries.results import collect_results
from shared.sandbox.confined import ConfinedFolder
from shared.settings import Settings
from shared.tasks.context import localiser
from shared.views.timeline import GoalResults

MAX_FILE = 2_000_000  # The most bytes of a file that is opened; of a longer one the beginning
BEFORE, AFTER = 40, 400  # Lines before and after the one that a piece of evidence names
MOST_COPIES = 20  # Folders of copies that are looked into
MAX_LINE = 2_000
PLACE = re.compile(r"(?P<path>.+?)(?::(?P<line>\d{1,9})(?:[:-]\d{1,9})?)?", re.DOTALL)
FOLDER_PARAMETERS = ("repo", "path", "folder", "repos")  # Parameters of tasks that name a folder


def read_report(config: Settings, goal: Goal) -> str:
    """The report of a goal; raises Failure (404) if it has none on this machine."""
    outputs = (config.outputs / goal.goal_id).resolve()
    path = Path(goal.report_path or "none")
    if not path.resolve().is_relative_to(outputs):
        raise not_found("report of this goal", "It is written when the goal ends")
    text = _read_below(outputs, str(path.resolve().relative_to(outputs)))
    if text is None:
        raise not_found("report of this goal on this machine")
    return text


async def open_evidence(gateway: Gateway, goal: Goal, ref: str) -> str:
    """The text that ``ref`` names; raises Failure (404) if the goal names no such evidence, or it is gone."""
    issued = [task for task in (*goal.tasks, *goal.earlier) if task.issued]
    states = await read_tasks(gateway.bus, issued)
    results = {name: state.result for name, state in states.items() if state.result is not None}
    by_task = {task.name: results[task.task_id] for task in goal.tasks if task.task_id in results}
    named = set(list_evidence(collect_results(goal, by_task)))
    for result in results.values():
        named.update(result.evidence_refs, result.output_paths)
    if ref not in named:
        raise not_found(f"evidence {ref[:200]!r} in the results of this goal")
    if TOKEN.fullmatch(ref):
        with contextlib.suppress(MailroomError):
            for node in await Memory(gateway.bus).get(ref):
                return f"{node.title}\n\n{node.body}".strip()
    found = PLACE.fullmatch(ref)
    path, line = (found["path"], int(found["line"] or 0)) if found else (ref, 0)
    here = localiser(gateway.settings, goal.goal_id)
    text = await asyncio.to_thread(_open_file, gateway.settings, goal, here(path))
    if text is None:
        raise not_found(f"file {path[:200]!r} of this goal on this machine any more")
    # The lines around one, with their numbers; all of the text for no line
    lines = text.splitlines()
    if not line:
        return text
    if line > len(lines):
        raise Failure(404, f"The file has {len(lines):,} lines, and line {line:,} is not among them")
    first, last = max(1, line - BEFORE), min(len(lines), line + AFTER)
    width = len(str(last))
    return "\n".join(
        f"{'>' if number == line else ' '} {number:>{width}}  {lines[number - 1][:MAX_LINE]}"
        for number in range(first, last + 1)
    )


def list_evidence(results: GoalResults) -> list[str]:
    """The places that the findings and failures of a goal name."""
    failures = [failure.source for run in results.tests for failure in run.failures]
    logs = [run.log_path for run in results.tests if run.log_path]
    return [*logs, *failures, *(finding.source for finding in results.findings)]


def _open_file(config: Settings, goal: Goal, path: str) -> str | None:
    for root in _roots(config, goal):
        if not Path(path).is_absolute():
            text = _read_below(root, path)
        elif Path(path).is_relative_to(root):
            text = _read_below(root, str(Path(path).relative_to(root)))
        else:
            continue
        if text is not None:
            return text
    return None


def _roots(config: Settings, goal: Goal) -> Iterator[Path]:
    """Where files of a goal are: its outputs, its workspaces, and the folders that a person named."""
    for parent in (config.outputs, config.workspaces):
        yield parent.absolute() / goal.goal_id
    workspaces = _folders(config.workspaces.absolute() / goal.goal_id)
    yield from workspaces
    # Copies of projects, in which evidence names files as in the project
    yield from [copy for workspace in workspaces for copy in _folders(workspace)][:MOST_COPIES]
    given = f"{goal.text} {goal.context}"
    for task in goal.tasks:
        for name in FOLDER_PARAMETERS:
            value = task.params.get(name)
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, str) and each.startswith("/") and each in given:
                    yield Path(each)


def _folders(place: Path) -> list[Path]:
    """The folders in ``place``, hidden ones and links apart."""
    try:
        found = [each for each in place.iterdir() if not each.name.startswith(".") and not each.is_symlink()]
        return sorted(each for each in found if each.is_dir())[:MOST_COPIES]
    except OSError:
        return []


def _read_below(root: Path, path: str) -> str | None:
    """The text of a file beneath ``root``; None if there is none, it is no text, or the policy denies it."""
    from shared import policy

    ruling = policy.judge_read(str(root / path), workspace=str(root))
    if ruling.verdict is not CommandVerdict.ALLOW:
        return None
    try:
        with ConfinedFolder(root) as folder, folder.open_file(path) as file:
            data = file.read(MAX_FILE)
    except (ActionError, OSError):
        return None
    return None if b"\0" in data[:8_192] else data.decode("utf-8", "replace")
