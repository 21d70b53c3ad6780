"""Atomic commits, grouped: those of concurrent handlers share one write to disk."""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared.bus.entry import Entry
from shared.errors import BatchesBlocked, BusError, BusFull, BusUnavailable, Conflict, Denied
from shared.log import logger
from shared.subjects import MAX_BATCH, MAX_BATCH_BYTES, MAX_PAYLOAD

WRONG_LAST_SEQUENCE = (10071, 10164)
DUPLICATE_IN_BATCH = 10201
BUS_FULL = (10023, 10047, 10077)
BATCH_INCOMPLETE = 10176
"""A batch lost a part: because the connection broke, or because the disk is full."""
INCOMPLETE_TRIES = 3
INCOMPLETE_PAUSE = 0.3
"""Tries, and seconds between two, until an incomplete batch is taken as a full disk."""
TOO_MANY_BATCHES = 10210
"""The stream, or the server, has as many open batches as it may have: somebody leaves batches open."""
OPEN_TRIES = 30
OPEN_PAUSE = 0.1
"""Tries, and at most seconds between two, while too many batches are open."""
ANSWER_TIMEOUT = 5.0
"""Seconds without an answer after which a commit is sent again under the same message ids."""
UNROUTED_TRIES = 5
UNROUTED_PAUSE = 0.1
"""Tries, and seconds between two, while no stream takes a subject, as for a moment after the server reloads
its configuration. Nothing is stored then."""
GROUPS_IN_FLIGHT = 2
"""A second group is sent while the first waits for the disk; a third was no faster."""
SECOND_GROUP = 250
"""The least messages for a second group: an atomic batch costs the server about 3.5 ms, however small."""

LARGEST = MAX_PAYLOAD - 64 * 1024
"""The most bytes of one message, without headers: the server disconnects a client that sends more."""

log = logger(__name__)


class _Commit:
    """The entries of one caller that wait for an answer."""

    __slots__ = ("entries", "future", "size")

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = entries
        self.size = sum(len(entry.payload) for entry in entries)
        self.future: asyncio.Future[tuple[int, ...]] = asyncio.get_running_loop().create_future()


class Committer:
    """Sends the commits of one connection to one stream, several callers' in one atomic batch.

    If a batch is refused, each caller's part is sent alone, so that one caller's conflict fails no other. A
    part that was stored without an answer (the server died in between) is recognised by its message ids and
    by the last message on its subject.
    """

    def __init__(
        self, client: Client, stored_last: Callable[[str], Awaitable[tuple[int, bytes] | None]]
    ) -> None:
        self._client = client
        self._stored_last = stored_last
        self._waiting: list[_Commit] = []
        self._waiting_messages = 0
        self._wake = asyncio.Event()
        self._answers: dict[str, tuple[asyncio.Future[Msg], Sequence[Entry]]] = {}
        self._inbox = ""
        self._serial = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._pump: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Subscribe to the answers and begin to send."""
        self._inbox = self._client.new_inbox()
        await self._client.subscribe(f"{self._inbox}.*", cb=self._on_answer)
        self._pump = asyncio.create_task(self._run(), name="committer")

    async def stop(self) -> None:
        """Stop sending; callers still waiting get BusUnavailable."""
        for task in (self._pump, *self._tasks):
            if task is not None:
                task.cancel()
        for commit in self._waiting:
            _fail(commit, BusUnavailable("The connection to the bus was closed"))

    async def commit(self, entries: Sequence[Entry]) -> tuple[int, ...]:
        """Store all entries or none, and return their sequences (0 if it was stored before).

        Waits for as long as the server is away. Raises Conflict, Denied, BusFull or BusError.
        """
        if not entries:
            return ()
        if len(entries) > MAX_BATCH:
            raise BusError(f"A commit of {len(entries)} messages is larger than the limit of {MAX_BATCH}")
        for entry in entries:
            if len(entry.payload) > LARGEST:
                raise BusError(
                    f"A message on {entry.subject!r} has {len(entry.payload):,} of {LARGEST:,} bytes"
                )
        commit = _Commit(entries)
        self._waiting.append(commit)
        self._waiting_messages += len(entries)
        self._wake.set()
        return await commit.future

    def on_reconnected(self) -> None:
        """Send everything unanswered again at once: answers to the old connection never arrive."""
        for future, _ in list(self._answers.values()):
            if not future.done():
                future.set_exception(TimeoutError())

    def on_denied(self, subject: str) -> None:
        """Fail the commits that wait on ``subject`` (in lower case), which the server refused."""
        for future, entries in list(self._answers.values()):
            refused = next((entry.subject for entry in entries if entry.subject.lower() == subject), None)
            if refused is not None and not future.done():
                future.set_exception(Denied(f"The broker does not allow publishing on {refused!r}"))

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting and self._may_send():
                if group := self._take_group():
                    task = asyncio.create_task(self._send_group(group))
                    self._tasks.add(task)
                    task.add_done_callback(self._on_sent)

    def _may_send(self) -> bool:
        if not self._tasks:
            return True
        return len(self._tasks) < GROUPS_IN_FLIGHT and self._waiting_messages >= SECOND_GROUP

    def _on_sent(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._wake.set()
        if not task.cancelled() and (error := task.exception()):
            log.error("commit_failed", error=str(error))

    def _take_group(self) -> list[_Commit]:
        count = size = taken = 0
        for commit in self._waiting:
            count += len(commit.entries)
            size += commit.size
            if taken and (count > MAX_BATCH or size > MAX_BATCH_BYTES):
                break
            taken += 1
        group, self._waiting = self._waiting[:taken], self._waiting[taken:]
        self._waiting_messages -= sum(len(commit.entries) for commit in group)
        return [commit for commit in group if not commit.future.done()]

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
            _succeed(commit, tuple(range(first, first + len(commit.entries))))
            first += len(commit.entries)

    async def _send_one(self, commit: _Commit) -> None:
        try:
            last = await self._store(commit.entries)
            count = len(commit.entries)
            _succeed(commit, tuple(range(last - count + 1, last + 1)) if last else (0,) * count)
        except Conflict as conflict:
            sequences = await self._stored_before(commit.entries)
            if sequences is None:
                _fail(commit, conflict)
            else:
                _succeed(commit, sequences)
        except BusError as error:
            _fail(commit, error)

    async def _stored_before(self, entries: Sequence[Entry]) -> tuple[int, ...] | None:
        """The sequences, if an earlier attempt at sending these entries was stored after all."""
        for position, entry in enumerate(entries):
            stored = await self._stored_last(entry.subject) if entry.expect is not None else None
            if stored is not None and stored[1] == entry.payload:
                first = stored[0] - position
                return tuple(range(first, first + len(entries)))
        return None

    async def _store(self, entries: Sequence[Entry]) -> int:
        """Send until answered; returns the sequence of the last entry, 0 when all were stored before."""
        unrouted = incomplete = crowded = 0
        while True:
            answer = await self._send(entries, probe=incomplete + crowded > 0)
            if answer is None:
                continue
            if not answer:
                unrouted += 1
                if unrouted > UNROUTED_TRIES:
                    raise BusUnavailable(
                        f"No stream takes {entries[-1].subject!r}", "Provision the office: run 'mailroom up'"
                    )
                await asyncio.sleep(UNROUTED_PAUSE)
                continue
            error = answer.get("error")
            if error is None:
                return 0 if answer.get("duplicate") else int(answer["seq"])
            if error.get("err_code") == DUPLICATE_IN_BATCH and len(entries) > 1:
                return await self._store_rest(entries)
            if error.get("err_code") == DUPLICATE_IN_BATCH:
                return 0
            if error.get("err_code") == TOO_MANY_BATCHES and crowded < OPEN_TRIES:
                crowded += 1
                await asyncio.sleep(random.uniform(0, OPEN_PAUSE))  # noqa: S311  # spreads load, keeps no secret
                continue
            if error.get("err_code") == BATCH_INCOMPLETE and incomplete < INCOMPLETE_TRIES:
                # Again at once, to be told if there are too many; then it is the disk or the connection.
                await asyncio.sleep(INCOMPLETE_PAUSE if incomplete else 0)
                incomplete += 1
                continue
            raise _error(error)

    async def _store_rest(self, entries: Sequence[Entry]) -> int:
        """Some id is in the stream already. Batches are atomic: all are, unless two callers share an id."""
        if any(entry.expect is not None for entry in entries):
            raise Conflict("The commit was refused: a message of it is stored already")
        for entry in entries:
            await self._store([entry])
        return 0

    async def _send(self, entries: Sequence[Entry], *, probe: bool = False) -> dict[str, Any] | None:
        """One attempt: the server's answer, empty if no stream took it, None if none came.

        ``probe`` asks why a batch is not begun: the last message of one that was not is only "incomplete".
        """
        self._serial += 1
        token = f"{self._serial:x}"
        future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._answers[token] = (future, entries)
        try:
            await self._publish(entries, f"{self._inbox}.{token}", token, probe)
            message = await asyncio.wait_for(future, ANSWER_TIMEOUT)
        except (TimeoutError, nats.errors.OutboundBufferLimitError):
            log.warning("commit_unanswered", messages=len(entries), connected=self._client.is_connected)
            await self._reconnected()
            return None
        except nats.errors.ConnectionClosedError:
            raise BusUnavailable("The connection to the bus was closed") from None
        finally:
            del self._answers[token]
        if not message.data:
            return {}
        answer: dict[str, Any] = json.loads(message.data)
        return answer

    async def _publish(self, entries: Sequence[Entry], inbox: str, token: str, probe: bool) -> None:
        """Write the batch in one piece: publish() for each message took half of a worker's time."""
        batch = f"{self._inbox[-12:]}-{token}" if len(entries) > 1 else ""
        last = len(entries)
        answered = {1, last} if probe else {last}
        pieces = [
            _message(entry, batch, number, inbox if number in answered else "", last=number == last)
            for number, entry in enumerate(entries, 1)
        ]
        if self._client.is_closed:
            raise nats.errors.ConnectionClosedError
        await self._client._send_command(b"".join(pieces))
        await self._client._flush_pending()

    async def _reconnected(self) -> None:
        while not self._client.is_connected:
            if self._client.is_closed:
                raise BusUnavailable("The connection to the bus was closed")
            await asyncio.sleep(0.05)

    async def _on_answer(self, message: Msg) -> None:
        if not message.data and not message.headers:
            return  # a batch was begun that was sent to find out whether it would be
        waiting = self._answers.get(message.subject.rpartition(".")[2])
        if waiting is not None and not waiting[0].done():
            waiting[0].set_result(message)


def _message(entry: Entry, batch: str, number: int, reply: str, *, last: bool) -> bytes:
    """An entry as the client protocol's HPUB; ids and batch names are tokens, so nothing needs escaping."""
    headers = f"NATS/1.0\r\nNats-Msg-Id: {entry.id}\r\n"
    if entry.expect is not None:
        headers += f"Nats-Expected-Last-Subject-Sequence: {entry.expect}\r\n"
    for name, value in (entry.headers or {}).items():
        headers += f"{name}: {value}\r\n"
    if batch:
        headers += f"Nats-Batch-Id: {batch}\r\nNats-Batch-Sequence: {number}\r\n"
        if last:
            headers += "Nats-Batch-Commit: 1\r\n"
    size = len(headers) + 2
    command = f"HPUB {entry.subject} {reply} {size} {size + len(entry.payload)}\r\n{headers}\r\n"
    return b"%b%b\r\n" % (command.encode(), entry.payload)


def _succeed(commit: _Commit, sequences: tuple[int, ...]) -> None:
    if not commit.future.done():
        commit.future.set_result(sequences)


def _fail(commit: _Commit, error: Exception) -> None:
    if not commit.future.done():
        commit.future.set_exception(error)


def _error(error: dict[str, Any]) -> BusError:
    code, description = error.get("err_code"), error.get("description", "unknown error")
    if code in WRONG_LAST_SEQUENCE:
        return Conflict(f"The commit was refused: {description}")
    if code == TOO_MANY_BATCHES:
        return BatchesBlocked(
            f"Too many commits of several messages are open at the server ({description})",
            "One agent may leave its own open: 'mailroom doctor' names it",
        )
    if code in (*BUS_FULL, BATCH_INCOMPLETE):
        return BusFull(f"The bus is full ({description})", "Free disk space, or raise nats_max_store")
    return BusError(f"The bus refused a commit: {description} ({code})")
