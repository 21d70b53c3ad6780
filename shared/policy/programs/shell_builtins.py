"""Builtins of the shell and small programs that print: echo, printf, cd, read, set, date, ps."""

import re

from shared.policy import secrets
from shared.policy.call import Call, Handler
from shared.policy.expansion import UNKNOWN
from shared.policy.programs.rows import Step, row
from shared.policy.scope import Stream

_ESCAPES = re.compile(r"\\(x[0-9a-fA-F]{1,2}|0?[0-7]{1,3}|.)")
_CODES = {
    "n": "\n", "t": "\t", "r": "\r", "a": "", "b": "", "f": "\n", "v": "\n", "\\": "\\", "e": "\x1b",
    '"': '"', "'": "'",
}  # fmt: skip
_HEAVY = re.compile(r"%[-+ #0]*\d{7,}")


def _decode(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] == "x":
            return chr(int(code[1:], 16)) if len(code) > 1 else "x"
        if code.isdigit():
            return chr(int(code, 8) & 255)
        return _CODES.get(code, match[0])

    return _ESCAPES.sub(one, text)


def judge_echo(call: Call) -> Stream | None:
    """It prints its words; a variable that holds a secret is one."""
    words = list(call.args)
    decode = False
    while words and re.fullmatch(r"-[neE]+", words[0].text):
        decode |= "e" in words.pop(0).text
    for word in words:
        if word.glob:
            call.stat(word)
    text = " ".join(word.text for word in words)
    return _stream(_decode(text) if decode else text)


def judge_printf(call: Call) -> Stream | None:
    """It prints its words in a format."""
    words = [word.text for word in call.args]
    if words[:1] == ["-v"] and len(words) > 1:
        call.scope.assign(words[1], UNKNOWN)
        words = words[2:]
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        return _stream("")
    if _HEAVY.search(words[0]):
        call.find("exhaust.large")
    text = _decode(words[0])
    rest = words[1:]
    if "%" in text:
        if not re.fullmatch(r"([^%]|%%|%[sb]|%[dq])*", text):
            return Stream(source="computed")
        slots = len(re.findall(r"%[sbdq]", text))
        lines = [rest[start : start + slots] for start in range(0, max(len(rest), 1), slots or 1)][:64]
        text = "".join(_fill(text, line) for line in lines)
    return _stream(text)


def _fill(text: str, values: list[str]) -> str:
    parts = iter(values)

    def one(match: re.Match[str]) -> str:
        if match[1] == "%":
            return "%"
        value = next(parts, "")
        return _decode(value) if match[1] == "b" else value

    return re.sub(r"%([sbdq%])", one, text)


def _stream(text: str) -> Stream:
    return (
        Stream(None, None, "computed")
        if UNKNOWN in text
        else Stream(text + "\n" if not text.endswith("\n") else text)
    )


def judge_environment(call: Call) -> Stream | None:
    """printenv, and env, set, export and declare if they list: the environment holds credentials."""
    found = call.options("u S C unset chdir split-string")
    names = [word.text for word in found.operands if "=" not in word.text]
    if call.name == "printenv" and names:
        if any(secrets.is_secret_variable(name) for name in names):
            call.find("secret.environment")
        return None
    return Stream(None, None, "environment")


def judge_date(call: Call) -> Stream | None:
    """It prints the time, or sets the clock."""
    found = call.options("d f r s date file reference set I iso-8601 rfc-3339 v j")
    call.apply(found, "read f file")
    if found.has("s set") or any(re.fullmatch(r"\d{8,12}(\.\d\d)?", word.text) for word in found.operands):
        call.find("guard.tamper")
    return Stream("2026-01-01\n") if not found.has("f file") else None


def judge_ps(call: Call) -> None:
    """It lists processes; with their environment it shows secrets."""
    previous = ""
    for word in call.args:
        text = word.text
        if "e" in text and text.isalpha() and len(text) < 7 and not previous.startswith("-"):
            call.find("secret.environment")
        previous = text


def judge_cd(call: Call) -> Stream | None:
    """From here on paths start elsewhere."""
    found = call.options()
    if call.name == "pushd" and not found.operands:
        call.scope.cwd = None
    elif not found.operands:
        call.scope.cwd = call.scope.value("HOME")
    elif found.operands[0].text == "-" or found.operands[0].glob:
        call.scope.cwd = None
    else:
        call.scope.cwd = call.path(found.operands[0])
    return Stream("")


def judge_mktemp(call: Call) -> Stream | None:
    """A new file or folder beneath /tmp, or at the path given."""
    found = call.options("p t tmpdir suffix")
    for word in [*found.of("p tmpdir"), *found.operands]:
        call.write(word, create=True)
    return Stream("/tmp/new\n") if not found.operands else _stream(found.operands[0].text)  # noqa: S108 - a made-up name


def judge_read(call: Call) -> Stream | None:
    """Variables get a value from the input."""
    found = call.options("d i n N p t u a C c O s")
    call.apply(found, "script C")
    for word in [*found.operands, *found.of("a")]:
        call.scope.assign(word.text, UNKNOWN)
    return Stream("")


def judge_set(call: Call) -> Stream | None:
    """Options of the shell; without any it lists all variables."""
    if not call.args:
        return Stream(None, None, "environment")
    words = [word.text for word in call.args]
    if "+o" in words and "history" in words:
        call.find("guard.tamper")
    if "--" in words or not words[0].startswith(("-", "+")):
        rest = words[words.index("--") + 1 :] if "--" in words else words
        for number, text in enumerate(rest[:9], 1):
            call.scope.assign(str(number), text)
        call.scope.assign("@", " ".join(rest))
        call.scope.assign("*", " ".join(rest))
    return Stream("")


def judge_declaration(call: Call) -> Stream | None:
    """export, declare and their like: without names they list all."""
    names = [word.text for word in call.args if not word.text.startswith("-")]
    if not names and call.name in {"export", "declare", "typeset", "readonly"}:
        return Stream(None, None, "environment")
    return Stream("")


PROGRAMS: dict[str, Handler] = {
    "echo": judge_echo,
    "printf": judge_printf,
    "print": judge_echo,
    "printenv": judge_environment,
    "date gdate": judge_date,
    "ps": judge_ps,
    "history fc": row("d", Step("guard.tamper", has="c d w a r n p s"), output=Stream(source="history")),
    "cd chdir pushd popd": judge_cd,
    "pwd": lambda call: _stream(call.scope.cwd or UNKNOWN),
    "basename": row("", output=Stream("*\n")),
    "yes": row("", output=Stream(endless=True)),
    "seq": row("", Step("exhaust.large", argument=r"-\d{9,}|\d{10,}|inf|infinity")),
    "mktemp": judge_mktemp,
    "read mapfile readarray": judge_read,
    "set": judge_set,
    "export declare typeset readonly local": judge_declaration,
}
