"""Escapes: what a backslash means outside and inside of each kind of quotes.

What quotes protect from being split and expanded is shifted to private signs until the words are made.
"""

import re

_SHIFT = 0xE000
_SPECIAL = "*?[]{},~$ \t\n"
_PROTECT = {ord(sign): _SHIFT + ord(sign) for sign in _SPECIAL}
_REVEAL = {_SHIFT + ord(sign): sign for sign in _SPECIAL}
_ANSI = re.compile(r"\\(?:x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_CODED = re.compile(r"\\[xuU][0-9a-fA-F]|\\[0-7]")
_LETTERS = {
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
    """What stands in ``$'...'``; whether a sign is given by its number. ``unknown`` for what is no sign."""
    if "\\" not in text:
        return text, False

    def decode(match: re.Match[str]) -> str:
        code = match[0][1:]
        if code[0] in "xuU" and len(code) > 1:
            number = int(code[1:], 16)
            return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else unknown
        if code[0] in "01234567":
            return chr(int(code, 8) & 255)
        return _LETTERS.get(code[0], code[-1])

    coded = any(_CODED.match(match[0]) for match in _ANSI.finditer(text))
    return _ANSI.sub(decode, text), coded


def unescape_string(text: str) -> str:
    """What stands in double quotes."""
    return _IN_STRING.sub(lambda match: match[1] or "", text) if "\\" in text else text


def unescape_document(text: str) -> str:
    """What stands in a here-document whose variables count."""
    return _IN_DOCUMENT.sub(lambda match: match[1] or "", text) if "\\" in text else text
