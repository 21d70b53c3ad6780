"""Links between notes: what they lead to, and those that lead to a note which comes later."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from services.memory.ingest.drafting import CHANNEL, OPEN_LINKS
from services.memory.ingest.memory import Desk
from services.memory.ingest.piece import Link
from services.memory.ingest.wikilinks import (
    candidate_ids,
    fold_heading,
    is_meant,
    name_id,
    path_id,
    strip_ending,
)
from shared.contracts import Edge, Node, Relation

LINK_WEIGHT = 0.8
"""Of an edge from a note to what it links to: somebody set the link, but only the text says why."""

Ends = Mapping[Link, str]
"""The node each link leads to; "" where there is none yet."""

Asked = Sequence[tuple[Link, str]]
"""Links, each with the file it stands in."""


class Linking:
    """Looks up which nodes links mean; keeps nothing but which file took which name since the start."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._claims: dict[str, str] = {}

    async def identify(self, file: str) -> str:
        """The id of the note at ``file``: its name's where it is the first of that name, else its path's."""
        named, placed = name_id(strip_ending(file)), path_id(file)
        known = await self._desk.find([named, placed])
        holder = known[named].metadata.get("file") if named in known else file
        if placed in known or holder != file or self._claims.setdefault(named, file) != file:
            return placed
        return named

    async def find_ends(self, links: Iterable[Link], file: str) -> dict[Link, str]:
        """What the links of a file lead to: a note, or the section of it that they name where it has one."""
        asked = [(link, file) for link in links]
        return {link: end for (link, _), end in (await self._find(asked)).items()}

    async def resolve_open(self) -> int:
        """Write the edges of links whose notes have come since; the number of links that are still open.

        Which notes have such links is told by their tag, so this may be done at any time, in any process.
        """
        notes = [node for node in await self._desk.list(tags=(OPEN_LINKS,)) if node.source.channel == CHANNEL]
        open_links = {node.id: parse_links(node.metadata.get("unresolved")) for node in notes}
        files = {node.id: str(node.metadata.get("file", "")) for node in notes}
        ends = await self._find([(link, files[key]) for key, links in open_links.items() for link in links])
        changed: list[Node] = []
        edges: list[Edge] = []
        for node in notes:
            found = {link: ends[link, files[node.id]] for link in open_links[node.id]}
            if any(found.values()) or not found:
                changed.append(mark_open(node, found))
                edges += link_edges(node.id, found)
        async for _ in self._desk.put(changed, edges):
            pass
        return sum(not end for end in ends.values())

    async def _find(self, asked: Asked) -> dict[tuple[Link, str], str]:
        ids = {pair: candidate_ids(*pair) for pair in asked}
        known = await self._desk.find(list(dict.fromkeys(each for some in ids.values() for each in some)))
        notes = {pair: _choose(pair[0], (known.get(each) for each in some)) for pair, some in ids.items()}
        places = {pair: _section_of(note, pair[0]) for pair, note in notes.items() if note is not None}
        sections = await self._desk.find([place for place in dict.fromkeys(places.values()) if place])
        ends = {pair: note.id if note is not None else "" for pair, note in notes.items()}
        there = {node.id for node in sections.values() if not node.retired_version}
        return ends | {pair: place for pair, place in places.items() if place in there}


def parse_links(value: Any) -> list[Link]:
    """The links that a node's metadata holds as texts."""
    texts = [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
    return [Link(target, heading) for target, _, heading in (text.partition("#") for text in texts)]


def link_edges(note_id: str, ends: Ends) -> list[Edge]:
    """Edges from a note to where its links lead."""
    provenance = {"by": "imported", "rule": "wikilink"}
    return [
        Edge(
            from_id=note_id,
            to_id=end,
            relation=Relation.RELATED_TO,
            weight=LINK_WEIGHT,
            provenance=provenance,
        )
        for end in dict.fromkeys(ends.values())
        if end and end != note_id
    ]


def mark_open(node: Node, ends: Ends) -> Node:
    """The note with its links that lead nowhere yet in the metadata, and tagged OPEN_LINKS for them."""
    waiting = [str(link) for link, end in ends.items() if not end]
    metadata = {name: value for name, value in node.metadata.items() if name != "unresolved"}
    tags = tuple(tag for tag in node.tags if tag != OPEN_LINKS)
    if waiting:
        metadata["unresolved"] = waiting
        tags = (*tags, OPEN_LINKS)
    return msgspec.structs.replace(node, metadata=metadata, tags=tags)


def _choose(link: Link, nodes: Iterable[Node | None]) -> Node | None:
    return next(
        (
            node
            for node in nodes
            if node is not None
            and not node.retired_version
            and "note" in node.metadata
            and is_meant(link, str(node.metadata.get("file", "")))
        ),
        None,
    )


def _section_of(note: Node, link: Link) -> str:
    headings = note.metadata.get("headings")
    found = headings.get(fold_heading(link.heading)) if isinstance(headings, dict) and link.heading else ""
    return found if isinstance(found, str) else ""
