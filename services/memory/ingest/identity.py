"""The pieces of a file that memory has already, and texts that several files have."""

import re
from collections.abc import Collection, Iterable, Sequence

import msgspec

from services.memory.ingest.client import MemoryClient
from services.memory.ingest.drafting import FileDrafts, NodeDraft
from shared.contracts import Node
from shared.memory.ownership import CHANNEL

ALSO = "also_in"  # In the metadata of a node: the other files that have its text

KNOWN_AS = "known_as"  # In the metadata of a retired node: the node that said the same before it was embedded

SHARED = "in-several-files"  # The tag of such nodes

MOST = 20  # The most other files that are kept of a node: what stands in more of them is no news of any


class SharedTexts:
    """Keeps what ``file`` shares with others in step with memory, one file after another."""

    def __init__(self, client: MemoryClient, file: str) -> None:
        self._client = client
        self._file = file
        self._met: dict[str, tuple[str, ...]] = {}

    def meet(self, node: Node, others: Sequence[str] = ()) -> None:
        """Note that the file and ``others`` have a text of which memory has a node of another file."""
        if _is_shared(node):
            self._met[node.id] = (*self._met.get(node.id, ()), self._file, *others)

    async def keep(self) -> None:
        """Write that the file has the texts that it met, and no others."""
        async with self._client.sharing:
            found = await self._client.find([*self._met])
            for node in found.values():
                if node.retired_version and KNOWN_AS in node.metadata:  # another file left it out meanwhile
                    first = str(node.metadata[KNOWN_AS])
                    self._met[first] = (*self._met.get(first, ()), *self._met[node.id])
            found |= await self._client.find([*self._met.keys() - found.keys()])
            joined = [_add(node, self._met[node.id]) for node in found.values() if _is_shared(node)]
            left = [
                _remove(node, self._file)
                for node in await self._client.list(tags=(SHARED,))
                if self._file in find_others(node) and node.id not in self._met
            ]
            await self._write([node for node in joined if node is not None] + left)

    async def hand_over(self, nodes: Iterable[Node]) -> list[Node]:
        """Give what the file no longer has to the next file that has it; returns what none has."""
        kept = [node for node in nodes if find_others(node)]
        await self._write([_give(node) for node in kept])
        return [node for node in nodes if not find_others(node)]

    async def _write(self, nodes: Sequence[Node]) -> None:
        async for _ in self._client.write_ungated(nodes):
            pass


def find_others(node: Node) -> tuple[str, ...]:
    """The other files that have a node's text."""
    also = node.metadata.get(ALSO)
    return tuple(file for file in also if isinstance(file, str)) if isinstance(also, list) else ()


def _is_shared(node: Node) -> bool:
    """Whether it is there, and of a file."""
    return node.source.channel == CHANNEL and not node.retired_version


def _add(node: Node, files: Sequence[str]) -> Node | None:
    """The node with those of ``files`` that it lacks; None if it lacks none, or has MOST."""
    others = find_others(node)
    new = [file for file in dict.fromkeys(files) if file not in (*others, node.metadata.get("file"))]
    joined = (*others, *new)[:MOST]
    return None if len(joined) <= len(others) else _with_files(node, joined)


def _remove(node: Node, file: str) -> Node:
    return _with_files(node, [other for other in find_others(node) if other != file])


def _give(node: Node) -> Node:
    first, *others = find_others(node)
    source = msgspec.structs.replace(node.source, session=first)
    given = msgspec.structs.replace(node, source=source, metadata={**node.metadata, "file": first})
    return _with_files(given, others)


def _with_files(node: Node, others: Collection[str]) -> Node:
    metadata = {name: value for name, value in node.metadata.items() if name != ALSO}
    tags = tuple(tag for tag in node.tags if tag != SHARED)
    if others:
        metadata, tags = {**metadata, ALSO: list(others)}, (*tags, SHARED)
    return msgspec.structs.replace(node, metadata=metadata, tags=tags)


ALIKE = 0.5  # The share of words, of all that either has, from which a piece is one that was edited

MAX_EDITED = 200
"""The most pieces of a file that are compared for it: of a file that changed more, the rest is new."""

_WORD = re.compile(r"\w+")


def keep_ids(drafts: FileDrafts, there: Sequence[Node]) -> FileDrafts:
    """The drafts of a file with the ids that memory has for them; ``there`` are the live nodes of the file.

    A piece keeps the id of its text, or that under which the same text was stored as an edited one. A new
    piece takes the id of the most similar one that has gone from under the same heading, unless
    another file has the text of that one too.
    """
    known = {node.id for node in there}
    by_digest = {str(node.metadata.get("hash")): node.id for node in there}
    ids = {draft.node.id: draft.node.id for draft in drafts.drafts}
    fresh = [draft for draft in drafts.drafts if draft.node.id not in known]
    for draft in fresh:
        ids[draft.node.id] = by_digest.get(draft.digest, draft.node.id)
    new = [draft for draft in fresh if ids[draft.node.id] not in known]
    kept = set(ids.values())
    gone = [node for node in there if node.id not in kept]
    if drafts.is_note:  # records and stretches of logs are alike by nature
        ids |= _match_edited(new[:MAX_EDITED], [node for node in gone if not find_others(node)][:MAX_EDITED])
    changed = {old: now for old, now in ids.items() if old != now}
    return _rename(drafts, changed) if changed else drafts


def _match_edited(new: Iterable[NodeDraft], gone: Iterable[Node]) -> dict[str, str]:
    pairs = sorted(
        (-alike, place, node.id, draft.node.id)
        for node in gone
        for place, draft in enumerate(new)
        if _heading(node) == _heading(draft.node) and (alike := _compare(node, draft.node)) >= ALIKE
    )
    matched: dict[str, str] = {}
    for _, _, old, fresh in pairs:
        if fresh not in matched and old not in matched.values():
            matched[fresh] = old
    return matched


def _compare(one: Node, other: Node) -> float:
    first, second = (set(_WORD.findall(node.body.lower())) for node in (one, other))
    return len(first & second) / max(1, len(first | second))


def _heading(node: Node) -> object:
    return node.metadata.get("heading", "")


def _rename(drafts: FileDrafts, ids: dict[str, str]) -> FileDrafts:
    renamed = []
    for draft in drafts.drafts:
        node = msgspec.structs.replace(draft.node, id=ids.get(draft.node.id, draft.node.id))
        if headings := node.metadata.get("headings"):
            places = {name: ids.get(place, place) for name, place in headings.items()}
            node = msgspec.structs.replace(node, metadata={**node.metadata, "headings": places})
        renamed.append(msgspec.structs.replace(draft, node=node, parent=ids.get(draft.parent, draft.parent)))
    return msgspec.structs.replace(drafts, drafts=tuple(renamed))
