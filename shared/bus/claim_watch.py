"""Claims what takes long, by a thread: a blocked event loop must not hide that a task is at work."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

from shared.bus.claim import Claim
from shared.bus.connection import Bus
from shared.log import logger

CLAIM_AFTER = 0.05
"""Seconds after which a task is claimed that has had no effect so far."""
PATIENCE = 0.2
"""Seconds the event loop has to begin with that; then the thread does it, over a connection of its own."""

log = logger(__name__)


class Run:
    """The block in which a task is worked on: it is watched until its end."""

    __slots__ = ("claim", "context", "due", "over")

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.context = copy_context()
        self.due = time.monotonic() + CLAIM_AFTER
        self.over = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.over = True

    @property
    def settled(self) -> bool:
        """Whether it needs no claim any more."""
        return self.over or self.claim.stored


class ClaimWatch:
    """Has ``begin`` called for each claim that is not stored when its task has run for CLAIM_AFTER seconds.

    The thread sleeps while nothing runs, and until the first is due. If the event loop does not react it
    stores the claims itself. It cannot run while code keeps the interpreter's lock, as a regular expression
    does; what such a process was at is redelivered as after its death (shared/heartbeat.py).
    """

    def __init__(self, bus: Bus, begin: Callable[[Claim], Coroutine[Any, Any, None]]) -> None:
        self._bus = bus
        self._begin = begin
        self._waiting: deque[Run] = deque()
        self._some = threading.Event()
        self._on = False
        self._beginning: set[asyncio.Task[None]] = set()

    def watch(self, claim: Claim) -> Run:
        """A block in which a task runs; it is watched only while the watch is ``running``."""
        run = Run(claim)
        if self._on:
            self._waiting.append(run)
            if not self._some.is_set():
                self._some.set()
        return run

    @contextmanager
    def running(self) -> Iterator[None]:
        """A block in which the thread watches."""
        loop = asyncio.get_running_loop()
        self._on = True
        threading.Thread(target=self._watch, args=(loop,), name="claims", daemon=True).start()
        try:
            yield
        finally:
            self._on = False
            self._some.set()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._some.wait() and self._on:
            self._some.clear()
            while self._waiting and self._on:
                time.sleep(max(0.0, self._waiting[0].due - time.monotonic()))
                if due := self._take_due():
                    self._claim(due, loop)

    def _take_due(self) -> list[Run]:
        """Those that are due; what needs no claim any more is dropped."""
        due, now = [], time.monotonic()
        while self._waiting and (self._waiting[0].settled or self._waiting[0].due <= now):
            run = self._waiting.popleft()
            if not run.settled:
                due.append(run)
        return due

    def _claim(self, due: list[Run], loop: asyncio.AbstractEventLoop) -> None:
        begun = threading.Event()

        def begin() -> None:
            begun.set()
            for run in due:
                if not run.settled:
                    task = loop.create_task(self._begin(run.claim), context=run.context)
                    self._beginning.add(task)
                    task.add_done_callback(self._beginning.discard)

        try:
            loop.call_soon_threadsafe(begin)
        except RuntimeError:  # the loop is closed
            return
        blocked = [] if begun.wait(PATIENCE) else [run for run in due if not run.settled]
        if not blocked:
            return
        entries = [run.context.run(run.claim.claiming_entry) for run in blocked]
        try:
            asyncio.run(self._bus.store_apart(entries))
        except Exception as error:  # the thread goes on, whatever became of its connection
            log.warning("claims_unstored", claims=len(blocked), reason=str(error))
        else:
            log.warning("event_loop_busy", claims=len(blocked))
