"""A file's nodes written to memory, and the links between notes resolved."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from services.memory.forgetting import is_forgotten
from services.memory.ingest import drafting
from services.memory.ingest.client import MemoryClient, run_all
from services.memory.ingest.drafting import (
    KNOWN_AS,
    FileDrafts,
    NodeDraft,
    SharedTexts,
    find_others,
    keep_ids,
)
from services.memory.ingest.kinds import KindChooser
from services.memory.ingest.pieces import NoteLink, default_importance
from services.memory.linking.parts import PART
from services.memory.writes.change import embedded_text
from services.memory.writes.gate import find_known, find_rejection
from shared.contracts import Edge, EdgeKey, Node, Rejection, Relation
from shared.memory.ownership import CHANNEL

LINK_WEIGHT = 0.8
"""Of an edge from a note to what it links to: the link was set on purpose, but only the text says why."""

Ends = Mapping[NoteLink, str]  # The node each link leads to; "" if there is none yet

Asked = Sequence[tuple[NoteLink, str]]  # Links, each with the file that contains it

GONE = "gone"  # In the metadata of a node whose text is no longer in its file: it comes back if the text does

SECTION_WEIGHT = 0.9  # Of an edge from a note or section to what is below it

SETTLED_AT_ONCE = 500  # Passages whose kinds, and whether they are known, are settled in one go

REASONS = 5  # How many reasons why parts of a file were left out are kept


class NoteLinks:
    """Looks up which nodes links mean; keeps nothing but which file took which name since the start, and
    which files are under way.
    """

    def __init__(self, client: MemoryClient) -> None:
        self._client = client
        self._names_taken: dict[str, str] = {}
        self._under_way: set[str] = set()

    def begin(self, files: Iterable[str]) -> None:
        """Leave links open that may mean one of these files, until they are there."""
        self._under_way.update(map(drafting.path_id, files))

    def end(self, file: str) -> None:
        """The file is there, or failed."""
        self._under_way.discard(drafting.path_id(file))

    async def identify(self, file: str) -> str:
        """The id of the note at ``file``: its name's if it is the first of that name, else its path's."""
        named, placed = drafting.name_id(drafting.strip_ending(file)), drafting.path_id(file)
        known = await self._client.find([named, placed])
        holder = known[named].metadata.get("file") if named in known else file
        if placed in known or holder != file or self._names_taken.setdefault(named, file) != file:
            return placed
        return named

    async def find_ends(self, links: Iterable[NoteLink], file: str) -> dict[NoteLink, str]:
        """What the links of a file lead to: a note, or the section of it that they name, if it has that."""
        asked = [(link, file) for link in links]
        return {link: end for (link, _), end in (await self._find(asked)).items()}

    async def resolve_open(self) -> int:
        """Write the edges of links whose notes have come since; the number of links that are still open.

        Such notes have a tag, so this may be done at any time, in any process.
        """
        notes = [
            node
            for node in await self._client.list(tags=(drafting.OPEN_LINKS,))
            if node.source.channel == CHANNEL
        ]
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
        async for _ in self._client.write_ungated(changed, edges):
            pass
        return sum(not end for end in ends.values())

    async def _find(self, asked: Asked) -> dict[tuple[NoteLink, str], str]:
        ids = {pair: drafting.candidate_ids(*pair) for pair in asked}
        known = await self._client.find(list(dict.fromkeys(each for some in ids.values() for each in some)))
        notes = {
            pair: _choose(pair[0], (known.get(each) for each in some))
            for pair, some in ids.items()
            if self._under_way.isdisjoint(some)
        }
        places = {pair: _section_of(note, pair[0]) for pair, note in notes.items() if note is not None}
        sections = await self._client.find([place for place in dict.fromkeys(places.values()) if place])
        ends = {pair: note.id if (note := notes.get(pair)) is not None else "" for pair in ids}
        there = {node.id for node in sections.values() if not node.retired_version}
        return ends | {pair: place for pair, place in places.items() if place in there}


def parse_links(value: Any) -> list[NoteLink]:
    """The links that a node's metadata holds as texts."""
    texts = [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
    return [NoteLink(target, heading) for target, _, heading in (text.partition("#") for text in texts)]


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
    """The note with its links that lead nowhere yet in the metadata, and tagged drafting.OPEN_LINKS for
    them.
    """
    waiting = [str(link) for link, end in ends.items() if not end]
    metadata = {name: value for name, value in node.metadata.items() if name != "unresolved"}
    tags = tuple(tag for tag in node.tags if tag != drafting.OPEN_LINKS)
    if waiting:
        metadata["unresolved"] = waiting
        tags = (*tags, drafting.OPEN_LINKS)
    return msgspec.structs.replace(node, metadata=metadata, tags=tags)


def _choose(link: NoteLink, nodes: Iterable[Node | None]) -> Node | None:
    for node in filter(None, nodes):
        is_note = not node.retired_version and "note" in node.metadata
        if is_note and drafting.matches_path(link, str(node.metadata.get("file", ""))):
            return node
    return None


def _section_of(note: Node, link: NoteLink) -> str:
    headings = note.metadata.get("headings")
    found = (
        headings.get(drafting.normalise_heading(link.heading))
        if isinstance(headings, dict) and link.heading
        else ""
    )
    return found if isinstance(found, str) else ""


class Progress(msgspec.Struct, kw_only=True):
    """How far a file is: of its pieces so many are ``stored``, which are found by words, and ``settled``,
    which have their vectors, their kinds, and were compared with what was known.
    """

    of: int
    stored: int = 0
    settled: int = 0


class ImportResult(msgspec.Struct, kw_only=True):
    """What became of a file's pieces: ``duplicates`` are elsewhere in memory, ``refused`` are too thin."""

    stored: int = 0
    updated: int = 0
    unchanged: int = 0
    duplicates: int = 0
    refused: int = 0
    retired: int = 0
    reasons: list[str] = []


class FileImport:
    """One file on its way into memory.

    All is stored at once, and found by words; what needs the vectors, which are made in the background,
    comes after: the kinds that rules left unclear, and which passages say what was known before. Records,
    stretches of logs, and notes themselves are not held against what is known: rows of a table are alike by
    nature, and a note is where links lead. Of these, only exact copies are left out.
    """

    def __init__(
        self,
        client: MemoryClient,
        links: NoteLinks,
        kinds: KindChooser,
        drafts: FileDrafts,
        progress: Progress,
    ) -> None:
        self._client = client
        self._links = links
        self._kinds = kinds
        self._drafts = drafts
        self._progress = progress
        self._shared = SharedTexts(client, drafts.file)
        self._outcome = ImportResult(
            duplicates=drafts.repeated,
            refused=len(drafts.refused),
            reasons=[*drafts.refused, *drafts.unread][:REASONS],
        )
        self._unsettled: list[NodeDraft] = []
        self._unchanged: set[str] = set()
        self._stands_for: dict[str, str] = {}
        """What each draft is in memory: its own node, one that says the same, or the node above it."""

    async def run(self) -> ImportResult:
        """Store the drafts; raises WriteFailed if memory does not take them for another reason than its gate.

        Safe to be repeated after a crash at any point: what is there as the file has it is not written again.
        """
        mine = await self._client.list(session=self._drafts.file)
        mine = [node for node in mine if node.source.channel == CHANNEL and PART not in node.metadata]
        self._drafts = keep_ids(self._drafts, mine)
        known = await self._client.find([draft.node.id for draft in self._drafts.drafts])
        known |= await self._client.find([str(node.metadata.get(KNOWN_AS, "")) for node in known.values()])
        for level in _levels(self._drafts.drafts):
            fresh = [draft for draft in level if not self._is_there(draft, known)]
            outlines, others = list[NodeDraft](), list[NodeDraft]()
            for draft in fresh:
                (outlines if self._is_outline(draft) else others).append(draft)
            await run_all(self._offer(draft, known.get(draft.node.id)) for draft in outlines)
            await self._put([draft for draft in others if not self._is_thin(draft, known)], known)
        await self._settle()
        await self._shared.keep()
        await self._retire_others(mine)
        return self._outcome

    def _is_outline(self, draft: NodeDraft) -> bool:
        """Whether it is the note itself, which has the links."""
        return self._drafts.is_note and draft is self._drafts.drafts[0]

    def _is_thin(self, draft: NodeDraft, known: Mapping[str, Node]) -> bool:
        """Whether a new passage says too little to be stored."""
        rejection = None
        if not draft.insist and draft.node.id not in known:
            rejection = find_rejection(draft.node, None, 0.0)
        if rejection is not None:
            self._record_result(draft, None, rejection)
            self._step(1)
        return rejection is not None

    def _is_there(self, draft: NodeDraft, known: Mapping[str, Node]) -> bool:
        there = known.get(draft.node.id)
        if there is not None and is_forgotten(there):
            self._stands_for[draft.node.id] = self._above(draft)
            self._leave_out(draft, "a person had it forgotten; in other words memory takes it")
            self._step(1)
            return True
        if there is None or (there.retired_version and there.metadata.get(GONE)):
            return False
        mine = there.metadata.get("file") == self._drafts.file
        if there.metadata.get("hash") != draft.digest and (mine or self._is_outline(draft)):
            return False
        if KNOWN_AS in there.metadata:
            first = known.get(str(there.metadata[KNOWN_AS]))
            if first is None or first.retired_version:
                return False
            self._stands_for[draft.node.id] = first.id
            self._count_known(first, find_others(there))
            self._step(1)
            return True
        if there.retired_version and not mine:
            self._stands_for[draft.node.id] = self._above(draft)
            self._leave_out(draft, f"memory has the same text as retired, in {there.id[:8]}")
            self._step(1)
            return True
        # It may have been left so by a crash, and another file may have said since that it has it too.
        if mine and (there.version == there.created_version or find_others(there)):
            self._unsettled.append(draft)
            self._unchanged.add(there.id)
        self._stands_for[draft.node.id] = self._above(draft) if there.retired_version else there.id
        self._outcome.unchanged += mine
        self._outcome.duplicates += not mine
        if not mine:
            self._shared.meet(there)
        self._step(1)
        return True

    async def _put(self, drafts: Sequence[NodeDraft], known: dict[str, Node]) -> None:
        async with self._client.sharing:  # or two files that have the same text both store it as theirs
            came = await self._client.find([draft.node.id for draft in drafts if draft.node.id not in known])
            drafts = [draft for draft in drafts if not self._is_there(draft, came)]
            edges = [edge for draft in drafts for edge in self._edge_above(draft)]
            async for count in self._client.write_ungated([draft.node for draft in drafts], edges):
                self._step(count)
        for draft in drafts:
            self._record_result(draft, known.get(draft.node.id), None)
        self._unsettled += drafts

    async def _settle(self) -> None:
        """Wait for the vectors, then settle what depends on them."""
        if not self._unsettled:
            return
        await self._client.engine.embed_missing()
        for start in range(0, len(self._unsettled), SETTLED_AT_ONCE):
            drafts = self._unsettled[start : start + SETTLED_AT_ONCE]
            await self._settle_kinds([draft for draft in drafts if draft.unclear is not None])
            await self._leave_out_known([draft for draft in drafts if not draft.insist])
            self._progress.settled += len(drafts)

    async def _settle_kinds(self, drafts: Sequence[NodeDraft]) -> None:
        nodes = await self._client.find([draft.node.id for draft in drafts])
        vectors = await self._client.engine.read_vectors([draft.node.id for draft in drafts])
        pieces = [draft.unclear for draft in drafts if draft.unclear]
        kinds = await self._kinds.settle(pieces, [embedded_text(draft.node) for draft in drafts], vectors)
        changed: list[Node] = []
        for draft, kind in zip(drafts, kinds, strict=True):
            node = nodes.get(draft.node.id)
            if node is None or node.retired_version or node.kind == kind or node.kind != draft.node.kind:
                continue
            importance = node.importance if draft.insist else default_importance(kind)
            changed.append(msgspec.structs.replace(node, kind=kind, importance=importance))
        async for _ in self._client.write_ungated(changed):
            pass

    async def _leave_out_known(self, drafts: Sequence[NodeDraft]) -> None:
        """Retire the passages that say what was known before; what says it is in their files too."""
        async with self._client.sharing:  # or another file writes meanwhile that it has one of them
            engine, ids = self._client.engine, [draft.node.id for draft in drafts]
            known = await engine.run_in_reader(find_known, engine.view, ids)
            nodes = await self._client.find([*known])
            gone = [
                msgspec.structs.replace(node, metadata={**node.metadata, KNOWN_AS: known[key].id})
                for key, node in nodes.items()
            ]
            async for _ in self._client.write_ungated(gone, retire=True):
                pass
        for key, node in nodes.items():
            fresh = key not in self._unchanged
            self._outcome.stored -= fresh
            self._outcome.unchanged -= not fresh
            self._stands_for[key] = known[key].id
            self._count_known(known[key], find_others(node))

    def _count_known(self, first: Node, others: Sequence[str] = ()) -> None:
        self._outcome.duplicates += 1
        if others or first.metadata.get("file") != self._drafts.file:
            self._shared.meet(first, others)

    async def _offer(self, draft: NodeDraft, there: Node | None) -> None:
        node, edges, unlink = draft.node, self._edge_above(draft), list[EdgeKey]()
        if self._is_outline(draft):
            others = [link for link in self._drafts.links if not self._is_own(link, node.id)]
            ends = await self._links.find_ends(others, self._drafts.file)
            node, edges = mark_open(node, ends), link_edges(node.id, ends)
            unlink = await self._find_cut(there, set(ends.values()))
        changed = there is not None
        rejection = await self._client.write_gated(node, edges, unlink=unlink, insist=changed)
        if rejection is not None and draft.insist and not _is_same(node, rejection.existing):
            rejection = await self._client.write_gated(node, edges, insist=True)
        self._record_result(draft, there, rejection)
        self._step(1)

    def _is_own(self, link: NoteLink, note_id: str) -> bool:
        """Whether a link means the note itself, which may not be stored yet."""
        file = self._drafts.file
        named = not link.heading and drafting.matches_path(link, file)
        return named and note_id in drafting.candidate_ids(link, file)

    def _record_result(self, draft: NodeDraft, there: Node | None, rejection: Rejection | None) -> None:
        if rejection is None:
            self._stands_for[draft.node.id] = draft.node.id
            self._outcome.stored += there is None
            self._outcome.updated += there is not None
            return
        self._stands_for[draft.node.id] = rejection.existing.id if rejection.existing else self._above(draft)
        if rejection.existing:
            self._count_known(rejection.existing)
        else:
            self._leave_out(draft, rejection.reason)

    def _leave_out(self, draft: NodeDraft, reason: str) -> None:
        self._outcome.refused += 1
        if len(self._outcome.reasons) < REASONS:
            self._outcome.reasons.append(f"line {draft.node.metadata['line']}: {reason}")

    def _above(self, draft: NodeDraft) -> str:
        return self._stands_for.get(draft.parent, "")

    def _edge_above(self, draft: NodeDraft) -> list[Edge]:
        above = self._above(draft)
        if not above or above == draft.node.id:
            return []
        provenance = {"by": "imported", "rule": "section"}
        return [
            Edge(
                from_id=above,
                to_id=draft.node.id,
                relation=Relation.RELATED_TO,
                weight=SECTION_WEIGHT,
                provenance=provenance,
            )
        ]

    async def _find_cut(self, there: Node | None, kept: set[str]) -> list[EdgeKey]:
        """The edges of links that an earlier state of the note had, and this one has not."""
        if there is None:
            return []
        earlier = parse_links(there.metadata.get("links"))
        gone = [link for link in earlier if link not in self._drafts.links]
        ends = set((await self._links.find_ends(gone, self._drafts.file)).values()) - kept - {"", there.id}
        return [EdgeKey(from_id=there.id, to_id=end) for end in sorted(ends)]

    async def _retire_others(self, there: Sequence[Node]) -> None:
        """Retire what earlier states of the file had and this one has not, unless another file has it."""
        mine = {draft.node.id for draft in self._drafts.drafts} | set(self._stands_for.values())
        left = await self._shared.hand_over([node for node in there if node.id not in mine])
        gone = [msgspec.structs.replace(node, metadata={**node.metadata, GONE: True}) for node in left]
        async for count in self._client.write_ungated(gone, retire=True):
            self._outcome.retired += count

    def _step(self, count: int) -> None:
        self._progress.stored += count


def _levels(drafts: Sequence[NodeDraft]) -> Iterator[list[NodeDraft]]:
    """The drafts by depth, so that a parent is stored before its children."""
    depths: dict[str, int] = {}
    levels: dict[int, list[NodeDraft]] = {}
    for draft in drafts:  # parents come first
        depth = depths[draft.node.id] = depths.get(draft.parent, -1) + 1
        levels.setdefault(depth, []).append(draft)
    for depth in sorted(levels):
        yield levels[depth]


def _is_same(node: Node, existing: Node | None) -> bool:
    return existing is not None and (existing.title, existing.body) == (node.title, node.body)
