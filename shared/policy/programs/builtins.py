"""Builtins of the shell that change what follows or print what is known, and shells themselves."""

import re

from shared.policy import effects
from shared.policy.call import Call, Handler
from shared.policy.expansion import UNKNOWN
from shared.policy.paths import Place
from shared.policy.scope import NOTHING, Stream, Word

_ESCAPES = re.compile(r"\\(x[0-9a-fA-F]{1,2}|0?[0-7]{1,3}|.)")
_CODES = {**dict.fromkeys("nfv", "\n"), **{sign: sign for sign in "\\\"'"}, "t": "\t", "r": "\r", "e": "\x1b"}


def _decode(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "x":
            return chr(int(code[1:], 16)) if len(code) > 1 else "x"
        return (
            chr(int(code, 8) & 255) if code.isdigit() else _CODES.get(code, "" if code in "ab" else match[0])
        )

    return _ESCAPES.sub(one, text)


def _print(text: str) -> Stream:
    return Stream(None, None, "computed") if UNKNOWN in text else Stream(text.removesuffix("\n") + "\n")


def judge_echo(call: Call) -> Stream:
    """It prints its words."""
    words = [word.text for word in call.args]
    flags = ""
    while words and re.fullmatch(r"-[neE]+", words[0]):
        flags += words.pop(0)
    text = _decode(" ".join(words)) if "e" in flags else " ".join(words)
    return Stream(text) if "n" in flags and UNKNOWN not in text else _print(text)


def judge_printf(call: Call) -> Stream:
    """It prints its words in a format."""
    words = [word.text for word in call.args]
    if words[:1] == ["-v"] and len(words) > 1:
        call.scope.assign(words[1], UNKNOWN)
        return NOTHING
    words = words[1:] if words[:1] == ["--"] else words
    if not words:
        return _print("")
    text, rest = _decode(words[0]), words[1:]
    if "%" in text:
        if not re.fullmatch(r"([^%]|%%|%[sb]|%[dq])*", text):
            return Stream(source="computed")
        slots = len(re.findall(r"%[sbdq]", text))
        lines = [rest[start : start + slots] for start in range(0, max(len(rest), 1), slots or 1)][:64]
        text = "".join(_fill(text, line) for line in lines)
    return _print(text)


def _fill(text: str, values: list[str]) -> str:
    parts = iter(values)

    def one(match: re.Match[str]) -> str:
        value = "%" if match[1] == "%" else next(parts, "")
        return _decode(value) if match[1] == "b" else value

    return re.sub(r"%([sbdq%])", one, text)


def judge_cat(call: Call) -> Stream:
    """What it is fed, or a file the script itself wrote, goes on as it is."""
    files = call.options().operands
    shell, scope = call.shell, call.scope
    streams = [call.stdin if word.text == "-" else effects.feed(shell, scope, word) for word in files]
    if len(streams) < 2:
        return streams[0] if streams else call.stdin
    texts = [stream.text for stream in streams]
    source = next((stream.source for stream in streams if stream.source), "")
    return Stream("".join(text or "" for text in texts) if None not in texts else None, None, source)


def judge_cd(call: Call) -> Stream:
    """From here on paths start elsewhere."""
    found = call.options().operands
    if not found:
        call.scope.cwd = None if call.name == "pushd" else call.scope.value("HOME")
    elif call.name == "popd" or found[0].text == "-" or found[0].glob:
        call.scope.cwd = None
    else:
        call.scope.cwd = call.path(found[0])
    return NOTHING


def judge_read(call: Call) -> Stream:
    """Variables get a value from the input."""
    found = call.options("d i n N p t u a" if call.name == "read" else "d n O s u C c")
    call.apply(found, "script C")
    for word in [*found.operands, *found.of("a")]:
        call.scope.assign(word.text, UNKNOWN)
    return NOTHING


def judge_set(call: Call) -> Stream:
    """Options of the shell, or its arguments."""
    words = [word.text for word in call.args]
    if "--" in words or (words and not words[0].startswith(("-", "+"))):
        rest = words[words.index("--") + 1 :] if "--" in words else words
        for number, text in enumerate(rest[:9], 1):
            call.scope.assign(str(number), text)
        call.scope.assign("@", " ".join(rest))
        call.scope.assign("*", " ".join(rest))
    return NOTHING


def judge_eval(call: Call) -> None:
    """Its words are put together and run."""
    words = [word for word in call.args if word.text != "--"]
    if any(not word.known for word in words):
        call.find("run.download" if call.shell.fetched else "unclear.eval", call.name)
    call.same_shell(" ".join(word.text for word in words))


def judge_trap(call: Call) -> None:
    """A script is run when a signal comes."""
    words = [word for word in call.args if word.text not in {"--", "-l", "-p"}]
    if len(words) > 1 and words[0].text not in {"-", ""}:
        call.script(words[0].text) if words[0].known else call.find("unclear.command")


def judge_alias(call: Call) -> None:
    """A name gets another meaning."""
    for word in call.args:
        name, equals, text = word.text.partition("=")
        if equals:
            call.scope.aliases[name] = text
            call.script(text)


def judge_hash(call: Call) -> None:
    """With -p a name stands for another program."""
    found = call.options("p")
    for path, name in zip(found.of("p"), found.operands, strict=False):
        call.scope.aliases[name.text] = path.text


def judge_shell(call: Call) -> Stream | None:
    """A shell runs the text after -c, a file, or what it is fed."""
    found = call.options("o O rcfile init-file c Command")
    texts = found.of("c Command")
    operands = found.operands
    if not texts and any(flag.endswith("c") and len(flag) > 1 and "-" not in flag for flag in found.flags):
        texts, operands = operands[:1], operands[1:]
    if found.has("rcfile init-file") and not texts:
        call.find("unclear.input")
    if texts:
        if not texts[0].text.strip("\0\"' "):
            call.find("run.download" if call.shell.fetched else "unclear.command")
            return None
        return call.script(texts[0].text, operands)
    if operands and not found.has("s"):
        return run_file(call, operands[0])
    return None if found.has("version help n") else _run_input(call)


def run_file(call: Call, word: Word) -> Stream | None:
    """A script is run: one of the workspace may be, others are asked after."""
    path = call.path(word)
    if path is not None and path in call.scope.files:
        return call.run_written(path)
    where = call.place(word)
    if word.text in {"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}:
        return _run_input(call)
    if "://" in word.text or (path is not None and call.scope.is_fetched(path)):
        call.find("run.download")
    elif where not in {Place.WORKSPACE, Place.UNKNOWN}:
        call.find("run.outside", path or word.text)
    for argument in call.args:
        call.read(argument)
    return None


def _run_input(call: Call) -> Stream | None:
    stream = call.stdin
    if stream.source == "network":
        call.find("run.download")
    elif stream.text is None:
        call.find("unclear.input", call.name)
    elif stream is not NOTHING:
        return call.script(stream.text)
    return None


def judge_source(call: Call) -> None:
    """A file is run in this shell."""
    if call.args and call.place(call.args[0]) is not Place.HOME:  # the jail has its own
        run_file(call, call.args[0])


PROGRAMS: dict[str, Handler] = {
    "echo print": judge_echo,
    "printf": judge_printf,
    "cat": judge_cat,
    "cd chdir pushd popd": judge_cd,
    "pwd": lambda call: _print(call.scope.cwd or UNKNOWN),
    "date": lambda call: Stream("2026-01-01\n"),
    "basename": lambda call: Stream("*\n"),
    "mktemp": lambda call: _print("/tmp/new"),  # noqa: S108 - a made-up name
    "pgrep pidof": lambda call: _print(" ".join(word.text for word in call.args)),
    "read mapfile readarray": judge_read,
    "set": judge_set,
    "eval": judge_eval,
    "trap": judge_trap,
    "alias": judge_alias,
    "hash": judge_hash,
    "dirname": lambda call: _print(call.args[-1].text.rpartition("/")[0] or ".") if call.args else None,
    "source .": judge_source,
    "sh bash dash zsh ksh mksh ash csh tcsh fish rbash pwsh powershell yash posh xonsh osh nu": judge_shell,
}
