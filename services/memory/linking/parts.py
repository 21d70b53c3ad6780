"""A node as the statements that it makes, and as two nodes: what still holds of it, and what is ended."""

import re
import uuid
from collections.abc import Collection
from itertools import chain

import msgspec

from services.memory.linking import claim_words as table
from services.memory.writes.change import embedded_text
from shared.contracts import Node
from shared.text.prose import split_title

SEPARATOR = " › "  # Between the parts of a title: a file and its headings

MOST = 8  # Statements of a text; what comes after them is one with the last

PART = "part_of"  # In the metadata of what was ended of a node: the id of that node

_SPACE = uuid.UUID("5c1f7f0e-53c2-5f0b-8b8e-6f2d4a0e9c11")
_BETWEEN = re.compile(
    r"((?<=[.!?])(?<!\b[DM]r\.)(?<!\bM[rs]s\.)(?<!\b[ei]\.[ge]\.)\s+(?=[^\sa-z])|[ \t]*\n\s*|;\s+)"
)
_AND = re.compile(r",? and (?=([a-z]+)\b)")
_WORD = re.compile(r"\S+")


def divide(node: Node) -> tuple[str, ...]:
    """What a node states, one sentence a statement; two if the second half of it has its verb but no subject
    ("The gateway talks to Adyen, and is owned by Joao"). A body that explains what the title states is one
    with it.
    """
    if node.body and not (name_heading(node) or _begins(node)):
        return (embedded_text(node),)
    return tuple(chain.from_iterable(clauses for _, clauses, _ in _read(_text(node))))


def name_heading(node: Node) -> str:
    """The title of a node, if it is no statement but stands above those of the body; else empty."""
    above = SEPARATOR in node.title or not any(map(_is_verb, node.title.casefold().split()[1:]))
    return node.title if node.body and above and not _begins(node) else ""


def _begins(node: Node) -> bool:
    """Whether the title is the beginning of the body."""
    return node.body.startswith(node.title.rstrip("…."))


def take_apart(node: Node, ended: Collection[str], until: str) -> tuple[Node, Node]:
    """The node without the ``ended`` ones of its statements, and a node of these, which held ``until`` then.

    The second has an id made of the first one's and its text, and the source, tags and times of it.
    """
    kept, gone = [], []
    for sentence, clauses, after in _read(_text(node)):
        left = [clause for clause in clauses if clause not in ended]
        gone += [clause for clause in clauses if clause in ended]
        if len(left) == len(clauses):
            kept.append(sentence + after)
        elif left:
            kept.append(f"{left[0].rstrip('.')}.{after}")
    updated = node.updated_at or node.created_at
    rest = msgspec.structs.replace(node, **_fields(node, "".join(kept).strip(" ;\n")), updated_at=updated)
    text = " ".join(gone)
    part = msgspec.structs.replace(
        node,
        **_fields(node, text),
        id=str(uuid.uuid5(_SPACE, f"{node.id}\0{text}")),
        metadata={**node.metadata, PART: node.id},
        valid_to=until,
        updated_at=updated,
        version=0,
    )
    return rest, part


def _text(node: Node) -> str:
    return node.body or node.title


def _fields(node: Node, text: str) -> dict[str, str]:
    if heading := name_heading(node):
        return {"title": heading, "body": text}
    title, body = split_title(text)
    return {"title": title, "body": body}


def _read(text: str) -> list[tuple[str, list[str], str]]:
    """The sentences of a text, each with its clauses and what stands between it and the next."""
    pieces = _BETWEEN.split(text, MOST - 1)
    read = zip(pieces[::2], [*pieces[1::2], ""], strict=True)
    return [(sentence, _clauses(sentence), after) for sentence, after in read if sentence.strip()]


def _clauses(sentence: str) -> list[str]:
    match = _AND.search(sentence)
    if match is None or not _is_verb(match[1]):
        return [sentence]
    words = list(_WORD.finditer(sentence[: match.start()]))
    at = next((word.start() for word in words[1:] if _is_verb(word[0])), None)
    if at is None:
        return [sentence]
    return [sentence[: match.start()], sentence[:at] + sentence[match.end() :]]


def _is_verb(word: str) -> bool:
    return word in table.BEING | table.AUXILIARIES or (
        word.endswith(("s", "ed")) and table.root(word) in table.VERBS
    )
