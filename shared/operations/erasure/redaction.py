"""A message without the texts that a person had forgotten."""

from typing import Any

import msgspec

from shared.bus.entry import SALT
from shared.bus.wire import FIELD, Origin
from shared.contracts import decode
from shared.text.quotations import FORGOTTEN, Quotations

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def quotes(data: bytes, quotations: Quotations) -> bool:
    """Whether a message quotes one of the texts, in a value or a name of its JSON, or in its plain text."""
    if not quotations.may_be_in(data):
        return False
    return any(quotations.are_in(text) for text in _texts_in(_read(data)))


def redact(data: bytes, quotations: Quotations, origin: Origin) -> bytes:
    """What is left of a message that quotes them; it says what it replaces, if it is a JSON object.

    A message that is not what it was without its texts keeps none of its longer ones.
    """
    value = _read(data)
    if isinstance(value, str):
        return quotations.redact(value).encode("utf-8", "surrogateescape")
    left = _encode(_clean(value, quotations), origin)
    return left if _is_valid(left) or not _is_valid(data) else _encode(_clean(value, None), origin)


def kind_of(data: bytes) -> tuple[str, str]:
    """The type and id of the envelope in a message; empty if it is none."""
    value = _read(data)
    if not isinstance(value, dict):
        return "", ""
    kind, message_id = value.get("type"), value.get("id")
    return kind if isinstance(kind, str) else "", message_id if isinstance(message_id, str) else ""


def _read(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except UNREADABLE:
        return data.decode("utf-8", "surrogateescape")


def _encode(value: Any, origin: Origin) -> bytes:
    if isinstance(value, dict):
        value = {**value, FIELD: msgspec.to_builtins(origin)}
    return msgspec.json.encode(value)


def _texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for name, each in value.items() for text in (name, *_texts_in(each))]
    if isinstance(value, list):
        return [text for each in value for text in _texts_in(each)]
    return []


LONGEST_NAME = 64
"""The most characters of a text that stays in a message of which nothing else can be left: an id, a state."""


def _clean(value: Any, quotations: Quotations | None) -> Any:
    if isinstance(value, str):
        if quotations is not None:
            return quotations.redact(value)
        return value if len(value) <= LONGEST_NAME and " " not in value else FORGOTTEN
    if isinstance(value, list):
        return [_clean(each, quotations) for each in value]
    if isinstance(value, dict):
        # a dead letter quotes the headers of its message, which is erased with its salt
        kept = {name: each for name, each in value.items() if name != SALT}
        return {_clean(name, quotations): _clean(each, quotations) for name, each in kept.items()}
    return value


def _is_valid(data: bytes) -> bool:
    try:
        decode(data)
    except (ValueError, RecursionError):
        return False
    return True
