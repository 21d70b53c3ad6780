"""Reads a script as the shell would run it, and has every simple command in it judged."""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING, ClassVar

from shared.contracts import CommandVerdict
from shared.sandbox.policy import effects, secrets
from shared.sandbox.policy.call import Call
from shared.sandbox.policy.expansion import UNKNOWN
from shared.sandbox.policy.loops import judge_loop
from shared.sandbox.policy.parsing import DEEPEST, MOST_COMMANDS, Unreadable, parse
from shared.sandbox.policy.paths import resolve
from shared.sandbox.policy.redirects import Redirects
from shared.sandbox.policy.rules import RULES
from shared.sandbox.policy.scope import NOTHING, UNREAD, Scope, Stream
from shared.sandbox.policy.words import Spelling, Word

if TYPE_CHECKING:
    from tree_sitter import Node

_WEIGHT = {CommandVerdict.ALLOW: 0, CommandVerdict.ASK: 1, CommandVerdict.DENY: 2}
_SKIPPED = {"comment", "heredoc_start", "heredoc_end", "heredoc_content", "string_content"}
_WORDS = {
    "word", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation", "number",
    "simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion",
}  # fmt: skip
_SIDE_BY_SIDE = re.compile(rb"[\w.'\"]\s+-?[A-Za-z/~'\"]")
_TRUSTED = frozenset(
    "sudo su ls cd cat rm cp mv git ssh scp grep find ps docker kubectl echo printf env "
    "sh bash python3 make chmod".split()
)
"""Programs that a function of the same name would only be mistaken for."""
MOST_CHOICES = 16
"""Combinations of values one command is judged with; beyond that the values count as unknown."""


class Reader:
    """Judges scripts in one workspace; ``rule`` and ``what`` are the strictest that was found so far."""

    def __init__(self, workspace: str) -> None:
        self.workspace = workspace
        self.rule, self.what = "everyday", ""
        self.depth = 0
        self.left = MOST_COMMANDS
        self.dropped = ""

    def find(self, rule: str, what: str = "") -> None:
        """Note that ``rule`` applies; of two that weigh the same the first counts."""
        if _WEIGHT[RULES[rule].verdict] > _WEIGHT[RULES[self.rule].verdict]:
            self.rule, self.what = rule, what

    def drop(self, path: str) -> None:
        """Note that something is deleted which a later command of the script may make anew."""
        self.dropped = self.dropped or path

    def rebuild(self) -> None:
        """What was deleted before is made anew."""
        self.dropped = ""

    def is_guarded(self, path: str) -> bool:
        """Whether a path of the workspace is a state of the office."""
        return secrets.guards(path[len(self.workspace) :])

    def script(self, text: str, scope: Scope) -> Stream:
        """Judge a script given as text; its output where that is known."""
        try:
            root = parse(text)
        except Unreadable as error:
            self.find(error.rule, error.what)
            return UNREAD
        return self.walk(root, scope)

    def walk(self, node: "Node", scope: Scope) -> Stream:
        """Judge what ``node`` holds; raises Unreadable where it is nested too deeply."""
        kind = node.type
        if kind in _SKIPPED:
            return NOTHING
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unreadable("unclear.size", "commands within commands")
        try:
            handler = self._HANDLERS.get(kind)
            if handler is not None:
                return handler(self, node, scope)
            return self._sequence(node.children, scope)
        finally:
            self.depth -= 1

    def _sequence(self, nodes: Iterable["Node"], scope: Scope) -> Stream:
        texts: list[str] | None = []
        endless, source = False, ""
        for node in nodes:
            if not node.is_named:
                continue
            output = self.walk(node, scope)
            self.settle(output)
            endless |= output.endless
            source = source or output.source
            if output.text is None:
                texts = None
            elif texts is not None:
                texts.append(output.text)
        return (
            Stream("".join(texts) if texts is not None else None, None, source, endless)
            if texts != []
            else NOTHING
        )

    def settle(self, output: Stream) -> None:
        """What no other program takes is seen by whoever asked: the environment holds credentials."""
        if output.source == "environment":
            self.find("secret.environment", "It")

    def _program(self, node: "Node", scope: Scope) -> Stream:
        named = [child for child in node.children if child.is_named]
        return self.walk(named[0], scope) if len(named) == 1 else self._sequence(named, scope)

    def _arithmetic(self, node: "Node") -> None:
        """Two words side by side are no arithmetic: the shell may take them for a command."""
        if _SIDE_BY_SIDE.search(node.text or b""):
            self.find("unclear.syntax")

    def _subshell(self, node: "Node", scope: Scope) -> Stream:
        return self._program(node, scope.branch())

    def _list(self, node: "Node", scope: Scope) -> Stream:
        if node.children and node.children[0].type == "((":
            self._arithmetic(node)
        return self._sequence(node.children, scope)

    def _pipeline(self, node: "Node", scope: Scope, extra: Sequence["Node"] = ()) -> Stream:
        inner = scope.branch()
        named = [child for child in node.children if child.is_named]
        for child in named[:-1]:
            inner.stdin = self.walk(child, inner)
        return self._extended(named[-1], inner, extra) if named else inner.stdin

    def _extended(self, node: "Node", scope: Scope, extra: Sequence["Node"]) -> Stream:
        """Judge ``node``; ``extra`` are words of its last command that stand behind a redirection."""
        if node.type == "command":
            return self._command(node, scope, extra)
        if not extra:
            return self.walk(node, scope)
        if node.type == "pipeline":
            return self._pipeline(node, scope, extra)
        named = [child for child in node.children if child.is_named]
        if node.type == "negated_command" and named:
            return self._extended(named[-1], scope, extra)
        self.find("unclear.syntax")
        return self.walk(node, scope)

    def _redirected(self, node: "Node", scope: Scope) -> Stream:
        whole = body = node.child_by_field_name("body")
        while body is not None and body.type == "list":
            # The redirection belongs to the last command of the list alone.
            first, *_, last = [child for child in body.children if child.is_named] or [body]
            if first.id == last.id:
                break
            self.settle(self.walk(first, scope))
            body = last
        redirects = Redirects(self, scope)
        for child in node.children:
            if whole is None or child.id != whole.id:
                redirects.take(child)
        before = scope.stdin
        if redirects.stdin is not None:
            scope.stdin = redirects.stdin
        try:
            if body is None:
                output = NOTHING
            elif body.type == "pipeline" and redirects.stdin is not None:
                output = self._fed_pipeline(body, scope, redirects)
            else:
                output = self._extended(body, scope, redirects.arguments)
        finally:
            scope.stdin = before
        return redirects.finish(output)

    def _fed_pipeline(self, node: "Node", scope: Scope, redirects: Redirects) -> Stream:
        """A here-document after a pipeline feeds the last command; what the pipe carries counts too."""
        last = [child for child in node.children if child.is_named][-1]
        inner = scope.branch()
        inner.stdin = redirects.stdin or UNREAD
        self._extended(last, inner, redirects.arguments)
        inner.stdin = UNREAD
        return self._pipeline(node, inner, redirects.arguments)

    def _command(self, node: "Node", scope: Scope, extra: Sequence["Node"] = ()) -> Stream:
        names = scope.several and [name for name in scope.several if name.encode() in (node.text or b"")]
        if not names:
            return self._command_once(node, scope, extra)
        choices = 1
        for name in names:
            choices *= len(scope.several[name])
        if choices > MOST_CHOICES:
            return self._command_once(node, scope, extra)
        kept, output = scope.several, UNREAD
        values = {name: scope.variables.get(name, UNKNOWN) for name in names}
        for choice in product(*(kept[name] for name in names)):
            scope.variables.update(zip(names, choice, strict=True))
            output = self._command_once(node, scope, extra)
        scope.variables.update({name: value for name, value in values.items() if name in scope.several})
        return output

    def _command_once(self, node: "Node", scope: Scope, extra: Sequence["Node"]) -> Stream:
        spelling = Spelling(scope, self)
        words: list[Word] = []
        assigned: dict[str, str] = {}
        for child in node.children:
            kind = child.type
            if kind == "variable_assignment":
                name, value = self._assigned(child, scope)
                assigned[name] = value
            elif kind in {"file_redirect", "herestring_redirect", "heredoc_redirect"}:
                redirects = Redirects(self, scope)
                redirects.take(child)
                if redirects.stdin is not None:
                    scope = scope.branch()
                    scope.stdin = redirects.stdin
            elif kind in {"subshell", "compound_statement"}:
                self.walk(child, scope)
            elif child.is_named or words:
                words.extend(spelling.words(child))
        for child in extra:
            words.extend(spelling.words(child))
        if spelling.too_many:
            self.find("exhaust.large", "A range of words")
        return self.call(words, scope, assigned)

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

    def _assigned(self, node: "Node", scope: Scope) -> tuple[str, str]:
        children = node.children
        name = (children[0].text or b"").decode(errors="replace")
        if children[0].type == "subscript":
            self.visit(children[0], scope)
        value = ""
        if len(children) > 2:
            last = children[-1]
            if last.type == "array":
                words = [
                    word
                    for child in last.children
                    if child.is_named
                    for word in Spelling(scope, self).words(child)
                ]
                value = " ".join(word.text for word in words)
            else:
                value = Spelling(scope, self).text(last)
        if "[" in name or children[1].type == "+=":
            before = scope.value(name.partition("[")[0])
            value = before + (" " if "[" in name else "") + value if before != UNKNOWN else value
            name = name.partition("[")[0]
        return name, value

    def _assignment(self, node: "Node", scope: Scope) -> Stream:
        name, value = self._assigned(node, scope)
        Call(self, scope, (), {}).judge_variable(name, value)
        scope.assign(name, value)
        return NOTHING

    def _declaration(self, node: "Node", scope: Scope) -> Stream:
        words = []
        for child in node.children:
            if child.type == "variable_assignment":
                self._assignment(child, scope)
                words.append(Word("x=x"))
            elif child.is_named:
                words.extend(Spelling(scope, self).words(child))
        return self.call([Word(node.children[0].type), *words], scope)

    def _unset(self, node: "Node", scope: Scope) -> Stream:
        for child in node.children:
            if child.is_named:
                for word in Spelling(scope, self).words(child):
                    Call(self, scope, (), {}).judge_variable(word.text, "")
                    scope.assign(word.text, UNKNOWN)
        return NOTHING

    def _function(self, node: "Node", scope: Scope) -> Stream:
        name_node, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name_node is None or body is None:
            return NOTHING
        name = (name_node.text or b"").decode(errors="replace")
        scope.functions[name] = body
        if name in _TRUSTED and f"command {name}".encode() not in (body.text or b""):
            self.find("run.renamed", f"A function called {name}")
        inner = scope.branch()
        inner.active = (*scope.active, name)
        inner.stdin = UNREAD
        self.walk(body, inner)
        return NOTHING

    def function(self, name: str, words: Sequence[Word], scope: Scope) -> Stream:
        """Judge a call of a function of the script itself."""
        if name in scope.active:
            from shared.sandbox.policy.loops import multiplies

            self.find(
                "exhaust.fork-bomb" if multiplies(scope.functions[name], name) else "exhaust.large", name
            )
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

    def _if(self, node: "Node", scope: Scope) -> Stream:
        branches, complete = [scope.branch()], False
        for child in node.children:
            if child.type == "elif_clause":
                branches.append(scope.branch())
                self._sequence(child.children, branches[-1])
            elif child.type == "else_clause":
                complete = True
                branches.append(scope.branch())
                self._sequence(child.children, branches[-1])
            elif child.is_named:
                self.settle(self.walk(child, branches[0]))
        self._merge(scope, branches, complete)
        return UNREAD

    def _case(self, node: "Node", scope: Scope) -> Stream:
        branches = []
        for child in node.children:
            if child.type == "case_item":
                branches.append(scope.branch())
                for part in child.children:
                    if part.is_named and part.type not in _WORDS | {"extglob_pattern"}:
                        self.walk(part, branches[-1])
                    else:
                        self.visit(part, branches[-1])
            elif child.is_named:
                self.visit(child, scope)
        self._merge(scope, branches, complete=False)
        return UNREAD

    def _merge(self, scope: Scope, branches: Sequence[Scope], complete: bool) -> None:
        if complete:
            scope.adopt(branches[0])
        for branch in branches:
            scope.join(branch)

    def _loop(self, node: "Node", scope: Scope) -> Stream:
        return judge_loop(self, node, scope)

    def _words_only(self, node: "Node", scope: Scope) -> Stream:
        self.visit(node, scope)
        return NOTHING

    def visit(self, node: "Node", scope: Scope) -> None:
        """Judge the commands that stand within words, tests and arithmetic."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise Unreadable("unclear.size", "expressions within expressions")
        if node.type == "arithmetic_expansion":
            self._arithmetic(node)
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
        redirects = Redirects(self, inner)
        output = NOTHING
        for child in node.children:
            if child.type == "file_redirect":
                redirects.take(child)
                output = redirects.stdin or NOTHING
            elif child.is_named:
                output = self.walk(child, inner)
        self.settle(output)
        if output.endless:
            self.find("exhaust.endless", (node.text or b"").decode(errors="replace"))
        return output.text.rstrip("\n") if output.text is not None else UNKNOWN

    def process(self, node: "Node", scope: Scope) -> str:
        """Judge a process substitution; the path of its pipe, which stands for its output."""
        inner = scope.branch()
        output = self._sequence(node.children, inner)
        path = f"/dev/fd/{60 + len(scope.files)}"
        scope.files[path] = output
        return path

    def written(self, word: Word, scope: Scope, output: Stream) -> None:
        """Remember what a file was given, for when it is run."""
        path = resolve(word.text, scope.cwd)
        if path is not None:
            if output.text == "" and path not in scope.files:
                effects.empty(self, path)
            scope.files[path] = output
            self.settle(output)
            if output.endless:
                self.find("exhaust.endless", path)

    def reads(self, word: Word, scope: Scope) -> Stream:
        """Judge that a file is fed to a program; the stream it gives."""
        effects.read(self, scope, word)
        path = resolve(word.text, scope.cwd)
        if path is not None and path in scope.files:
            return scope.files[path]
        if path == "/dev/null":
            return NOTHING
        return Stream(endless=effects.is_endless(scope, word, self.workspace))

    _HANDLERS: ClassVar[dict[str, Callable[["Reader", "Node", Scope], Stream]]] = {
        "program": _program,
        "list": _list,
        "compound_statement": _list,
        "do_group": _list,
        "subshell": _subshell,
        "pipeline": _pipeline,
        "redirected_statement": _redirected,
        "command": _command,
        "variable_assignment": _assignment,
        "declaration_command": _declaration,
        "unset_command": _unset,
        "function_definition": _function,
        "if_statement": _if,
        "case_statement": _case,
        "while_statement": _loop,
        "for_statement": _loop,
        "c_style_for_statement": _loop,
        "test_command": _words_only,
        "binary_expression": _words_only,
        "unary_expression": _words_only,
        **dict.fromkeys(_WORDS, _words_only),
    }
