"""How a message looks on the wire, salted; and what stands for one that was erased."""

from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping
from os import register_at_fork, urandom
from typing import Any

import msgspec

from shared.bus.entry import EXPECTED, EXPECTED_ON, SALT, Entry, Stored
from shared.errors import BatchesBlocked, BusError, BusFull, Conflict

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


WRONG_LAST_SEQUENCE = (10071, 10164)
DUPLICATE_IN_BATCH = 10201
BUS_FULL = (10023, 10047, 10077)
BATCH_INCOMPLETE = 10176  # A batch lost a part: because the connection broke, or because the disk is full
TOO_MANY_BATCHES = 10210
"""The stream, or the server, has as many open batches as it may have: a client leaves batches open."""


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
        return Conflict(f"The commit was refused: {description}")
    if code == TOO_MANY_BATCHES:
        return BatchesBlocked(
            f"Too many commits of several messages are open at the server ({description})",
            "One agent may leave its own open: 'mailroom doctor' names it",
        )
    if code in (*BUS_FULL, BATCH_INCOMPLETE):
        return BusFull(f"The bus is full ({description})", "Free disk space, or raise nats_max_store")
    return BusError(f"The bus refused a commit: {description} ({code})")


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
