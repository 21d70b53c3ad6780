"""Messages that stand where others were erased: the same, without the texts that a person had forgotten."""

from collections.abc import Mapping

import msgspec

from shared.bus.entry import Stored

HEADER = "Mailroom-Replaces"
"""The header of such a message, with the sequence of what it replaces, and WAITING or HANDLED."""
HANDLED, WAITING = "handled", "waiting"
"""Whether what it replaces had reached its recipients, so that nobody acts on it again."""
FIELD = "replaces"
"""Where such a message says, beside its own fields, what it replaces."""
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
