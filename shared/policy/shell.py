"""The shell that judges a script, as those who judge a part of it see it."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from shared.policy.scope import Scope, Stream
from shared.policy.words import Runner, Word

if TYPE_CHECKING:
    from tree_sitter import Node


class Shell(Runner, Protocol):
    """Collects what is found in a script, and judges the parts that a part of it consists of.

    ``programs`` judge a call of each program, by its name; ``fetched``: words of the script come from the
    network; ``documents``: it may hold here-documents; ``reach``: what must be reached, for which command.
    """

    workspace: str
    programs: Mapping[str, Callable[[Any], Stream | None]]
    fetched: bool
    documents: bool
    reach: dict[str, str]

    def need(self, reach: str, what: str) -> None:
        """Note that ``what`` needs a network: a registry, a host, or hosts that are not known."""

    def is_guarded(self, path: str) -> bool:
        """Whether a path of the workspace is a state of the office."""

    def script(self, text: str, scope: Scope, *, guessed: bool = False) -> Stream:
        """Judge a script given as text; its output if that is known. ``guessed``: it may be none."""

    def walk(self, node: "Node", scope: Scope) -> Stream:
        """Judge what ``node`` holds; raises Unreadable if it is nested too deeply."""

    def sequence(self, nodes: Sequence["Node"], scope: Scope) -> Stream:
        """Judge one after the other; what they print together."""

    def call(self, words: Sequence[Word], scope: Scope, assigned: dict[str, str] | None = None) -> Stream:
        """Judge one simple command by its words; ``assigned`` are the variables set for it alone."""

    def function(self, name: str, words: Sequence[Word], scope: Scope) -> Stream:
        """Judge a call of a function of the script itself."""

    def read(self, path: str, scope: Scope, deep: bool) -> None:
        """Judge that the file ``path`` is read, or with ``deep`` all of a folder."""

    def written(self, word: Word, scope: Scope, output: Stream, *, append: bool = False) -> None:
        """Remember what a file was given, for when it is run."""

    def reads(self, word: Word, scope: Scope) -> Stream:
        """Judge that a file is fed to a program; the stream it gives."""
