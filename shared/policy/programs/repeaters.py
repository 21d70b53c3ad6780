"""xargs and parallel: they run a command for what they are fed."""

import re

from shared.policy.call import Call, Handler
from shared.policy.expansion import UNKNOWN
from shared.policy.scope import Stream
from shared.policy.words import Word

_RUNNERS = frozenset("sh bash dash zsh ksh eval env sudo python python3 perl ruby node xargs".split())
_FED = Word(UNKNOWN, made=True)


def judge_xargs(call: Call) -> Stream | None:
    """xargs runs a command on what it is fed."""
    found = call.options(
        "a d E I i L n P s arg-file delimiter max-args max-procs max-lines replace max-chars J R S",
        permute=False,
    )
    for word in found.of("a arg-file"):
        if word.text != "/dev/stdin":
            call.read(word)
    words = found.operands or [Word("echo")]
    if call.stdin.endless:
        call.find("exhaust.endless")
    fed = _fed_words(call)
    marks = [word.text for word in found.of("I replace J")] or (["{}"] if found.has("i replace") else [])
    if marks:
        lines = [Word(line) for line in (call.stdin.text or "").splitlines()[:8]] or fed[:1]
        for line in lines[1:]:
            call.run([_fill(word, marks[0], line) for word in words], stdin=Stream())
        full = [_fill(word, marks[0], lines[0]) for word in words]
        if marks[0] in words[0].text:
            call.find("unclear.command")
    else:
        full = [*words, *fed]
    if call.stdin.source == "network" or (
        call.stdin.source == "made" and words[0].text.rsplit("/", 1)[-1] in _RUNNERS
    ):
        call.find("unclear.input", call.name)
    return call.run(full, stdin=Stream())


def _fill(word: Word, mark: str, fed: Word) -> Word:
    return Word(word.text.replace(mark, fed.text), True, word.odd) if mark in word.text else word


def _fed_words(call: Call) -> list[Word]:
    stream = call.stdin
    if stream.text is not None:
        return [Word(text) for text in stream.text.split()[:32]] or [_FED]
    if stream.paths is not None:
        return [Word(path, True) for path in stream.paths] or [_FED]
    return [_FED]


def judge_parallel(call: Call) -> None:
    """parallel runs a command for each of its arguments."""
    found = call.options(
        "j S a I colsep arg-file jobs sshlogin joblog results tmpdir timeout delay N n L", permute=False
    )
    if found.has("S sshlogin"):
        call.find("network.remote")
    words, given = list(found.operands), []
    for position, word in enumerate(words):
        if word.text.startswith(":::"):
            given = [one for one in words[position + 1 :] if not one.text.startswith(":::")]
            words = words[:position]
            break
    given = given or _fed_words(call)
    if not words:
        for word in given:
            call.script(word.text)
        if not any(word.known for word in given):
            call.find("unclear.input", call.name)
        return
    if len(words) == 1 and " " in words[0].text:
        call.script(words[0].text.replace("{}", UNKNOWN if not given[0].known else given[0].text))
    for word in given[:32]:
        filled = [Word(re.sub(r"\{[./]*\}", word.text.replace("\\", "/"), one.text)) for one in words]
        call.run(filled if any("{" in one.text for one in words) else [*words, word])


PROGRAMS: dict[str, Handler] = {
    "xargs": judge_xargs,
    "gxargs": judge_xargs,
    "parallel": judge_parallel,
}
