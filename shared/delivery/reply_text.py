"""What a person wrote into a reply: without the mail that it quotes, and without signatures.

Programs and languages differ in the words by which they introduce a quotation, but not in its shape, so no
words are looked for but the few that have no shape.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import islice

LONGEST = 10_000
"""The most characters of a reply."""
_MARKED = re.compile(r"\s*>")
_RULED = re.compile(r"\s*(-{2,}\s*\w[\w ]{2,40}-{2,}|_{8,})\s*$")
"""``-----Original Message-----``, ``---------- Forwarded message ---------`` and the line of Outlook."""
_FIELD = re.compile(r"\W{0,3}[^\W\d_][^:<>@]{0,20}:\W{0,3}\s(?=\S)")
"""``From: ``, ``*Von:* `` and so on, as the head of a quoted mail has them."""
_SIGNED = re.compile(r"--\s*$")
_DATED = re.compile(r"\d{1,2}[:.h]\d\d|\d{4}")
_DEVICE = re.compile(
    r".{0,60}\b(iphone|ipad|android|galaxy|outlook|proton ?mail|yahoo|blackberry|pixel|xiaomi)\b.{0,60}",
    re.IGNORECASE,
)
_SENT = re.compile(r"\b(sent|get|gesendet|envoy|envi|invia|verz|verst|send|skick|wys)", re.IGNORECASE)
MOST_LINES = 3
"""An introduction such as ``On Monday ... wrote:`` is wrapped to no more lines."""


def strip_quoted(text: str) -> str:
    """What the person wrote above the quoted mail, or if that is nothing, below and between what is marked
    with ``>``; at most LONGEST characters.
    """
    lines = [_clean(line) for line in text.replace("\r\n", "\n").split("\n")]
    end, marked = _find_quotation(lines)
    above = _join(lines[:end])
    if above or not marked:
        return above[:LONGEST]
    return _join(_read_between(lines[end:]))[:LONGEST]


def _clean(line: str) -> str:
    """The line without invisible characters, with plain spaces."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "" for c in line).rstrip()


def _find_quotation(lines: Sequence[str]) -> tuple[int, bool]:
    """The line at which the quotation or the signature begins, and whether its lines are marked by ``>``."""
    for number, line in enumerate(lines):
        if _MARKED.match(line):
            return number - _count_introduction(lines[:number], marked=True), True
        if _SIGNED.match(line) or _RULED.match(line) or _begins_head(lines[number : number + 5]):
            return number, False
        if line.endswith(":") and not _is_marked(islice(lines, number + 1, None)):
            count = _count_introduction(lines[max(0, number + 1 - MOST_LINES) : number + 1], marked=False)
            if count:
                return number + 1 - count, False
    return len(lines), False


def _is_marked(lines: Iterable[str]) -> bool:
    """Whether the next line that is not empty is marked as quoted."""
    first = next((line for line in lines if line.strip()), "")
    return _MARKED.match(first) is not None


def _begins_head(lines: Sequence[str]) -> bool:
    """Whether the head of a quoted mail of ours begins: fields, the first of which names the sender."""
    first, *following = [*lines[:1], *[line for line in lines[1:5] if line.strip()][:2]]
    if not _FIELD.match(first) or "mailroom" not in first.casefold():
        return False
    return len(following) == 2 and all(_FIELD.match(line) for line in following)


def _count_introduction(lines: Sequence[str], *, marked: bool) -> int:
    """How many of the last lines introduce a quotation, with the empty ones below them.

    Where no marked line follows, they have to name an address and a date.
    """
    filled = len(lines)
    while filled and not lines[filled - 1].strip():
        filled -= 1
    empty = len(lines) - filled
    if not filled or not lines[filled - 1].endswith(":"):
        return empty
    best = 0
    for count in range(1, min(MOST_LINES, filled) + 1):
        if not lines[filled - count].strip():
            break
        joined = " ".join(lines[filled - count : filled])
        named, dated = "@" in joined or "mailroom" in joined.casefold(), bool(_DATED.search(joined))
        if named and dated:
            return count + empty
        best = best or (count if named else 0)
    return (best + empty) if marked else 0


def _read_between(lines: Sequence[str]) -> list[str]:
    """The lines that are not marked, up to the signature, from the first marked one on."""
    begin = next(number for number, line in enumerate(lines) if _MARKED.match(line))
    written: list[str] = []
    for line in lines[begin:]:
        if _SIGNED.match(line):
            break
        if not _MARKED.match(line):
            written.append(line)
    return written


def _join(lines: Sequence[str]) -> str:
    """The lines without what a telephone signs with."""
    kept = list(lines)
    while kept and (not kept[-1].strip() or (_DEVICE.fullmatch(kept[-1]) and _SENT.search(kept[-1]))):
        kept.pop()
    return "\n".join(kept).strip()
