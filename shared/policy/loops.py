"""Loops: what their variables may be, and whether they end."""

import re
from typing import TYPE_CHECKING

from shared.policy.expansion import UNKNOWN
from shared.policy.scope import UNREAD, Scope, Stream
from shared.policy.words import Spelling

if TYPE_CHECKING:
    from tree_sitter import Node

    from shared.policy.reader import Reader

_CONSTANT = re.compile(rb"(/bin/)?\btrue\b|! false|\btest\b|-(eq|ne|lt|gt|le|ge|n|z)\b|[\s:()\[\]=<>\d\"']")
"""What may be left of a condition that never changes: signs and numbers, no names."""
_MANY = re.compile(rb"\bseq\b[^)`|]*\b\d{4,}|\.\.\d{4,}\}|<=?\s*\d{4,}")
"""A count of a thousand rounds or more."""
_FALSE = {b"false", b"! true", b"/bin/false", b"! :"}
_PAUSES = (b"sleep", b"break", b"exit", b"return", b"read ", b"wait", b"inotifywait", b"kill ")


def judge_loop(reader: "Reader", node: "Node", scope: Scope) -> Stream:
    """Judge a loop of any kind: its body with every value its variable may have."""
    inner = scope.branch()
    body = node.child_by_field_name("body") or node
    _forget(body, inner)
    if node.type == "for_statement":
        _bind(reader, node, inner)
    text = body.text or b""
    background = b"&" in text.replace(b"&&", b"").replace(b">&", b"").replace(b"&>", b"")
    head = (node.text or b"")[: body.start_byte - node.start_byte]
    if background and b"wait" not in text and _MANY.search(head):
        reader.find("exhaust.fork-bomb", "This loop")
    if _never_ends(node):
        if background and b"wait" not in text:
            reader.find("exhaust.fork-bomb", "This loop")
        elif not any(pause in text for pause in _PAUSES):
            reader.find("exhaust.endless", "This loop")
    for child in node.children:
        if not child.is_named:
            continue
        if node.type == "for_statement" and child.id != body.id:
            continue
        reader.walk(child, inner)
    scope.join(inner)
    return UNREAD


def _bind(reader: "Reader", node: "Node", scope: Scope) -> None:
    bodies = {"do_group", "compound_statement"}
    named = [child for child in node.children if child.is_named and child.type not in bodies]
    if not named:
        return
    spelling = Spelling(scope, reader)
    values = tuple(word.text for word in spelling.line(named[1:]))
    if spelling.too_many:
        reader.find("exhaust.large", "A range of words")
    scope.offer((named[0].text or b"").decode(errors="replace"), values)


def _never_ends(node: "Node") -> bool:
    if node.type == "c_style_for_statement":
        condition = node.child_by_field_name("condition")
        return condition is None or (condition.text or b"").strip().isdigit()
    condition = node.child_by_field_name("condition")
    if node.type != "while_statement" or condition is None:
        return False
    text = (condition.text or b"").strip(b" ;\n")
    if node.children[0].type == "until":
        return text in _FALSE
    return not _CONSTANT.sub(b"", text)


def _forget(node: "Node", scope: Scope) -> None:
    """What the body assigns may already have changed when it begins another round."""
    stack = [node]
    while stack:
        current = stack.pop()
        if current.type == "variable_assignment":
            name = (current.children[0].text or b"").decode(errors="replace").partition("[")[0]
            scope.offer(name, (scope.value(name), UNKNOWN))
        stack.extend(child for child in current.children if child.child_count)


def multiplies(body: "Node", name: str) -> bool:
    """Whether a function that calls itself does so more than once, or without waiting."""
    text = body.text or b""
    return text.count(name.encode()) > 1 or b"|" in text or b"&" in text.replace(b"&&", b"")
