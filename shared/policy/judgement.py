"""Judges a command: interprets it as the shell would run it; the strictest of what is found counts."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING

from shared.contracts import CommandVerdict
from shared.policy import effects
from shared.policy.call import Call, Handler
from shared.policy.commands import Redirects
from shared.policy.expansion import UNKNOWN, unescape_document
from shared.policy.parser import DEEPEST, LONGEST, MOST_COMMANDS, Unreadable, is_misread, parse, to_latin1
from shared.policy.paths import HOME, WORKSPACE, guards, resolve
from shared.policy.programs import PROGRAMS
from shared.policy.rules import RULES, Rule, Ruling
from shared.policy.scope import NOTHING, UNREAD, Scope, Stream, Word, concatenate
from shared.policy.statements import STATEMENTS, judge_arithmetic, multiplies

if TYPE_CHECKING:
    from tree_sitter import Node

_MISLEADING = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ue000-\ue0ff\ufeff]"
)
"""Characters that are invisible, reorder text, or have a meaning of their own within the policy."""
_MISLED = ("unclear.spelling", "A sign that cannot be seen")
_SHOWN = 160
NEWLINE = "\u2424"  # Stands for a newline within an example
_NAMES = {
    "python": "the Python registry",
    "javascript": "the npm registry",
    "rust": "crates.io",
    "go": "the Go module proxy",
    "java": "Maven Central",
    "debian": "Debian's package servers",
    "network": "the hosts it needs",
}


def judge(command: str, *, workspace: str = "", granted: Collection[str] = ()) -> Ruling:
    """What the policy says of ``command``, run in the folder ``workspace`` (default: a nameless one).

    ``granted``: what may be reached, as in Ruling.reach; "network" covers every host. Never raises, and
    decides in bounded time: what is too long or too deep is not allowed. At the first call the rules are
    checked by their examples (50 ms); if one fails, nothing is allowed.
    """
    faults = find_faults()
    return _ruling(command, "unclear.fault", faults[0]) if faults else decide(command, workspace, granted)


@cache
def find_faults() -> tuple[str, ...]:
    """A sentence for each example that its rule is not found for, or is found for against its will."""
    return tuple(fault for name, rule in RULES.items() for fault in _faults_of(name, rule))


def _faults_of(name: str, rule: Rule) -> Iterator[str]:
    for text in filter(None, rule.stops.split("\n")):
        found = decide(text.replace(NEWLINE, "\n"))
        if found.rule != name:
            yield f"{text} is not stopped by {name} but decided by {found.rule}"
    for text in filter(None, rule.lets.split("\n")):
        if decide(text.replace(NEWLINE, "\n")).rule == name:
            yield f"{text} is stopped by {name}"


def decide(command: str, workspace: str = "", granted: Collection[str] = ()) -> Ruling:
    """As ``judge``, by rules that are taken for right."""
    plain = command.isascii() or len(command) > LONGEST
    text, back = (command, {}) if plain else to_latin1(command)
    folder = workspace.translate({ord(sign): chr(slot) for slot, sign in back.items()})
    if _MISLEADING.search(command):
        return _ruling(command, *_MISLED)
    shell = _judge(text, folder, lambda shell, scope: shell.script(text, scope))
    reach = {entry.translate(back): what.translate(back) for entry, what in shell.reach.items()}
    rule, verdict = shell.rule, RULES[shell.rule].verdict
    why = _explain(rule, shell.what.translate(back))
    missing = [entry for entry in reach if not _covers(granted, entry)]
    if missing and verdict is CommandVerdict.ALLOW:
        rule, verdict = f"reach.{missing[0].partition(':')[0]}", RULES["reach.host"].verdict
        names = " and ".join(_NAMES.get(entry, entry.removeprefix("host:")) for entry in missing[:4])
        why = RULES[rule].why.format(_shorten(reach[missing[0]]), names)
    return Ruling(command=command, verdict=verdict, rule=rule, why=why, reach=tuple(reach))


def judge_read(path: str, *, deep: bool = False, workspace: str = "") -> Ruling:
    """What the policy says of reading the file ``path``; ``deep``: of all in the folder.

    A relative path starts in ``workspace``. Never raises.
    """
    if _MISLEADING.search(path):
        return _ruling(path, *_MISLED)
    shell = _judge(path, workspace, lambda shell, scope: shell.read(path, scope, deep))
    return _ruling(path, shell.rule, shell.what)


def _judge(text: str, workspace: str, run: Callable[["Interpreter", Scope], object]) -> "Interpreter":
    shell = Interpreter((resolve(workspace, "/") or WORKSPACE) if workspace else WORKSPACE, PROGRAMS)
    if len(text) > LONGEST:
        shell.find("unclear.size", f"{len(text)} characters")
        return shell
    if not text.strip():
        shell.rule = "nothing"
        return shell
    try:
        run(shell, Scope(shell.workspace, NOTHING))
    except Unreadable as error:
        shell.find(error.rule, error.what)
    except RecursionError:
        shell.find("unclear.size", "commands within commands")
    except Exception as error:
        # A fault of the policy itself must let nothing through.
        shell.find("unclear.fault", type(error).__name__)
    return shell


def _ruling(command: str, rule: str, what: str) -> Ruling:
    return Ruling(command=command, verdict=RULES[rule].verdict, rule=rule, why=_explain(rule, what))


def _explain(rule: str, what: str) -> str:
    return RULES[rule].why.format(_shorten(what) or "The command").replace("....", "...")


def _covers(granted: Collection[str], entry: str) -> bool:
    """Whether a grant holds ``entry``, a host above it by ``*.``, or every host."""
    if entry in granted or "network" in granted:
        return True
    kind, _, host = entry.partition(":")
    return kind == "host" and any(
        one.startswith("host:*.") and host.endswith(one.removeprefix("host:*")) for one in granted
    )


def _shorten(text: str) -> str:
    text = " ".join(text.replace("\0", "...").replace(HOME, "~").split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


_WEIGHT = {CommandVerdict.ALLOW: 0, CommandVerdict.ASK: 1, CommandVerdict.DENY: 2}
_SKIPPED = {"comment", "heredoc_start", "heredoc_end", "heredoc_content", "string_content"}


class Interpreter:
    """Judges scripts in one workspace; ``rule`` and ``what`` are the strictest that was found so far.

    ``reach`` is what has to be reached over the network, and for which command.
    ``programs``: what judges a call of each program, by its name; ``fetched``: some words of the script come
    from the network; ``documents``: it may hold here-documents.
    """

    def __init__(self, workspace: str, programs: Mapping[str, Handler]) -> None:
        self.workspace, self.programs = workspace, programs
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
            handler = STATEMENTS.get(kind)
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

    def read(self, path: str, scope: Scope, deep: bool) -> None:
        """Judge that the file ``path`` is read, or with ``deep`` all of a folder."""
        full = resolve(path, scope.cwd)
        if full is not None:
            effects.read_path(self, full, deep=deep)

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
            return Call(self, scope, words, assigned or {}).judge()
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
            judge_arithmetic(self, node)
        if node.type == "command_substitution":
            self.substitute(node, scope)
        elif node.type == "process_substitution":
            self.process(node, scope)
        elif b"$" in (node.text or b"") or b"`" in (node.text or b"") or b"(" in (node.text or b""):
            for child in node.children:
                if child.child_count:
                    self.visit(child, scope)
        self.depth -= 1

    def substitute(self, node: "Node", scope: Scope) -> str:
        """Judge a command substitution; its output without the last newline, or UNKNOWN."""
        inner = scope.branch()
        inner.stdin = scope.stdin
        if (text := node.text or b"").startswith(b"`") and b"\\`" in text:
            # Backquotes within backquotes: the grammar leaves the inner ones as they are.
            self.script(unescape_document(text[1:-1].decode(errors="replace")), inner)
            return UNKNOWN
        redirects = Redirects(self, inner)
        output = NOTHING
        for child in node.children:
            if child.type == "file_redirect":
                redirects.take(child)
                output = redirects.stdin or NOTHING
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

    def written(self, word: Word, scope: Scope, output: Stream, *, append: bool = False) -> None:
        """Remember what a file was given, for when it is run."""
        path = resolve(word.text, scope.cwd)
        if path is not None:
            before = scope.files.get(path) if append else None
            scope.files[path] = concatenate([before, output]) if before is not None else output

    def reads(self, word: Word, scope: Scope) -> Stream:
        """Judge that a file is fed to a program; the stream it gives."""
        effects.read(self, scope, word)
        path = resolve(word.text, scope.cwd)
        if path is not None and path in scope.files:
            return scope.files[path]
        if path == "/dev/null":
            return NOTHING
        return UNREAD
