"""Pieces of a file as nodes: their ids, their links to other notes, and the node above each."""

import re
import unicodedata
import uuid
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import msgspec

from services.memory.ingest.client import MemoryClient
from services.memory.ingest.kinds import choose_kind, score_piece
from services.memory.ingest.pieces import (
    MAX_TAGS,
    SEPARATOR,
    Document,
    IngestError,
    NoteLink,
    Piece,
    default_importance,
    hash_text,
)
from services.memory.linking.text_comparison import jaccard
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
    ``refused`` says why pieces are left out, ``unread`` what is no piece because it cannot be read.
    """

    file: str
    drafts: tuple[NodeDraft, ...]
    links: tuple[NoteLink, ...] = ()
    is_note: bool = False
    repeated: int = 0
    refused: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def draft_nodes(document: Document, file: str, modified: float, note_id: str = "") -> FileDrafts:
    """The nodes of a document; the note itself has the id ``note_id``, the others one made of their text.

    What bears no date was created when the file was ``modified`` (seconds since the epoch), or now if that is
    later. The pieces of a file follow one another by microseconds, as they do in the file. A piece that says
    it was created in the future, or before 1900, is left out; raises IngestError if no other is there.
    """
    document, refused = _leave_out_wrong(document)
    ids = [_identify(piece, note_id, _owner_of(file)) for piece in document.pieces]
    by_key = {piece.key: node_id for piece, node_id in zip(document.pieces, ids, strict=True) if piece.key}
    known = min(modified, datetime.now(UTC).timestamp())
    drafts: dict[str, NodeDraft] = {}
    for number, (piece, node_id) in enumerate(zip(document.pieces, ids, strict=True)):
        if node_id in drafts:
            continue
        node = _node(piece, node_id, file, _instant(piece.date, known, number))
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
        unread=document.unread,
    )


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
                _with_files(node, [other for other in find_others(node) if other != self._file])
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
    def compare(*nodes: Node) -> float:
        return jaccard(*(set(_WORD.findall(node.body.lower())) for node in nodes))

    pairs = sorted(
        (-alike, place, node.id, draft.node.id)
        for node in gone
        for place, draft in enumerate(new)
        if node.metadata.get("heading", "") == draft.node.metadata.get("heading", "")
        and (alike := compare(node, draft.node)) >= ALIKE
    )
    matched: dict[str, str] = {}
    for _, _, old, fresh in pairs:
        if fresh not in matched and old not in matched.values():
            matched[fresh] = old
    return matched


def _rename(drafts: FileDrafts, ids: dict[str, str]) -> FileDrafts:
    renamed = []
    for draft in drafts.drafts:
        node = msgspec.structs.replace(draft.node, id=ids.get(draft.node.id, draft.node.id))
        if headings := node.metadata.get("headings"):
            places = {name: ids.get(place, place) for name, place in headings.items()}
            node = msgspec.structs.replace(node, metadata={**node.metadata, "headings": places})
        renamed.append(msgspec.structs.replace(draft, node=node, parent=ids.get(draft.parent, draft.parent)))
    return msgspec.structs.replace(drafts, drafts=tuple(renamed))
