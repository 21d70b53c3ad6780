"""The NATS client, with shorter ways for what a worker does with every task, and the form of messages."""

import asyncio
import contextlib
import logging
import re
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from os import register_at_fork, urandom
from typing import Any

import msgspec
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from shared.bus.connecting import keeping_cancellation
from shared.bus.entry import EXPECTED, EXPECTED_ON, SALT, Entry, Stored, parse_block
from shared.errors import BatchesBlocked, BusError, BusFull, BusUnavailable, Conflict

MOVE_PAUSE = 6.0  # The least seconds between two moves to another server

Receive = Callable[[str, str, bytes, bytes], Awaitable[None] | None]
"""Takes the subject, the reply subject, the headers as bytes and the payload of a message; what it returns is
awaited before the next message is read, so it may not wait for one."""


# nats-py has asyncio say that for each connection under TLS that ends.
logging.getLogger("asyncio").addFilter(lambda record: "from eof_received()" not in str(record.msg))


class ConnectionLost(nats.errors.Error):
    """The connection was lost before the answer to a request came: it never comes."""


class _Parser:
    """Takes the place of nats-py's parser, to which it leaves all that is no message: ``other``."""

    def __init__(self, client: "BusClient", other: Any) -> None:
        self._client, self._other = client, other
        self._held = bytearray()

    async def parse(self, data: bytes = b"") -> None:
        """Take the next bytes of the connection."""
        held, place = self._held, 0
        held += data
        while (end := held.find(b"\r\n", place)) >= 0:
            words = bytes(held[place:end]).split()
            if not words or words[0] not in (b"HMSG", b"MSG"):
                await self._other.parse(bytes(held[place : end + 2]))
                place = end + 2
                continue
            begin, sizes = end + 2, len(words[0]) - 2  # HMSG has the size of the headers too
            end, middle = begin + int(words[-1]), begin + (int(words[-2]) if sizes == 2 else 0)
            if len(held) < end + 2:
                break
            reply = words[3] if len(words) == 4 + sizes else b""
            headers, payload = bytes(held[begin:middle]), bytes(held[middle:end])
            await self._client._process_msg(int(words[2]), words[1], reply, payload, headers)
            place = end + 2
        del held[:place]

    def reset(self) -> None:
        """Start over on another connection."""
        self._other.reset()
        self._held.clear()


class BusClient(Client):
    """nats-py's client. Its own parser of headers looks at every character: a fifth of a worker's time."""

    def __init__(self) -> None:
        super().__init__()
        self._receivers: dict[int, Receive] = {}
        self._moved = float("-inf")
        self._ps = _Parser(self, self._ps)  # type: ignore[assignment]

    @property
    def connection(self) -> int:
        """The number of the present connection, or of the last one: 0, and one more for each reconnection."""
        return self.stats["reconnects"]

    @property
    def clustered(self) -> bool:
        """Whether the server is one of a cluster: then a pause until another one leads is no failure."""
        return bool(self._server_info.get("cluster"))

    async def move(self) -> bool:
        """Go on with another server of the cluster: this one may be cut off from those that agree.

        At most every MOVE_PAUSE seconds, and not if it is the only one; returns whether it does.
        """
        now = asyncio.get_running_loop().time()
        if len(self._server_pool) < 2 or not self.is_connected or now - self._moved < MOVE_PAUSE:
            return False
        self._moved = now
        self.options["dont_randomize"] = True  # the next one, not by chance the same
        await self.force_reconnect()
        return True

    async def connect(self, *arguments: Any, **options: Any) -> None:
        """nats-py's own, and may be cancelled."""
        with keeping_cancellation():
            await super().connect(*arguments, **options)

    async def close(self) -> None:
        """nats-py's own, and may be cancelled; it raises CancelledError in no other case.

        nats-py's does if an attempt to reconnect waits for the end of the connection: it cancels that, and
        then waits for what was cancelled.
        """
        with keeping_cancellation(), contextlib.suppress(asyncio.CancelledError, OSError):
            await super().close()

    async def _request_new_style(self, *arguments: Any, **options: Any) -> Msg:
        with keeping_cancellation():
            return await super()._request_new_style(*arguments, **options)

    async def _process_pong(self) -> None:
        """nats-py's own, which ends the reading of all messages if the flush it answers was cancelled."""
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        """Encrypt where a certificate is given, whatever the server, or who stands between, says of it."""
        info["tls_required"] = "tls" in self.options or info.get("tls_required", False)
        await super()._process_info(info, initial_connection)

    async def answer(self, reply: str, verdict: bytes) -> None:
        """Publish an acknowledgement, without the checks of ``publish``; raises nats.errors.Error."""
        if self.is_closed:
            raise nats.errors.ConnectionClosedError
        await self._send_command(b"PUB %b  %d\r\n%b\r\n" % (reply.encode(), len(verdict), verdict))
        await self.flush_soon()

    async def send(self, message: bytes) -> None:
        """Write a message in the form of the protocol; raises nats.errors.Error."""
        if self.is_closed:
            raise nats.errors.ConnectionClosedError
        await self._send_command(message)
        await self.flush_soon()

    def give_up_requests(self) -> None:
        """Have the requests that wait for an answer raise ConnectionLost."""
        for waiting in list(self._resp_map.values()):
            if not waiting.done():
                waiting.set_exception(ConnectionLost("the connection was lost before the answer came"))

    async def flush(self, timeout: int = 10) -> None:
        """Wait until the server has read what was written so far, for ``timeout`` seconds at most.

        Raises nats.errors.FlushTimeoutError. nats-py alone writes its ping ahead of what still waits to be
        written: the answer would not tell that a subscription just made is known.
        """
        with keeping_cancellation():
            try:
                async with asyncio.timeout(timeout):
                    await self._flush_pending(force_flush=True)
            except TimeoutError:
                raise nats.errors.FlushTimeoutError from None
            await super().flush(timeout)

    async def flush_soon(self) -> None:
        """Have what was written sent, together with what else is written in this turn of the event loop."""
        if self._flush_queue is not None and self._flush_queue.empty():
            await self._flush_pending()

    async def subscribe_directly(self, subject: str, receive: Receive) -> Subscription:
        """Subscribe; ``receive`` is called as soon as a message is read, with no queue or task between."""

        async def ignore(_: Msg) -> None:
            pass

        subscription = await self.subscribe(subject, cb=ignore)
        self._receivers[subscription._id] = receive
        return subscription

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        super()._remove_sub(sid, max_msgs)
        self._receivers.pop(sid, None)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        receive = self._receivers.get(sid)
        if receive is None:
            if not subject.isascii():  # nats-py stops reading at a subject that is no UTF-8
                subject = subject.decode("utf-8", "replace").encode()
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        try:
            received = receive(subject.decode("utf-8", "replace"), reply.decode(), headers, data)
            if received is not None:
                await received
        except Exception as error:  # as nats-py has it: reading goes on
            await self._error_cb(error)

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        return parse_block(raw)


# --- how a message looks on the wire, salted; and what stands for one that was erased ----------------
LENGTH = 22  # Characters of six random bits each: 132 bits
_AT_ONCE = 500  # How many salts are made of one request to the kernel


def _make_salts() -> Iterator[str]:
    while True:
        text = urlsafe_b64encode(urandom(_AT_ONCE * LENGTH * 6 // 8)).decode()
        yield from (text[at : at + LENGTH] for at in range(0, len(text), LENGTH))


_salts = _make_salts()


def make_salt() -> str:
    """The next salt."""
    return next(_salts)


def _begin_anew() -> None:
    global _salts  # noqa: PLW0603  # a fork must not use the salts of its parent
    _salts = _make_salts()


register_at_fork(after_in_child=_begin_anew)


_SEQUENCE = re.compile(r"wrong last sequence: (\d+)")
WRONG_LAST_SEQUENCE = (10071, 10164)
DUPLICATE_IN_BATCH = 10201
BUS_FULL = (10023, 10047, 10077)
BATCH_INCOMPLETE = 10176  # A batch lost a part: because the connection broke, or because the disk is full
TOO_MANY_BATCHES = 10210
"""The stream, or the server, has as many open batches as it may have: a client leaves batches open."""
ELECTING = (10004, 10006, 10008, 10009, 10118, 10167)
"""What servers of a cluster answer until one of them leads the stream again, and has caught up."""


class Answer(msgspec.Struct):
    """What the server answers to a publish."""

    seq: int = 0
    duplicate: bool = False
    error: dict[str, Any] | None = None


read_answer = msgspec.json.Decoder(Answer).decode


def format_message(entry: Entry, batch: str, number: int, reply: str, *, last: bool) -> bytes:
    """An entry as the client protocol's HPUB; ids and batch names are tokens, so nothing needs escaping."""
    headers = "NATS/1.0\r\n"
    for name, value in headers_of(entry).items():
        headers += f"{name}: {value}\r\n"
    if batch:
        headers += f"Nats-Batch-Id: {batch}\r\nNats-Batch-Sequence: {number}\r\n"
        if last:
            headers += "Nats-Batch-Commit: 1\r\n"
    size = len(headers) + 2
    command = f"HPUB {entry.subject} {reply} {size} {size + len(entry.payload)}\r\n{headers}\r\n"
    return b"%b%b\r\n" % (command.encode(), entry.payload)


def headers_of(entry: Entry) -> dict[str, str]:
    """The headers of an entry outside of a batch."""
    headers = {SALT: make_salt()}
    if not entry.guard:  # a guarded one is stored once in any case
        headers["Nats-Msg-Id"] = entry.id
    if entry.expect is not None:
        headers[EXPECTED] = str(entry.expect)
        if entry.guard:
            headers[EXPECTED_ON] = entry.guard
    return {**headers, **entry.headers} if entry.headers else headers


def error_of(error: dict[str, Any]) -> BusError:
    """The error that the server answered with."""
    code, description = error.get("err_code"), error.get("description", "unknown error")
    if code in WRONG_LAST_SEQUENCE:
        conflict = Conflict(f"The commit was refused: {description}")
        conflict.last = int(found[1]) if (found := _SEQUENCE.search(description)) else 0
        return conflict
    if code == TOO_MANY_BATCHES:
        return BatchesBlocked(
            f"Too many commits of several messages are open at the server ({description})",
            "One agent may leave its own open: 'mailroom doctor' names it",
        )
    if code in ELECTING:
        return no_leader()
    if code in (*BUS_FULL, BATCH_INCOMPLETE):
        return BusFull(f"The bus is full ({description})", "Free disk space, or raise nats_max_store")
    return BusError(f"The bus refused a commit: {description} ({code})")


def no_leader() -> BusUnavailable:
    """The error of who waited long enough for a cluster to choose who leads a stream."""
    return BusUnavailable(
        "No server leads the log at the moment: fewer than two of three can reach each other",
        "Start the others again; 'mailroom doctor' names them",
    )


HEADER = "Mailroom-Replaces"
"""The header of such a message, with the sequence of what it replaces, and WAITING or HANDLED."""
HANDLED, WAITING = "handled", "waiting"
"""Whether what it replaces had reached its recipients, so that nobody acts on it again."""
FIELD = "replaces"  # Where such a message says, beside its own fields, what it replaces
_FIELD = f'"{FIELD}":{{"seq":'.encode()


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """What a message replaces: its sequence in OFFICE and when it was stored."""

    seq: int
    time: str


class _Body(msgspec.Struct):
    replaces: Origin | None = None


def find_origin(data: bytes) -> Origin | None:
    """What a message says that it replaces; a claim of its sender, for showing it where it belongs."""
    if _FIELD not in data:
        return None
    try:
        return msgspec.json.decode(data, type=_Body).replaces
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def restored(stored: Stored) -> Stored:
    """A message as it is shown: at the time of what it replaces, if it says so."""
    origin = find_origin(stored.data)
    return stored._replace(time=origin.time) if origin else stored


def place_of(stored: Stored) -> int:
    """The sequence by which a message is shown among others: that of what it replaces, if it says so."""
    origin = find_origin(stored.data)
    return origin.seq if origin else stored.seq


def is_handled(headers: Mapping[str, object]) -> bool:
    """Whether a message replaces one that its recipients acted on."""
    return str(headers.get(HEADER, "")).endswith(HANDLED)
