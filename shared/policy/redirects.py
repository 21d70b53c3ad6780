"""Where a command's input comes from and where its output goes."""

import re
from typing import TYPE_CHECKING

from shared.policy import effects
from shared.policy.nodes import touch
from shared.policy.scope import NOTHING, Scope, Stream
from shared.policy.words import Spelling, Word

if TYPE_CHECKING:
    from tree_sitter import Node

    from shared.policy.reader import Reader

_IN, _BOTH = {"<"}, {"<>"}
_STATEMENTS = {"command", "list", "redirected_statement", "subshell", "compound_statement"}
_TABBED = re.compile(r"(?:^|\n)\t").search
_END = "END-OF-BODY"
_BACKQUOTED = re.compile(r"(?<!\\)`((?:\\.|[^`\\])*)`", re.DOTALL)
"""The grammar leaves backquotes within a here-document to be found."""


class Redirects:
    """The redirections of one command; ``stdin`` is None where none feeds it."""

    def __init__(self, reader: "Reader", scope: Scope) -> None:
        self.reader, self.scope = reader, scope
        self.stdin: Stream | None = None
        self.targets: list[Word] = []
        self.arguments: list[Node] = []
        self.rest: list[Node] = []

    def take(self, node: "Node") -> None:
        """Judge one redirection."""
        kind = node.type
        if kind == "file_redirect":
            self._file(node)
        elif kind == "herestring_redirect":
            spelling = Spelling(self.scope, self.reader)
            named = [child for child in node.children if child.is_named]
            text = spelling.text(named[-1]) if named else ""
            self.stdin = Stream(text if "\0" not in text else None, source="" if "\0" not in text else "made")
        elif kind == "heredoc_redirect":
            self._document(node)

    def _file(self, node: "Node") -> None:
        shown = [child for child in node.children if child.type != "file_descriptor"]
        named = [child for child in shown if child.is_named]
        operator = next((child.type for child in shown if not child.is_named), "")
        count = 1
        while count < len(named) and touch(named[count - 1], named[count]):
            count += 1
        words = Spelling(self.scope, self.reader).line(named[:count])
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
        effects.write(self.reader, self.scope, target)
        self.targets.append(target)
        if operator in _BOTH:
            self.stdin = self._read(target)

    def _read(self, target: Word) -> Stream:
        if target.text.startswith(("/dev/tcp", "/dev/udp")):
            self.reader.find("network.shell", target.text)
        return self.reader.reads(target, self.scope)

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
            elif kind == "pipeline" or kind in _STATEMENTS:
                self.rest.append(child)
            elif child.is_named and kind not in {"heredoc_end", "file_descriptor"}:
                self.arguments.append(child)
        text = ""
        if body is not None:
            raw = (body.text or b"").decode(errors="replace")
            if not quoted and not body.child_count and "$" in raw and _TABBED(raw):
                # The grammar leaves a body as it is whose lines begin with tabs.
                lines = "\n".join(line.lstrip("\t") for line in raw.split("\n"))
                self.reader.script(f": <<{_END}\n{lines}\n{_END}\n", self.scope.branch())
            text = raw if quoted else Spelling(self.scope, self.reader).body(body)
            for match in _BACKQUOTED.finditer(raw if not quoted else ""):
                self.reader.script(match[1], self.scope.branch())
        self.stdin = Stream(text, source="made" if "\0" in text else "")

    def finish(self, output: Stream) -> Stream:
        """What is left of ``output`` for the next in line, once files and what follows took theirs."""
        for target in self.targets:
            self.reader.written(target, self.scope, output)
        left = NOTHING if self.targets else output
        for node in self.rest:
            inner = self.scope.branch()
            inner.stdin = left
            left = self.reader.walk(node, inner)
        return left
