"""Nodes of the grammar's tree, and what it takes apart although the shell does not."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

QUOTED = {"string", "raw_string", "ansi_c_string", "translated_string"}
_ESCAPED = re.compile(r"(?:\\.)+", re.DOTALL).fullmatch


def without_signs(nodes: Sequence["Node"]) -> list["Node"]:
    """The grammar takes the sign of ``$"text"`` for a word of its own; it means a translation."""
    following = [*nodes[1:], None]
    return [
        node
        for node, after in zip(nodes, following, strict=True)
        if node.type != "$" or after is None or "string" not in {after.type, _first_kind(after)}
    ]


def _first_kind(node: "Node") -> str:
    return node.children[0].type if node.children else ""


def touch(node: "Node", after: "Node") -> bool:
    """Whether nothing but an escaped sign is between two nodes."""
    gap = after.start_byte - node.end_byte
    return gap == 0 or (gap > 1 and _ESCAPED(gap_between(node, after)) is not None)


def gap_between(node: "Node", after: "Node") -> str:
    """The text between two nodes of the same parent."""
    parent = node.parent
    if parent is None:
        return ""
    start = parent.start_byte
    between = (parent.text or b"")[node.end_byte - start : after.start_byte - start]
    return between.decode(errors="replace")


def lost_word(node: "Node") -> str:
    """The ``-`` of ``cat - <<END``: the grammar leaves it out."""
    last = node
    while last.next_sibling is None and last.parent is not None and last.parent.end_byte == node.end_byte:
        last = last.parent
    after = last.next_sibling
    if after is None or after.type != "heredoc_redirect":
        return ""
    return gap_between(last, after).strip()


def text_of(node: "Node") -> str:
    """The text of a node."""
    return (node.text or b"").decode(errors="replace")


def is_quoted(node: "Node") -> bool:
    """Whether a word stays a word even when nothing is in it."""
    if node.type in QUOTED:
        return True
    return node.type in {"concatenation", "command_name"} and any(is_quoted(child) for child in node.children)
