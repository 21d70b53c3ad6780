"""The types of a contract's fields, and the conversion of values to them.

msgspec checks types when it decodes, but not in constructors. Contracts check both, so that every instance
can be decoded by its receivers.
"""

import functools
import math
import operator
from collections.abc import Callable
from functools import partial
from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin

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
