"""Pieces of a file as nodes: their ids, what they say of their origin, and what they hang on."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from services.memory.ingest.classification import classify, weigh
from services.memory.ingest.frontmatter import MAX_TAGS
from services.memory.ingest.piece import SEPARATOR, Document, Link, Piece, hash_text
from services.memory.ingest.wikilinks import fold_heading, key_id
from shared.contracts import NAME, Node, Source

CHANNEL = "ingest"
"""``source.channel`` of every node made here; its ``source.session`` is the file, so that its pieces stand
together."""

OPEN_LINKS = "open-links"
"""The tag of notes that link to notes which are not there yet."""

AGENTS_FOLDER = "agents"
"""What lies in ``agents/<name>/`` is the memory of that agent."""

MAX_HEADINGS = 300


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A node to store; ``parent`` is the id of the draft above it, with ``insist`` it passes the gate."""

    node: Node
    parent: str = ""
    insist: bool = False

    @property
    def digest(self) -> str:
        """What tells whether memory has it as it stands in the file."""
        return str(self.node.metadata["hash"])


class Drafts(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a file, parents first; ``links`` lead from the first of them, ``repeated`` stood there
    twice.
    """

    file: str
    drafts: tuple[Draft, ...]
    links: tuple[Link, ...] = ()
    is_note: bool = False
    repeated: int = 0


def draft_nodes(document: Document, file: str, modified: float, note_id: str = "") -> Drafts:
    """The nodes of a document; those of a note have ids of their own beneath ``note_id``, others of their
    text.

    What bears no date was created when the file was ``modified`` (seconds since the epoch), or now if that is
    later; the pieces of a file follow one another by microseconds, as they do in the file.
    """
    owner = note_id if document.note else ""
    ids = [_identify(piece, owner) for piece in document.pieces]
    by_key = {piece.key: node_id for piece, node_id in zip(document.pieces, ids, strict=True) if piece.key}
    known = min(modified, datetime.now(UTC).timestamp())
    drafts: dict[str, Draft] = {}
    for number, (piece, node_id) in enumerate(zip(document.pieces, ids, strict=True)):
        if node_id in drafts:
            continue
        node = _node(piece, node_id, file, _instant(piece.date, known, number))
        drafts[node_id] = Draft(
            node=node,
            parent=by_key.get(piece.parent, "") if piece.parent is not None else "",
            insist=piece.whole or piece.importance is not None,
        )
    if document.note:
        drafts[ids[0]] = _with_note(drafts[ids[0]], document, by_key)
    return Drafts(
        file=file,
        drafts=tuple(drafts.values()),
        links=document.links,
        is_note=bool(document.note),
        repeated=len(ids) - len(drafts),
    )


def _identify(piece: Piece, owner: str) -> str:
    if piece.key == "note":
        return owner
    return key_id(owner, piece.key or hash_text(" ".join(piece.body.split())))


def _node(piece: Piece, node_id: str, file: str, created: datetime) -> Node:
    kind = piece.kind or classify(piece.prose, piece.heading, piece.default_kind)
    importance = weigh(kind) if piece.importance is None else piece.importance
    title, body = _clean(piece.title)[:256], _clean(piece.body)
    tags = piece.tags[:MAX_TAGS]
    stated = (kind, str(importance), piece.date, piece.valid_to, piece.agent)
    metadata: dict[str, Any] = {
        "file": file,
        "line": piece.line,
        "hash": hash_text(title, body, tags, stated),
    }
    if piece.heading:
        metadata["heading"] = SEPARATOR.join(piece.heading)
    return Node(
        id=node_id,
        kind=kind,
        title=title,
        body=body,
        tags=tags,
        metadata=metadata,
        source=Source(agent=piece.agent or _owner_of(file), session=file, channel=CHANNEL),
        importance=importance,
        created_at=created.isoformat(timespec="microseconds"),
        valid_from=piece.date,
        valid_to=piece.valid_to,
    )


def _with_note(draft: Draft, document: Document, by_key: dict[str, str]) -> Draft:
    """The draft that stands for a note, with where its headings are and what it links to."""
    headings = {
        fold_heading(piece.heading[-1]): by_key[piece.key]
        for piece in reversed(document.pieces)
        if piece.heading
    }
    more: dict[str, Any] = {
        "note": document.note,
        "headings": dict(list(headings.items())[:MAX_HEADINGS]),
        "links": [str(link) for link in document.links],
    }
    if document.properties:
        more["properties"] = document.properties
    digest = hash_text(draft.digest, *(f"{name}={msgspec.json.encode(more[name]).decode()}" for name in more))
    node = draft.node
    metadata = {**node.metadata, **more, "hash": digest}
    return msgspec.structs.replace(draft, node=msgspec.structs.replace(node, metadata=metadata))


def _instant(date: str, modified: float, number: int) -> datetime:
    known = datetime.fromtimestamp(max(0.0, modified), UTC)
    moment = datetime.fromisoformat(date) if date else known
    return min(moment, known) + timedelta(microseconds=number)  # what is planned is known already


def _owner_of(file: str) -> str:
    folder, name, *rest = [*file.split("/"), ""]
    return name if folder == AGENTS_FOLDER and rest and any(rest) and NAME.fullmatch(name) else ""


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "")
