"""The syntax tree of a command, within bounds, and what the grammar gets wrong in it."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

LONGEST = 16_384
"""Bytes of a command that is still judged: far more than a person reads through, and quick to parse."""
DEEPEST = 40  # Levels of commands within commands; also what Python's own stack bears many times over
MOST_COMMANDS = 1_500  # Simple commands of one script that are judged, those in loops counted for every value


_WIDE = re.compile(r"[^\x00-\xff]")
_NO_COMMENT = re.compile(rb"(?<!\\)(?:\\\\)*\\[ \t]#|[^\s;&|()\\](?:\\\\)*\\\n#")
"""What the grammar takes for a comment although it belongs to a word, since an escaped sign precedes it."""
_SOCKET = re.compile(r"/dev/(?:tcp|udp)/[\w.:/-]+")
_SUSPECT = re.compile(rb"`|\$\{[^}]*[#%^,][^}]*\$\(|\n[ \t]*\\")
_HIDES = re.compile(rb"^\s|(?<!\\)(?:\\\\)*(?:`|\$\()")
"""A word that begins with the end of the line before it, or holds a substitution."""
_KEPT = {"raw_string", "ansi_c_string", "string_content", "comment", "heredoc_body", "heredoc_content"}
"""Leaves that are text to the shell too, or are looked through elsewhere."""
_SLOTS = "".join(map(chr, [*range(0xC0, 0x100), *range(0xA1, 0xAD), *range(0xAE, 0xC0)]))
_ANY = "\xe9"


class Unreadable(Exception):
    """A text that cannot be judged; the argument is the rule and what it found."""

    def __init__(self, rule: str, what: str = "") -> None:
        super().__init__(rule, what)
        self.rule, self.what = rule, what


@cache
def _parser() -> "Parser":
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def to_latin1(text: str) -> tuple[str, dict[int, str]]:
    """``text`` with one sign of Latin-1 for each beyond it, and the table that puts them back.

    The grammar's scanner looks signs up in C tables that end at 255: a sign beyond them may end the process.
    """
    wide = dict.fromkeys(_WIDE.findall(text))
    if not wide:
        return text, {}
    free = [sign for sign in _SLOTS if sign not in text]
    table = {ord(sign): slot for sign, slot in zip(wide, free, strict=False)}
    back = {ord(slot): chr(sign) for sign, slot in table.items()}
    return _WIDE.sub(_ANY, text.translate(table)), back


def parse(text: str) -> "Node":
    """The root of the tree; raises Unreadable for what is too long or not the shell's language."""
    if not text.isascii():
        text = _WIDE.sub(_ANY, text)
    source = text.encode()
    if len(source) > LONGEST:
        raise Unreadable("unclear.size", f"{len(source)} bytes")
    root = _parser().parse(source).root_node
    if root.has_error:
        socket = _SOCKET.search(text)
        raise Unreadable("network.shell", socket[0]) if socket else Unreadable("unclear.syntax")
    return root


def is_misread(root: "Node") -> bool:
    """Whether the grammar takes something for what it is not, so that a command in it would go unseen."""
    source = root.text or b""
    for match in _NO_COMMENT.finditer(source):
        node = root.descendant_for_byte_range(match.end() - 1, match.end())
        if node is not None and node.type == "comment":
            return True
    return bool(_SUSPECT.search(source)) and any(_HIDES.search(text) for text in _words(root))


def _words(root: "Node") -> Iterator[bytes]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.child_count:
            stack.extend(node.children)
        elif node.is_named and node.type not in _KEPT:
            yield node.text or b""


QUOTED = {"string", "raw_string", "ansi_c_string", "translated_string"}
_ESCAPED = re.compile(r"(?:\\.)+", re.DOTALL).fullmatch


def without_dollar_signs(nodes: Sequence["Node"]) -> list["Node"]:
    """The grammar takes the sign of ``$"text"`` for a word of its own; it means a translation."""
    following = [*nodes[1:], None]
    return [
        node
        for node, after in zip(nodes, following, strict=True)
        if node.type != "$"
        or after is None
        or "string" not in {after.type, (after.children[0].type if after.children else "")}
    ]


def are_adjacent(node: "Node", after: "Node") -> bool:
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


def dropped_dash(node: "Node") -> str:
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
