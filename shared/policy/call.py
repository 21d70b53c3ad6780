"""One simple command: which program it is, and what the program does with its words."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from shared.policy import effects
from shared.policy.expansion import UNKNOWN, holds_subscript
from shared.policy.paths import Place, is_private, is_public, place, resolve
from shared.policy.rules import matching
from shared.policy.scope import UNREAD, Scope, Stream, Word
from shared.policy.shell import Shell
from shared.policy.words import Options, parse_options

Handler = Callable[["Call"], Stream | None]
"""Judges a call of one program; what it prints, or None if that is not known."""

_VERSION = re.compile(r"(?<=[a-z])-?\d[\d.]*$")
_SYSTEM = re.compile(r"/(usr/)?(local/)?s?bin/[^/]+$|/opt/homebrew/bin/[^/]+$")
_EVALUATES = frozenset(
    "let test [ printf read mapfile readarray declare typeset local export readonly getopts wait".split()
)
"""Builtins that take names of variables, with subscripts that are computed."""
_TEXTUAL = frozenset(
    "echo printf print git gh glab hg svn test [ [[ expr basename dirname man apropos whatis which "
    "type whereis "
    "command help export declare typeset local readonly alias trap case set : true false mailroom hash tldr "
    "kill sleep ssh logger say notify-send su sudo unset ls mkdir chmod chown".split()
)
"""Programs whose words are text, names, or judged by what handles them."""
_OUTPUT = re.compile(
    r"--?(?!no[-_])([a-z0-9]+[-_])*(o|out(put)?|dest(ination)?|save)([-_]?(to|dir|file|path|name))?"
)
"""Options that name an output."""
_SEARCHES = frozenset("grep egrep fgrep zgrep rgrep rg ag ack find fd sed awk gawk ls cd eval ln".split())
"""Programs whose words are patterns as well as paths."""
_PATH = re.compile(r"(?:~[\w-]*|\.\.)?/[^\s=@,:{}()\"'|;<>]+")
_HOST = re.compile(r"\w://(?:[^/@\s]*@)?([\w.-]+(?::\d+)?)")
_DRY_RUN = re.compile(r"--dry-?run(=(?!none)\w*)?|--just-print|--simulate|--no-act")
_LOADS = re.compile(
    r"(LD_(PRELOAD|AUDIT)|DYLD_INSERT_\w+|BASH_ENV|PROMPT_COMMAND|BASH_FUNC_.*|PYTHONSTARTUP|PERL5OPT|RUBYOPT"
    r"|NODE_OPTIONS|JAVA_TOOL_OPTIONS|LUA_INIT\w*|GCONV_PATH|GIT_EXEC_PATH|GIT_TEMPLATE_DIR|PERL5DB)$"
)
_RUNS = re.compile(
    r"(GIT_(SSH|SSH_COMMAND|PAGER|EDITOR|SEQUENCE_EDITOR|ASKPASS|EXTERNAL_DIFF|PROXY_COMMAND)|\w*PAGER|VISUAL"
    r"|EDITOR|BROWSER|LESSOPEN|RSYNC_RSH|SUDO_ASKPASS|SSH_ASKPASS|PS[0-4])$"
)
_SEARCHED = {"PATH", "PYTHONPATH", "PERL5LIB", "RUBYLIB", "NODE_PATH", "CLASSPATH", "LD_LIBRARY_PATH"}
"""Search paths for programs, or parts of them."""
_HARMLESS = re.compile(
    r"|((-W[\w:-]*|--(max[-_]old[-_]space[-_]size|stack-size)=\d+|--(enable|experimental-(?!loader)"
    r"|no|trace|openssl"
    r"|preserve)[\w-]*|-Xm[sxn]\d+[kmgKMG]?|-XX:[+-]\w+|-Dfile\.encoding=[\w-]+)\s*)+"
)
"""Options in such a variable that load nothing."""
_SIMPLE = re.compile(r"[\w.-]*( -{1,2}[\w=.-]+)*")  # A program by its name, with options
_GUARDS = re.compile(
    r"(^|_)(SANDBOX|SANDBOXED|GUARD|GUARDS|GUARDRAILS?|JAIL|SECCOMP|LANDLOCK|APPARMOR|SELINUX|AUDIT"
    r"|APPROVALS?"
    r"|MAILROOM|YOLO|SAFETY|SAFE_MODE|BYPASS|SUPERVISOR)(_|$)|^HIST(FILE|SIZE|CONTROL|IGNORE|FILESIZE)$"
)
_SKIPS = re.compile(r"SKIP|HUSKY\w*|LEFTHOOK\w*|OVERCOMMIT_\w+|PRE_COMMIT\w*")
_LARGE = re.compile(r"[1-9]\d+|ignore(dups|both)|erasedups")  # A history that is kept
_GAP = re.compile(r"[\s;|&<>]")
_HELP = {"--help", "--version"}
_UNKNOWN_VALUE = "${_}"


def _show(text: str) -> str:
    """``text`` as it would be typed: in quotes if it has spaces or operators."""
    return text if text and not _GAP.search(text) else f"'{text}'"


class Call:
    """A program's name, arguments and input, and the interpreter that collects the findings."""

    __slots__ = ("args", "assigned", "name", "scope", "shell", "words")

    def __init__(
        self, shell: Shell, scope: Scope, words: Sequence[Word], assigned: Mapping[str, str]
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
        text = " ".join(_show(word.text[:80]) for word in self.words[:40]).replace(UNKNOWN, "...")
        return text if len(text) <= 80 else text[:77] + "..."

    def find(self, rule: str, what: str = "") -> None:
        """Note that ``rule`` applies to ``what``, by default to the command as a whole."""
        self.shell.find(rule, what or self.title)

    def need(self, reach: str) -> None:
        """Note that the command has to reach ``reach`` over the network."""
        self.shell.need(reach, self.title)

    def options(self, valued: str = "", permute: bool = True) -> Options:
        """The arguments as options and operands."""
        return parse_options(self.args, valued, permute)

    def judge(self) -> Stream:
        """Judge it; what it prints, if that is known."""
        for name, value in self.assigned.items():
            judge_variable(self, name, value)
        word = self.words[0]
        if not word.known and word.text.strip(UNKNOWN) == "" and not (word.computed or word.obfuscated):
            # A variable of the environment: empty, or a program nobody knows.
            self._read_arguments()
            return self.shell.call(self.args, self.scope) if self.args else UNREAD
        if (
            word.obfuscated
            or word.glob
            or not word.known
            or " " in word.text
            or (word.spliced and "/" not in word.text)
        ):
            self.find("unclear.name", word.text.replace(UNKNOWN, "..."))
            if not word.known:
                self._read_arguments()
                return UNREAD
        if "/" in self.name:
            return self._judge_path()
        if self.name in self.scope.aliases and f"alias {self.name}" not in self.scope.active:
            text = self.scope.aliases[self.name]
            inner = self.scope.branch()
            inner.active = (*self.scope.active, f"alias {self.name}")
            words = " ".join(shlex.quote(word.text) for word in self.args)
            return self.shell.script(f"{text} {words}".replace(UNKNOWN, _UNKNOWN_VALUE), inner)
        if self.scope.is_set("PATH") and (path := f"{self.scope.cwd}/{self.name}") in self.scope.files:
            return self.run_written(path)
        if self.name in self.scope.functions:
            return self.shell.function(self.name, self.args, self.scope)
        return self.judge_program()

    def judge_program(self) -> Stream:
        """Judge a program by its name: by what handles it, by the rows of the rules, by its paths."""
        if len(self.args) == 1 and self.args[0].text in _HELP:
            return UNREAD
        name = self.name
        handler = self.shell.grammar.programs.get(name)
        if handler is None and (short := _VERSION.sub("", name)) != name:
            name = short
            handler = self.shell.grammar.programs.get(name)
        named = name in _EVALUATES and (name != "printf" or (self.args and self.args[0].text == "-v"))
        if named and any(holds_subscript(word.text) for word in self.args):
            self.find("unclear.spelling")
        if not self._only_shows():
            for rule, reach in matching(name, self.args):
                self._need_all(reach) if reach else self.find(rule)
        if name not in _TEXTUAL and name not in _SEARCHES:
            self._judge_private()
        if handler is not None:
            return handler(self) or UNREAD
        self._judge_other(name)
        return UNREAD

    def _only_shows(self) -> bool:
        """Whether a program without a handler is asked for help or for what it would do."""
        if not self.args or self.name in self.shell.grammar.programs:
            return False
        last = self.args[-1].text
        return last in {"-help", "help", *_HELP} or any(_DRY_RUN.fullmatch(word.text) for word in self.args)

    def _need_all(self, reach: str) -> None:
        """A registry, or hosts, and the host of each address among the words."""
        hosts = [match[1] for word in self.args if (match := _HOST.search(word.text))]
        for entry in (
            [f"host:{host}" for host in hosts]
            if reach == "network" and hosts
            else [reach, *(f"host:{host}" for host in hosts)]
        ):
            self.need(entry)

    def _judge_other(self, name: str) -> None:
        """What no handler knows: paths among its words are read, those of outputs are written.

        It may be one more program that runs another.
        """
        self.judge_outputs()
        if name in _TEXTUAL:
            return
        self._read_arguments()
        for position, word in enumerate(self.args):
            first, space, _ = word.text.partition(" ")
            if first.rsplit("/bin/", 1)[-1] in self.shell.grammar.programs:
                self.script(word.text) if space else self.run(self.args[position:])
                break

    def judge_outputs(self) -> None:
        """Judge the outputs outside the workspace that options name."""
        for index, word in enumerate(self.args):
            option, sign, value = word.text.partition("=")
            if option.startswith("-") and _OUTPUT.fullmatch(option.lower()):
                target = Word(value) if sign else self.args[index + 1] if index + 1 < len(self.args) else None
                if target and target.text.startswith(("/", "~", "..")):
                    self.write(target)

    def _judge_private(self) -> None:
        """A program that is given a file of credentials is not to have it, whatever it does with it."""
        for word in self.args:
            for text in _PATH.findall(word.text) if "/" in word.text else ():
                if is_private(path := resolve(text, self.scope.cwd) or text):
                    self.find("secret.file", path)

    def _read_arguments(self) -> None:
        for word in self.args:
            text = word.text
            if text.startswith("-") or "=" in text:
                text = text.partition("=")[2]
            if text and " " not in text:
                self.read(Word(text, word.glob, word.obfuscated, word.hidden))

    def _judge_path(self) -> Stream:
        """A program by its path: the system's by its name, one the script wrote by its text."""
        path = resolve(self.name, self.scope.cwd)
        if path is None:
            self.find("unclear.name", self.name)
            return UNREAD
        if path in self.scope.files:
            return self.run_written(path)
        where = place(path, self.shell.workspace)
        if self.scope.is_fetched(path):
            self.find("run.download")
        if where in {Place.KERNEL, Place.DEVICE}:
            self.find("unclear.name", path)
        elif where is not Place.WORKSPACE and not _SYSTEM.match(path) and not is_public(path):
            self.find("run.outside", path)
        self.name = path.rsplit("/", 1)[-1]
        return self.judge_program()

    def run_written(self, path: str) -> Stream:
        """Judge that a file is run which the script itself wrote: by its text if that is known."""
        stream = self.scope.files[path]
        if stream.source == "network":
            self.find("run.download")
        elif stream.source == "program":
            self.name = stream.text or "sh"
            return self.judge_program()
        elif stream.source == "built":
            pass
        elif stream.text is None or UNKNOWN in stream.text:
            self.find("run.written", path if not path.startswith("/dev/fd/") else "What a substitution gives")
        elif (first := stream.text.partition("\n")[0]).startswith("#!") and not re.search(
            r"\b\w*sh\b", first
        ):
            inner = self.scope.branch()
            inner.stdin = Stream(stream.text.partition("\n")[2])
            self.shell.call([Word(part) for part in first[2:].split()] or [Word("sh")], inner)
        else:
            self.script(stream.text)
        return UNREAD

    def script(self, text: str, words: Sequence[Word] = (), scope: Scope | None = None) -> Stream:
        """Judge ``text`` as a script with ``words`` as its arguments, in a shell of its own."""
        inner = (scope or self.scope).branch()
        for number, word in enumerate(words[:10]):
            inner.assign(str(number), word.text)
        return self.same_shell(text, inner)

    def guess(self, text: str) -> None:
        """Judge ``text`` within code of another language, which may be a command."""
        self.shell.script(text.replace(UNKNOWN, _UNKNOWN_VALUE), self.scope.branch(), guessed=True)

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
        """Judge effects, separated by semicolons: a verb of VERBS, then what it applies to.

        That is the values of options by their names, or operands by a slice: ``read f file; write 1:``.
        """
        for verb, selectors in _effects(does):
            for word in _selected(selectors, found):
                verb(self, word)

    def read(self, word: Word, deep: bool = False) -> None:
        """The path is read."""
        effects.read(self.shell, self.scope, word, deep)

    def write(self, word: Word, create: bool = False, output: Stream = UNREAD) -> None:
        """The path is written."""
        effects.write(self.shell, self.scope, word, create)
        self.scope.keep(word, output)

    def delete(self, word: Word, deep: bool = False) -> None:
        """The path is deleted."""
        effects.delete(self.shell, self.scope, word, deep)

    def path(self, word: Word) -> str | None:
        """Where the path leads."""
        return resolve(word.text, self.scope.cwd)

    def place(self, word: Word) -> Place:
        """Whose the path is."""
        return place(self.path(word), self.shell.workspace)


VERBS: Mapping[str, Callable[[Call, Word], object]] = {
    "read": Call.read,
    "read-deep": lambda call, word: call.read(word, deep=True),
    "stat": lambda call, word: effects.stat(call.shell, call.scope, word),
    "write": Call.write,
    "create": lambda call, word: call.write(word, create=True),
    "delete": Call.delete,
    "delete-deep": lambda call, word: call.delete(word, deep=True),
    "script": lambda call, word: call.script(word.text),
}


@cache
def _effects(text: str) -> tuple[tuple[Callable[[Call, Word], object], str], ...]:
    parts = (part.split(None, 1) for part in text.split(";"))
    return tuple((VERBS[verb], chosen) for verb, chosen in parts)


def _selected(selectors: str, found: Options) -> Sequence[Word]:
    if ":" in selectors:
        return found.operands[_slice(selectors)]
    return found.of(selectors)


@cache
def _slice(text: str) -> slice:
    start, end = (int(part) if part else None for part in text.split(":"))
    return slice(start, end)


def judge_variable(call: Call, name: str, value: str) -> None:
    """Judge that ``name`` is given ``value``."""
    if _GUARDS.search(name.upper()) and not _LARGE.fullmatch(value):
        call.shell.find("guard.tamper", f"Setting {name}")
    if _SKIPS.fullmatch(name) and (not call.words or call.name in {"git", "pre-commit"}):
        call.shell.find("git.config", f"Setting {name}")
    if name in _SEARCHED:
        folders = [resolve(folder or ".", call.scope.cwd) for folder in value.split(":")]
        for folder in folders:
            if place(folder, call.shell.workspace) in {Place.SCRATCH, Place.DEVICE, Place.KERNEL}:
                call.shell.find("run.preload", f"Looking for programs in {folder}")
    elif _LOADS.match(name) and not _HARMLESS.fullmatch(value):
        call.shell.find("run.preload", f"Setting {name}")
        call.script(value.replace(UNKNOWN, ""))
    elif _RUNS.match(name) and (name[:2] != "PS" or "$(" in value or "`" in value):
        if not _SIMPLE.fullmatch(value):
            call.shell.find("run.preload", f"Setting {name}")
        if UNKNOWN not in value:
            call.script(value)
