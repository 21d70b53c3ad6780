"""The attempt at a task that a handler is working on: its workspace, and its notes on long work."""

import asyncio
import contextlib
import os
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from pathlib import Path, PurePath
from typing import Any, TypeVar

import msgspec

from shared.bus import Claim, Entry
from shared.contracts import ResultOutcome, Task, TaskResult, TaskStatus
from shared.errors import BusError
from shared.llm.protocol import Attached, Usage
from shared.settings import Settings
from shared.spans import SpanRecorder
from shared.tasks.actions import Outcome
from shared.tasks.submission import UNREACHED
from shared.text.display import sendable

T = TypeVar("T")
MAX_LISTED = 20  # Files, and sources, that the output of an unfinished task names; its result has all of them
MAX_UNREACHED = 20  # Hosts out of reach that a result names
MAX_REFS = 200  # Files, and sources, in the result of an unfinished task


class Opened(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a reference of a task names: ``kind`` is memory, file or task; ``status`` that of a task.

    ``shown`` is an image or PDF, for a model that sees it.
    """

    kind: str
    output: str
    status: str = ""
    output_paths: tuple[str, ...] = ()
    shown: Attached | None = None


class TaskContext:
    """One attempt at one task; ``facts`` go into its result.

    ``references`` are the contents of what the task refers to, in the order in which it does; ``found`` are
    the web addresses that it came across, ``subtasks`` the workspaces of its subtasks that ended; ``talk`` is
    the id of the task that its conversation began with.
    """

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._counts: dict[str, int] = {}
        self._earlier = Usage()
        self._own = Usage()
        self.facts: dict[str, Any] = {}
        self.references: Mapping[str, Opened] = {}
        self._uncertain: dict[str, None] = {}
        self.found: set[str] = set()
        self.subtasks: dict[str, None] = {}
        self.talk = claim.task.task_id
        self._steps = 0
        self._sources: dict[str, None] = {}
        self._files: dict[str, None] = {}

    @property
    def task(self) -> Task:
        """The task."""
        return self._claim.task

    @property
    def claim(self) -> Claim:
        """The right to work on it."""
        return self._claim

    def restate(self, task: Task) -> None:
        """Go on with ``task``, which is this one with what a person said meanwhile."""
        if task.said is not None:
            self._claim.task = task

    @property
    def spans(self) -> SpanRecorder:
        """What was done that no step of the task carries yet."""
        return self._claim.spans

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self._claim.attempt

    @property
    def hops(self) -> int:
        """How many agents have passed this work on before."""
        hops = self.task.context.get("hops", 0)
        return hops if isinstance(hops, int) and hops > 0 else 0

    @property
    def usage(self) -> Usage:
        """The model usage of the task, including that of earlier attempts as far as it was stored."""
        return self._earlier.plus(self._own)

    def count_usage(self, usage: Usage) -> None:
        """Add model usage; it goes into the result."""
        self._own = self._own.plus(usage)
        self.facts["usage"] = msgspec.to_builtins(self.usage)

    def restore_usage(self, usage: Usage) -> None:
        """Set the usage of earlier attempts, as a checkpoint has it; the largest one counts."""
        if usage.calls > self._earlier.calls:
            self._earlier = usage
            self.facts["usage"] = msgspec.to_builtins(self.usage)

    def add_changes(self, targets: object) -> None:
        """Add what was changed for the task, the ``patch_targets`` of its result; subtasks count too."""
        known = self.facts.get("patch_targets", [])
        given = targets if isinstance(targets, list | tuple) else ()
        if more := [each for each in given if each not in known]:
            self.facts["patch_targets"] = [*known, *more]

    def record_partial(self, steps: int, sources: Sequence[str], files: Sequence[str]) -> None:
        """Record the work of an unfinished agent loop; if the task fails, its result names it."""
        self._steps += steps
        self._sources |= dict.fromkeys(sources)
        self._files |= dict.fromkeys(files)

    def add_uncertain(self, *doubts: str) -> None:
        """Record effects that may or may not have happened; the result names them in any case."""
        self._uncertain |= dict.fromkeys(map(sendable, doubts))

    def with_uncertain(self, text: str) -> str:
        """``text``, followed by the uncertain effects that it does not name."""
        missing = [doubt for doubt in self._uncertain if doubt not in text]
        return text + "\n\nNot known:\n" + "\n".join(f"- {doubt}" for doubt in missing) if missing else text

    async def progress(self, text: str, others: Sequence[Entry] = ()) -> Sequence[int]:
        """Store a progress note for the task and ``others`` in one commit; returns the others' sequences."""
        return await self._claim.note(sendable(text), others)

    def effect(
        self, what: str, *, repeatable: bool = False, confined: bool = False
    ) -> AbstractAsyncContextManager[None]:
        """Record an effect outside the office before and after it happens; see Claim.effect."""
        return self._claim.effect(sendable(what), repeatable=repeatable, confined=confined, step=_scope.get())

    def next_key(self, kind: str = "") -> str:
        """A key for the next subtask, email or loop of this kind, the same in every attempt at the task.

        Within ``scope`` keys are counted separately, so that a repeated step gets the same ones.
        """
        name = f"{_scope.get()}{kind}-" if kind else _scope.get()
        self._counts[name] = self._counts.get(name, 0) + 1
        return f"{name}{self._counts[name]}"

    def own_key(self, key: str) -> str:
        """``key`` within the present scope."""
        return f"{_scope.get()}{key}"

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """A scope in which keys are counted from 1 and begin with ``name``; scopes may be nested."""
        outer = _scope.get()
        inner = f"{name}-" if outer and name.startswith(outer) else f"{outer}{name}-"
        token = _scope.set(inner)
        self._counts = {key: n for key, n in self._counts.items() if not key.startswith(inner)}
        try:
            yield
        finally:
            _scope.reset(token)

    def note_unreached(self, host: str) -> None:
        """Say in the result that the network does not lead to ``host``."""
        known = self.facts.setdefault(UNREACHED, [])
        if host not in known and len(known) < MAX_UNREACHED:
            known.append(host)

    def result(self, agent: str, outcome: Outcome) -> TaskResult:
        """The result of a task whose action ended: completed, or failed if that is its outcome."""
        unknown = {"unknown": list(self._uncertain)} if self._uncertain else {}
        failed = outcome.outcome is ResultOutcome.FAILED
        return self.task.result(
            agent,
            TaskStatus.FAILED if failed else TaskStatus.COMPLETED,
            error_message=sendable(outcome.problem or "it failed and does not say why") if failed else "",
            output=self.with_uncertain(sendable(outcome.output)),
            output_paths=tuple(map(sendable, outcome.output_paths)),
            evidence_refs=tuple(map(sendable, outcome.evidence_refs)),
            metadata={**outcome.data, **self.facts, **unknown},
            outcome=outcome.outcome,
        )

    def failure(self, reason: str, status: TaskStatus = TaskStatus.FAILED) -> TaskResult:
        """The result of a failed task: the reason, partial work, uncertain effects and usage."""
        steps = {"steps": self._steps} if self._steps else {}
        unknown = {"unknown": list(self._uncertain)} if self._uncertain else {}
        return msgspec.structs.replace(
            self._claim.failure(self.with_uncertain(sendable(reason))),
            status=status,
            output=self._format_partial(),
            output_paths=tuple(self._files)[:MAX_REFS],
            evidence_refs=tuple(self._sources)[:MAX_REFS],
            metadata={**self.facts, **steps, **unknown},
            outcome=ResultOutcome.FAILED,
        )

    def _format_partial(self) -> str:
        if not self._steps:
            return ""
        parts = [f"It was given up after {self._steps} step{'s' * (self._steps > 1)} of thinking."]
        for title, names in (("Files there are", self._files), ("Sources", self._sources)):
            if names:
                parts.append("\n- ".join([f"{title}:", *list(names)[:MAX_LISTED]]))
        return "\n\n".join(parts)


_scope: ContextVar[str] = ContextVar("scope", default="")  # The prefix of keys in the present scope

current_task: ContextVar[TaskContext | None] = ContextVar("current_task", default=None)
"""The task of the handler that is running."""


def require_current_task() -> TaskContext:
    """The task of the handler that is running; raises RuntimeError outside of one."""
    task = current_task.get()
    if task is None:
        raise RuntimeError("No task is being worked on here")
    return task


def goal_of(task: Task) -> str:
    """The name of the folder of a task's goal, with workspaces or outputs: the goal's id, else its own."""
    return task.goal_id or task.parent_goal_id or task.task_id


def workspace_name(task: Task) -> str:
    """The name of a task's workspace, a folder among those of its goal."""
    return task.workspace or task.task_id


def workspace_path(settings: Settings, task: Task) -> Path:
    """The path of a task's workspace, which may not exist."""
    return settings.workspaces.absolute() / goal_of(task) / workspace_name(task)


def inputs_path(settings: Settings) -> Path:
    """The folder of the folders that people sent from elsewhere."""
    return settings.state_dir.resolve() / "inputs"


INPUT = re.compile(r"/inputs/([0-9a-f]{16})/")
"""What the path of a folder that a person sent has, on every host."""


def sent_name(source: str) -> str:
    """The name that a folder has here which was sent from ``source``."""
    name = PurePath(source).name
    return name if re.fullmatch(r"\w[\w.+-]{0,99}", name, re.ASCII) else "folder"


def is_own(settings: Settings, folder: Path) -> bool:
    """Whether ``folder``, without links, is one of the office's own; what people sent is not."""
    own = (settings.state_dir.resolve(), settings.keys.resolve())
    return any(map(folder.is_relative_to, own)) and inputs_path(settings) not in folder.parents


def localiser(settings: Settings, goal: str) -> Callable[[T], T]:
    """Makes the paths of a goal's files, and of what people sent, those of this host; in results too."""
    state = str(settings.state_dir.absolute())
    kinds = rf"/(?:(?:outputs|workspaces|snapshots)/{re.escape(goal)}(?![\w-])|inputs/[0-9a-f]{{16}}/)"
    whole = re.compile(rf"/[^\n]*?(?={kinds})")
    within = re.compile(rf"(?<![\w.])/[^\s\"'`<>|]*?(?={kinds})")

    def change(value: Any) -> Any:
        if isinstance(value, str):
            if found := whole.match(value):
                return state + value[found.end() :]
            return within.sub(lambda _: state, value) if "/" in value else value
        if isinstance(value, Mapping):
            return {name: change(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(change(each) for each in value)
        if isinstance(value, TaskResult):
            fields = ("output", "output_paths", "evidence_refs", "metadata", "error_message")
            return msgspec.structs.replace(value, **{name: change(getattr(value, name)) for name in fields})
        return value

    return change


def find_workspace(settings: Settings, task: Task, path: str) -> Path:
    """The workspace that a reader finds the relative ``path`` in: the task's own, if it is not elsewhere.

    A task that reads only need not have made its own from those that it starts from.
    """
    own = workspace_path(settings, task)
    places = (own, *(own.parent / name for name in reversed(task.starts_from)))
    with contextlib.suppress(ValueError):  # a name that no file can have
        return next((place for place in places if os.path.lexists(place / path)), own)
    return own


TELL_EVERY = 20.0  # Seconds between two notes


@contextlib.asynccontextmanager
async def telling(note: Callable[[str], Awaitable[None]], what: str) -> AsyncIterator[None]:
    """A block of work, during which ``note`` is told ``what`` goes on, and for how long, every TELL_EVERY."""
    working = asyncio.create_task(_tell(note, what))
    try:
        yield
    finally:
        working.cancel()
        await asyncio.wait({working})


async def _tell(note: Callable[[str], Awaitable[None]], what: str) -> None:
    begun = time.monotonic()
    with contextlib.suppress(BusError):  # the work itself finds out if its claim is lost
        while True:
            await asyncio.sleep(TELL_EVERY)
            await note(f"{what} ({time.monotonic() - begun:.0f} s)")
