"""find and its like: what they do with what they find."""

import re

from shared.policy import secrets
from shared.policy.call import Call, Handler
from shared.policy.options import Options, parse_options
from shared.policy.paths import Place
from shared.policy.programs.code import judge_awk_program
from shared.policy.scope import Stream
from shared.policy.words import Word

_RUNS = {"-exec", "-execdir", "-ok", "-okdir"}
_WRITES = {"-fprint", "-fprint0", "-fls", "-fprintf"}
_INVERTS = {"*", "!", "-not", "-o", "-or"}
"""With these a name says little of what is left to be found."""
_SIMPLE = {"-name", "-iname"}
_NAMES = {"-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-lname", "-ilname"}
_NARROWS = _NAMES | {"-empty", "-inum", "-samefile", "-xtype"}
"""Tests that leave few files; an age, a size or an owner may fit them all."""
_AGES = {"-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin", "-size", "-user"}
"""Among temporary files these are enough."""


_SET_ID = re.compile(r"[2467]000|[ug][=+]s")


def judge_find(call: Call) -> Stream | None:
    """It lists names; -delete, -exec and -fprint do more with what is found."""
    args, position = list(call.args), 0
    while position < len(args) and args[position].text in {"-H", "-L", "-P"}:
        position += 1
    roots = []
    while position < len(args) and not args[position].text.startswith(("-", "(", "!", "\\(")):
        roots.append(args[position])
        position += 1
    roots = roots or [Word(".")]
    tests = args[position:]
    found = _found_words(call, roots, tests)
    for index, word in enumerate(tests):
        text = word.text
        value = tests[index + 1] if index + 1 < len(tests) else Word("")
        named = text in _NAMES and (secrets.is_sought(value.text) or value.text.startswith("."))
        sought = (named or text in {"-writable", "-nouser"}) and _is_outside(call, roots)
        if sought or (text == "-perm" and _SET_ID.search(value.text)):
            call.find("secret.search")
        elif text in _WRITES:
            call.write(value)
        elif text == "-delete":
            _delete(call, found, tests)
        elif text in _RUNS:
            _run(call, tests[index + 1 :], found, tests)
        elif text == "-files0-from":
            call.read(value)
    for root in roots:
        call.stat(root)
    return Stream(None, tuple(word.text for word in found))


def _is_outside(call: Call, roots: list[Word]) -> bool:
    return any(call.place(root) not in {Place.WORKSPACE, Place.SCRATCH} for root in roots)


def _found_words(call: Call, roots: list[Word], tests: list[Word]) -> list[Word]:
    """Patterns of what may be found: the name asked for, in each folder looked through."""
    names = [tests[index + 1].text for index, word in enumerate(tests[:-1]) if word.text in _SIMPLE]
    name = "*" if "*" in names else next(iter(names), "")
    scratch = all(call.place(root) is Place.SCRATCH for root in roots)
    if not name and any(word.text in _NARROWS or (scratch and word.text in _AGES) for word in tests):
        name = "found*"
    return [Word(f"{root.text.rstrip('/') or '/'}/{name or '*'}".replace("//", "/"), True) for root in roots]


def _delete(call: Call, found: list[Word], tests: list[Word]) -> None:
    everything = not any(word.text in _NARROWS for word in tests) or any(
        word.text in _INVERTS for word in tests
    )
    for word in found:
        call.delete(word, deep=everything, force=everything)


def _run(call: Call, rest: list[Word], found: list[Word], tests: list[Word]) -> None:
    words = []
    for word in rest:
        if word.text in {";", "+", "\\;"}:
            break
        words.append(word)
    for one in found[:4]:
        call.run(
            [
                Word(word.text.replace("{}", one.text), "{}" in word.text or word.glob, word.obfuscated)
                for word in words
            ],
            Stream(),
        )
    if words and words[0].text == "{}":
        call.find("unclear.command")


_FD = "e t d E S o c j type extension max-depth exclude size owner changed-within changed-before threads"


def judge_fd(call: Call) -> Stream | None:
    """fd: as find, with -x and -X to run commands."""
    for index, word in enumerate(call.args):
        if word.text in {"-x", "--exec", "-X", "--exec-batch"}:
            before = parse_options(call.args[:index], _FD).operands
            target = Word((before[1].text if len(before) > 1 else ".") + "/found*", True)
            words = [
                Word(one.text.replace("{}", target.text)) for one in call.args[index + 1 :] if one.text != ";"
            ]
            if not any("{" in one.text for one in call.args[index + 1 :]):
                words.append(target)
            call.run(words, Stream())
            return None
    for word in call.options("e t d E S o c j type extension max-depth exclude").operands[1:]:
        call.stat(word)
    return Stream(None, ("./found*",))


def judge_locate(call: Call) -> None:
    """It looks names up on the whole machine."""
    for word in call.options("d l n limit database").operands:
        if secrets.is_sought(word.text):
            call.find("secret.search")


_AWK_WRITES = re.compile(r"(?:-[dop]|--(?:dump-variables|pretty-print|profile|debug)=)(/.+|~.+)").fullmatch
"""Options that have gawk write a file of that name."""


def _judge_awk_options(call: Call, found: Options) -> None:
    """Options that give it a path, have it write a file, or load foreign code."""
    if found.has("l load"):
        call.find("run.preload")
    for word in found.of("v assign"):
        call.read(Word(word.text.partition("=")[2]))
    for word in call.args:
        if match := _AWK_WRITES(word.text):
            call.write(Word(match[1]))


def judge_awk(call: Call) -> Stream | None:
    """awk computes on lines; its language can run commands and write files."""
    found = call.options("F v f e i field-separator assign file source include l", permute=False)
    programs = list(found.of("e source"))
    for word in found.of("f file i include"):
        if word.text in {"inplace", "/usr/share/awk/inplace.awk"}:
            continue
        call.read(word)
        path = call.path(word)
        if call.place(word) is not Place.WORKSPACE:
            call.find("run.outside", word.text)
        if path in call.scope.files:
            call.find("unclear.code", call.name)
    _judge_awk_options(call, found)
    inplace = any("inplace" in word.text for word in found.of("i include"))
    files = found.operands
    if not programs and not found.of("f file"):
        programs, files = files[:1], files[1:]
    for word in programs:
        judge_awk_program(call, word.text)
    for word in files:
        if "=" not in word.text:
            call.write(word) if inplace else call.query(word)
            if call.is_endless(word):
                call.find("exhaust.endless")
    return Stream(None, None, "computed", call.stdin.endless and not files)


PROGRAMS: dict[str, Handler] = {
    "find gfind": judge_find,
    "fd fdfind": judge_fd,
    "locate mlocate plocate slocate mdfind": judge_locate,
    "awk gawk mawk nawk goawk": judge_awk,
}
