"""A file's nodes into memory: what is new or changed is written, what is gone is retired, the rest is left
alone.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from services.memory.ingest.drafting import CHANNEL, Draft, Drafts
from services.memory.ingest.linking import Linking, link_edges, mark_open, parse_links
from services.memory.ingest.memory import Desk, run_all
from shared.contracts import Edge, EdgeKey, Node, Rejection, Relation

GONE = "gone"
"""In the metadata of a node whose text is no longer in its file: should the text come back, so does the
node."""

SECTION_WEIGHT = 0.9
"""Of an edge from a note or section to what stands beneath it."""

REASONS = 5
"""How many of the gate's reasons are kept for the log."""


class Outcome(msgspec.Struct, kw_only=True):
    """What became of a file's pieces: ``duplicates`` are elsewhere in memory, ``refused`` are too thin."""

    stored: int = 0
    updated: int = 0
    unchanged: int = 0
    duplicates: int = 0
    refused: int = 0
    retired: int = 0
    reasons: list[str] = []


class Storing:
    """One file on its way into memory.

    Passages go past the write gate one by one, so that the refusal of one bears on no other. Records,
    stretches of logs, and what stands for a note go around it: rows of a table are alike by nature, and a
    note is where links lead. Of these, only what is there word for word is left out. ``progress`` is told how
    many of how many are done.
    """

    def __init__(
        self, desk: Desk, linking: Linking, drafts: Drafts, progress: Callable[[int, int], None]
    ) -> None:
        self._desk = desk
        self._linking = linking
        self._drafts = drafts
        self._progress = progress
        self._done = 0
        self._outcome = Outcome(duplicates=drafts.repeated)
        self._stands_for: dict[str, str] = {}
        """What each draft is in memory: its own node, one that says the same, or what stands above it."""

    async def run(self) -> Outcome:
        """Store the drafts; raises Unstored where memory does not take them for another reason than its gate.

        Safe to be repeated after a crash at any point: what is there as the file has it is not written again.
        """
        known = await self._desk.find([draft.node.id for draft in self._drafts.drafts])
        for level in _levels(self._drafts.drafts):
            fresh = [draft for draft in level if not self._is_there(draft, known.get(draft.node.id))]
            passed = [draft for draft in fresh if draft.insist and not self._drafts.is_note]
            await self._put(passed, known)
            offered = [draft for draft in fresh if draft not in passed]
            await run_all(self._offer(draft, known.get(draft.node.id)) for draft in offered)
        await self._retire_others()
        return self._outcome

    def _is_there(self, draft: Draft, there: Node | None) -> bool:
        if there is None or (there.retired_version and there.metadata.get(GONE)):
            return False
        mine = there.metadata.get("file") == self._drafts.file
        if there.metadata.get("hash") != draft.digest and (mine or self._drafts.is_note):
            return False
        self._stands_for[draft.node.id] = self._above(draft) if there.retired_version else there.id
        self._outcome.unchanged += mine
        self._outcome.duplicates += not mine
        self._step(1)
        return True

    async def _put(self, drafts: Sequence[Draft], known: dict[str, Node]) -> None:
        async for count in self._desk.put([draft.node for draft in drafts]):
            self._step(count)
        for draft in drafts:
            self._settle(draft, known.get(draft.node.id), None)

    async def _offer(self, draft: Draft, there: Node | None) -> None:
        node, edges, unlink = draft.node, self._edge_above(draft), list[EdgeKey]()
        if self._drafts.is_note and draft is self._drafts.drafts[0]:
            ends = await self._linking.find_ends(self._drafts.links, self._drafts.file)
            node, edges = mark_open(node, ends), link_edges(node.id, ends)
            unlink = await self._find_cut(there, set(ends.values()))
        changed = there is not None
        rejection = await self._desk.offer(node, edges, unlink=unlink, insist=changed)
        if rejection is not None and draft.insist and not _is_same(node, rejection.existing):
            rejection = await self._desk.offer(node, edges, insist=True)
        self._settle(draft, there, rejection)
        self._step(1)

    def _settle(self, draft: Draft, there: Node | None, rejection: Rejection | None) -> None:
        if rejection is None:
            self._stands_for[draft.node.id] = draft.node.id
            self._outcome.stored += there is None
            self._outcome.updated += there is not None
            return
        self._stands_for[draft.node.id] = rejection.existing.id if rejection.existing else self._above(draft)
        self._outcome.duplicates += rejection.existing is not None
        self._outcome.refused += rejection.existing is None
        if len(self._outcome.reasons) < REASONS:
            self._outcome.reasons.append(f"line {draft.node.metadata['line']}: {rejection.reason}")

    def _above(self, draft: Draft) -> str:
        return self._stands_for.get(draft.parent, "")

    def _edge_above(self, draft: Draft) -> list[Edge]:
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
        ends = set((await self._linking.find_ends(gone, self._drafts.file)).values()) - kept - {"", there.id}
        return [EdgeKey(from_id=there.id, to_id=end) for end in sorted(ends)]

    async def _retire_others(self) -> None:
        """Retire what earlier states of the file had and this one has not."""
        mine = {draft.node.id for draft in self._drafts.drafts}
        gone = [
            msgspec.structs.replace(node, metadata={**node.metadata, GONE: True})
            for node in await self._desk.list(session=self._drafts.file)
            if node.id not in mine and node.source.channel == CHANNEL
        ]
        async for count in self._desk.put(gone, retire=True):
            self._outcome.retired += count

    def _step(self, count: int) -> None:
        self._done += count
        self._progress(self._done, len(self._drafts.drafts))


def _levels(drafts: Sequence[Draft]) -> Iterator[list[Draft]]:
    """The drafts by how deep they stand, so that what is above is stored before what hangs on it."""
    depths: dict[str, int] = {}
    levels: dict[int, list[Draft]] = {}
    for draft in drafts:  # parents stand first
        depth = depths[draft.node.id] = depths.get(draft.parent, -1) + 1
        levels.setdefault(depth, []).append(draft)
    for depth in sorted(levels):
        yield levels[depth]


def _is_same(node: Node, existing: Node | None) -> bool:
    return existing is not None and (existing.title, existing.body) == (node.title, node.body)
