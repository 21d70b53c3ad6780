"""The shell: walks through a script as it would be run, and collects what is found in it."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

from shared.contracts import CommandVerdict
from shared.policy.expansion import UNKNOWN, unescape_document
from shared.policy.parser import DEEPEST, MOST_COMMANDS, Unreadable, is_misread, parse
from shared.policy.paths import guards
from shared.policy.rules import RULES
from shared.policy.scope import NOTHING, UNREAD, Scope, Stream, Word, concatenate

if TYPE_CHECKING:
    from tree_sitter import Node

_WEIGHT = {CommandVerdict.ALLOW: 0, CommandVerdict.ASK: 1, CommandVerdict.DENY: 2}
_SKIPPED = {"comment", "heredoc_start", "heredoc_end", "heredoc_content", "string_content"}
_SIDE_BY_SIDE = re.compile(rb"[\w.'\"]\s+-?[A-Za-z/~'\"]")
_SUBSTITUTED = re.compile(rb"\$\([^()]*\)")


class Grammar(NamedTuple):
    """How the parts of a script are judged, each by what comes after this module.

    ``statements``: each kind of node; ``programs``: a call of each program, by its name; ``call``: a simple
    command by its words, with the variables set for it alone; ``redirect``: a redirection, whose stream it
    returns if it is an input.
    """

    statements: Mapping[str, Callable[["Shell", "Node", Scope], Stream]]
    programs: Mapping[str, Callable[[Any], Stream | None]]
    call: Callable[["Shell", Scope, Sequence[Word], Mapping[str, str]], Stream]
    redirect: Callable[["Shell", Scope, "Node"], Stream | None]


class Shell:
    """Judges scripts in one workspace; ``rule`` and ``what`` are the strictest that was found so far.

    ``reach`` is what has to be reached over the network, and for which command. ``fetched``: some words of
    the script come from the network; ``documents``: it may hold here-documents.
    """

    def __init__(self, workspace: str, grammar: Grammar) -> None:
        self.workspace, self.grammar = workspace, grammar
        self.rule, self.what = "everyday", ""
        self.depth = 0
        self.left = MOST_COMMANDS
        self.reach: dict[str, str] = {}
        self.fetched = self.documents = False

    def find(self, rule: str, what: str = "") -> None:
        """Note that ``rule`` applies; of two that weigh the same the first counts."""
        if _WEIGHT[RULES[rule].verdict] > _WEIGHT[RULES[self.rule].verdict]:
            self.rule, self.what = rule, what

    def need(self, reach: str, what: str) -> None:
        """Note that ``what`` needs a network: a registry, a host, or hosts that are not known."""
        self.reach.setdefault(reach, what)

    def is_guarded(self, path: str) -> bool:
        """Whether a path of the workspace is a state of the office."""
        return guards(path[len(self.workspace) :])

    def script(self, text: str, scope: Scope, *, guessed: bool = False) -> Stream:
        """Judge a script given as text; its output if that is known. ``guessed``: it may be none."""
        try:
            root = parse(text)
        except Unreadable as error:
            if not guessed:
                self.find(error.rule, error.what)
            return UNREAD
        self.documents |= "<<" in text
        if is_misread(root):
            self.find("unclear.spelling", "A part of it")
        return self.walk(root, scope)

    def walk(self, node: "Node", scope: Scope) -> Stream:
        """Judge what ``node`` holds; raises Unreadable if it is nested too deeply."""
        kind = node.type
        if kind in _SKIPPED:
            return NOTHING
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unreadable("unclear.size", "commands within commands")
        try:
            handler = self.grammar.statements.get(kind)
            if handler is not None:
                return handler(self, node, scope)
            return self.sequence(node.children, scope)
        finally:
            self.depth -= 1

    def sequence(self, nodes: Sequence["Node"], scope: Scope) -> Stream:
        """Judge one after the other; what they print together."""
        outputs = []
        for node, after in zip_longest(nodes, nodes[1:]):
            if node.is_named:
                # What runs in the background sets nothing here.
                outputs.append(self.walk(node, scope.branch() if after and after.type == "&" else scope))
        return concatenate(outputs)

    def call(self, words: Sequence[Word], scope: Scope, assigned: dict[str, str] | None = None) -> Stream:
        """Judge one simple command by its words; ``assigned`` are the variables set for it alone."""
        if not words:
            for name, value in (assigned or {}).items():
                scope.assign(name, value)
            return NOTHING
        self.left -= 1
        self.depth += 1
        if self.left < 0 or self.depth > DEEPEST:
            raise Unreadable("unclear.size", f"more than {MOST_COMMANDS} commands")
        try:
            return self.grammar.call(self, scope, words, assigned or {})
        finally:
            self.depth -= 1

    def function(self, name: str, words: Sequence[Word], scope: Scope) -> Stream:
        """Judge a call of a function of the script itself."""
        if name in scope.active:
            if multiplies(scope.functions[name], name):
                self.find("exhaust.fork-bomb", name)
            return UNREAD
        inner = scope.branch()
        inner.active = (*scope.active, name)
        for number, word in enumerate(words[:9], 1):
            inner.assign(str(number), word.text)
        everything = " ".join(word.text for word in words)
        inner.assign("@", everything)
        inner.assign("*", everything)
        output = self.walk(scope.functions[name], inner)
        scope.adopt(inner)
        return output

    def visit(self, node: "Node", scope: Scope) -> None:
        """Judge the commands within words, tests and arithmetic."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unreadable("unclear.size", "expressions within expressions")
        if node.type == "arithmetic_expansion":
            self.judge_arithmetic(node)
        if node.type == "command_substitution":
            self.substitute(node, scope)
        elif node.type == "process_substitution":
            self.process(node, scope)
        elif b"$" in (node.text or b"") or b"`" in (node.text or b"") or b"(" in (node.text or b""):
            for child in node.children:
                if child.child_count:
                    self.visit(child, scope)
        self.depth -= 1

    def judge_arithmetic(self, node: "Node") -> None:
        """Two words side by side are no arithmetic: the shell may take them for a command."""
        if _SIDE_BY_SIDE.search(_SUBSTITUTED.sub(b"0", node.text or b"")):
            self.find("unclear.syntax")

    def substitute(self, node: "Node", scope: Scope) -> str:
        """Judge a command substitution; its output without the last newline, or UNKNOWN."""
        inner = scope.branch()
        inner.stdin = scope.stdin
        if (text := node.text or b"").startswith(b"`") and b"\\`" in text:
            # Backquotes within backquotes: the grammar leaves the inner ones as they are.
            self.script(unescape_document(text[1:-1].decode(errors="replace")), inner)
            return UNKNOWN
        output, fed = NOTHING, None
        for child in node.children:
            if child.type == "file_redirect":
                fed = self.grammar.redirect(self, inner, child) or fed
                output = fed or NOTHING
            elif child.is_named:
                output = self.walk(child, inner)
        self.fetched |= output.source == "network"
        return output.text.rstrip("\n") if output.text is not None else UNKNOWN

    def process(self, node: "Node", scope: Scope) -> str:
        """Judge a process substitution; the path of its pipe, which represents its output."""
        inner = scope.branch()
        output = self.sequence(node.children, inner)
        path = f"/dev/fd/{60 + len(scope.files)}"
        scope.files[path] = output
        return path


def multiplies(body: "Node", name: str) -> bool:
    """Whether a function that calls itself does so more than once, or without waiting."""
    text = body.text or b""
    return text.count(name.encode()) > 1 or b"|" in text or b"&" in text.replace(b"&&", b"")
