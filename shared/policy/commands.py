"""Simple commands, assignments and declarations: their words are put together and judged."""

import re
from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from shared.policy.call import Call
from shared.policy.expansion import UNKNOWN
from shared.policy.nodes import lost_word, touch
from shared.policy.quoting import holds_subscript
from shared.policy.redirects import Redirects
from shared.policy.scope import NOTHING, UNREAD, Scope, Stream
from shared.policy.words import Spelling, Word

if TYPE_CHECKING:
    from tree_sitter import Node

    from shared.policy.reader import Reader

MOST_CHOICES = 16
"""Combinations of values one command is judged with; beyond that the values count as unknown."""
_RECASTS = re.compile(r"-\w*[nliuc]\w*").fullmatch
"""Options of declare with which a variable's value is not the text it is given."""
_REDIRECTS = {"file_redirect", "herestring_redirect", "heredoc_redirect"}


def judge_command(reader: "Reader", node: "Node", scope: Scope, extra: Sequence["Node"] = ()) -> Stream:
    """Judge a simple command with every value its variables may have; ``extra`` are further words of it."""
    names = [name for name in scope.several if name.encode() in (node.text or b"")]
    if not names or prod(len(scope.several[name]) for name in names) > MOST_CHOICES:
        return _judge_once(reader, node, scope, extra)
    kept, output = scope.several, UNREAD
    values = {name: scope.variables.get(name, UNKNOWN) for name in names}
    for choice in product(*(kept[name] for name in names)):
        scope.variables.update(zip(names, choice, strict=True))
        output = _judge_once(reader, node, scope, extra)
    scope.variables.update({name: value for name, value in values.items() if name in scope.several})
    return output


def _judge_once(reader: "Reader", node: "Node", scope: Scope, extra: Sequence["Node"]) -> Stream:
    spelling = Spelling(scope, reader)
    parts: list[Node] = []
    assigned: dict[str, str] = {}
    for child in node.children:
        kind = child.type
        if kind == "variable_assignment":
            name, value = _read_assignment(reader, child, scope)
            assigned[name] = value
            if child.next_sibling is not None and touch(child, child.next_sibling):
                reader.find("unclear.spelling", f"The value of {name}")
        elif kind in _REDIRECTS:
            redirects = Redirects(reader, scope)
            redirects.take(child)
            if redirects.stdin is not None:
                scope = scope.branch()
                scope.stdin = redirects.stdin
        elif kind in {"subshell", "compound_statement"}:
            reader.walk(child, scope)
        elif child.is_named or parts:
            parts.append(child)
    words = spelling.line(parts)
    if reader.documents and (lost := lost_word(node)):
        words.append(Word(lost))
    words.extend(spelling.line(extra))
    if spelling.too_many:
        reader.find("exhaust.large", "A range of words")
    return reader.call(words, scope, assigned)


def _read_assignment(reader: "Reader", node: "Node", scope: Scope) -> tuple[str, str]:
    """The variable, and what it becomes."""
    children = node.children
    name = (children[0].text or b"").decode(errors="replace")
    if children[0].type == "subscript":
        reader.visit(children[0], scope)
    value = _read_value(reader, children[-1], scope) if len(children) > 2 else ""
    if "[" in name or children[1].type == "+=":
        before = scope.value(name.partition("[")[0])
        value = before + (" " if "[" in name else "") + value if before != UNKNOWN else value
        name = name.partition("[")[0]
    return name, value


def _read_value(reader: "Reader", node: "Node", scope: Scope) -> str:
    if node.type != "array":
        return Spelling(scope, reader).text(node)
    return " ".join(word.text for word in _words(reader, node.children, scope))


def _words(reader: "Reader", nodes: Sequence["Node"], scope: Scope) -> list[Word]:
    return Spelling(scope, reader).line([child for child in nodes if child.is_named])


def judge_assignment(reader: "Reader", node: "Node", scope: Scope) -> Stream:
    """Judge ``name=value`` without a command."""
    _assign(reader, node, scope)
    return NOTHING


def _assign(reader: "Reader", node: "Node", scope: Scope) -> str:
    name, value = _read_assignment(reader, node, scope)
    Call(reader, scope, (), {}).judge_variable(name, value)
    if holds_subscript(value):
        reader.find("unclear.spelling", f"The value of {name}")
    scope.assign(name, value)
    return name


def judge_declaration(reader: "Reader", node: "Node", scope: Scope) -> Stream:
    """Judge export, declare, local and their like."""
    words: list[Word] = []
    for child in node.children:
        if child.type == "variable_assignment":
            name = _assign(reader, child, scope)
            if any(_RECASTS(word.text) for word in words):
                scope.assign(name, UNKNOWN)
            words.append(Word("x=x"))
        else:
            words.extend(_words(reader, [child], scope))
    return reader.call([Word(node.children[0].type), *words], scope)


def judge_unset(reader: "Reader", node: "Node", scope: Scope) -> Stream:
    """Judge that variables are taken away."""
    for word in _words(reader, node.children, scope):
        Call(reader, scope, (), {}).judge_variable(word.text, "")
        if holds_subscript(word.text):
            reader.find("unclear.spelling", word.text)
        scope.assign(word.text, UNKNOWN)
    return NOTHING
