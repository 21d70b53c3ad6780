"""Text on one line, without invisible characters, cut between words."""

import re
import unicodedata

ELLIPSIS = "…"

_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
)
"""Invisible characters that can deceive: direction marks, fillers, tags, variation selectors, lone
surrogates. Joiners and selectors of emoji and joiners of Persian stay."""

_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\u3164\u2800]+")
"""White space of any kind and control characters."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u3164\u2800]")

_JOINERS = "\u200c\u200d"
_TONES = ("\U0001f3fb", "\U0001f3ff")
_FLAGS = ("\U0001f1e6", "\U0001f1ff")

_HEADROOM = 4
"""Only so many times the wanted length is processed: the rest would be cut off anyway."""


def flatten(text: str, limit: int) -> str:
    """``text`` on one line of at most ``limit`` characters, without control and invisible characters.

    Returns "" if nothing is left. A cut text ends in an ellipsis, after a whole word if possible, and never
    within a grapheme (a letter with its accents, an emoji with its joined parts, a flag).
    """
    head = text[: _HEADROOM * limit]
    plain = head.isascii() and head.isprintable() and "  " not in head
    line = head.strip() if plain else _BLANK.sub(" ", _UNSEEN.sub("", head)).strip(f" {_JOINERS}")
    if len(line) <= limit and _BLANK.sub("", text[len(head) :]):
        line = f"{line} {ELLIPSIS}".lstrip()
    return shorten(line, limit)


def flatten_lines(text: str) -> str:
    """``text`` with its lines, which a line feed alone ends, without control and invisible characters."""
    return "\n".join(_CONTROL.sub(" ", _UNSEEN.sub("", line)) for line in text.split("\n"))


def shorten(line: str, limit: int) -> str:
    """A line cut to ``limit`` characters, the ellipsis included, as described at ``flatten``."""
    if len(line) <= limit:
        return line
    space = limit - len(ELLIPSIS)
    blank = line.rfind(" ", limit // 2, space + 1)
    end = blank if blank > 0 else _boundary(line, space)
    return line[:end].rstrip(f" {_JOINERS}") + ELLIPSIS


def _boundary(line: str, end: int) -> int:
    """The last position at or before ``end`` that splits no grapheme."""
    while end > 0 and (_continues(line[end]) or line[end - 1] in _JOINERS or _splits_flag(line, end)):
        end -= 1
    return end


def _continues(char: str) -> bool:
    return char in _JOINERS or _TONES[0] <= char <= _TONES[1] or unicodedata.category(char).startswith("M")


def _splits_flag(line: str, end: int) -> bool:
    """Whether ``end`` lies within the pair of letters that make a flag."""
    run = 0
    while run < end and _FLAGS[0] <= line[end - 1 - run] <= _FLAGS[1]:
        run += 1
    return run % 2 == 1 and _FLAGS[0] <= line[end] <= _FLAGS[1]
