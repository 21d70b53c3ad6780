"""What is to be forgotten, and what is left of a message of the log without it."""

from collections.abc import Iterable
from typing import Any

import msgspec

from services.memory.writes.write_log import read_entry
from shared.bus import Stored
from shared.contracts import MemoryErased, MemoryForgotten, MemoryRefused, MemoryWrite, Node
from shared.errors import Reject
from shared.operations.erasure.texts import STRUCTURE
from shared.text.quotations import FORGOTTEN, Quotations, find_common, is_telling

_KEPT = ("id", "kind", "importance", "created_at", "updated_at", "valid_from", "valid_to")
"""What a node keeps that was forgotten, beside the name of its agent."""

Entry = MemoryWrite | MemoryRefused | MemoryErased | MemoryForgotten


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of a message: a write or a refusal without the texts, nothing if it could not be read.

    ``earlier`` is the message itself, if it is a record of what was left the time before.
    """

    write: MemoryWrite | None = None
    refused: MemoryRefused | None = None
    earlier: MemoryErased | None = None


class Secrets:
    """Nodes that are to be forgotten, and the texts that they had, as far as ``learn`` was told of them."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._ids = frozenset(ids)
        self._texts: dict[str, None] = {}
        self._id_patterns = [each.encode() for each in sorted(self._ids)]
        self._quotations = Quotations(())

    def names(self, node_id: str) -> bool:
        """Whether a node is to be forgotten."""
        return node_id in self._ids

    def learn(self, stored: Stored) -> None:
        """Keep the texts that a message says the nodes have."""
        if not any(pattern in stored.data for pattern in self._id_patterns):
            return
        try:
            found = list(self._texts_in(msgspec.json.decode(stored.data)))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return
        self._texts |= dict.fromkeys(filter(is_telling, found))

    def leave_common(self, others: Iterable[str]) -> None:
        """Leave the parts of the texts that many of the texts of ``others`` have too."""
        self._quotations = Quotations(self._texts, find_common(self._texts, others))

    def redact(self, stored: Stored) -> Left | None:
        """What is left of a message without them; None if it holds nothing of them."""
        has_id = any(pattern in stored.data for pattern in self._id_patterns)
        if not has_id and not self._quotations.may_be_in(stored.data):
            return None
        try:
            entry = read_entry(stored.subject, stored.data, checked=True)
        except Reject:
            return Left()
        left: Entry = type(entry).from_checked_json(msgspec.json.encode(self._clean(entry.to_dict())))
        if left == entry:
            return None
        if isinstance(left, MemoryErased):
            assert isinstance(entry, MemoryErased)
            return Left(write=left.write, refused=left.refused, earlier=entry)
        if isinstance(left, MemoryWrite):
            return Left(write=left)
        return Left(refused=left if isinstance(left, MemoryRefused) else None)

    def _texts_in(self, value: Any) -> Iterable[str]:
        if isinstance(value, dict):
            if self._is_forgotten(value):
                metadata = value.get("metadata")
                told = metadata.items() if isinstance(metadata, dict) else ()
                kept = [each for name, each in told if name not in STRUCTURE]
                yield from _strings((value.get("title"), value.get("body"), kept))
            for each in value.values():
                yield from self._texts_in(each)
        elif isinstance(value, list):
            for each in value:
                yield from self._texts_in(each)

    def _is_forgotten(self, value: dict[str, Any]) -> bool:
        return isinstance(value.get("id"), str) and value["id"] in self._ids and "title" in value

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._clean_text(value)
        if isinstance(value, list):
            return [self._clean(each) for each in value]
        if not isinstance(value, dict):
            return value
        if self._is_forgotten(value):
            return _stub(value)
        after = {self._clean_text(key): self._clean(each) for key, each in value.items()}
        if after != value and "embedding" in after:
            after["embedding"] = []  # a text can be guessed from its vector
        if "vectors" in after and after.get("nodes") != value.get("nodes"):
            after |= {"vectors": "", "insist": True}
        return after

    def _clean_text(self, text: str) -> str:
        return self._quotations.redact(text) if self._quotations.are_in(text) else text


def is_forgotten(node: Node) -> bool:
    """Whether a node is what is left of one that a person had forgotten."""
    return bool(node.retired_version) and node.title == FORGOTTEN


def _stub(node: dict[str, Any]) -> dict[str, Any]:
    """A node without its text: it stays where it was, so that what was written of it still fits."""
    source = node.get("source")
    agent = source.get("agent", "") if isinstance(source, dict) else ""
    kept = {name: node[name] for name in _KEPT if name in node}
    return {**kept, "title": FORGOTTEN, "source": {"agent": agent}}


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value.strip()
    elif isinstance(value, dict):
        yield from _strings([*value.values()])
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each)
