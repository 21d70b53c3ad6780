"""What is known at one point of a script: its words and streams, variables, the folder, functions, files."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from shared.policy.expansion import UNKNOWN
from shared.policy.paths import HOME, resolve

if TYPE_CHECKING:
    from tree_sitter import Node

_ENVIRONMENT = {
    "HOME": HOME, "TMPDIR": "/tmp", "TMP": "/tmp", "TEMP": "/tmp", "SHELL": "/bin/bash", "BASH": "/bin/bash",  # noqa: S108
    "IFS": " \t\n", "#": "0", "?": "0", "$": "4321", "!": "%1", "-": "", "RANDOM": "0",
    "SECONDS": "0", "UID": "0", "USER": "user", "LOGNAME": "user",
    "EUID": "0", "LINENO": "0", "COLUMNS": "80", "LINES": "24",
}  # fmt: skip
LONGEST_VALUE = 4_096
"""Signs of a variable's value beyond which it counts as unknown: a value may double with every assignment."""
MOST_VALUES = 8  # Values of one variable that are judged in turn


class Word(msgspec.Struct, frozen=True, gc=False):
    """``text`` with UNKNOWN for what is not known; ``glob``: it has wildcards.

    ``obfuscated``: it is written in a way that only hides what is meant; ``hidden``: it is made of variables,
    substitutions or braces; ``spliced``: it is quoted or escaped in the middle; ``computed``: what is not
    known of it is what a command of the script prints, not what the environment holds.
    """

    text: str
    glob: bool = False
    obfuscated: bool = False
    hidden: bool = False
    spliced: bool = False
    computed: bool = False

    @property
    def known(self) -> bool:
        """Whether nothing of it is left to be found out."""
        return UNKNOWN not in self.text


class Stream(msgspec.Struct, frozen=True, gc=False):
    """What a program is fed: ``text`` if it is known, ``paths`` if it lists files.

    ``source``: "network" if it was fetched, "computed" if it was decoded or computed, "program" if it is a
    copy of the program ``text``, "built" if a compiler made it, "" otherwise.
    """

    text: str | None = None
    paths: tuple[str, ...] | None = None
    source: str = ""


NOTHING = Stream(text="")
UNREAD = Stream()  # A stream of which nothing is known


def concatenate(streams: Sequence[Stream]) -> Stream:
    """What several programs print one after the other."""
    if all(stream.text == "" and not stream.source for stream in streams):
        return NOTHING
    texts = [stream.text for stream in streams if stream.text is not None]
    text = "".join(texts) if len(texts) == len(streams) else None
    source = next((stream.source for stream in streams if stream.source), "")
    return Stream(text, None, source)


class Scope:
    """Variables, the folder (None: unknown), functions, aliases, and files the script itself wrote."""

    def __init__(self, cwd: str | None, stdin: Stream = UNREAD) -> None:
        self.cwd = cwd
        self.stdin = stdin
        self.variables: dict[str, str] = {}
        self.several: dict[str, tuple[str, ...]] = {}
        self.functions: dict[str, Node] = {}
        self.aliases: dict[str, str] = {}
        self.files: dict[str, Stream] = {}
        self.fetched: set[str] = set()
        self.active: tuple[str, ...] = ()

    def branch(self) -> "Scope":
        """A copy that may change without changing this one; functions and written files are shared."""
        other = Scope(self.cwd, self.stdin)
        other.variables = dict(self.variables)
        other.several = dict(self.several)
        other.functions, other.aliases = self.functions, self.aliases
        other.files, other.fetched, other.active = self.files, self.fetched, self.active
        return other

    def value(self, name: str) -> str:
        """The value of a variable, or UNKNOWN."""
        value = self.variables.get(name)
        if value is not None:
            return value
        if name == "PWD":
            return self.cwd or UNKNOWN
        return _ENVIRONMENT.get(name, UNKNOWN)

    def is_set(self, name: str) -> bool:
        """Whether the script itself gave the variable its value."""
        return name in self.variables

    def is_fetched(self, path: str) -> bool:
        """Whether the path lies in a folder that the script itself fetched."""
        return any(path == folder or path.startswith(f"{folder}/") for folder in self.fetched)

    def keep(self, word: Word, output: Stream, *, append: bool = False) -> None:
        """Remember what a file was given, for when it is run."""
        path = resolve(word.text, self.cwd)
        if path is not None:
            before = self.files.get(path) if append else None
            self.files[path] = concatenate([before, output]) if before is not None else output

    def assign(self, name: str, value: str) -> None:
        """Give a variable its one value."""
        self.variables[name] = value if len(value) <= LONGEST_VALUE else UNKNOWN
        self.several.pop(name, None)

    def adopt(self, other: "Scope") -> None:
        """Go on after a branch that is always taken."""
        self.cwd, self.variables, self.several = other.cwd, other.variables, other.several

    def join(self, other: "Scope") -> None:
        """Go on after a branch that may have been taken."""
        if other.cwd != self.cwd:
            self.cwd = None
        for name in self.variables.keys() | other.variables.keys():
            values = dict.fromkeys(self._values(name) + other._values(name))
            self._set_several(name, tuple(values))

    def _values(self, name: str) -> tuple[str, ...]:
        return self.several.get(name) or (self.value(name),)

    def _set_several(self, name: str, values: tuple[str, ...]) -> None:
        if len(values) == 1:
            self.assign(name, values[0])
            return
        self.several[name] = values
        self.variables[name] = UNKNOWN

    def offer(self, name: str, values: tuple[str, ...]) -> None:
        """Give a variable one of several values: all are judged in turn."""
        if len(values) > MOST_VALUES or not values:
            values = (UNKNOWN, *values[: MOST_VALUES - 1])
        self._set_several(name, tuple(dict.fromkeys(values)))
