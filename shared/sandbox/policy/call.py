"""One simple command: which program it is, and what the program does with its words."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from shared.sandbox.policy import effects
from shared.sandbox.policy.environment import judge_listing, judge_variable
from shared.sandbox.policy.expansion import UNKNOWN
from shared.sandbox.policy.options import Options, parse_options
from shared.sandbox.policy.paths import Place, place, resolve
from shared.sandbox.policy.scope import UNREAD, Scope, Stream
from shared.sandbox.policy.words import Word

if TYPE_CHECKING:
    from shared.sandbox.policy.reader import Reader

Handler = Callable[["Call"], Stream | None]
"""Judges a call of one program; what it prints, or None where that is not known."""

_BINARIES = re.compile(r"/(usr/)?(local/)?s?bin/[^/]+$|/opt/homebrew/bin/[^/]+$")
_VERSION = re.compile(r"-?\d[\d.]*$")
_BUILDERS = frozenset(
    "mkdir make gmake cmake ninja npm yarn pnpm bun npx pip pip3 uv poetry pipx python python3 node "
    "ruby perl php bash sh zsh dash source . "
    "cargo go mvn gradle ant rake bundle composer docker docker-compose tox nox pytest just task "
    "scons meson bazel dotnet mix".split()
)
"""Programs that run what they find in the folder where they are."""
_UNKNOWN_VALUE = "${_}"


@cache
def _programs() -> Mapping[str, Handler]:
    from shared.sandbox.policy.programs import PROGRAMS

    return PROGRAMS


class Call:
    """A program's name, its arguments, what it is fed, and whom to tell what is found."""

    __slots__ = ("args", "assigned", "name", "reader", "scope", "words")

    def __init__(
        self, reader: "Reader", scope: Scope, words: Sequence[Word], assigned: Mapping[str, str]
    ) -> None:
        self.reader, self.words, self.assigned = reader, words, assigned
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
        text = " ".join(word.text for word in self.words).replace(UNKNOWN, "...")
        return text if len(text) <= 80 else text[:77] + "..."

    def find(self, rule: str, what: str = "") -> None:
        """Note that ``rule`` applies to ``what``, by default to the command as a whole."""
        self.reader.find(rule, what or self.title)

    def options(self, valued: str = "", permute: bool = True) -> Options:
        """The arguments as options and operands."""
        return parse_options(self.args, valued, permute)

    def judge(self) -> Stream:
        """Judge it; what it prints, as far as that is known."""
        for name, value in self.assigned.items():
            self.judge_variable(name, value)
        word = self.words[0]
        if word.hidden or word.odd or word.glob or word.spliced or not word.known:
            self.find("unclear.name", word.text.replace(UNKNOWN, "..."))
            if not word.known:
                self.judge_unknown_arguments()
                return UNREAD
        if "/" in self.name:
            return self._judge_path()
        if self.name in self.scope.aliases and f"alias {self.name}" not in self.scope.active:
            return self._judge_alias()
        if self.name in self.scope.functions:
            return self.reader.function(self.name, self.args, self.scope)
        return self.judge_program()

    def judge_program(self) -> Stream:
        """Judge a program of the system by its name."""
        programs = _programs()
        handler = programs.get(self.name) or programs.get(_VERSION.sub("", self.name))
        if len(self.args) == 1 and handler is not None and self.args[0].text in {"--help", "--version"}:
            return UNREAD
        if self.name in _BUILDERS:
            self.reader.rebuild()
            if self._is_fetched():
                self.find("run.download")
        if self.stdin.source in {"environment", "history"}:
            judge_listing(self)
        if handler is None:
            self.judge_unknown_program()
            return UNREAD
        return handler(self) or Stream(endless=False)

    def _is_fetched(self) -> bool:
        """Whether it works in a folder that the script itself fetched."""
        cwd = self.scope.cwd or ""
        return any(cwd == folder or cwd.startswith(folder + "/") for folder in self.scope.fetched)

    def judge_unknown_program(self) -> None:
        """Nothing is known of it: only plain words leave it nothing to do harm with."""
        from shared.sandbox.policy.programs.unknown import judge_unknown

        judge_unknown(self)

    def judge_unknown_arguments(self) -> None:
        """Whatever paths are among the arguments may be read."""
        for word in self.args:
            self.read(word)

    def _judge_path(self) -> Stream:
        path = resolve(self.name, self.scope.cwd)
        if path is None:
            self.find("unclear.name", self.name)
            return UNREAD
        if path in self.scope.files:
            return self.run_written(path)
        where = place(path, self.reader.workspace)
        if _BINARIES.match(path):
            self.name = path.rsplit("/", 1)[-1]
            return self.judge_program()
        if where is Place.WORKSPACE:
            return self._judge_own_program(path)
        self.find("unclear.name" if where in {Place.KERNEL, Place.DEVICE} else "run.outside", path)
        self.name = path.rsplit("/", 1)[-1]
        return self.judge_program()

    def _judge_own_program(self, path: str) -> Stream:
        """A program of the workspace: as it is called where that is known, else by its arguments."""
        if any(path == folder or path.startswith(folder + "/") for folder in self.scope.fetched):
            self.find("run.download", path)
        self.name = path.rsplit("/", 1)[-1]
        handler = _programs().get(self.name) or _programs().get(_VERSION.sub("", self.name))
        if handler is not None:
            return handler(self) or UNREAD
        self.judge_program_arguments()
        self._judge_tasks(path)
        return UNREAD

    def _judge_tasks(self, path: str) -> None:
        from shared.sandbox.policy.programs.tasks import judge_script_name, judge_tasks

        judge_script_name(self, path)
        judge_tasks(self, self.args)

    def judge_program_arguments(self) -> None:
        """Arguments of a program that works in the workspace: what lies outside it may be changed."""
        for word in self.args:
            text = word.text
            if text.startswith("-") and "=" in text:
                text = text.partition("=")[2]
            value = Word(text, word.glob, word.odd, word.hidden)
            self.read(value)
            path = resolve(text, self.scope.cwd) if "/" in text or text.startswith("~") else None
            if path and place(path, self.reader.workspace) in {
                Place.SYSTEM,
                Place.HOME,
                Place.DEVICE,
                Place.KERNEL,
            }:
                self.find("unknown.use")

    def run_written(self, path: str, language: Handler | None = None) -> Stream:
        """Judge that a file is run which the script itself wrote: by its text where that is known."""
        stream = self.scope.files[path]
        if stream.source == "network":
            self.find("run.download", path)
        elif stream.text is None or UNKNOWN in stream.text:
            self.find("run.renamed" if stream.source == "program" else "run.written", path)
        elif language is None:
            self.run_script_file(stream.text)
        if stream.source == "program":
            self.name = stream.text or "sh"
            self.find("run.renamed", path)
            return self.judge_program()
        return UNREAD

    def run_script_file(self, text: str) -> None:
        """Judge a file's text by the language its first line names; the shell's without one."""
        first = text.partition("\n")[0]
        if first.startswith("#!") and not re.search(r"\b(ba|da|z|k|a)?sh\b", first):
            words = [Word(part) for part in first[2:].split()]
            inner = self.scope.branch()
            inner.stdin = Stream(text.partition("\n")[2])
            self.reader.call(words or [Word("sh")], inner)
        else:
            self.script(text)

    def _judge_alias(self) -> Stream:
        text = self.scope.aliases[self.name]
        inner = self.scope.branch()
        inner.active = (*self.scope.active, f"alias {self.name}")
        words = " ".join(shlex.quote(word.text) for word in self.args)
        return self.reader.script(f"{text} {words}".replace(UNKNOWN, _UNKNOWN_VALUE), inner)

    def judge_variable(self, name: str, value: str) -> None:
        """Judge that a variable is set which programs act upon."""
        judge_variable(self, name, value)

    def script(self, text: str, words: Sequence[Word] = (), scope: Scope | None = None) -> Stream:
        """Judge ``text`` as a script with ``words`` as its arguments, in a shell of its own."""
        inner = (scope or self.scope).branch()
        for number, word in enumerate(words[:10]):
            inner.assign(str(number), word.text)
        return self.same_shell(text, inner)

    def same_shell(self, text: str, scope: Scope | None = None) -> Stream:
        """Judge ``text`` as a script that this very shell runs (eval, source)."""
        return self.reader.script(text.replace(UNKNOWN, _UNKNOWN_VALUE), scope or self.scope)

    def run(self, words: Sequence[Word], stdin: Stream | None = None) -> Stream:
        """Judge another command that this one runs."""
        if not words:
            return UNREAD
        scope = self.scope
        if stdin is not None:
            scope = scope.branch()
            scope.stdin = stdin
        return self.reader.call(words, scope)

    def read(self, word: Word, deep: bool = False) -> None:
        """The path is read."""
        effects.read(self.reader, self.scope, word, deep)

    def look(self, word: Word) -> None:
        """The path is looked at, not its content."""
        effects.look(self.reader, self.scope, word)

    def write(self, word: Word, gently: bool = False, output: Stream = UNREAD) -> None:
        """The path is written."""
        effects.write(self.reader, self.scope, word, gently)
        self.reader.written(word, self.scope, output)

    def delete(self, word: Word, deep: bool = False, force: bool = False) -> None:
        """The path is deleted."""
        effects.delete(self.reader, self.scope, word, deep, force)

    def path(self, word: Word) -> str | None:
        """Where the path leads."""
        return resolve(word.text, self.scope.cwd)

    def place(self, word: Word) -> Place:
        """Whose the path is."""
        return place(self.path(word), self.reader.workspace)
