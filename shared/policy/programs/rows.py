"""Rows: what a program does, declared by its options and operands; one evaluator judges them all."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

import msgspec

from shared.policy.call import Call, Handler
from shared.policy.options import Options, parse_options
from shared.policy.scope import Stream
from shared.policy.words import Word


class Step(msgspec.Struct, frozen=True, gc=False):
    """One line of a row: if all of its conditions hold, ``rule`` is found and ``does`` is judged.

    Conditions; names of options are separated by spaces:
    ``has``, ``also``: one of these options is given; ``lacks``: none of these is; ``given``: one of these has
    a value; ``program``: it is called by one of these names; ``operand``, ``argument``: a pattern of a whole
    operand or argument; ``words``: a pattern of the first operands, whole words with a space after each;
    ``line``: as ``words``, of all arguments; ``$`` stands for the end.
    ``does``: effects, as Call.apply has them. ``stop``: nothing after it counts.
    """

    rule: str = ""
    has: str = ""
    also: str = ""
    lacks: str = ""
    given: str = ""
    words: str | None = None
    operand: str | None = None
    argument: str | None = None
    line: str | None = None
    program: str = ""
    does: str = ""
    stop: bool = False


class First(msgspec.Struct, frozen=True, gc=False):
    """Of these steps the first whose conditions hold counts."""

    steps: tuple[Step, ...]


Part = Step | First | Callable[[Call, Options], object]
"""A part of a row; a function judges what no step can declare."""


Output = Stream | None | Callable[[Call, Options], Stream | None]
"""What a program prints, None if that is not known."""


class Row(msgspec.Struct, frozen=True, gc=False):
    """A program, or one command of it: ``valued`` are the options that take a value, ``output`` is printed.

    ``permute``: options may follow operands.
    """

    valued: str
    parts: tuple[Part, ...]
    permute: bool = True
    output: Output = None

    @property
    def steps(self) -> tuple[Step, ...]:
        """All of its steps, whatever part they are in."""
        return tuple(
            step
            for part in self.parts
            if isinstance(part, Step | First)
            for step in (part.steps if isinstance(part, First) else (part,))
        )

    def __call__(self, call: Call) -> Stream | None:
        """Judge a call of the program."""
        return self.judge(call, call.args)

    def judge(self, call: Call, words: Sequence[Word]) -> Stream | None:
        """Judge ``words``: the arguments of the program, or of one of its commands."""
        found = parse_options(words, self.valued, self.permute)
        joined: dict[str, str] = {}
        for part in self.parts:
            if not isinstance(part, Step | First):
                part(call, found)
                continue
            for step in (part,) if isinstance(part, Step) else part.steps:
                if _holds(step, call, found, words, joined):
                    _apply(step, call, found)
                    if step.stop:
                        return None
                    break
        return self.output(call, found) if callable(self.output) else self.output


def row(valued: str, *parts: Part, permute: bool = True, output: Output = None) -> Row:
    """A row of ``parts``, judged in this order."""
    return Row(valued, parts, permute, output)


def first(*steps: Step) -> First:
    """The part of a row that is the first of ``steps`` whose conditions hold."""
    return First(steps)


def always(rule: str) -> Row:
    """The row of a program to which ``rule`` applies whatever it is given."""
    return row("", Step(rule))


HARMLESS = row("")
"""The row of a program that can do no harm."""


def by_name(tables: Iterable[Mapping[str, Handler]]) -> dict[str, Handler]:
    """Every handler by the name of its program: the keys of the tables are names, separated by spaces.

    Of two with the same name the later counts.
    """
    return {name: handler for table in tables for names, handler in table.items() for name in names.split()}


def _holds(step: Step, call: Call, found: Options, arguments: Sequence[Word], joined: dict[str, str]) -> bool:
    """Whether all conditions of a step hold; ``joined`` keeps texts that several steps are matched with."""
    if step.has and not found.has(step.has):
        return False
    if step.also and not found.has(step.also):
        return False
    if step.lacks and found.has(step.lacks):
        return False
    if step.given and not found.of(step.given):
        return False
    if step.program and call.name not in step.program.split():
        return False
    if step.words is not None:
        if "words" not in joined:
            joined["words"] = _joined(found.operands)
        if not _starts(step.words)(joined["words"]):
            return False
    if step.operand is not None and not _any_matches(step.operand, found.operands):
        return False
    if step.argument is not None and not _any_matches(step.argument, arguments):
        return False
    return step.line is None or bool(_starts(step.line)(_joined(arguments)))


def _any_matches(pattern: str, words: Sequence[Word]) -> bool:
    matches = _whole(pattern)
    return any(matches(word.text) for word in words)


def _apply(step: Step, call: Call, found: Options) -> None:
    if step.rule:
        call.find(step.rule)
    if step.does:
        call.apply(found, step.does)


@cache
def _whole(pattern: str) -> Callable[[str], object]:
    return re.compile(pattern, re.DOTALL).fullmatch


@cache
def _starts(pattern: str) -> Callable[[str], object]:
    return re.compile(rf"(?:{pattern})(?:(?<= )|(?= )|$)", re.DOTALL).match


def _joined(words: Sequence[Word]) -> str:
    """The words with one space after each; a space within a word does not count as one."""
    return "".join(word.text.replace(" ", "\x01") + " " for word in words) or " "


_HELP = ("help", "version", "--help", "--version", "-h", "-v", "-V", "")


def by_words(default: str, table: Mapping[str, str], valued: str = "") -> Handler:
    """A handler that looks the first words up: by rule ("" allows) ``table`` holds words between commas.

    The longest run of words that is listed decides, ``default`` if none is.
    """
    rules = {tuple(words.split()): name for name, line in table.items() for words in line.split(",")}

    def judge(call: Call) -> None:
        found = call.options(valued)
        words = tuple(word.text for word in found.operands[:3])
        listed = (rules.get(words[:length]) for length in range(len(words), 0, -1))
        rule: str | None = next((rule for rule in listed if rule is not None), None)
        if rule is None:
            helps = not words or found.has("help version h") or words[0] in _HELP
            rule = "" if helps else default
        if rule:
            call.find(rule)
        call.apply(found, "read 1:")

    return judge


class Reads(msgspec.Struct, frozen=True, gc=False):
    """A program that reads files or its input and prints.

    ``valued``: options with a value; of these ``reads``, ``writes``, ``runs`` name files and commands.

    ``skip``: operands at the front that are no files; ``deep``: options that read folders; ``inplace``:
    options that write the operands; ``refuse``: options whose effect is not known; ``last``: the operand from
    which on files are written (-1: none); ``passes``: what comes in goes out, endless if it was;
    ``bounds``: it ends with one of these options; ``names_only``: it looks at no content;
    ``queries``: it shows parts of what it reads.
    """

    valued: str = ""
    reads: str = ""
    writes: str = ""
    runs: str = ""
    skip: int = 0
    deep: str = ""
    inplace: str = ""
    refuse: str = ""
    last: int = -1
    passes: bool = False
    bounds: str = ""
    names_only: bool = False
    queries: bool = False

    @property
    def options(self) -> str:
        """All options that take a value."""
        return f"{self.valued} {self.reads} {self.writes} {self.runs}"


def reader_of(spec: Reads) -> Handler:
    """The handler of a program that ``spec`` describes."""
    options = spec.options

    def judge(call: Call) -> Stream | None:  # noqa: PLR0912 - one branch a kind
        found = call.options(options)
        for word in found.of(spec.reads):
            call.read(word)
        for word in found.of(spec.writes):
            call.write(word)
        for word in found.of(spec.runs):
            call.run_hidden(word.text)
        if found.has(spec.refuse):
            call.find("unknown.use")
        files = found.operands[spec.skip :]
        if spec.last >= 0:
            for word in files[spec.last :]:
                call.write(word)
            files = files[: spec.last]
        recursive = found.has(spec.deep)
        endless = spec.passes and not files and call.stdin.endless
        if call.stdin.endless and not (files or spec.passes or spec.skip):
            call.find("exhaust.endless")
        for word in files:
            if spec.names_only:
                if call.name not in {"basename", "dirname", "pathchk"}:
                    call.stat(word)
                continue
            if spec.queries and not recursive:
                call.query(word)
            else:
                call.read(word, recursive)
            if call.is_endless(word):
                endless = True
                if not spec.passes:
                    call.find("exhaust.endless")
        if found.has(spec.inplace):
            for word in files:
                call.write(word)
        endless = endless and not found.has(spec.bounds)
        return (
            Stream(None, None, "computed" if spec.passes else "", endless) if endless or spec.passes else None
        )

    return judge
