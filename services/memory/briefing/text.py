"""Remembered text made harmless and short: one line, no markup, cut between words."""

import re
import unicodedata

ELLIPSIS = "…"

_UNSEEN = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U0001d173-\U0001d17a\U000e0000-\U000e007f\ud800-\udfff]"
)
"""What is not seen and can deceive: marks of direction, fillers, tags, halves of surrogates. The joiners of
emoji and of Persian stay."""

_BLANK = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\u3164\u2800]+")
"""White space of any kind and control characters."""

_MARKUP = re.compile(r"[\\`*\[|~]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])")
"""What means something within a line of Markdown: an underscore inside a word does not, nor a "<" before a
blank."""

_JOINERS = "\u200c\u200d"
_TONES = ("\U0001f3fb", "\U0001f3ff")
_FLAGS = ("\U0001f1e6", "\U0001f1ff")

_HEADROOM = 4
"""Times the wanted length that is looked at: the rest would only be read to be cut off."""


def flatten(text: str, limit: int) -> str:
    """``text`` on one line of at most ``limit`` characters, without what cannot be seen; "" where nothing
    is left.

    What is cut ends in an ellipsis, after a whole word where there is one, and never within a character
    that is made of several (a letter with its accents, an emoji with its joined parts, a flag).
    """
    head = text[: _HEADROOM * limit]
    line = _BLANK.sub(" ", _UNSEEN.sub("", head)).strip(f" {_JOINERS}")
    if len(line) <= limit and _BLANK.sub("", text[len(head) :]):
        line = f"{line} {ELLIPSIS}".lstrip()
    return clip(line, limit)


def clip(line: str, limit: int) -> str:
    """The first ``limit`` characters of a line, the ellipsis included, cut as ``flatten`` says."""
    if len(line) <= limit:
        return line
    room = limit - len(ELLIPSIS)
    blank = line.rfind(" ", limit // 2, room + 1)
    end = blank if blank > 0 else _boundary(line, room)
    return line[:end].rstrip(f" {_JOINERS}") + ELLIPSIS


def escape(line: str) -> str:
    """A line as Markdown that shows it as it is: no emphasis, code, link, HTML, entity or table comes of
    it.
    """
    return _MARKUP.sub(lambda match: "\\" + match[0], line)


def _boundary(line: str, end: int) -> int:
    """The last place at or before ``end`` where no character of several parts is split."""
    while end > 0 and (_continues(line[end]) or line[end - 1] in _JOINERS or _splits_flag(line, end)):
        end -= 1
    return end


def _continues(char: str) -> bool:
    return char in _JOINERS or _TONES[0] <= char <= _TONES[1] or unicodedata.category(char).startswith("M")


def _splits_flag(line: str, end: int) -> bool:
    """Whether ``end`` lies within a pair of the letters that make a flag."""
    run = 0
    while run < end and _FLAGS[0] <= line[end - 1 - run] <= _FLAGS[1]:
        run += 1
    return run % 2 == 1 and _FLAGS[0] <= line[end] <= _FLAGS[1]
