"""The write gate: what clients may send, whose it is, why something is refused and what to do about it."""

import difflib
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from services.memory.graph.decay import is_exempt
from services.memory.linking.rules import is_assertion
from services.memory.linking.statements import have_other_values
from services.memory.linking.text_comparison import find_difference
from services.memory.writes.change import embedded_text
from shared import subjects
from shared.contracts import Edge, MemoryWrite, Node, Rejection, Relation, Source
from shared.contracts.base import amended
from shared.memory.ownership import find_owner, is_kept_from, is_person
from shared.text.prose import split_title

if TYPE_CHECKING:
    from services.memory.retrieval.view import View

MIN_CHARACTERS = 15
MIN_WORDS = 3
"""What an assertion needs, title and body together, in different words: "Alice lives in Rome" is enough,
"Port is 4222" (of what?) is not. An event or a task needs two words; the name of an agent and a turn of a
conversation, one."""

KNOWN = 0.92  # The cosine above which an assertion is known, whatever its kind

KNOWN_OF_KIND = 0.85  # The same for assertions of one kind

NEW_WORDS = 0.34
NEW_WORDS_OF_KIND = 0.2
"""The shares of its words that may be new, and it says nothing new: above KNOWN and above KNOWN_OF_KIND."""

NEEDED = ((0.9, 100), (0.8, 50))  # From such an importance on, so many characters must say why

FOUND = 0.7  # From this importance on, it must have a tag or a body

INSIST = "or store it as it is with insist (mailroom memory add --insist)"

NEAREST = 20  # The nodes that one is held against which was stored before it had a vector; some came after it

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+")
"""A word; a character of a script that is written without blanks counts as one."""

EARLIEST = datetime(1900, 1, 1, tzinfo=UTC)
AHEAD = 86_400.0  # Seconds by which a clock may be ahead: the day of a date depends on the place


def find_wrong_date(created_at: str, moment: float) -> str:
    """Why nothing that is written at ``moment`` was created then; empty if it may have been."""
    if not created_at:
        return ""
    created = datetime.fromisoformat(created_at)
    created = created if created.tzinfo else created.replace(tzinfo=UTC)
    if created < EARLIEST:
        return f"created_at {created_at[:10]} is before 1900: give the day on which it was so, or none"
    if created.timestamp() > moment + AHEAD:
        return (
            f"created_at {created_at[:10]} is in the future, by more than a day: a date that is to come is "
            "valid_from or valid_to, or part of the text"
        )
    return ""


def find_rejection(node: Node, nearest: Node | None, cosine: float) -> Rejection | None:
    """Why ``node`` is not to be stored, None if it is; a write with ``insist`` is not checked.

    ``nearest`` is the live node most like it by ``cosine``, itself apart. Checks, in this order:

    - thin: it says too little to be useful (see MIN_WORDS);
    - importance: from .7 it needs a tag or a body, from .8 fifty characters in all, from .9 a hundred;
      agents, tasks, events, turns and episodes, which matter for what they are, need neither;
    - known: it says nothing that is not there already: above a cosine of .92, or of .85 among assertions of
      one kind, unless numbers, names, negation or other words differ (see ``find_difference``): that is news.
      What took place is never known: two events are two. What no longer holds may be said again.
    """
    return _check_thin(node) or _check_importance(node) or _check_known(node, nearest, cosine)


def find_known(view: "View", ids: Sequence[str]) -> dict[str, Node]:
    """Which of these nodes, given in the order in which they were written, the gate would have refused as
    known had they had their vectors then, with what says the same: it came before them.
    """
    places = {node_id: place for place, node_id in enumerate(ids)}

    def age(node: Node) -> tuple[int, int]:
        return node.created_version, places.get(node.id, -1)

    known: dict[str, Node] = {}
    for node in view.nodes(ids):
        vector = view.vector(node.id)
        if vector is None or node.retired_version or not is_assertion(node):
            continue
        near = dict(view.similar(vector, NEAREST, KNOWN_OF_KIND))
        for other in view.nodes(near):
            is_earlier = other.id not in known and age(other) < age(node)
            if is_earlier and _check_known(node, other, near[other.id]) is not None:
                known[node.id] = other
                break
    return known


def _check_thin(node: Node) -> Rejection | None:
    text = embedded_text(node).strip()
    words, needed, letters = len(set(_WORD.findall(text.casefold()))), MIN_WORDS, MIN_CHARACTERS
    if not is_assertion(node):
        needed, letters = (2, 0) if node.kind in {"event", "task"} else (1, 0)
    if words >= needed and len(text) >= letters:
        return None
    article = "an" if node.kind[:1] in "aeiou" else "a"
    least = f"{needed} different words" + (f" and {letters} characters" if letters else "")
    return Rejection(
        check="thin",
        reason=f"{article} {node.kind} needs at least {least} in title and body together; "
        f"{text[:60]!r} has {words} and {len(text)}",
        suggestion="Say in a sentence what is so and of what, as in 'The port of the broker is 4222'; "
        + INSIST,
    )


def _check_importance(node: Node) -> Rejection | None:
    if not is_assertion(node) or node.importance < FOUND:
        return None
    length = len(embedded_text(node).strip())
    short = next((needed for importance, needed in NEEDED if node.importance >= importance), 0)
    if length < short:
        lacks = f"{short} characters in title and body together that say why; it has {length}"
    elif not node.tags and not node.body.strip():
        lacks = "a tag or a body, so that it is found and understood"
    else:
        return None
    return Rejection(
        check="importance",
        reason=f"an importance of {node.importance:g} needs {lacks}",
        suggestion=f"Add tags and a body that says why it matters, or lower it under {FOUND:g}; " + INSIST,
    )


def _check_known(node: Node, nearest: Node | None, cosine: float) -> Rejection | None:
    if nearest is None or nearest.id == node.id or nearest.valid_to:
        return None
    if find_owner(nearest) not in ("", find_owner(node)):  # who writes does not see it
        return None
    if not (is_assertion(node) and is_assertion(nearest)):
        return None
    if cosine > KNOWN:
        news = find_difference(embedded_text(node), embedded_text(nearest), NEW_WORDS)
    elif cosine > KNOWN_OF_KIND and node.kind == nearest.kind:
        news = find_difference(embedded_text(node), embedded_text(nearest), NEW_WORDS_OF_KIND)
    else:
        return None
    if news or have_other_values(embedded_text(node), embedded_text(nearest)):
        return None
    return Rejection(
        check="known",
        reason=f"memory has it already as {nearest.kind} {nearest.id}, "
        f"{nearest.title[:80]!r} (cosine {cosine:.2f})",
        suggestion=f"Read it with 'mailroom memory get {nearest.id}', and write under that id to change it "
        f"('mailroom memory add TITLE --id {nearest.id}'); " + INSIST,
        existing=nearest,
    )


MAX_ENTRIES = 1_000  # The most nodes or edges of one submission

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


TRUSTED = frozenset({subjects.USER, subjects.MEMORY_DAEMON})
"""Who may change everything, and name another author: people (imports), memory itself (files, links)."""

PROPOSAL = "proposal"  # ``provenance["by"]`` of an edge that stands for a change which only another may make


def author_of(write: MemoryWrite) -> str:
    """Whose a write is: its sender's, or a person's if the front desk keeps what one told it."""
    kept = write.sender == subjects.NEXUS and write.asker == subjects.USER
    return subjects.USER if kept else write.sender


def writer_of(write: MemoryWrite) -> str:
    """As whom a write finds what it changes (``find_reader``): one of the people if one is named."""
    if write.sender == subjects.MEMORY_DAEMON:
        return subjects.USER
    if author_of(write) != subjects.USER:
        return write.sender
    named = write.audience if write.sender == subjects.NEXUS else write.person
    return (
        subjects.USER
        if write.sender == subjects.USER and named in ("", subjects.USER)
        else subjects.PERSON + named
    )


def require_found(node: Node | None, writer: str) -> None:
    """Raise ValueError if a node is one of the people's alone, or a note of another agent for itself, and not
    the writer's: what cannot be read is not changed either, nor quoted in a proposal to.
    """
    if node is None:
        return
    if is_kept_from(node, writer):
        raise ValueError(f"{node.id} is not in memory, or is the memory of another person")
    reads = {subjects.USER, subjects.NEXUS, find_owner(node), node.source.agent, *node.tags}
    if find_owner(node) and not is_person(writer) and writer not in reads:
        raise ValueError(f"{node.id} is not in memory, or is the memory of another agent")


def sign_node(node: Node, sender: str) -> Node:
    """The node with its author: an agent's own is its own, people and memory may name any author or none.

    How often and when it was shown, and when it was changed, is what memory knows, whatever an agent says.
    """
    if not sender or sender in TRUSTED:
        return node
    source = msgspec.structs.replace(node.source, agent=sender)
    return amended(node, source=source, access_count=0, last_accessed_at="", updated_at="")


def sign_edge(edge: Edge, sender: str) -> Edge:
    """The edge with who made it, in ``provenance["agent"]``; an agent's without times of its own."""
    if not sender or sender in TRUSTED:
        return edge
    return amended(edge, provenance={**edge.provenance, "agent": sender}, created_at="", touched_at="")


def require_counter(write: MemoryWrite) -> None:
    """Raise ValueError if an agent counts how often nodes were shown."""
    if write.accessed and write.sender and write.sender not in TRUSTED:
        raise ValueError("memory counts itself how often a node was shown: leave out 'accessed'")


def may_change(sender: str, node: Node) -> bool:
    """Whether a sender may replace, supersede or retire a node: its author, people and memory may."""
    return sender in TRUSTED or node.source.agent == sender


def may_change_edge(sender: str, edge: Edge, start: Node | None) -> bool:
    """The same for an edge; one of nobody's is people's if it was made on purpose, else its ``start``'s."""
    if sender in TRUSTED:
        return True
    if author := edge.provenance.get("agent"):
        return bool(author == sender)
    return not is_exempt(edge.provenance) and start is not None and start.source.agent == sender


def propose_retiring(node: Node, sender: str, stamp: str) -> Node:
    """What stands for a wish of ``sender``, made at ``stamp``, that another's node be retired."""
    title = f"{sender} proposes to retire: {node.title}"[:256]
    return Node(title=title, kind="observation", importance=node.importance, created_at=stamp)


def proposal_id(sender: str, node_id: str) -> str:
    """The id of a sender's proposal for a node: one each, so that the next one replaces it."""
    return f"proposal-{hashlib.sha256(f'{sender} {node_id}'.encode()).hexdigest()[:32]}"


def dispute(proposal: str, node_id: str, what: str, weight: float = 1.0) -> Edge:
    """The edge that proposes ``what`` (replace, retire, supersede) for a node."""
    provenance: dict[str, Any] = {"by": PROPOSAL, "proposes": what}
    return Edge(
        from_id=proposal, to_id=node_id, relation=Relation.CONTRADICTS, weight=weight, provenance=provenance
    )
