"""A text by its passages: paragraphs, bullets, messages; long ones split at paragraphs, lines or blanks."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from services.memory.ingest.pieces import LEADING, MAX_BODY, Piece, find_leading_date, join_title
from shared.text.prose import split_sentences

LOG_LINES = 40  # The most lines of a log in one piece

LOG_IMPORTANCE = 0.25
"""Below the .3 that briefings begin at: a log is to be found by a search, not to fill everyone's briefing."""

FENCE = re.compile(r"\s{0,3}(```+|~~~+)")


def split_text(text: str, limit: int = MAX_BODY) -> list[tuple[int, str]]:
    """Stretches of at most ``limit`` characters, each with the number of its first line, counted from 0.

    They end at blank lines outside of code if possible, else at the end of a line, else at a space.
    """
    parts: list[tuple[int, str]] = []
    for line, block in _blocks(text, limit):
        if parts and len(parts[-1][1]) + 2 + len(block) <= limit:
            first, there = parts[-1]
            gap = "\n" * max(1, line - first - there.count("\n"))
            parts[-1] = (first, there + gap[:2] + block)
        else:
            parts.append((line, block))
    return parts


def _blocks(text: str, limit: int) -> Iterator[tuple[int, str]]:
    """Paragraphs and whole code blocks; those that are too long as lines or parts of lines."""
    block: list[str] = []
    start = 0
    fence = ""
    for number, line in enumerate([*text.split("\n"), ""]):
        if block and not line.strip() and not fence:
            yield from _within(start, block, limit)
            block = []
        if not block:
            start = number
            if not line.strip():
                continue
        match = FENCE.match(line)
        if match and not fence:
            fence = match[1]
        elif match and match[1].startswith(fence) and not line.strip(" `~"):
            fence = ""
        block.append(line.rstrip())
    if block:  # code that nothing ends
        yield from _within(start, block, limit)


def _within(start: int, lines: list[str], limit: int) -> Iterator[tuple[int, str]]:
    whole = "\n".join(lines).rstrip()
    if len(whole) <= limit:
        yield start, whole
        return
    for number, line in enumerate(lines, start):
        begin = 0
        while len(line) - begin > limit:
            blank = line.rfind(" ", begin + limit // 2, begin + limit)
            end = begin + limit if blank < 0 else blank
            if part := line[begin:end].strip():
                yield number, part
            begin = end
        if rest := line[begin:].strip():
            yield number, rest


def first_words(text: str, limit: int = 80) -> str:
    """The beginning of the first line, without bullets and marks, cut at a word."""
    line = next((line for line in text.splitlines() if line.strip(" \t#>*-+=_`~")), "")
    line = " ".join(line.strip(" \t#>*-+=_`~").split())
    if len(line) <= limit:
        return line
    return line[: max(line.rfind(" ", limit // 2, limit), limit // 2)].rstrip(" ,;:.") + "…"


def parse_log(stem: str, text: str) -> tuple[Piece, ...]:
    """A log as stretches of lines; what follows a line with a time, such as a traceback, stays with it."""
    return tuple(
        Piece(
            title=join_title(stem, first_words(part)),
            body=part,
            line=line + offset + 1,
            kind="event",
            date=find_leading_date(part),
            importance=LOG_IMPORTANCE,
            whole=True,
        )
        for line, stretch in _stretches(_entries(text))
        for offset, part in split_text(stretch)
    )


def _entries(text: str) -> Iterator[tuple[int, list[str]]]:
    lines = text.split("\n")
    dated = sum(1 for line in lines[:1_000] if LEADING.match(line[:200])) * 5 >= len(lines[:1_000])
    entry: list[str] = []
    start = 0
    for number, line in enumerate(lines):
        begins = LEADING.match(line[:200]) if dated else not line[:1].isspace()
        if entry and (begins or len(entry) >= LOG_LINES):
            yield start, entry
            entry = []
        if not entry:
            start = number
        if line.strip():
            entry.append(line.rstrip())
    if entry:
        yield start, entry


def _stretches(entries: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, str]]:
    lines: list[str] = []
    start = 0
    for number, entry in entries:
        size = sum(map(len, lines)) + len(lines) + sum(map(len, entry)) + len(entry)
        if lines and (len(lines) + len(entry) > LOG_LINES or size > MAX_BODY):
            yield start, "\n".join(lines)
            lines = []
        if not lines:
            start = number
        lines += entry
    if lines:
        yield start, "\n".join(lines)


Form = Literal["paragraph", "bullet", "message", "table", "code", "steps"]

LONG = 600  # Characters from which a paragraph is split at its sentences, into parts of at most that many

MAX_GAP = 20  # The most blank lines within a bullet

BULLET = re.compile(
    r"(?P<indent>\s*)(?P<mark>[-*+•–]|\d{1,3}[.)]|[a-z][)])\s+(?:\[(?P<box>[^\]\d])\]\s+)?(?=\S)"
)
"""The beginning of a list item, with its check box."""
_BOXES = {" ": " ", "/": " ", ">": " ", "<": " ", "?": " ", "x": "x", "X": "x", "-": "-"}
"""What a check box says: open (begun, put off and asked too), done, or cancelled; others mark no task."""
_CALLOUT = re.compile(r"\[!(?P<type>[^\]\n]+)\][+-]?\s*(?P<title>.*)")
_QUOTED = re.compile(r"\s{0,3}>[ \t]?")
MOST_QUOTED = 10  # The deepest quotation within quotations that is read

_STAMP = r"(?:\d{1,4}[-./]\d{1,2}[-./]\d{1,4}[ T,]+\s*)?\d{1,2}:\d\d(?::\d\d)?(?:\s?[AaPp][Mm])?"
_WHO = r"[^\W\d_][^:<>\n\[\]]{0,39}?"
MESSAGE = re.compile(
    rf"\s*\[?(?P<when>{_STAMP})\]?\s*[-–]?\s*(?:<(?P<nick>{_WHO})>:?|<?(?P<who>{_WHO})>?:)\s+(?=\S)"
)
"""The beginning of a message in the export of a chat: when, and who."""

_TIMED = re.compile(r"\s*(?:[01]?\d|2[0-3]):[0-5]\d\b")
"""The beginning of an entry of a diary, with the time of day."""
_TABLE = re.compile(r"\s*\|.*\|\s*$|\s*[^|]+(?:\|[^|]+)+$")
_RULE = re.compile(r"\s*\|?\s*:?-{2,}:?\s*(?:\|\s*:?-{2,}:?\s*)*\|?\s*$")
_BREAK = re.compile(r"\s*(?:([-*_=~])\s*)(?:\1\s*){2,}$")
_FULL = re.compile(r"[.!?][\"')\]”’]*$")
_ENTRY = re.compile(r"\s*\d{1,3}[.)]\s")
_HOW_TO = re.compile(
    r"(?i)^\W*(?:how (?:to|do|we|i)\b"
    r"|(?:the )?(?:steps?|procedure|instructions?|recipe|method|directions|usage|set-?up"
    r"|install(?:ation|ing)?|getting started|quick ?start|deploy(?:ment|ing)?"
    r"|anleitung|vorgehen|einrichtung|ablauf)\b)"
)
_TOLD = re.compile(r"\s*(?:[^\W\d_][\w ]{0,30}: \S|(?P<sentence>[^\W\d_a-zäöü]))")
"""The beginning of a line that tells something by itself: "Decision: ...", or a sentence."""
_SENTENCE_END = re.compile(r"[.!?]\W{0,9}$")
_WORDS = re.compile(r"[^\W_]")
MAX_POINT = 6  # The most words of a point of an agenda
MAX_LEAD = 12
"""The most words of a line that introduces a list, as a heading does; a longer one tells something itself."""


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """One passage as it is written, from line ``line`` on (counted from 0).

    ``box`` is that of a check list: "" for none, " " for one that is open, "x" for done, "-" for cancelled.
    ``above`` has the bullets that a bullet is below, outermost first; ``lead`` is the line that introduces
    the list it is in, or the title of the callout.
    """

    line: int
    text: str
    form: Form
    box: str = ""
    above: tuple[str, ...] = ()
    lead: str = ""


def read_passages(text: str, heading: str = "") -> Iterator[Passage]:
    """The passages of a text below ``heading``.

    Lists are read bullet by bullet, the nested ones too; a short line before a list is that of its bullets,
    and no passage. The numbered steps of what is introduced as a procedure stay together. Code and tables
    stay whole up to 2,000 characters, and with the line before them if that ends in a colon. Longer
    paragraphs are split at their sentences; in a block whose lines are all whole sentences, each line is a
    passage. What has no letter and no digit is none.
    """
    opened = [part for passage in _read_blocks(text.split("\n")) for part in _open_item(passage)]
    blocks = _join_steps(_lead_lists(opened, text), heading)
    for passage in _join_code(blocks):
        if not _WORDS.search(passage.text):
            continue
        if passage.form in ("code", "table", "steps"):
            for offset, part in split_text(passage.text):
                yield msgspec.structs.replace(passage, line=passage.line + offset, text=part)
        else:
            yield from _split_long(passage)


def cut_bullet(line: str) -> str:
    """A line without the mark of a list item that it begins with."""
    return line[bullet.end() :] if (bullet := BULLET.match(line)) else line


def is_chat(text: str) -> bool:
    """Whether most lines of a log are messages of people: after the time, programs write no ``<name>``."""
    lines = [line for line in text.split("\n")[:1_000] if line.strip()]
    said = (match for line in lines if (match := MESSAGE.match(line)))
    return sum(1 for match in said if match["nick"]) * 2 > len(lines)


def _read_blocks(lines: Sequence[str], depth: int = 0) -> Iterator[Passage]:
    number = 0
    open_bullets: list[tuple[int, str]] = []
    while number < len(lines):
        line = lines[number]
        if not line.strip() or _BREAK.match(line):
            number += 1
            continue
        if _QUOTED.match(line) and depth < MOST_QUOTED:
            end = _end_where(lines, number, lambda other: _QUOTED.match(other) is not None)
            yield from _read_quotation(
                number, [_QUOTED.sub("", each, 1) for each in lines[number:end]], depth
            )
            number, open_bullets = end, []
            continue
        bullet = BULLET.match(line)
        if bullet is None or not line[:1].isspace():
            open_bullets = open_bullets if bullet else []
        end, form = _find_end(lines, number)
        text = "\n".join(part.rstrip() for part in lines[number:end]).rstrip()
        if form == "bullet" and bullet:
            indent = len(bullet["indent"].expandtabs(4))
            open_bullets = [pair for pair in open_bullets if pair[0] < indent]
            above = tuple(outer for _, outer in open_bullets)
            box = _BOXES.get(bullet["box"] or "", "")
            if (bullet["box"] or " ") not in " xX":
                text = f"{bullet['mark']} {'Cancelled: ' * (box == '-')}{text[bullet.end() :]}"
            yield Passage(line=number, text=_dedent(text), form=form, box=box, above=above)
            open_bullets.append((indent, line[bullet.end() :].strip()))
        elif form == "paragraph":
            yield from _read_paragraph(number, lines[number:end])
        else:
            yield Passage(line=number, text=text, form=form)
        number = end


def _read_quotation(start: int, lines: list[str], depth: int) -> Iterator[Passage]:
    """The passages within a quotation; those of a callout are led by its title."""
    callout = _CALLOUT.match(lines[0])
    title = callout["title"].strip() if callout else ""
    if callout:
        lines = ["", *lines[1:]] if any(map(str.strip, lines[1:])) else [title]
    box = " " if callout and callout["type"].lower() == "todo" else ""
    for passage in _read_blocks(lines, depth + 1):
        line, lead = start + passage.line, passage.lead or title
        yield msgspec.structs.replace(passage, line=line, lead=lead, box=passage.box or box)


def _find_end(lines: Sequence[str], start: int) -> tuple[int, Form]:
    """The line after the block that begins at ``start``, and its form."""
    line = lines[start]
    if fence := FENCE.match(line):
        return _end_of_code(lines, start, fence[1]), "code"
    if bullet := BULLET.match(line):
        return _end_of_bullet(lines, start, len(bullet["indent"].expandtabs(4))), "bullet"
    following = lines[start + 1] if start + 1 < len(lines) else ""
    if _TABLE.match(line) and ((_RULE.match(following) and "|" in following) or line.lstrip()[0] == "|"):
        return _end_where(lines, start, lambda other: bool(_TABLE.match(other))), "table"
    if line.startswith(("    ", "\t")):
        return _end_where(lines, start, lambda other: other.startswith(("    ", "\t"))), "code"
    number = start + 1
    while number < len(lines) and lines[number].strip():
        if any(form.match(lines[number]) for form in (BULLET, FENCE, _BREAK, _QUOTED)):
            break
        number += 1
    return number, "paragraph"


def _end_of_code(lines: Sequence[str], start: int, fence: str) -> int:
    for number in range(start + 1, len(lines)):
        match = FENCE.match(lines[number]) or FENCE.match(lines[number].lstrip())
        if match and match[1].startswith(fence) and not lines[number].strip(" `~\t"):
            return number + 1
    return len(lines)


def _end_of_bullet(lines: Sequence[str], start: int, indent: int) -> int:
    """Lines that follow on, and what is indented after a blank line, up to the next bullet."""
    number = start + 1
    while number < len(lines):
        line = lines[number]
        if FENCE.match(line.lstrip()) and line[:1].isspace():
            number = _end_of_code(lines, number, line.strip()[:3])
            continue
        if not line.strip():
            places = range(number, min(number + MAX_GAP, len(lines)))
            following = next((lines[place] for place in places if lines[place].strip()), "")
            inside = len(following) - len(following.lstrip()) > indent
            if not inside or BULLET.match(following):
                return number
        elif BULLET.match(line) or FENCE.match(line) or MESSAGE.match(line):
            return number
        number += 1
    return number


def _end_where(lines: Sequence[str], start: int, belongs: Callable[[str], bool]) -> int:
    number = start + 1
    while number < len(lines) and lines[number].strip() and belongs(lines[number]):
        number += 1
    return number


def _read_paragraph(start: int, lines: Sequence[str]) -> Iterator[Passage]:
    timed = [number for number, line in enumerate(lines) if MESSAGE.match(line) or _TIMED.match(line)]
    if timed and timed[0] == 0 and (len(timed) > 1 or MESSAGE.match(lines[0])):
        for first, end in zip(timed, [*timed[1:], len(lines)], strict=True):
            text = "\n".join(lines[first:end]).strip()
            form: Form = "message" if MESSAGE.match(text) else "paragraph"
            yield Passage(line=start + first, text=text, form=form)
    elif len(lines) > 1 and all(_FULL.search(line.rstrip()) for line in lines):
        for number, line in enumerate(lines, start):
            yield Passage(line=number, text=line.strip(), form="paragraph")
    else:
        text = "\n".join(line.rstrip() for line in lines).strip("\n")
        yield Passage(line=start, text=text, form="paragraph")


def _open_item(passage: Passage) -> Iterator[Passage]:
    """A point of an agenda as the lines below it, if each tells something; any other passage as it is."""
    first, *rest = passage.text.split("\n")
    name = cut_bullet(first).strip()
    is_point = passage.form == "bullet" and not passage.box and _ENTRY.match(first) and not _FULL.search(name)
    if not is_point or len(name.split()) > MAX_POINT or not rest or not all(map(_tells, rest)):
        yield passage
        return
    for number, line in enumerate(rest, passage.line + 1):
        yield Passage(line=number, text=line.strip(), form="paragraph", lead=name.rstrip(":"))


def _tells(line: str) -> bool:
    begins = _TOLD.match(line)
    if begins is None or not begins["sentence"]:
        return begins is not None
    return len(line.split(None, 2)) > 2 and _SENTENCE_END.search(line, max(0, len(line) - 10)) is not None


def _lead_lists(passages: Sequence[Passage], text: str) -> list[Passage]:
    """The passages without the lines that introduce a list, which their bullets have as ``lead``."""
    lines = text.split("\n")
    found: list[Passage] = []
    lead = ""
    for number, passage in enumerate(passages):
        if passage.form != "bullet":
            lead = ""
            before_list = number + 1 < len(passages) and passages[number + 1].form == "bullet"
            if before_list and _is_lead(passage, bool(found), lines):
                lead = passage.text.strip().rstrip(":")
                continue
        found.append(msgspec.structs.replace(passage, lead=lead) if lead else passage)
    return found


def _is_lead(passage: Passage, has_others: bool, lines: Sequence[str]) -> bool:
    """Whether a passage before a list introduces it: a short line that is no sentence."""
    line = passage.text.strip()
    if (
        passage.form != "paragraph"
        or passage.lead
        or "\n" in line
        or len(line.split()) > MAX_LEAD
        or _FULL.search(line)
    ):
        return False
    follows_at_once = bool(lines[passage.line + 1].strip())
    return line.endswith(":") or follows_at_once or not has_others or bool(_HOW_TO.match(line))


def _join_steps(passages: Sequence[Passage], heading: str) -> list[Passage]:
    """The passages, the numbered bullets of a procedure as one of the form "steps"."""
    found: list[Passage] = []
    for passage in passages:
        named = passage.lead or heading
        if passage.form != "bullet" or not _ENTRY.match(passage.text) or not _HOW_TO.match(named):
            found.append(passage)
        elif found and found[-1].form == "steps" and found[-1].lead == named:
            text = f"{found[-1].text}\n{passage.text}"
            found[-1] = msgspec.structs.replace(found[-1], text=text)
        else:
            text = f"{passage.lead}\n{passage.text}" if passage.lead else passage.text
            found.append(msgspec.structs.replace(passage, text=text, form="steps", lead=named))
    return found


def _join_code(passages: Sequence[Passage]) -> Iterator[Passage]:
    """The passages, code and tables together with the line that introduces them."""
    waiting: Passage | None = None
    for passage in passages:
        if waiting and passage.form in ("code", "table"):
            yield msgspec.structs.replace(
                waiting, text=f"{waiting.text}\n\n{passage.text}", form=passage.form
            )
            waiting = None
            continue
        if waiting:
            yield waiting
        waiting = passage if passage.form == "paragraph" and passage.text.endswith(":") else None
        if not waiting:
            yield passage
    if waiting:
        yield waiting


def _split_long(passage: Passage) -> Iterator[Passage]:
    if len(passage.text) <= LONG:
        yield passage
        return
    parts = [""]
    for sentence in split_sentences(passage.text.replace("\n", " ")):
        if parts[-1] and len(parts[-1]) + 1 + len(sentence) > LONG:
            parts.append("")
        parts[-1] = f"{parts[-1]} {sentence}".strip()
    for part in parts:
        for _, piece in split_text(part):
            yield msgspec.structs.replace(passage, text=piece)


def _dedent(text: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first.strip(), *(line[2:] if line[:2].isspace() else line for line in rest)])
