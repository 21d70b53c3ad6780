"""find, grep and their like: what they look for, and what they do with what they find."""

import re

from shared.policy.call import Call, Handler
from shared.policy.paths import Place, is_likely_secret, is_sought
from shared.policy.scope import Stream, Word
from shared.policy.words import parse_options

_RUNS = {"-exec", "-execdir", "-ok", "-okdir"}
_WRITES = {"-fprint", "-fprint0", "-fls", "-fprintf"}
_INVERTS = {"*", "!", "-not", "-o", "-or"}  # With these a name says little of what is left to be found
_NAMES = {"-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex", "-lname", "-ilname"}
_NARROWS = _NAMES | {"-empty", "-inum", "-samefile", "-xtype", "-mtime", "-mmin", "-size", "-atime", "-newer"}
"""Tests that leave a part of what there is."""
_SET_ID = re.compile(r"[-/]?[2467]000|[ug][=+]s")


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
    # Patterns of what may be found: the name asked for, in each folder looked through
    texts = [word.text for word in tests]
    names = [texts[index + 1] for index, text in enumerate(texts[:-1]) if text in {"-name", "-iname"}]
    name = next(iter(names), "")
    if "*" in names or not _INVERTS.isdisjoint(texts):
        name = "*" if "*" in names or not names else f"{name}*" if "*" not in name else "*"
    elif not name and not _NARROWS.isdisjoint(texts):
        name = "found*"
    found = [Word(f"{root.text.rstrip('/') or '/'}/{name or '*'}".replace("//", "/"), True) for root in roots]
    outside = any(call.place(root) not in {Place.WORKSPACE, Place.SCRATCH, Place.UNKNOWN} for root in roots)
    for index, word in enumerate(tests):
        text = word.text
        value = tests[index + 1] if index + 1 < len(tests) else Word("")
        sought = text in _NAMES and (is_sought(value.text) or is_likely_secret(value.text))
        if ((sought or text == "-writable") and outside) or (text == "-perm" and _SET_ID.search(value.text)):
            call.find("secret.search")
        elif text in _WRITES:
            call.write(value)
        elif text == "-delete":
            for one in found:
                call.delete(one, deep=True)
        elif text in _RUNS:
            _run(call, tests[index + 1 :], found)
    for root in roots:
        call.apply(parse_options([root]), "stat :")
    return Stream(None, tuple(word.text for word in found))


def _run(call: Call, rest: list[Word], found: list[Word]) -> None:
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


def judge_fd(call: Call) -> Stream | None:
    """fd: as find, with -x and -X to run commands."""
    valued = "e t d E S o c j type extension max-depth exclude"
    operands = parse_options(call.args, valued).operands
    for index, word in enumerate(call.args):
        if word.text in {"-x", "--exec", "-X", "--exec-batch"}:
            before = parse_options(call.args[:index], valued).operands
            target = Word((before[1].text if len(before) > 1 else ".") + "/found*", True)
            words = [
                Word(one.text.replace("{}", target.text)) for one in call.args[index + 1 :] if one.text != ";"
            ]
            call.run(
                words if any("{" in one.text for one in call.args[index + 1 :]) else [*words, target],
                Stream(),
            )
            return None
    if (
        operands
        and is_sought(operands[0].text)
        and len(operands) > 1
        and call.place(operands[1]) is not Place.WORKSPACE
    ):
        call.find("secret.search")
    return Stream(None, ("./found*",))


def judge_grep(call: Call) -> Stream:
    """It reads files, all of a folder with -r; outside the workspace it may look for credentials."""
    found = call.options(
        "e f m A B C D d color colour include exclude exclude-dir exclude-from regexp file max-count "
        "after-context before-context context binary-files label g glob t type T type-not iglob M "
        "max-columns pre pre-glob j threads"
    )
    if found.has("pre"):
        call.find("unclear.command")
    call.apply(found, "read f file exclude-from")
    patterns, operands = found.of("e regexp"), found.operands
    if not patterns and not found.has("f file files"):
        patterns, operands = operands[:1], operands[1:]
    deep = call.name in {"rgrep", "rg", "ag", "ack"} or found.has("r R recursive dereference-recursive")
    for word in operands:
        call.read(word, deep)
        outside = call.place(word) not in {Place.WORKSPACE, Place.SCRATCH, Place.UNKNOWN}
        if deep and outside and any(is_sought(pattern.text) for pattern in patterns):
            call.find("secret.search")
    if call.stdin.source == "history" and any(is_sought(word.text) for word in patterns):
        call.find("secret.search")
    listed = found.has("l files-with-matches L") or any("l" in flag and len(flag) < 4 for flag in found.flags)
    paths = tuple(f"{word.text.rstrip('/')}/found*" if deep else word.text for word in operands)
    return Stream(None, paths if listed and paths else None, call.stdin.source or "computed")


def judge_part(call: Call) -> Stream:
    """Programs that show a part of their input: what it is made of stays what it was."""
    found = call.options(
        "d f c b fields delimiter" if call.name == "cut" else "" if call.name == "od" else "n c w lines bytes"
    )
    for word in found.operands if call.name != "tr" else ():
        call.read(word)
    text = call.stdin.text
    kept = call.name in {"head", "tail"} and not found.operands and text and "\n" not in text.strip("\n")
    kept = kept and not found.has("c bytes")
    return Stream(text if kept else None, call.stdin.paths, call.stdin.source or "computed")


def judge_locate(call: Call) -> None:
    """It looks names up on the whole machine."""
    if any(is_sought(word.text) for word in call.args):
        call.find("secret.search")


PROGRAMS: dict[str, Handler] = {
    "find gfind": judge_find,
    "fd fdfind": judge_fd,
    "grep egrep fgrep zgrep rgrep rg ag ack ggrep": judge_grep,
    "head tail tr cut rev tac base64 base32 xxd od gunzip zcat column fold": judge_part,
    "locate mlocate plocate slocate mdfind": judge_locate,
    "history fc": lambda call: Stream(source="history"),
}
