"""One simple command: which program it is, and what the program does with its words."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from shared.policy import effects
from shared.policy.checks import (
    is_dry_run,
    is_help,
    is_listing,
    judge_listing_use,
    judge_named_secrets,
    judge_output_options,
    judge_unknown,
)
from shared.policy.environment import judge_variable
from shared.policy.executables import judge_path_call
from shared.policy.expansion import UNKNOWN, holds_subscript
from shared.policy.options import Options, parse_options
from shared.policy.paths import Place, place, resolve
from shared.policy.scope import UNREAD, Scope, Stream
from shared.policy.words import Word

if TYPE_CHECKING:
    from shared.policy.interpreter import Interpreter

Handler = Callable[["Call"], Stream | None]
"""Judges a call of one program; what it prints, or None if that is not known."""

_VERSION = re.compile(r"-?\d[\d.]*$")
_BUILDERS = frozenset(
    "mkdir make gmake cmake ninja npm yarn pnpm bun npx pip pip3 uv poetry pipx python python3 node ruby "
    "perl php bash sh zsh dash source . cargo go mvn gradle ant rake bundle composer docker docker-compose "
    "tox nox pytest just task scons meson bazel dotnet mix".split()
)
"""Programs that run what they find in the current folder."""
_EVALUATES = frozenset(
    "let test [ printf read mapfile readarray declare typeset local export readonly getopts wait".split()
)
"""Builtins that take names of variables, with subscripts that are computed."""
_GAP = re.compile(r"[\s;|&<>]")
_UNKNOWN_VALUE = "${_}"


def _show(text: str) -> str:
    """``text`` as it would be typed: in quotes if it has spaces or operators."""
    return text if text and not _GAP.search(text) else f"'{text}'"


class Call:
    """A program's name, arguments and input, and the interpreter that collects the findings."""

    __slots__ = ("args", "assigned", "name", "scope", "shell", "words")

    def __init__(
        self, shell: "Interpreter", scope: Scope, words: Sequence[Word], assigned: Mapping[str, str]
    ) -> None:
        self.shell, self.words, self.assigned = shell, words, assigned
        self.args = words[1:]
        self.name = words[0].text if words else ""
        self.scope = scope
        if assigned:
            self.scope = scope.branch()
            for name, value in assigned.items():
                self.scope.assign(name, value)

    @property
    def stdin(self) -> Stream:
        """What the program is fed."""
        return self.scope.stdin

    @property
    def title(self) -> str:
        """The command as a person sees it, shortened."""
        text = " ".join(_show(word.text) for word in self.words).replace(UNKNOWN, "...")
        return text if len(text) <= 80 else text[:77] + "..."

    def find(self, rule: str, what: str = "") -> None:
        """Note that ``rule`` applies to ``what``, by default to the command as a whole."""
        self.shell.find(rule, what or self.title)

    def options(self, valued: str = "", permute: bool = True) -> Options:
        """The arguments as options and operands."""
        return parse_options(self.args, valued, permute)

    @property
    def handler(self) -> Handler | None:
        """What judges the program: by its name, or by that without a version."""
        programs = self.shell.programs
        return programs.get(self.name) or programs.get(_VERSION.sub("", self.name))

    def judge(self) -> Stream:
        """Judge it; what it prints, if that is known."""
        for name, value in self.assigned.items():
            judge_variable(self, name, value)
        word = self.words[0]
        if word.hidden or word.obfuscated or word.glob or word.spliced or not word.known:
            self.find("unclear.name", word.text.replace(UNKNOWN, "..."))
            if not word.known:
                self.judge_unknown_arguments()
                return UNREAD
        if "/" in self.name:
            return judge_path_call(self)
        if self.name in self.scope.aliases and f"alias {self.name}" not in self.scope.active:
            return self._judge_alias()
        if self.name in self.scope.functions:
            return self.shell.function(self.name, self.args, self.scope)
        return self.judge_program()

    def judge_program(self) -> Stream:
        """Judge a program of the system by its name."""
        handler = self.handler
        if is_help(self, handler is not None) or is_dry_run(self):
            judge_named_secrets(self)
            return UNREAD
        if self.name in _BUILDERS:
            self.shell.rebuild()
            if self.scope.is_fetched(self.scope.cwd or ""):
                self.find("run.download")
        named = self.name != "printf" or (self.args and self.args[0].text == "-v")
        if named and self.name in _EVALUATES and any(holds_subscript(word.text) for word in self.args):
            self.find("unclear.spelling")
        passed = is_listing(self.stdin) and judge_listing_use(self)
        if handler is None:
            judge_unknown(self)
            return UNREAD
        output = handler(self) or UNREAD
        judge_named_secrets(self)
        judge_output_options(self)
        return self.stdin if passed else output

    def is_program(self, name: str) -> bool:
        """Whether the policy knows a program of that name."""
        return name in self.shell.programs

    def judge_unknown_arguments(self) -> None:
        """Whatever paths are among the arguments may be read."""
        for word in self.args:
            self.read(word)

    def _judge_alias(self) -> Stream:
        text = self.scope.aliases[self.name]
        inner = self.scope.branch()
        inner.active = (*self.scope.active, f"alias {self.name}")
        words = " ".join(shlex.quote(word.text) for word in self.args)
        return self.shell.script(f"{text} {words}".replace(UNKNOWN, _UNKNOWN_VALUE), inner)

    def script(self, text: str, words: Sequence[Word] = (), scope: Scope | None = None) -> Stream:
        """Judge ``text`` as a script with ``words`` as its arguments, in a shell of its own."""
        inner = (scope or self.scope).branch()
        for number, word in enumerate(words[:10]):
            inner.assign(str(number), word.text)
        return self.same_shell(text, inner)

    def same_shell(self, text: str, scope: Scope | None = None) -> Stream:
        """Judge ``text`` as a script that this very shell runs (eval, source)."""
        return self.shell.script(text.replace(UNKNOWN, _UNKNOWN_VALUE), scope or self.scope)

    def run(self, words: Sequence[Word], stdin: Stream | None = None) -> Stream:
        """Judge another command that this one runs."""
        if not words:
            return UNREAD
        scope = self.scope
        if stdin is not None:
            scope = scope.branch()
            scope.stdin = stdin
        return self.shell.call(words, scope)

    def apply(self, found: Options, does: str) -> None:
        """Judge effects, separated by semicolons: verbs of VERBS, joined by ``+``, then what they apply to.

        That is the values of options by their names, or operands by a slice: ``read f file; read+write 1:``.
        """
        for verbs, selectors in _effects(does):
            for word in _selected(selectors, found):
                for judge in verbs:
                    judge(self, word)

    def run_hidden(self, text: str) -> Stream:
        """A command is run that an option or a text of another one holds."""
        self.find("unclear.command")
        return self.script(text)

    def judge_endless(self, word: Word) -> None:
        """A program that reads all of the path must come to an end."""
        if self.is_endless(word):
            self.find("exhaust.endless")

    def is_endless(self, word: Word) -> bool:
        """Whether reading the path never ends."""
        return effects.is_endless(self.scope, word, self.shell.workspace)

    def read(self, word: Word, deep: bool = False) -> None:
        """The path is read."""
        effects.read(self.shell, self.scope, word, deep)

    def query(self, word: Word) -> bool:
        """Some lines or columns of it are read; whether it is a table of the system's."""
        return effects.query(self.shell, self.scope, word)

    def stat(self, word: Word) -> None:
        """The path is looked at, not its content."""
        effects.stat(self.shell, self.scope, word)

    def write(self, word: Word, create: bool = False, output: Stream = UNREAD) -> None:
        """The path is written."""
        effects.write(self.shell, self.scope, word, create)
        self.shell.written(word, self.scope, output)

    def delete(self, word: Word, deep: bool = False, force: bool = False) -> None:
        """The path is deleted."""
        effects.delete(self.shell, self.scope, word, deep, force)

    def path(self, word: Word) -> str | None:
        """Where the path leads."""
        return resolve(word.text, self.scope.cwd)

    def place(self, word: Word) -> Place:
        """Whose the path is."""
        return place(self.path(word), self.shell.workspace)


VERBS: Mapping[str, Callable[[Call, Word], object]] = {
    "read": Call.read,
    "read-deep": lambda call, word: call.read(word, deep=True),
    "query": Call.query,
    "ends": Call.judge_endless,
    "run": lambda call, word: call.run([word]),
    "stat": Call.stat,
    "write": Call.write,
    "create": lambda call, word: call.write(word, create=True),
    "delete": Call.delete,
    "delete-deep": lambda call, word: call.delete(word, deep=True),
    "wipe": lambda call, word: call.delete(word, deep=True, force=True),
    "script": lambda call, word: call.script(word.text),
    "runs": lambda call, word: call.run_hidden(word.text),
}


@cache
def _effects(text: str) -> tuple[tuple[tuple[Callable[[Call, Word], object], ...], str], ...]:
    parts = (part.split(None, 1) for part in text.split(";"))
    return tuple((tuple(VERBS[verb] for verb in verbs.split("+")), chosen) for verbs, chosen in parts)


def _selected(selectors: str, found: Options) -> Sequence[Word]:
    if ":" in selectors:
        return found.operands[_slice(selectors)]
    return found.of(selectors)


@cache
def _slice(text: str) -> slice:
    start, end = (int(part) if part else None for part in text.split(":"))
    return slice(start, end)
