"""Commits: one message plainly, several in an atomic batch, which concurrent handlers share; and how fast."""

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

import nats.errors

from shared.bus.client import (
    BATCH_INCOMPLETE,
    DUPLICATE_IN_BATCH,
    ELECTING,
    TOO_MANY_BATCHES,
    Answer,
    BusClient,
    error_of,
    format_message,
    no_leader,
    read_answer,
)
from shared.bus.entry import Entry
from shared.effects import begin_effect
from shared.errors import BusError, BusUnavailable, Conflict, Denied
from shared.log import logger
from shared.subjects import MAX_BATCH, MAX_BATCH_BYTES, MAX_PAYLOAD

INCOMPLETE_TRIES = 3
INCOMPLETE_PAUSE = 0.3  # Tries, and seconds between two, until an incomplete batch is taken as a full disk
OPEN_TRIES = 30
OPEN_PAUSE = 0.1  # Tries, and at most seconds between two, while too many batches are open
ANSWER_TIMEOUT, CLUSTER_ANSWER = 5.0, 2.0
"""Seconds without an answer after which a commit is sent again under the same message ids, the second if
another server may lead by then."""
ELECTION_WAIT = 30.0
"""Seconds for which a commit waits for a cluster to choose who leads the stream: 4 to 9 s if one dies."""
ELECTED, MOVE_AFTER = 10.0, 2
"""Seconds without a leader, and tries without an answer, after which another server is asked."""
ELECTION_PAUSE = 0.25  # At most seconds between two tries meanwhile
SILENCE_PAUSE = 8.0
"""At most seconds until a commit is sent again that was left unanswered several times: servers that catch up
may never come to an end while everybody writes at once."""
UNROUTED_WAIT = 0.5
"""Seconds for which no stream may take a subject, as for a moment after the server reloads its configuration.
Nothing is stored then."""
UNKNOWN_PAUSE = 0.1
"""Seconds between two attempts to read whether a refused commit was stored by an earlier attempt."""
FOLLOWER_WAIT = 2.0
"""Seconds for which a server that follows may lack the message by which a commit was refused."""
GROUPS_IN_FLIGHT = 2  # A second group is sent while the first waits for the disk; a third was no faster
WINDOW = 1_000  # How many single messages are on their way at once
SYNCED_WINDOW = 4  # The same if the server writes each to disk before it answers
GROUP = 16  # The least single messages that wait for a batch to be faster than sending each plainly
SECOND_GROUP = 128
"""The least messages for a second group: an atomic batch costs the server about 3.5 ms, however small."""

LARGEST = MAX_PAYLOAD - 64 * 1024
"""The most bytes of one message, without headers: the server disconnects a client that sends more."""

log = logger(__name__)


class _Commit:
    """The entries of one caller that wait for an answer; ``sent`` is when, if they were sent plainly."""

    __slots__ = ("entries", "future", "sent", "size")

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.size = sum([len(entry.payload) for entry in entries])
        self.future: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()
        self.sent = 0.0


class _Exchange(NamedTuple):
    """Entries on their way, and the future of the server's answer to them."""

    future: asyncio.Future[bytes]
    entries: Sequence[Entry]


class Committer:
    """Sends the commits of one connection to one stream.

    A commit of one message is sent plainly, without waiting for those before it. A commit of several is an
    atomic batch, which those of other callers that wait meanwhile share. If the server writes every message
    to disk before it answers (``synced``), many single messages that wait share a batch too: it is written
    once. If a batch is refused, each caller's part is sent alone, so that one caller's conflict fails no
    other. A part that was stored without an answer (the server died in between) is recognised by its message
    ids and by the last message on its subject.
    """

    def __init__(
        self,
        client: BusClient,
        stored_last: Callable[[str], Awaitable[tuple[int, bytes] | None]],
        *,
        synced: bool = True,
    ) -> None:
        self._client = client
        self._stored_last = stored_last
        self._window = SYNCED_WINDOW if synced else WINDOW
        self._singles: deque[_Commit] = deque()
        self._several: deque[_Commit] = deque()
        self._wake = asyncio.Event()
        self._answers: dict[str, _Exchange | _Commit] = {}
        self._plain = 0
        self._synced = synced
        self._inbox = ""
        self._serial = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._batches: set[asyncio.Task[None]] = set()
        self._loops: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Subscribe to the answers and begin to send."""
        self._inbox = self._client.new_inbox()
        await self._client.subscribe_directly(f"{self._inbox}.*", self._on_answer)
        self._loops = [asyncio.create_task(self._run()), asyncio.create_task(self._watch())]

    async def stop(self) -> None:
        """Stop sending; callers still waiting get BusUnavailable."""
        for task in (*self._loops, *self._tasks):
            task.cancel()
        self._fail_all()

    def _fail_all(self) -> None:
        plain = [each for each in self._answers.values() if isinstance(each, _Commit)]
        for commit in (*self._singles, *self._several, *plain):
            _fail(commit, BusUnavailable("The connection to the bus was closed"))

    async def commit(self, entries: Sequence[Entry]) -> tuple[int, ...]:
        """Store all entries or none, and return their sequences (0 if all of several were stored before).

        Waits for as long as the server is away. Raises Conflict, Denied, BusFull or BusError.
        """
        if not entries:
            return ()
        if self._client.is_closed:
            raise BusUnavailable("The connection to the bus was closed")
        if len(entries) > MAX_BATCH:
            raise BusError(f"A commit of {len(entries)} messages is larger than the limit of {MAX_BATCH}")
        for entry in entries:
            if len(entry.payload) > LARGEST:
                raise BusError(
                    f"A message on {entry.subject!r} has {len(entry.payload):,} of {LARGEST:,} bytes"
                )
        commit = _Commit(entries)
        if len(entries) == 1 and not self._singles and self._may_send_plainly():
            await self._send_plainly(commit)
        else:
            (self._singles if len(entries) == 1 else self._several).append(commit)
            self._wake.set()
        return await commit.future

    def on_reconnected(self) -> None:
        """Send everything unanswered again at once: answers to the old connection never arrive."""
        for waiting in list(self._answers.values()):
            if isinstance(waiting, _Exchange) and not waiting.future.done():
                waiting.future.set_exception(TimeoutError())
        self._send_again(time.monotonic())
        self._wake.set()

    def on_denied(self, subject: str) -> None:
        """Fail the commits that wait on ``subject`` (in lower case), which the server refused."""
        for token, waiting in list(self._answers.items()):
            refused = next(
                (each.subject for each in waiting.entries if each.subject.lower() == subject), None
            )
            if refused is None or waiting.future.done():
                continue
            denied = Denied(f"The broker does not allow publishing on {refused!r}")
            if isinstance(waiting, _Commit):
                self._forget(token)
            waiting.future.set_exception(denied)

    @property
    def _patience(self) -> float:
        return CLUSTER_ANSWER if self._client.clustered else ANSWER_TIMEOUT

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._may_send_batch():
                group = self._take_group()
                if group:
                    self._batches.add(self._spawn(self._send_group(group)))
            while self._singles and self._may_send_plainly():
                commit = self._singles.popleft()
                if not commit.future.done():
                    await self._send_plainly(commit)

    # --- one message, sent plainly -------------------------------------------------------------------

    def _may_send_plainly(self) -> bool:
        if self._synced and len(self._singles) >= GROUP:
            return False  # they wait for the next batch
        return self._plain < self._window and self._client.is_connected

    async def _send_plainly(self, commit: _Commit) -> None:
        self._serial += 1
        token = f"{self._serial:x}"
        self._answers[token] = commit
        self._plain += 1
        commit.sent = time.monotonic()
        await self._client.send(format_message(commit.entries[0], "", 1, f"{self._inbox}.{token}", last=True))

    def _forget(self, token: str) -> None:
        del self._answers[token]
        self._plain -= 1
        if self._singles:
            self._wake.set()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._patience / 5)
            self._send_again(time.monotonic() - self._patience)
            if self._client.is_closed:
                self._fail_all()

    def _send_again(self, sent_before: float) -> None:
        """Send again what was sent plainly before a moment and is not answered."""
        for token, commit in list(self._answers.items()):
            if isinstance(commit, _Commit) and commit.sent <= sent_before:
                self._forget(token)
                if not commit.future.done():
                    self._spawn(self._send_one(commit))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_sent)
        return task

    # --- several messages, as an atomic batch --------------------------------------------------------

    def _may_send_batch(self) -> bool:
        """Whether to send a batch now: for commits of several messages, or because many single ones wait."""
        waiting = sum(len(commit.entries) for commit in self._several)
        if self._synced:
            waiting += len(self._singles)
        if not self._several and (not self._synced or waiting < GROUP):
            return False
        return not self._batches or (len(self._batches) < GROUPS_IN_FLIGHT and waiting >= SECOND_GROUP)

    def _on_sent(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._batches.discard(task)
        self._wake.set()
        if not task.cancelled() and (error := task.exception()):
            log.error("commit_failed", error=str(error))

    def _take_group(self) -> list[_Commit]:
        """Commits of several messages, and single ones if a batch is faster for them, up to the limits."""
        count = size = 0
        group: list[_Commit] = []
        for queue in (self._several, self._singles) if self._synced else (self._several,):
            while queue and (
                not group
                or (count + len(queue[0].entries) <= MAX_BATCH and size + queue[0].size <= MAX_BATCH_BYTES)
            ):
                commit = queue.popleft()
                if not commit.future.done():
                    group.append(commit)
                    count += len(commit.entries)
                    size += commit.size
        return group

    async def _send_group(self, group: list[_Commit]) -> None:
        if len(group) == 1:
            await self._send_one(group[0])
            return
        entries = [entry for commit in group for entry in commit.entries]
        try:
            last = await self._store(entries)
        except BusError:
            await asyncio.gather(*(self._send_one(commit) for commit in group))
            return
        first = last - len(entries) + 1
        for commit in group:
            count = len(commit.entries)
            _succeed(commit, tuple(range(first, first + count)) if last else (0,) * count)
            first += len(commit.entries)

    async def _send_one(self, commit: _Commit, answered: bytes | None = None) -> None:
        """Have one caller's entries stored; ``answered`` is the answer to a first attempt."""
        try:
            _succeed(commit, await self._store_once(commit.entries, answered))
        except BusError as error:
            _fail(commit, error)

    async def _store_once(self, entries: Sequence[Entry], answered: bytes | None) -> tuple[int, ...]:
        try:
            last = await self._store(entries, answered)
        except Conflict as refused:
            sequences = await self._stored_before(entries, refused.last)
            if sequences is None:
                raise
            return sequences
        count = len(entries)
        return tuple(range(last - count + 1, last + 1)) if last else (0,) * count

    async def _stored_before(self, entries: Sequence[Entry], last: int) -> tuple[int, ...] | None:
        """The sequences, if an earlier attempt at sending these entries was stored after all.

        ``last`` is the message by which they were refused: a server of a cluster that follows may not have
        it yet.
        """
        until = time.monotonic() + FOLLOWER_WAIT
        while True:
            reached = 0
            for position, entry in enumerate(entries):
                stored = await self._last_on(entry.subject) if entry.expect is not None else None
                if stored is not None and stored[1] == entry.payload:
                    first = stored[0] - position
                    return tuple(range(first, first + len(entries)))
                reached = max(reached, stored[0] if stored else 0)
            if reached >= last or not self._client.clustered or time.monotonic() > until:
                return None
            await asyncio.sleep(UNKNOWN_PAUSE / 4)

    async def _last_on(self, subject: str) -> tuple[int, bytes] | None:
        """The last message on ``subject``; waits for as long as the server does not tell."""
        while True:
            try:
                return await self._stored_last(subject)
            except BusUnavailable as error:
                log.warning("commit_unknown", subject=subject, reason=str(error))
                await asyncio.sleep(UNKNOWN_PAUSE)
                await self._reconnected()

    async def _store(self, entries: Sequence[Entry], answered: bytes | None = None) -> int:
        """Send until answered; returns the sequence of the last entry, 0 when several were stored before."""
        incomplete = crowded = silent = 0
        since = time.monotonic()
        while True:
            data, answered = answered, None
            if data is None and (data := await self._send(entries, probe=incomplete + crowded > 0)) is None:
                if silent >= MOVE_AFTER and await self._client.move():
                    silent = 0
                await asyncio.sleep(_jitter(min(SILENCE_PAUSE, 2.0**silent)) if silent else 0)
                silent, since = silent + 1, time.monotonic()
                continue
            answer = read_answer(data) if data else Answer()
            code = (answer.error or {}).get("err_code")
            if not data or code in ELECTING:
                await self._wait_for_leader(entries[-1].subject, since)
                continue
            error = answer.error
            if error is None:
                return 0 if answer.duplicate and len(entries) > 1 else answer.seq
            if code == DUPLICATE_IN_BATCH and len(entries) > 1:
                # Some id is in the stream already. Batches are atomic: all are, unless two callers share an
                # id.
                if any(entry.expect is not None for entry in entries):
                    raise Conflict("The commit was refused: a message of it is stored already")
                for entry in entries:
                    await self._store([entry])
                return 0
            if code == DUPLICATE_IN_BATCH:
                return 0
            if code == TOO_MANY_BATCHES and crowded < OPEN_TRIES:
                crowded += 1
                await asyncio.sleep(_jitter(OPEN_PAUSE))
                continue
            if code == BATCH_INCOMPLETE and incomplete < INCOMPLETE_TRIES:
                # Again at once, to be told if there are too many; then it is the disk or the connection.
                await asyncio.sleep(INCOMPLETE_PAUSE if incomplete else 0)
                incomplete += 1
                continue
            raise error_of(error)

    async def _wait_for_leader(self, subject: str, since: float) -> None:
        """Wait a moment if nobody took a message; raises BusUnavailable if that goes on since long ago."""
        waited = time.monotonic() - since
        if self._client.clustered and waited > ELECTION_WAIT:
            raise no_leader()
        if not self._client.clustered and waited > UNROUTED_WAIT:
            raise BusUnavailable(f"No stream takes {subject!r}", "Provision the office: run 'mailroom up'")
        if waited > ELECTED:
            await self._client.move()
        await asyncio.sleep(_jitter(ELECTION_PAUSE))

    async def _send(self, entries: Sequence[Entry], *, probe: bool = False) -> bytes | None:
        """One attempt: the server's answer, empty if no stream took it, None if none came.

        ``probe`` asks why a batch is not begun: the last message of one that was not is only "incomplete".
        """
        self._serial += 1
        token = f"{self._serial:x}"
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers[token] = _Exchange(future, entries)
        try:
            # Write the batch in one piece: publish() for each message took half of a worker's time
            inbox = f"{self._inbox}.{token}"
            batch = f"{self._inbox[-12:]}-{token}" if len(entries) > 1 else ""
            last = len(entries)
            answered = {1, last} if probe else {last}
            pieces = [
                format_message(entry, batch, number, inbox if number in answered else "", last=number == last)
                for number, entry in enumerate(entries, 1)
            ]
            await self._client.send(b"".join(pieces))
            async with asyncio.timeout(self._patience):
                data = await future
        except (TimeoutError, nats.errors.OutboundBufferLimitError):
            log.warning("commit_unanswered", messages=len(entries), connected=self._client.is_connected)
            await self._reconnected()
            return None
        except nats.errors.ConnectionClosedError:
            raise BusUnavailable("The connection to the bus was closed") from None
        finally:
            del self._answers[token]
        return data

    async def _reconnected(self) -> None:
        while not self._client.is_connected:
            if self._client.is_closed:
                raise BusUnavailable("The connection to the bus was closed")
            await asyncio.sleep(0.05)

    def _on_answer(self, subject: str, _: str, headers: bytes, data: bytes) -> None:
        if not data and not headers:
            return  # a batch was begun that was sent to find out whether it would be
        token = subject.rpartition(".")[2]
        waiting = self._answers.get(token)
        if isinstance(waiting, _Commit):
            self._forget(token)
            answer = read_answer(data) if data else None
            if answer is not None and answer.error is None:
                _succeed(waiting, (answer.seq,))
            elif not waiting.future.done():
                self._spawn(self._send_one(waiting, data))
        elif waiting is not None and not waiting.future.done():
            waiting.future.set_result(data)


def _jitter(most: float) -> float:
    """Seconds up to ``most``: those who wait for the same do not all come back at once."""
    return random.uniform(0, most)  # noqa: S311  # spreads load, keeps no secret


def _succeed(commit: _Commit, sequences: tuple[int, ...]) -> None:
    if not commit.future.done():
        commit.future.set_result(sequences)


def _fail(commit: _Commit, error: Exception) -> None:
    if not commit.future.done():
        commit.future.set_exception(error)


# --- how fast what a task does may publish -----------------------------------------------------------
RATE = 50.0  # Messages a second that one task may publish for long; its result does not count
BURST = 500  # Messages that it may publish at once


class Throttle:
    """A token bucket of BURST messages, which fills by RATE a second."""

    def __init__(self) -> None:
        self._left, self._at = float(BURST), time.monotonic()

    async def take(self, count: int) -> None:
        """Wait until ``count`` more messages may be published; those who wait take turns."""
        now = time.monotonic()
        self._left = min(BURST, self._left + (now - self._at) * RATE) - count
        self._at = now
        if self._left < 0:
            await asyncio.sleep(-self._left / RATE)


throttle: ContextVar[Throttle | None] = ContextVar("throttle", default=None)
"""The limit of what is running: each attempt at a task has its own, and all else has none."""


async def wait_for_turn(count: int = 1) -> None:
    """Wait until what is running may publish ``count`` more messages."""
    await begin_effect()
    if (limit := throttle.get()) is not None:
        await limit.take(count)
