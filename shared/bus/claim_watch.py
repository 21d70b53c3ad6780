"""Claims what takes long, by a thread: a blocked event loop must not hide that a task is at work."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any

from shared.bus.claim import Claim
from shared.bus.connection import Bus
from shared.log import logger

CLAIM_AFTER = 0.05
"""Seconds after which a task is claimed that has had no effect so far."""
PATIENCE = 0.1
"""Seconds the event loop has to begin with that; then the thread does it, over a connection of its own."""

log = logger(__name__)


class ClaimWatch:
    """Has ``begin`` called for each claim that is not stored CLAIM_AFTER seconds after it was added.

    The thread sleeps while nothing is added, and until the first is due. If the event loop does not react it
    stores the claims itself. It cannot run while code keeps the interpreter's lock, as a regular expression
    does; what such a process was at is redelivered as after its death (shared/heartbeat.py).
    """

    def __init__(self, bus: Bus, begin: Callable[[Claim], Coroutine[Any, Any, None]]) -> None:
        self._bus = bus
        self._begin = begin
        self._waiting: deque[tuple[float, Claim, Context]] = deque()
        self._some = threading.Event()
        self._on = False
        self._beginning: set[asyncio.Task[None]] = set()

    def add(self, claim: Claim) -> None:
        """Watch ``claim`` from now on; a no-op unless ``running``."""
        if self._on and not claim.stored:
            self._waiting.append((time.monotonic() + CLAIM_AFTER, claim, copy_context()))
            if not self._some.is_set():
                self._some.set()

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
                time.sleep(max(0.0, self._waiting[0][0] - time.monotonic()))
                if due := self._take_due():
                    self._claim(due, loop)

    def _take_due(self) -> list[tuple[Claim, Context]]:
        """Those that are due; what needs no claim any more is dropped."""
        due, now = [], time.monotonic()
        while self._waiting and (_is_settled(self._waiting[0][1]) or self._waiting[0][0] <= now):
            _, claim, context = self._waiting.popleft()
            if not _is_settled(claim):
                due.append((claim, context))
        return due

    def _claim(self, due: list[tuple[Claim, Context]], loop: asyncio.AbstractEventLoop) -> None:
        begun = threading.Event()

        def begin() -> None:
            begun.set()
            for claim, context in due:
                task = loop.create_task(self._begin(claim), context=context)
                self._beginning.add(task)
                task.add_done_callback(self._beginning.discard)

        try:
            loop.call_soon_threadsafe(begin)
        except RuntimeError:  # the loop is closed
            return
        if begun.wait(PATIENCE):
            return
        blocked = [context.run(claim.claiming_entry) for claim, context in due if not _is_settled(claim)]
        try:
            asyncio.run(self._bus.store_apart(blocked))
        except Exception as error:  # the thread goes on, whatever became of its connection
            log.warning("claims_unstored", claims=len(blocked), reason=str(error))
        else:
            log.warning("event_loop_busy", claims=len(blocked))


def _is_settled(claim: Claim) -> bool:
    return claim.stored or claim.ended or claim.over
