"""The base of all contracts: serialisation, the envelope header, identifiers, field types and checks.

msgspec checks types when it decodes, but not in constructors. Contracts check both, so that every instance
can be decoded by its receivers.
"""

import functools
import math
import operator
import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache, partial
from types import NoneType
from typing import Annotated, Any, NamedTuple, Self, TypeVar, get_args, get_origin

import msgspec

_NUMBERS = tuple[float, ...]

Check = Callable[[str, Any], None]
"""Takes a field's wire name and its value; raises ValueError that names the field."""


class Field(NamedTuple):
    """One field of a contract."""

    name: str
    wire_name: str
    hint: Any
    required: bool
    kind: type | None
    """The exact class of its values; None if one class is not enough."""
    member: type | None
    """The class of a tuple's entries, or of a dict's keys."""
    optional: bool
    """Whether None is a value."""


class Shape(NamedTuple):
    """The fields of a class, arranged for a fast check of its values."""

    fields: tuple[Field, ...]
    read: Callable[[Any], tuple[Any, ...]]
    """Reads the class itself twice, then the values of the fields that have a kind."""
    kinds: tuple[type, ...]
    """The classes of these values, in the same order."""
    members: tuple[tuple[int, type], ...]
    """Positions of values with members, and the members' class."""
    others: tuple[Field, ...]
    """The fields without a kind."""
    read_checked: Callable[[Any], tuple[Any, ...]]
    """Reads the class itself twice, then the values of the fields whose hint has a check."""
    checks: tuple[tuple[Any, str, Check], ...]
    """Default, wire name and check for each of these values; the default of the class is itself."""


@functools.cache
def shape_of(cls: type[msgspec.Struct]) -> Shape:
    """The shape of a class, computed once from its type hints."""
    fields = tuple(_field(info) for info in msgspec.structs.fields(cls))
    clear = [(field, field.kind) for field in fields if field.kind is not None]
    # The class is read first so that there are always two to read: of one, attrgetter makes no tuple.
    read = operator.attrgetter("__class__", "__class__", *(field.name for field, _ in clear))
    kinds = (type(cls), type(cls), *(kind for _, kind in clear))
    members = tuple((place, field.member) for place, (field, _) in enumerate(clear, start=2) if field.member)
    others = tuple(field for field in fields if field.kind is None)
    checked = [(info, check) for info in msgspec.structs.fields(cls) for check in _split_hint(info.type)[1]]
    read_checked = operator.attrgetter("__class__", "__class__", *(info.name for info, _ in checked))
    checks = ((cls, "", _pass), (cls, "", _pass), *((i.default, i.encode_name, c) for i, c in checked))
    return Shape(fields, read, kinds, members, others, read_checked, checks)


def _pass(_: str, __: Any) -> None:
    """The check of the class itself, which is never made: it equals its default."""


def _split_hint(hint: Any) -> tuple[Any, tuple[Check, ...]]:
    """A hint without its checks, and these; a check of a tuple's entries is made of each entry."""
    if get_origin(hint) is Annotated:
        plain, *checks = get_args(hint)
        inner, inner_checks = _split_hint(plain)
        return inner, (*checks, *inner_checks)
    if get_origin(hint) is tuple and get_origin(entry := get_args(hint)[0]) is Annotated:
        plain, *checks = get_args(entry)
        return tuple.__class_getitem__((plain, ...)), tuple(partial(_check_each, check) for check in checks)
    return hint, ()


def _check_each(check: Check, field: str, values: tuple[Any, ...]) -> None:
    for value in values:
        check(field, value)


def _field(info: msgspec.structs.FieldInfo) -> Field:
    hint, _ = _split_hint(info.type)
    origin, parts = get_origin(hint), get_args(hint)
    kind = member = None
    if origin is None and isinstance(hint, type) and hint is not float:
        kind = hint
    elif hint == dict[str, Any] or (origin is tuple and isinstance(parts[0], type) and parts[0] is not float):
        kind, member = origin, parts[0]
    return Field(info.name, info.encode_name, hint, info.required, kind, member, NoneType in parts)


def agree(shape: Shape, values: tuple[Any, ...]) -> bool:
    """Whether the ``values`` that were read have the right types; called for every message."""
    if tuple(map(type, values)) != shape.kinds:
        return False
    for place, member in shape.members:
        for entry in values[place]:
            if type(entry) is not member:
                return False
    return True


def is_plain(field: Field, value: Any) -> bool:
    """Whether ``value`` needs no conversion: a finite float, an empty tuple of numbers, or None."""
    if value is None:
        return field.optional
    if type(value) is float:
        return field.hint is float and math.isfinite(value)
    return value == () and type(value) is tuple and field.hint == _NUMBERS


def fit(field: Field, value: Any) -> Any:
    """``value`` converted to the field's type; raises ValueError that names the field."""
    if field.hint is str and not isinstance(value, str):
        raise ValueError(f"{field.wire_name} must be a {'non-empty ' if field.required else ''}string")
    try:
        fitted = msgspec.convert(_exact(field.hint, value), field.hint)
    except (msgspec.ValidationError, UnicodeError, RecursionError) as error:
        raise ValueError(f"{field.wire_name}: {error}") from None
    if float in (field.hint, *get_args(field.hint)):
        _require_finite(field.wire_name, fitted)
    return fitted


def _exact(hint: Any, value: Any) -> Any:
    """The plain value of a subclass's instance, such as an enumeration's member or a numpy number."""
    if hint is str:
        return str.__str__(value)
    if hint in (int, float) and isinstance(value, hint) and not isinstance(value, bool):
        return hint(value)
    return value


def _require_finite(field: str, value: float | dict[str, float] | tuple[float, ...]) -> None:
    numbers = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
    if not all(map(math.isfinite, numbers)):
        raise ValueError(f"{field} must hold finite numbers")


NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
"""An agent's name: one lower-case subject token of at most 64 characters."""

TOKEN = re.compile(r"[A-Za-z0-9_-]{1,128}")
HASH = re.compile(r"[0-9a-f]{64}")  # An identifier: one subject token of at most 128 characters

MAX_PERSON = 64  # The most characters of a person's name

MAX_TEXT = 100_000  # The longest natural-language text an envelope carries, in characters


def generate_iso_timestamp() -> str:
    """Now, in UTC, as ISO 8601 with microseconds: ``2026-01-02T14:30:22.123456+00:00``."""
    second, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return f"{_format_second(second)}.{nanoseconds // 1_000:06d}+00:00"


@lru_cache(maxsize=2)
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def generate_task_id(prefix: str = "task") -> str:
    """``prefix_YYYYMMDD_HHMMSS_micros_tail``; the random tail makes two of one microsecond differ."""
    return f"{prefix}_{datetime.now(UTC):%Y%m%d_%H%M%S_%f}_{secrets.token_hex(4)}"


def generate_id() -> str:
    """A UUID version 7 (RFC 9562, section 5.7): 48 bits of milliseconds, then random bits."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | (0x7 << 76)
    value = value & ~(0x3 << 62) | (0x2 << 62)
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def require_text(field: str, value: str, limit: int = MAX_TEXT) -> None:
    """Raise ValueError unless ``value`` has a visible character and at most ``limit`` of them."""
    if not value or value.isspace():
        raise ValueError(f"{field} must be a non-empty string")
    if len(value) > limit:
        raise ValueError(f"{field} has {len(value):,} characters; the limit is {limit:,}")


def require_token(field: str, value: str) -> None:
    """Raise ValueError unless ``value`` is valid as one token of a subject."""
    if not TOKEN.fullmatch(value):
        require_text(field, value)
        raise ValueError(f"{field} must be 1 to 128 letters, digits, '_' or '-', not {value[:40]!r}")


def require_name(field: str, value: str) -> None:
    """Raise ValueError unless ``value`` is an agent's name."""
    if not NAME.fullmatch(value):
        require_text(field, value)
        raise ValueError(
            f"{field} must be a name of 1 to 64 lower-case letters, digits, '_' or '-', not {value[:40]!r}"
        )


def require_person(field: str, value: str) -> None:
    """Raise ValueError unless ``value`` is the name of a person: printable, without blanks at its ends."""
    if not value.isprintable() or value != value.strip() or not 1 <= len(value) <= MAX_PERSON:
        require_text(field, value)
        raise ValueError(
            f"{field} must be 1 to {MAX_PERSON} printable characters without blanks at the ends, "
            f"not {value[:40]!r}"
        )


def require_timestamp(field: str, value: str) -> None:
    """Raise ValueError unless ``value`` is an ISO 8601 date and time."""
    try:
        datetime.fromisoformat(value)
    except ValueError:
        require_text(field, value)
        raise ValueError(f"{field} must be an ISO 8601 timestamp, not {value[:40]!r}") from None


def require_hash(field: str, value: str) -> None:
    """Raise ValueError unless ``value`` is a SHA-256 in hexadecimal digits."""
    if not HASH.fullmatch(value):
        raise ValueError(f"{field} must be 64 hexadecimal digits, not {value[:70]!r}")


def require_unit(field: str, value: float) -> None:
    """Raise ValueError unless ``value`` lies between 0 and 1."""
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{field} must be between 0 and 1, not {value}")


def at_least(least: int) -> Check:
    """The check of a number that is at least ``least``."""

    def check(field: str, value: int) -> None:
        if value < least:
            raise ValueError(f"{field} must be at least {least}, not {value}")

    return check


require_count = at_least(0)


def unless_empty(check: Check) -> Check:
    """``check``, which an empty value passes."""

    def check_given(field: str, value: Any) -> None:
        if value:
            check(field, value)

    return check_given


def text_up_to(limit: int) -> Check:
    """The check of a text that is not blank and has at most ``limit`` characters."""
    return lambda field, value: require_text(field, value, limit)


def between(least: int, most: int) -> Check:
    """The check of a number from ``least`` to ``most``."""

    def check(field: str, value: int) -> None:
        if not least <= value <= most:
            raise ValueError(f"{field} must be between {least} and {most}, not {value}")

    return check


def at_most(limit: int, unit: str = "characters") -> Check:
    """The check of a text or tuple that has at most ``limit`` characters (or another ``unit``)."""

    def check(field: str, value: str | tuple[Any, ...]) -> None:
        if len(value) > limit:
            raise ValueError(f"{field} has {len(value):,} {unit}; the limit is {limit:,}")

    return check


# Types of fields: the check in a hint is made wherever a contract is constructed or decoded.
Text = Annotated[str, require_text]
Token = Annotated[str, require_token]
AgentName = Annotated[str, require_name]
Timestamp = Annotated[str, require_timestamp]
Unit = Annotated[float, require_unit]
Count = Annotated[int, require_count]
Hash = Annotated[str, require_hash]
OptionalToken = Annotated[str, unless_empty(require_token)]
OptionalName = Annotated[str, unless_empty(require_name)]
OptionalPerson = Annotated[str, unless_empty(require_person)]
OptionalTimestamp = Annotated[str, unless_empty(require_timestamp)]


class _Decoding(threading.local):
    """Whether this thread decodes an envelope, so that msgspec has checked the types of its fields, and
    whether all of it was checked before.
    """

    now = False
    checked = False


decoding = _Decoding()


class Contract(msgspec.Struct, frozen=True, kw_only=True):
    """Plain, immutable data that travels as JSON.

    The constructor checks types as the decoder does, so that every instance can be sent and read: lists
    become tuples and values of enumerations their members; a wrong type, or a value that a check in the
    field's hint refuses, raises ValueError with the field's name. Free fields (``dict[str, Any]``) take
    anything with a JSON form and return it as JSON does: keys as strings, tuples as lists, NaN as null.
    """

    def __post_init__(self) -> None:
        if decoding.checked:
            return
        shape = shape_of(type(self))
        if not decoding.now:
            fields = shape.others if agree(shape, shape.read(self)) else shape.fields
            for field in fields:
                value = getattr(self, field.name)
                if not is_plain(field, value):
                    msgspec.structs.force_setattr(self, field.name, fit(field, value))
        for value, (default, name, check) in zip(shape.read_checked(self), shape.checks, strict=False):
            if value is not default:  # most are defaults, and these are valid
                check(name, value)

    def to_dict(self) -> dict[str, Any]:
        """What ``json.loads`` makes of ``to_json``: lists, enumerations as values; raises as that does."""
        result: dict[str, Any] = msgspec.json.decode(self.to_json())
        return result

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Build and validate; raises ValueError (mostly msgspec.ValidationError) that names the field."""
        try:
            return msgspec.convert(data, cls)
        except RecursionError:
            raise ValueError(f"{cls.__name__} is nested too deeply") from None
        except UnicodeError as error:
            raise ValueError(f"{cls.__name__} holds text that is not Unicode: {error}") from None

    def to_json(self) -> bytes:
        """UTF-8 JSON; raises ValueError naming the field if a value has no JSON form."""
        try:
            return msgspec.json.encode(self)
        except (TypeError, ValueError, RecursionError) as error:
            field = next((name for name in self.__struct_fields__ if not _writable(getattr(self, name))), "")
            raise ValueError(f"{field or type(self).__name__} has no JSON form: {error}") from None

    @classmethod
    def from_checked_json(cls, data: bytes) -> Self:
        """Decode what ``to_json`` of a valid instance wrote: types are checked, values are not again."""
        decoding.now = decoding.checked = True
        try:
            return msgspec.json.decode(data, type=cls)
        finally:
            decoding.now = decoding.checked = False

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Decode and validate; raises ValueError for broken JSON, msgspec.ValidationError for a bad field."""
        decoding.now = True
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.ValidationError:
            raise
        except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
            raise ValueError(f"{cls.__name__} is not valid JSON: {error}") from None
        finally:
            decoding.now = False


C = TypeVar("C", bound=Contract)
_set = msgspec.structs.force_setattr


def amended(contract: C, **changes: Any) -> C:
    """A copy with ``changes`` that are known to be valid: unlike replace, nothing is checked again."""
    copied: C = contract.__copy__()  # type: ignore[attr-defined]  # as msgspec has it; copy.copy is slow
    for name, value in changes.items():
        _set(copied, name, value)
    return copied


def _writable(value: Any) -> bool:
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


class Envelope(Contract, frozen=True, kw_only=True, tag_field="type"):
    """The header that everything on the bus carries beside its ``type`` tag.

    ``id`` is a UUIDv7, ``created_at`` ISO 8601 in UTC, ``cause`` the id of the envelope this one
    answers, ``goal_id`` the goal it belongs to. The bus fills in an empty ``sender`` and ``recipient``,
    and receivers check both against the subject. ``person`` is who of the people sent it, as the gateway
    authenticated them, and counts only in what ``user`` sent. ``audience`` is the one of the people for whom
    alone it is, as far as who sent it may say so (``user`` and those to whom people talk); empty: the team.
    A message leaves both out if they are empty.
    """

    id: Token = msgspec.field(default_factory=generate_id)
    sender: OptionalName = ""
    recipient: OptionalName = ""
    created_at: Timestamp = msgspec.field(default_factory=generate_iso_timestamp)
    cause: OptionalToken = ""
    goal_id: OptionalToken = ""
    person: OptionalPerson = ""
    audience: OptionalName = ""

    def to_json(self) -> bytes:
        """As for every contract; an empty ``person`` and ``audience`` are left out."""
        data = super().to_json()
        # The header comes first, and within a text these quotation marks would be escaped: the first is its.
        if not self.audience:
            data = data.replace(_TEAM, b"", 1)
        return data if self.person else data.replace(_NOBODY, b"", 1)


_NOBODY, _TEAM = b',"person":""', b',"audience":""'
