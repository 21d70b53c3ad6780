"""What any NATS client may send to ``memory.add`` and ``memory.link``: plain JSON, made into a write."""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from shared.contracts import Edge, MemoryWrite, Node, Relation, Source
from shared.text.sentences import split_title

MAX_ENTRIES = 1_000
"""The most nodes or edges of one submission."""

SHORTHANDS = ("text", "type", "agent", "session", "channel", "insist")
"""What a submitted node may have beside its own fields: ``text`` instead of title and body, ``type`` for
``kind``, the parts of ``source``, and ``insist``, which stores what the write gate would refuse."""
SET_BY_DAEMON = ("created_version", "version", "retired_version", "access_count", "last_accessed_at")
"""Fields that cannot be submitted: memory sets them."""

Made = TypeVar("Made")


def parse_add(data: bytes, sender: str) -> MemoryWrite:
    """The write that adds the submitted node or list of nodes; each has a title or a text, whatever else a
    Node has. Its agent is ``sender``; people may name another one.

    Raises ValueError that names the entry and the field, with the nearest field there is for an unknown one.
    """
    entries = _read_entries(data)
    nodes = _each(entries, lambda entry: _node(entry, sender))
    insist = any(entry.get("insist") is True for entry in entries)
    return MemoryWrite(sender=sender, nodes=tuple(nodes), insist=insist)


def parse_link(data: bytes, sender: str) -> MemoryWrite:
    """The write that adds the submitted edge or list of edges: from, to, and what else an Edge has.

    Raises ValueError as ``parse_add`` does.
    """
    return MemoryWrite(sender=sender, edges=tuple(_each(_read_entries(data), _edge)))


def _read_entries(data: bytes) -> list[dict[str, Any]]:
    try:
        read = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not valid JSON: {error}") from None
    entries = read if isinstance(read, list) else [read]
    if not 1 <= len(entries) <= MAX_ENTRIES:
        raise ValueError(f"send 1 to {MAX_ENTRIES:,} entries at once, not {len(entries):,}")
    if not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("each entry must be a JSON object")
    return entries


def _each(entries: list[dict[str, Any]], make: Callable[[dict[str, Any]], Made]) -> list[Made]:
    made = []
    for number, entry in enumerate(entries, 1):
        try:
            made.append(make(entry))
        except ValueError as error:
            reason = str(error).replace("`$.", "`")
            raise ValueError(f"entry {number}: {reason}" if len(entries) > 1 else reason) from None
    return made


def _node(entry: Mapping[str, Any], sender: str) -> Node:
    fields = [name for name in Node.__struct_fields__ if name not in SET_BY_DAEMON]
    _require_known(entry, [*fields, *SHORTHANDS])
    given = {name: value for name, value in entry.items() if name not in SHORTHANDS}
    if "text" in entry:
        given |= _entitled(entry)
    if "title" not in given:
        raise ValueError("title is missing: give a title, or a text")
    if "type" in entry:
        given.setdefault("kind", entry["type"])
    if not isinstance(entry.get("insist", False), bool):
        raise ValueError("insist must be true or false")
    return Node.from_dict(given | {"source": _source(entry, sender)})


def _entitled(entry: Mapping[str, Any]) -> dict[str, str]:
    text = entry["text"]
    if "body" in entry:
        raise ValueError("give text or body, not both")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("text must be a non-empty string")
    if "title" in entry:
        return {"body": text}
    title, body = split_title(text)
    return {"title": title, "body": body}


def _source(entry: Mapping[str, Any], sender: str) -> dict[str, Any]:
    source = entry.get("source", {})
    if not isinstance(source, Mapping):
        raise ValueError("source must be an object of agent, session and channel")
    _require_known(source, Source.__struct_fields__, "source.")
    parts = {name: entry[name] for name in Source.__struct_fields__ if name in entry}
    return {"agent": sender, **source, **parts}


def _edge(entry: Mapping[str, Any]) -> Edge:
    fields = [
        field.encode_name
        for field in msgspec.structs.fields(Edge)
        if field.name not in (*SET_BY_DAEMON, "touched_at")
    ]
    _require_known(entry, fields)
    relation = entry.get("relation", Relation.RELATED_TO)
    if relation not in list(Relation):
        raise ValueError(
            f"relation {str(relation)[:40]!r} does not exist; {_nearest(str(relation), Relation)}"
        )
    return Edge.from_dict(dict(entry))


def _require_known(entry: Iterable[str], known: Iterable[str], prefix: str = "") -> None:
    names = list(known)
    for name in entry:
        if name not in names:
            raise ValueError(f"{prefix}{name[:40]} is not a field; {_nearest(name, names)}")


def _nearest(name: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!s}?" if near else f"known are {', '.join(names)}"
