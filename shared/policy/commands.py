"""Simple commands, assignments, declarations and redirections."""

import re
from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from shared.policy import effects
from shared.policy.call import Call, judge_variable
from shared.policy.expansion import UNKNOWN, holds_subscript
from shared.policy.parser import are_adjacent, dropped_dash
from shared.policy.scope import NOTHING, UNREAD, Scope, Stream, Word
from shared.policy.shell import Shell
from shared.policy.words import Expander

if TYPE_CHECKING:
    from tree_sitter import Node


_IN, _BOTH = {"<"}, {"<>"}
_BODY_STATEMENTS = {"command", "list", "redirected_statement", "subshell", "compound_statement"}
_TABBED = re.compile(r"(?:^|\n)\t").search
_END = "END-OF-BODY"
_BACKQUOTED = re.compile(r"(?<!\\)`((?:\\.|[^`\\])*)`", re.DOTALL)
"""The grammar leaves backquotes within a here-document to be found."""


class Redirects:
    """The redirections of one command; ``stdin`` is None if it has no input."""

    def __init__(self, shell: Shell, scope: Scope) -> None:
        self.shell, self.scope = shell, scope
        self.stdin: Stream | None = None
        self.targets: list[tuple[Word, bool]] = []
        self.arguments: list[Node] = []
        self.rest: list[Node] = []

    def take(self, node: "Node") -> None:
        """Judge one redirection."""
        kind = node.type
        if kind == "file_redirect":
            self._file(node)
        elif kind == "herestring_redirect":
            expander = Expander(self.scope, self.shell)
            named = [child for child in node.children if child.is_named]
            text = expander.text(named[-1]) if named else ""
            self.stdin = Stream(source="computed") if UNKNOWN in text else Stream(text)
        elif kind == "heredoc_redirect":
            self._document(node)

    def _file(self, node: "Node") -> None:
        shown = [child for child in node.children if child.type != "file_descriptor"]
        named = [child for child in shown if child.is_named]
        operator = next((child.type for child in shown if not child.is_named), "")
        count = 1
        while count < len(named) and are_adjacent(named[count - 1], named[count]):
            count += 1
        words = Expander(self.scope, self.shell).line(named[:count])
        if not words or "-" in operator:
            return
        target = words[0]
        # Words that follow the file belong to the command.
        self.arguments.extend(named[count:])
        if operator in {">&", "<&"} and target.text.rstrip("-").isdigit():
            return
        if operator in _IN or operator == "<&":
            self.stdin = self._read(target)
            return
        effects.write(self.shell, self.scope, target)
        self.targets.append((target, operator.endswith(">>")))
        if operator in _BOTH:
            self.stdin = self._read(target)

    def _read(self, target: Word) -> Stream:
        if target.text.startswith(("/dev/tcp", "/dev/udp")):
            self.shell.find("network.shell", target.text)
        return effects.feed(self.shell, self.scope, target)

    def _document(self, node: "Node") -> None:
        quoted, body = False, None
        for child in node.children:
            kind = child.type
            if kind == "heredoc_start":
                quoted = any(sign in (child.text or b"") for sign in b"'\"\\")
            elif kind == "heredoc_body":
                body = child
            elif kind == "file_redirect":
                self._file(child)
            elif kind == "herestring_redirect":
                self.take(child)
            elif kind == "pipeline" or kind in _BODY_STATEMENTS:
                self.rest.append(child)
            elif child.is_named and kind not in {"heredoc_end", "file_descriptor"}:
                self.arguments.append(child)
        text = ""
        if body is not None:
            raw = (body.text or b"").decode(errors="replace")
            if not quoted and not body.child_count and "$" in raw and _TABBED(raw):
                # The grammar leaves a body as it is whose lines begin with tabs.
                lines = "\n".join(line.lstrip("\t") for line in raw.split("\n"))
                self.shell.script(f": <<{_END}\n{lines}\n{_END}\n", self.scope.branch())
            text = raw if quoted else Expander(self.scope, self.shell).body(body)
            for match in _BACKQUOTED.finditer(raw if not quoted else ""):
                self.shell.script(match[1], self.scope.branch())
        self.stdin = Stream(text, source="computed" if "\0" in text else "")

    def finish(self, output: Stream) -> Stream:
        """What is left of ``output`` for the next in line, once files and what follows took theirs."""
        for target, append in self.targets:
            self.scope.keep(target, output, append=append)
        left = NOTHING if self.targets else output
        for node in self.rest:
            inner = self.scope.branch()
            inner.stdin = left
            left = self.shell.walk(node, inner)
        return left


def judge_redirect(shell: Shell, scope: Scope, node: "Node") -> Stream | None:
    """Judge one redirection alone; the stream it gives if it is an input."""
    redirects = Redirects(shell, scope)
    redirects.take(node)
    return redirects.stdin


MOST_CHOICES = 16
"""Combinations of values one command is judged with; beyond that the values count as unknown."""
_RECASTS = re.compile(r"-\w*[nliuc]\w*").fullmatch
"""Options of declare with which a variable's value is not the text it is given."""
_REDIRECTS = {"file_redirect", "herestring_redirect", "heredoc_redirect"}


def judge_command(shell: Shell, node: "Node", scope: Scope, extra: Sequence["Node"] = ()) -> Stream:
    """Judge a simple command with every value its variables may have; ``extra`` are further words of it."""
    names = [name for name in scope.several if name.encode() in (node.text or b"")]
    if not names or prod(len(scope.several[name]) for name in names) > MOST_CHOICES:
        return _judge_once(shell, node, scope, extra)
    kept, output = scope.several, UNREAD
    values = {name: scope.variables.get(name, UNKNOWN) for name in names}
    for choice in product(*(kept[name] for name in names)):
        scope.variables.update(zip(names, choice, strict=True))
        output = _judge_once(shell, node, scope, extra)
    scope.variables.update({name: value for name, value in values.items() if name in scope.several})
    return output


def _judge_once(shell: Shell, node: "Node", scope: Scope, extra: Sequence["Node"]) -> Stream:
    expander = Expander(scope, shell)
    parts: list[Node] = []
    assigned: dict[str, str] = {}
    before = stdin = scope.stdin
    for child in node.children:
        kind = child.type
        if kind == "variable_assignment":
            name, value = _read_assignment(shell, child, scope)
            assigned[name] = value
            if child.next_sibling is not None and are_adjacent(child, child.next_sibling):
                shell.find("unclear.spelling", f"The value of {name}")
        elif kind in _REDIRECTS:
            redirects = Redirects(shell, scope)
            redirects.take(child)
            if redirects.stdin is not None:
                stdin = redirects.stdin
        elif kind in {"subshell", "compound_statement"}:
            shell.walk(child, scope)
        elif child.is_named or parts:
            parts.append(child)
    words = expander.line(parts)
    if shell.documents and (lost := dropped_dash(node)):
        words.append(Word(lost))
    words.extend(expander.line(extra))
    scope.stdin = stdin
    try:
        return shell.call(words, scope, assigned)
    finally:
        scope.stdin = before


def _read_assignment(shell: Shell, node: "Node", scope: Scope) -> tuple[str, str]:
    """The variable, and what it becomes."""
    children = node.children
    name = (children[0].text or b"").decode(errors="replace")
    if children[0].type == "subscript":
        shell.visit(children[0], scope)
    value = _read_value(shell, children[-1], scope) if len(children) > 2 else ""
    if "[" in name or children[1].type == "+=":
        before = scope.value(name.partition("[")[0])
        value = before + (" " if "[" in name else "") + value if before != UNKNOWN else value
        name = name.partition("[")[0]
    return name, value


def _read_value(shell: Shell, node: "Node", scope: Scope) -> str:
    if node.type != "array":
        return Expander(scope, shell).text(node)
    return " ".join(word.text for word in _words(shell, node.children, scope))


def _words(shell: Shell, nodes: Sequence["Node"], scope: Scope) -> list[Word]:
    return Expander(scope, shell).line([child for child in nodes if child.is_named])


def judge_assignment(shell: Shell, node: "Node", scope: Scope) -> Stream:
    """Judge ``name=value`` without a command."""
    _assign(shell, node, scope)
    return NOTHING


def _assign(shell: Shell, node: "Node", scope: Scope) -> str:
    name, value = _read_assignment(shell, node, scope)
    judge_variable(Call(shell, scope, (), {}), name, value)
    if holds_subscript(value):
        shell.find("unclear.spelling", f"The value of {name}")
    scope.assign(name, value)
    return name


def judge_declaration(shell: Shell, node: "Node", scope: Scope) -> Stream:
    """Judge export, declare, local and their like."""
    words: list[Word] = []
    for child in node.children:
        if child.type == "variable_assignment":
            name = _assign(shell, child, scope)
            if any(_RECASTS(word.text) for word in words):
                scope.assign(name, UNKNOWN)
            words.append(Word("x=x"))
        else:
            words.extend(_words(shell, [child], scope))
    return shell.call([Word(node.children[0].type), *words], scope)


def judge_unset(shell: Shell, node: "Node", scope: Scope) -> Stream:
    """Judge that variables are taken away."""
    for word in _words(shell, node.children, scope):
        judge_variable(Call(shell, scope, (), {}), word.text, "")
        if holds_subscript(word.text):
            shell.find("unclear.spelling", word.text)
        scope.assign(word.text, UNKNOWN)
    return NOTHING
