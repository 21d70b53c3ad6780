"""What a task names or waits for: its references, opened, and the tasks it depends on.

One is the id of a memory node, a file in the task's workspace, with or without a line, or the id of an ended
task of the same requester for the same agent; ``memory:``, ``file:`` and ``task:`` say which. Nothing that
was opened counts as words of a person: it is kept beside the task's context, not in it.
"""

import asyncio
import re
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from shared import subjects
from shared.agent.context import AgentContext
from shared.bus import Bus, Delivery
from shared.bus.consumer import yield_slot
from shared.bus.records import TaskState, read_task, read_task_state
from shared.clock import parse_timestamp
from shared.contracts import TOKEN, CommandVerdict, Node, Task, TaskResult, TaskStatus
from shared.errors import ActionError, BusError, Postponed
from shared.llm.protocol import Attached, find_kind
from shared.sandbox.confined import ConfinedFolder
from shared.tasks.context import Opened, find_workspace
from shared.text.display import excerpt, sendable

MAX_REFERENCES = 50  # How many references of one task are opened
MAX_TEXT = 20_000  # The most characters of one that are passed on
MAX_FILE = 1_000_000  # The most bytes of a file that is read
MAX_SHOWN = 3_700_000  # The most bytes of an image or PDF: 5 MB in base64, which Anthropic takes
MAX_SHOWN_TOGETHER = 10_000_000  # The most bytes of all of a task: they go with each of its requests
LINES_BEFORE = 20  # Lines before the one that a reference names from which on a file is shown
REFERENCE = re.compile(r"(?:(?P<kind>memory|file|task):)?(?P<name>.+)", re.DOTALL)
PLACE = re.compile(r"(?P<path>.+?)(?::(?P<line>\d{1,9}))?", re.DOTALL)


class Unopened(Exception):
    """Why a reference cannot be opened."""


async def open_references(context: AgentContext, task: Task) -> tuple[dict[str, Opened], dict[str, str]]:
    """What the references of ``task`` name, and for each that cannot be opened the reason.

    Raises BusError if the bus does not answer; if only memory does not, its references are not opened.
    """
    names = list(dict.fromkeys((*task.context_refs, *task.evidence_refs)))
    wanted, rest = names[:MAX_REFERENCES], names[MAX_REFERENCES:]
    if not wanted:
        return {}, {}
    reading = _Reading(context, task)
    nodes, memory_fault = await reading.nodes(wanted)
    opened: dict[str, Opened] = {}
    unopened = {sendable(name): f"more than {MAX_REFERENCES} are not opened" for name in rest}
    for name in wanted:
        try:
            opened[sendable(name)] = await reading.open(name, nodes, memory_fault)
        except (Unopened, ActionError, ValueError) as error:
            unopened[sendable(name)] = str(error)
    return opened, unopened


class _Reading:
    """The reading of one task's references."""

    def __init__(self, context: AgentContext, task: Task) -> None:
        self._context, self._task = context, task
        self._shown = 0

    async def nodes(self, names: list[str]) -> tuple[Mapping[str, Node], str]:
        """The memory nodes among ``names``, by id, and why memory could not be asked if it could not."""
        ids = [name for kind, name in map(_parse, names) if kind in ("", "memory") and TOKEN.fullmatch(name)]
        if not ids:
            return {}, ""
        try:
            return {node.id: node for node in await self._context.memory.get(*ids)}, ""
        except BusError as error:
            return {}, str(error)

    async def open(self, reference: str, nodes: Mapping[str, Node], memory_fault: str) -> Opened:
        """What ``reference`` names; raises Unopened and ActionError."""
        kind, name = _parse(reference)
        if kind in ("", "file") and (kind or await asyncio.to_thread(self._has_file, name)):
            path, line = _place(name)
            workspace = await asyncio.to_thread(self._workspace, path)
            ruling = await self._context.judge_read(str(workspace / path), workspace=str(workspace))
            if ruling.verdict is not CommandVerdict.ALLOW:
                raise Unopened(f"the policy does not allow to read it ({ruling.rule}): {ruling.why}")
            data = await asyncio.to_thread(self._read, path)
            if kind := find_kind(data):
                return self._show(PurePosixPath(path).name, kind, data)
            if b"\0" in data[:8192]:
                raise Unopened("it is no text file")
            lines = data.decode("utf-8", "replace").splitlines(keepends=True)
            return Opened(
                kind="file", output=excerpt("".join(lines[max(0, line - 1 - LINES_BEFORE) :]), MAX_TEXT)
            )
        if kind in ("", "memory") and (node := nodes.get(name)):
            return Opened(kind="memory", output=excerpt(f"{node.title}\n\n{node.body}".strip(), MAX_TEXT))
        if kind in ("", "task") and TOKEN.fullmatch(name) and (result := await self._open_task(name)):
            return result
        if kind != "task" and memory_fault and TOKEN.fullmatch(name):
            raise Unopened(memory_fault)
        raise Unopened(
            "it is no memory node, no file in the workspace, and no task that "
            f"{self._task.requester} has submitted to {self._task.assignee}"
            if not kind
            else f"there is no such {kind}"
        )

    async def _open_task(self, name: str) -> Opened | None:
        task = self._task
        state = await read_task_state(self._context.bus, task.assignee, task.requester, name)
        if state is None:
            return None
        if state.result is None:
            raise Unopened("the task has not ended")
        text = state.result.output or state.result.error_message
        return Opened(
            kind="task",
            status=str(state.status),
            output=excerpt(text, MAX_TEXT),
            output_paths=state.result.output_paths,
        )

    def _workspace(self, path: str) -> Path:
        return find_workspace(self._context.settings, self._task, path)

    def _has_file(self, name: str) -> bool:
        path = _place(name)[0]
        try:
            with ConfinedFolder(self._workspace(path)) as folder:
                return folder.stat(path) is not None
        except ActionError:
            return False

    def _read(self, path: str) -> bytes:
        with ConfinedFolder(self._workspace(path)) as folder:
            with folder.open_file(path) as file:
                most = MAX_SHOWN if find_kind(file.read(16)) else MAX_FILE
            return folder.read(path, most)

    def _show(self, name: str, kind: str, data: bytes) -> Opened:
        """An image or PDF as it is shown to a model, as long as there is room for it."""
        self._shown += len(data)
        if self._shown > MAX_SHOWN_TOGETHER:
            raise Unopened(f"images and PDFs of a task have at most {MAX_SHOWN_TOGETHER:,} bytes together")
        shown = Attached(name=sendable(name), kind=kind, data=data)
        what = "An image" if shown.is_image else "A PDF"
        return Opened(kind="file", output=f"({what}, which is shown before the task.)", shown=shown)


def _parse(reference: str) -> tuple[str, str]:
    """The kind that a reference says it is, else an empty string, and its name."""
    found = REFERENCE.fullmatch(reference)
    return (found["kind"] or "", found["name"]) if found else ("", reference)


def _place(name: str) -> tuple[str, int]:
    """The path of a file, and the line that is meant, from 1."""
    found = PLACE.fullmatch(name)
    return (found["path"], int(found["line"] or 1)) if found else (name, 1)


FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
"""Seconds between two looks at what a task waits for: the first and, after doubling, the longest."""
MISSING_WAIT = 600.0
"""Seconds after its submission until a task without a deadline fails if what it depends on is missing."""
WAIT = Task(task_id="wait", text="wait", assignee="nobody", requester="nobody").result(
    "nobody", TaskStatus.PENDING, output=""
)
"""Stands for: it cannot begin yet."""
CURE = (
    "depends_on names tasks of the same requester for the same agent, since no agent can read the results of "
    "others; have several agents work together by a goal on tasks.submit, or submit this task when that one "
    "has ended"
)


async def wait_for_dependencies(bus: Bus, delivery: Delivery, task: Task) -> TaskResult | None:
    """Wait, without taking a slot, until what ``task`` depends on has completed.

    Returns None if it may begin, or its result if it never can: one of the others failed, or the time is up.
    Raises Postponed if it may begin now but had to wait: its slot belongs to another by then. The conductor
    hands out its tasks when they may begin, so these do not wait.
    """
    if not task.depends_on or task.requester == subjects.CONDUCTOR:
        return None
    prospect = await _look(bus, delivery, task)
    if prospect is not WAIT:
        return prospect
    pause = FIRST_PAUSE
    async with yield_slot(unbegun=True):
        while prospect is WAIT:
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)
            own = await read_task(bus, task)
            prospect = None if own is not None and own.status.final else await _look(bus, delivery, task)
    if prospect is None:
        raise Postponed("what it depends on has completed by now")
    return prospect


async def _look(bus: Bus, delivery: Delivery, task: Task) -> TaskResult | None:
    """WAIT, or what wait_for_dependencies returns."""
    states: dict[str, TaskState | None] = {}
    reason = ""
    for name in dict.fromkeys(task.depends_on):
        try:
            states[name] = await read_task_state(bus, task.assignee, task.requester, name)
        except ValueError as error:
            reason = f"it depends on {name}, which cannot be read: {error}"
    if reason := reason or _find_failure(task, states):
        return task.result(bus.name, TaskStatus.FAILED, output="", error_message=reason[:4_000])
    waiting = [name for name, state in states.items() if state is None or not state.status.final]
    if not waiting:
        return None
    missing = next((name for name in waiting if states[name] is None), "")
    if not _is_overdue(task, delivery, missing):
        return WAIT
    reason = f"its deadline passed before {waiting[0]} had ended, on which it depends"
    if missing:
        reason = (
            f"it depends on {missing}, which {task.requester} has not submitted to {task.assignee}. {CURE}"
        )
    return task.result(bus.name, TaskStatus.TIMEOUT, output="", error_message=reason)


def _find_failure(task: Task, states: Mapping[str, TaskState | None]) -> str:
    if task.task_id in states:
        return "it depends on itself"
    for name, state in states.items():
        if state is not None and state.status.final and state.status != TaskStatus.COMPLETED:
            why = state.result.error_message if state.result else ""
            return f"it depends on {name}, which ended as {state.status}: {why}".rstrip(": ")
    return ""


def _is_overdue(task: Task, delivery: Delivery, missing: str) -> bool:
    if task.deadline:
        return time.time() >= parse_timestamp(task.deadline).timestamp()
    return bool(missing) and time.time() >= delivery.stored_at / 1e9 + MISSING_WAIT
