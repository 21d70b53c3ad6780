"""Text without control characters, which could steer a terminal; or with each of them shown."""

import re

_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""What counts as printable and shows nothing."""


def clean(text: str) -> str:
    """``text`` on one line without control characters, which could steer a terminal."""
    return " ".join(clean_block(text).split())


def clean_block(text: str) -> str:
    """``text`` with its lines, without control characters."""
    return "".join(map(_printable, text.replace("\r\n", "\n").expandtabs(4)))


def escape_invisible(text: str) -> str:
    """``text`` with its lines; control and other invisible characters as their code points.

    Texts that differ are shown differently: a backslash that would begin a code point is shown as one.
    """
    return "\\u{5c}u{".join("".join(map(_escape, part)) for part in text.split("\\u{"))


def quote_exactly(text: str, limit: int, where: str) -> str:
    """``text`` as ``escape_invisible`` shows it, each line marked with ``|`` so that none is taken for ours.

    What is cut after ``limit`` characters says so, and that the whole is ``where``.
    """
    lines = (f"| {line}" for line in escape_invisible(text).split("\n"))
    return cut("\n".join(lines), limit, where)


def cut(text: str, limit: int, where: str) -> str:
    """``text``; after ``limit`` characters a line says that it is cut, and that the whole is ``where``."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n(Cut after {limit:,} of {len(text):,} characters: the whole is {where}.)"


def _escape(character: str) -> str:
    if character == "\n" or (character.isprintable() and not _BLANK.match(character)):
        return character
    return f"\\u{{{ord(character):x}}}"


def _printable(character: str) -> str:
    if character.isprintable() or character == "\n":
        return character
    return " " if character.isspace() else ""
