"""The expansions of the shell: quotes and escapes, braces, parameters, arithmetic."""

import re
from collections.abc import Iterator, Sequence
from fnmatch import translate
from itertools import pairwise

UNKNOWN = "\0"  # Represents, within a text, what is known only at run time

_DEFAULTS = {":-", "-", ":=", "="}
_REPLACES = {"/", "//", "/#", "/%"}
_NO_CHANGE = {"", ":?", "?"}
LONGEST_VALUE = 512  # Signs of a value that is still cut and matched; beyond that it counts as unknown


def expand(value: str, operator: str, arguments: Sequence[str], is_set: bool) -> tuple[str, bool]:
    """The text, and whether it is hidden on purpose: cut out of what the command itself does not set."""
    if operator in _NO_CHANGE:
        return value, False
    if operator in _DEFAULTS:
        if UNKNOWN in value or (not value and operator.startswith(":")):
            return "".join(arguments) or value, False
        return value, False
    if operator in {":+", "+"}:
        return "".join(arguments), False
    if UNKNOWN in value or any(UNKNOWN in argument for argument in arguments) or len(value) > LONGEST_VALUE:
        return UNKNOWN, not is_set and operator == ":"
    if operator == ":":
        return (_cut(value, arguments), False) if is_set else (UNKNOWN, True)
    if operator in {"#", "##", "%", "%%"}:
        return _strip(value, operator, "".join(arguments)), False
    if operator in _REPLACES:
        return _replace(value, operator, *(*arguments, "", "")[:2]), False
    if operator in {"^^", "^", ",,", ","}:
        return (value.upper() if operator == "^^" else value.lower() if operator == ",," else UNKNOWN), False
    return UNKNOWN, operator == "@"


def _cut(value: str, arguments: Sequence[str]) -> str:
    try:
        start, length = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else None
    except (ValueError, IndexError):
        return UNKNOWN
    return value[start:] if length is None else value[start:][:length]


def _replace(value: str, operator: str, pattern: str, new: str) -> str:
    """With other text in the place of ``pattern``; a file of a folder stays a file of it."""
    if any(sign in value for sign in "*?["):
        folder, slash, _ = value.rpartition("/")
        return f"{folder}{slash}*" if "/" not in new and not value.startswith("/") else UNKNOWN
    if any(sign in pattern for sign in "*?[\\"):
        return UNKNOWN
    if operator == "/#":
        return new + value.removeprefix(pattern) if value.startswith(pattern) else value
    if operator == "/%":
        return value.removesuffix(pattern) + new if value.endswith(pattern) else value
    return value.replace(pattern, new, 1 if operator == "/" else -1) if pattern else value


def _strip(value: str, operator: str, pattern: str) -> str:
    """Without the part at one end that ``pattern`` covers; a wildcard stays in its folder."""
    if "*" in value and operator == "##" and pattern == "*/":
        return "*"
    matches = re.compile(translate(pattern)).match
    front = operator.startswith("#")
    lengths = range(len(value) + 1) if len(operator) == 1 else range(len(value), -1, -1)
    for length in lengths:
        part = value[:length] if front else value[len(value) - length :]
        if matches(part):
            return value[length:] if front else value[: len(value) - length]
    return value


_SHIFT = 0xE000
_SPECIAL = "*?[]{},~$ \t\n"
_PROTECT = {ord(sign): _SHIFT + ord(sign) for sign in _SPECIAL}
_REVEAL = {_SHIFT + ord(sign): sign for sign in _SPECIAL}
_ANSI = re.compile(r"\\(?:x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_CODED = re.compile(r"\\[xuU][0-9a-fA-F]|\\[0-7]")
_ANSI_LETTERS = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v",
}  # fmt: skip
_SUBSCRIPT = re.compile(r"\w\[[^\]]*(\$\(|`)")
_IN_STRING = re.compile(r'\\([$`"\\])|\\\n')
_IN_DOCUMENT = re.compile(r"\\([$`\\])|\\\n")


def holds_subscript(text: str) -> bool:
    """Whether it is the name of an element whose number a command gives: the shell runs that command."""
    return "[" in text and bool(_SUBSCRIPT.search(text))


def protect(text: str) -> str:
    """``text`` as quotes keep it."""
    return text.translate(_PROTECT)


def reveal(text: str) -> str:
    """``text`` as the program sees it."""
    return text.translate(_REVEAL)


def unescape_bare(text: str) -> tuple[str, bool]:
    """A word outside of quotes; whether a letter in its middle is escaped, which only hides it."""
    if "\\" not in text:
        return text, False
    parts, escaped, spliced = [], False, False
    for position, sign in enumerate(text):
        if escaped:
            parts.append("" if sign == "\n" else protect(sign))
            spliced |= sign.isalnum() and position > 1
            escaped = False
        elif sign == "\\":
            escaped = True
        else:
            parts.append(sign)
    return "".join(parts), spliced


def unescape_ansi(text: str, unknown: str) -> tuple[str, bool]:
    """The text of ``$'...'``; whether it has character codes. ``unknown`` replaces invalid ones."""
    if "\\" not in text:
        return text, False

    def decode(match: re.Match[str]) -> str:
        code = match[0][1:]
        if code[0] in "xuU" and len(code) > 1:
            number = int(code[1:], 16)
            return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else unknown
        if code[0] in "01234567":
            return chr(int(code, 8) & 255)
        return _ANSI_LETTERS.get(code[0], code[-1])

    coded = any(_CODED.match(match[0]) for match in _ANSI.finditer(text))
    return _ANSI.sub(decode, text), coded


def unescape_string(text: str) -> str:
    """The text within double quotes."""
    return _IN_STRING.sub(lambda match: match[1] or "", text) if "\\" in text else text


def unescape_document(text: str) -> str:
    """The text of a here-document in which variables are expanded."""
    return _IN_DOCUMENT.sub(lambda match: match[1] or "", text) if "\\" in text else text


MOST_WORDS = 64  # Words one pair of braces may become before the rest is left out
LONGEST_TEXT = 1_024  # Signs of a word with braces that is still expanded
_BRACE_RANGE = re.compile(r"\{(-?\w+)\.\.(-?\w+)(\.\.-?\d+)?\}")


def expand_braces(raw: str, limit: int = MOST_WORDS) -> Iterator[str]:
    """At most ``limit`` of the words that ``raw`` expands to; of a long range its ends."""
    found = _outer(raw) if len(raw) <= LONGEST_TEXT else None
    if found is None or limit <= 0:
        yield raw
        return
    start, end, commas = found
    choices = _choices(raw, start, end, commas)
    if choices is None:
        for rest in expand_braces(raw[start + 1 :], limit):
            yield raw[: start + 1] + rest
        return
    for choice in choices[:limit]:
        yield from expand_braces(raw[:start] + choice + raw[end + 1 :], limit // len(choices))


def _choices(raw: str, start: int, end: int, commas: list[int]) -> list[str] | None:
    if commas:
        return [raw[before + 1 : after] for before, after in pairwise([start, *commas, end])]
    match = _BRACE_RANGE.fullmatch(raw, start, end + 1)
    return _range(match[1], match[2]) if match else None


def _range(first: str, last: str) -> list[str]:
    """All letters of a range, or as many numbers as the limit allows, its ends among them."""
    if len(first) == len(last) == 1 and not (first + last).isdigit():
        low, high = sorted((ord(first), ord(last)))
        return [chr(code) for code in range(low, high + 1)]
    if _distance(first, last) >= MOST_WORDS or not (first + last).replace("-", "").isdigit():
        return [first, last]
    low, high = sorted((int(first), int(last)))
    return [str(number) for number in range(low, high + 1)]


def _distance(first: str, last: str) -> int:
    try:
        return abs(int(first) - int(last))
    except ValueError:
        return 0


def _outer(raw: str) -> tuple[int, int, list[int]] | None:
    """The first pair of braces that closes, and its commas."""
    start = raw.find("{")
    while start >= 0:
        depth = 0
        commas: list[int] = []
        for position in range(start, len(raw)):
            sign = raw[position]
            if sign == "{":
                depth += 1
            elif sign == "}":
                depth -= 1
                if not depth:
                    return start, position, commas
            elif sign == "," and depth == 1:
                commas.append(position)
        start = raw.find("{", start + 1)
    return None
