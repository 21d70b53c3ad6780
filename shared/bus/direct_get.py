"""Reading what a stream holds, by direct get."""

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, NamedTuple

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared.errors import BusError, BusUnavailable


class Stored(NamedTuple):
    """A message as a stream holds it."""

    stream: str
    subject: str
    seq: int
    data: bytes
    headers: dict[str, str]
    time: str


async def read(
    client: Client, stream: str, request: Mapping[str, Any], timeout: float
) -> AsyncGenerator[Stored, None]:
    """Messages of a stream as a direct get of several names them.

    ``request`` is for instance ``{"multi_last": ["state.>"], "batch": 1000}`` or ``{"seq": 1,
    "next_by_subj": ">", "batch": 1000}``; what comes is at most that batch. Raises BusUnavailable where
    messages of it got lost on the way, as with a connection.
    """
    inbox = client.new_inbox()
    subscription = await client.subscribe(inbox)
    last = 0
    try:
        await client.publish(f"$JS.API.DIRECT.GET.{stream}", json.dumps(request).encode(), reply=inbox)
        while True:
            message = await subscription.next_msg(timeout=timeout)
            headers = message.headers or {}
            if int(headers.get("Nats-Last-Sequence", last)) != last:
                raise BusUnavailable(f"Reading {stream} was cut short")
            if not is_stored(message):
                _require_good_end(stream, headers.get("Status", ""), headers.get("Description", ""))
                return
            found = stored(message)
            last = found.seq
            yield found
    except (TimeoutError, nats.errors.TimeoutError):
        raise BusUnavailable(f"Reading {stream} got no answer within {timeout:g} s") from None
    finally:
        if not client.is_closed:
            await subscription.unsubscribe()


def is_stored(message: Msg) -> bool:
    """Whether this is a message of a stream and no status: whoever stored it can have set a status too."""
    return "Nats-Stream" in (message.headers or {})


def stored(message: Msg) -> Stored:
    """The message that a direct get brought."""
    headers = dict(message.headers or {})
    return Stored(
        stream=headers.pop("Nats-Stream"),
        subject=headers.pop("Nats-Subject"),
        seq=int(headers.pop("Nats-Sequence")),
        data=message.data,
        headers=headers,
        time=headers.pop("Nats-Time-Stamp"),
    )


def _require_good_end(stream: str, status: str, description: str) -> None:
    if status == "503":
        raise BusUnavailable(f"There is no stream {stream}", "Provision the office: run 'mailroom up'")
    if status not in ("204", "404"):
        raise BusError(f"Reading {stream} failed: {description}")
