"""The pieces of a file that memory has already: unchanged under its id, or edited since."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from services.memory.ingest.drafting import FileDrafts, NodeDraft
from services.memory.ingest.sharing import find_others
from shared.contracts import Node

ALIKE = 0.5
"""The share of words, of all that either has, from which a piece is one that was edited."""

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
