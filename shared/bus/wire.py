"""How a message that is to be stored looks on the wire, and what the server answers."""

from typing import Any

import msgspec

from shared.bus.entry import EXPECTED, EXPECTED_ON, SALT, Entry
from shared.bus.salt import make_salt
from shared.errors import BatchesBlocked, BusError, BusFull, Conflict

WRONG_LAST_SEQUENCE = (10071, 10164)
DUPLICATE_IN_BATCH = 10201
BUS_FULL = (10023, 10047, 10077)
BATCH_INCOMPLETE = 10176
"""A batch lost a part: because the connection broke, or because the disk is full."""
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
