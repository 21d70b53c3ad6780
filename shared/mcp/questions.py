"""Questions of a server to a person: told as lines of a letter, and read from the answer to it."""

from collections.abc import Mapping
from typing import Any, Literal

Choice = Literal["accept", "decline", "cancel"]
WORDS: dict[str, Choice] = {
    **dict.fromkeys(("no", "decline", "refuse"), "decline"),
    **dict.fromkeys(("cancel", "stop", "later"), "cancel"),
    **dict.fromkeys(("yes", "ok", "okay", "accept", "default", "defaults"), "accept"),
}
"""An answer of one word; with ``yes`` everything has the value that the server proposes."""


def fields_of(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The fields that a question wants, by their names."""
    found = schema.get("properties")
    named = found.items() if isinstance(found, dict) else ()
    return {str(name): each if isinstance(each, dict) else {} for name, each in named}


def fill(schema: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """``values``, and for what they leave open what the server proposes."""
    proposed = {name: each["default"] for name, each in fields_of(schema).items() if "default" in each}
    return proposed | dict(values)


def describe(schema: Mapping[str, Any]) -> str:
    """A line for each field, with what it may be, and what it is unless it is answered."""
    required = schema.get("required")
    lines = []
    for name, field in fields_of(schema).items():
        choices = _choices(field)
        shown = ", ".join(
            label if label == str(value) else f"{value} ({label})" for label, value in choices.items()
        )
        kind = f"{'some' if field.get('type') == 'array' else 'one'} of {shown}" if shown else ""
        notes = [kind or str(field.get("type", "text"))]
        notes += [] if name in (required if isinstance(required, list) else ()) else ["may be left out"]
        notes += [f"otherwise {field['default']}"] if "default" in field else []
        said = [str(field[each]) for each in ("title", "description") if field.get(each)]
        lines.append(f"{name}: " + " - ".join([*said, f"({'; '.join(notes)})"]))
    return "\n".join(lines)


def read_answer(text: str, schema: Mapping[str, Any]) -> tuple[Choice, dict[str, Any]]:
    """What a person answered: the fields as ``name: value``, a line each, or one of WORDS.

    Raises ValueError with what is wrong with it.
    """
    fields = fields_of(schema)
    pairs = (line.partition(":") for line in text.splitlines())
    given = {name.strip(): value.strip() for name, _, value in pairs if name.strip() in fields}
    word = text.strip().lower().rstrip(".!")
    action = WORDS.get(word)
    for name, field in fields.items() if len(fields) == 1 and not given and word else ():
        itself = field.get("type") == "boolean" and action != "cancel"
        if action is None or itself or word in {str(each).lower() for each in _choices(field).values()}:
            given = {name: text.strip()}
    if not given and action in ("decline", "cancel"):
        return action, {}
    if not given and action != "accept":
        raise ValueError("it names none of the fields")
    values = {name: _read(name, value, fields[name]) for name, value in given.items()}
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in fill(schema, values):
            raise ValueError(f"{name} is missing")
    return "accept", values


def _choices(field: Mapping[str, Any]) -> dict[str, Any]:
    """What a field may be, by what it is called: a list, or each with a title, of one or of several."""
    field = field["items"] if isinstance(field.get("items"), dict) else field
    for key in ("oneOf", "anyOf"):
        if isinstance(field.get(key), list):
            each = [every for every in field[key] if isinstance(every, dict) and "const" in every]
            return {str(every.get("title", every["const"])): every["const"] for every in each}
    values = field.get("enum")
    values = values if isinstance(values, list) else []
    names = field.get("enumNames")
    names = names if isinstance(names, list) and len(names) == len(values) else values
    return {str(name): value for name, value in zip(names, values, strict=True)}


def _read(name: str, text: str, field: Mapping[str, Any]) -> Any:
    choices = {str(value).lower(): value for value in _choices(field).values()}
    choices |= {label.lower(): value for label, value in _choices(field).items()}
    kind = field.get("type")
    try:
        if kind == "array":
            return [choices[each.strip().lower()] for each in text.split(",") if each.strip()]
        if choices:
            return choices[text.lower()]
        if kind == "boolean":
            return {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}[
                text.lower().rstrip(".!")
            ]
        return {"integer": int, "number": float}.get(str(kind), str)(text)
    except KeyError:
        raise ValueError(f"{name} cannot be {text!r}") from None
    except ValueError:
        raise ValueError(f"{name} has to be a number") from None
