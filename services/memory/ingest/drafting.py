"""Pieces of a file as nodes: their ids, their links to other notes, and the node above each."""

import re
import unicodedata
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import msgspec

from services.memory.ingest.fields import MAX_TAGS
from services.memory.ingest.kinds import choose_kind, score_piece
from services.memory.ingest.pieces import (
    SEPARATOR,
    Document,
    IngestError,
    NoteLink,
    Piece,
    default_importance,
    hash_text,
)
from services.memory.writes.gate import EARLIEST, find_wrong_date
from shared.contracts import NAME, Node, Source
from shared.memory.ownership import AGENTS_FOLDER, CHANNEL, GLOBAL

NAMESPACE = uuid.UUID("6f0b6a0e-6c44-5d0e-9a55-6d61696c726d")
"""Of all ids made here; another one would make every known file a new one."""

MAX_LINKS = 200  # The most links of one note that are followed

WIKI = re.compile(r"!?\[\[([^\[\]\n|]{1,300})(?:\|[^\[\]\n]*)?\]\]")
INLINE = re.compile(
    r"!?\[[^\[\]\n]{0,300}\]\(<?([^()\n<>]{1,300}?\.(?:md|markdown)(?:#[^()\n<>\s]*)?)>?(?:\s+\"[^\"\n]*\")?\)"
)
CODE = re.compile(r"(`{1,3})(?!`)[^\n]{1,500}?(?<!`)\1(?!`)")
ATTACHMENT = re.compile(
    r"\.(?:png|jpe?g|gif|svg|webp|bmp|avif|pdf|mp[34]|m4a|wav|ogg|flac|webm|mov|mkv|canvas|base|zip|csv|xlsx?|docx?|pptx?|html?)$",
    re.IGNORECASE,
)
"""The endings of what notes embed and is no note: ``![[picture.png]]``."""

OPEN_LINKS = "open-links"  # The tag of notes that link to notes which are not there yet

FOR_ALL = ("AGENTS.MD", "USER.MD")
"""Files whose passages are tagged GLOBAL: the rules of all agents, and the people they work for."""

MAX_HEADINGS = 300


def find_links(prose: str) -> tuple[NoteLink, ...]:
    """The links to other notes in a text without code, each once, in their order."""
    text = CODE.sub(" ", prose)
    found = [match[1] for match in WIKI.finditer(text)]
    found += [unquote(match[1]) for match in INLINE.finditer(text) if "://" not in match[1]]
    links = (_parse(target) for target in found)
    return tuple(dict.fromkeys(link for link in links if link))[:MAX_LINKS]


def _parse(target: str) -> NoteLink | None:
    name, _, heading = target.strip().partition("#")
    name = name.strip().removesuffix("\\").strip()  # "\|" stands in tables
    if not name or ATTACHMENT.search(name):
        return None
    heading = heading.rpartition("#")[2].strip()
    return NoteLink(strip_ending(name).strip("/"), "" if heading.startswith("^") else heading)


def strip_ending(path: str) -> str:
    """A note's path as links name it."""
    return re.sub(r"\.(md|markdown)$", "", path, flags=re.IGNORECASE)


def normalise_name(name: str) -> str:
    """A name as it is compared: without regard to case, to how accents are encoded, and to backslashes."""
    return unicodedata.normalize("NFC", name.replace("\\", "/")).casefold().strip()


def normalise_heading(heading: str) -> str:
    """A heading as links name it: letters and digits alone count."""
    return " ".join(re.findall(r"\w+", normalise_name(heading)))


def name_id(name: str) -> str:
    """The id of the note that is called ``name``, wherever it lies."""
    return str(uuid.uuid5(NAMESPACE, "note\0" + normalise_name(name).rpartition("/")[2]))


def path_id(path: str) -> str:
    """The id of the note at ``path``, if another one has the name already."""
    return str(uuid.uuid5(NAMESPACE, "path\0" + normalise_name(strip_ending(path))))


def text_id(key: str) -> str:
    """The id of a text wherever it lies, by its digest."""
    return str(uuid.uuid5(NAMESPACE, f"text\0{key}"))


def candidate_ids(link: NoteLink, source: str) -> list[str]:
    """The ids that the note a link means can have, the nearest first; ``source`` is the file that contains
    it.

    A link names a path from the folder of its note or from one above it, or a unique name.
    """
    folders = source.split("/")[:-1]
    target = _resolve_dots(link.target, folders)
    paths = ["/".join([*folders[:depth], target]) for depth in range(len(folders), -1, -1)]
    return list(dict.fromkeys([*map(path_id, paths), name_id(target)]))


def matches_path(link: NoteLink, file: str) -> bool:
    """Whether a note at ``file`` can be what ``link`` means: its path ends as the link's does."""
    wanted = normalise_name(link.target.lstrip("./")).split("/")
    return normalise_name(strip_ending(file)).split("/")[-len(wanted) :] == wanted


def _resolve_dots(target: str, folders: Iterable[str]) -> str:
    parts: list[str] = list(folders) if target.startswith(("./", "../")) else []
    for part in target.replace("\\", "/").split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    return "/".join(parts)


class NodeDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A node to store; ``parent`` is the id of the draft above it, with ``insist`` it passes the gate.

    ``unclear`` is its piece if its kind is to be settled by its meaning.
    """

    node: Node
    parent: str = ""
    insist: bool = False
    unclear: Piece | None = None

    @property
    def digest(self) -> str:
        """The digest of the content, which shows whether memory has it as the file does."""
        return str(self.node.metadata["hash"])


class FileDrafts(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a file, parents first; ``links`` are those of the first, ``repeated`` counts copies,
    ``refused`` says why pieces are left out.
    """

    file: str
    drafts: tuple[NodeDraft, ...]
    links: tuple[NoteLink, ...] = ()
    is_note: bool = False
    repeated: int = 0
    refused: tuple[str, ...] = ()


def draft_nodes(document: Document, file: str, modified: float, note_id: str = "") -> FileDrafts:
    """The nodes of a document; the note itself has the id ``note_id``, the others one made of their text.

    What bears no date was created when the file was ``modified`` (seconds since the epoch), or now if that is
    later; in a file of several days on the first of them, as what a later day says changes it. The pieces of
    a file follow one another by microseconds, as they do in the file. A piece that says it was created in the
    future, or before 1900, is left out; raises IngestError if no other is there.
    """
    document, refused = _leave_out_wrong(document)
    ids = [_identify(piece, note_id, _owner_of(file)) for piece in document.pieces]
    by_key = {piece.key: node_id for piece, node_id in zip(document.pieces, ids, strict=True) if piece.key}
    known = min(modified, datetime.now(UTC).timestamp())
    first = _find_first_day(document)
    drafts: dict[str, NodeDraft] = {}
    for number, (piece, node_id) in enumerate(zip(document.pieces, ids, strict=True)):
        if node_id in drafts:
            continue
        node = _node(piece, node_id, file, _instant(piece.date or first, known, number))
        drafts[node_id] = NodeDraft(
            node=node,
            parent=by_key.get(piece.parent, "") if piece.parent is not None else "",
            insist=piece.whole or piece.importance is not None,
            unclear=None if piece.kind else piece,
        )
    if document.note:
        drafts[ids[0]] = _with_note(drafts[ids[0]], document, by_key)
    return FileDrafts(
        file=file,
        drafts=tuple(drafts.values()),
        links=document.links,
        is_note=bool(document.note),
        repeated=len(ids) - len(drafts),
        refused=refused,
    )


def _find_first_day(document: Document) -> str:
    """The first of the days that the pieces name; "" if there are not several."""
    days = sorted({piece.date for piece in document.pieces if piece.date})
    return days[0] if len(days) > 1 else ""


def _leave_out_wrong(document: Document) -> tuple[Document, tuple[str, ...]]:
    """The document without the pieces whose time of creation cannot be right, and why for each of these.

    The outline of a note stays, without that time.
    """
    now = datetime.now(UTC).timestamp()
    kept: list[Piece] = []
    refused: list[str] = []
    for piece in document.pieces:
        reason = find_wrong_date(piece.created, now)
        if reason and not (piece.key == "note" and len(document.pieces) > 1):
            refused.append(f"line {piece.line}: {reason}")
        else:
            kept.append(msgspec.structs.replace(piece, date="") if reason else piece)
    if refused and not any(piece.key != "note" for piece in kept):
        raise IngestError(refused[0])
    return msgspec.structs.replace(document, pieces=tuple(kept)), tuple(refused)


def _identify(piece: Piece, note_id: str, owner: str) -> str:
    """The id of a piece; one text in two files is one node, unless one of them is an agent's own."""
    if piece.key == "note":
        return note_id
    key = piece.key or hash_text(" ".join(piece.body.split()))
    return text_id(f"{key}\0{owner}" if owner else key)


def _node(piece: Piece, node_id: str, file: str, created: datetime) -> Node:
    kind = piece.kind or choose_kind(score_piece(piece))
    importance = default_importance(kind) if piece.importance is None else piece.importance
    title, body = _clean(piece.title)[:256], _clean(piece.body)
    tags = ((GLOBAL,) if file.upper() in FOR_ALL else ()) + piece.tags
    tags = tuple(dict.fromkeys(tags))[:MAX_TAGS]
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


def _with_note(draft: NodeDraft, document: Document, by_key: dict[str, str]) -> NodeDraft:
    """The draft of the note itself, with its headings and links."""
    headings = {
        normalise_heading(piece.heading[-1]): by_key[piece.key]
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
    moment = moment if moment >= EARLIEST else known  # of something old one writes today
    return min(moment, known) + timedelta(microseconds=number)  # what is planned is known already


def _owner_of(file: str) -> str:
    folder, name, *rest = [*file.split("/"), ""]
    return name if folder == AGENTS_FOLDER and rest and any(rest) and NAME.fullmatch(name) else ""


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "")
