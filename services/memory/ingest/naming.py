"""A passage as a piece: its title from its content, its date, its tags, and its form."""

import re
from collections.abc import Sequence
from datetime import date, datetime
from functools import lru_cache

from services.memory.ingest.kinds import find_headed_kind, is_version
from services.memory.ingest.passages import FENCE, MESSAGE, Passage, cut_bullet, first_words
from services.memory.ingest.pieces import (
    Piece,
    clean_tags,
    cut_lead,
    find_clock,
    find_day,
    find_leading_day,
    find_tags,
    hash_text,
    is_only_day,
    join_title,
    parse_date,
    tag_speaker,
)
from shared.text.markdown import show_inline

SHORT = 4
"""The words up to which a passage is taken to need its note to be understood, and the same text elsewhere to
be something else."""

DEFAULT_KINDS = {"message": "episodic", "steps": "pattern"}
"""The kinds of forms if nothing speaks for another; of all others it is a fact."""

MAX_CONTEXT = 50  # The characters of a bullet that are put before the bullets below it

GENERAL = re.compile(
    r"(?:my |the |some |other |more )?(?:notes?|misc\w*|other|general|overview|introduction|intro|summary|"
    r"status|background|context|details?|inbox|today|this week|next week|someday|later|log|journal|diary|"
    r"daily|readme|memory|index|untitled|agents?|user|soul|todos?|tasks?|minutes|changelog|consequences|"
    r"notizen|sonstiges)",
    re.IGNORECASE,
)
"""Headings and names of files that say nothing about what stands below them."""

MAX_ABOVE = 1_000
"""The bullets over a passage of which it is kept whether they are days: each is asked about for all below."""

_SHOWN_LINK = re.compile(r"!?\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]|!?\[([^\[\]]*)\]\([^()]*\)")
MAX_SHOWN = 250  # Many times a title: marks within marks take time that grows with the square of the length

_CELLS = re.compile(r"(?<!\\)\|")
_CLOSED = re.compile(r"\s#+\s*$")  # What may stand behind a heading
_PLAIN = re.compile(r"[^*_`~<>\[\]\\&#]*")
_WORD = re.compile(r"\w+")
_DONE = re.compile(r"✅\s*(\d{4}-\d\d-\d\d)|CLOSED: \[(\d{4}-\d\d-\d\d)")
_SIGNS = re.compile(r"[📅⏳🛫✅➕❌🔁⏫🔼🔽🔺⏬]\ufe0f?\s*(?:\d{4}-\d\d-\d\d)?")
"""What task programs write beside a task: when it is due, started or done, and how urgent it is."""
_CHANGE = re.compile(
    r"(?i)(?:breaking(?: changes)?|added|changed|deprecated|removed|fixed|security|entfernt|geändert|behoben"
    r"|hinzugefügt)$"
)
"""Headings of a changelog, without which its entries say nothing."""


def clean_markup(line: str) -> str:
    """A line of Markdown as it is shown, of a longer one the first MAX_SHOWN characters."""
    line = line[:MAX_SHOWN]
    if not _PLAIN.fullmatch(line):
        shown = _SHOWN_LINK.sub(lambda match: match[1] or match[2] or "", line)
        line = show_inline(_CLOSED.sub("", shown))
    return " ".join(line.split())


def is_general(name: str) -> bool:
    """Whether a heading or a file's name says nothing about a topic: "Notes", "Decisions", "Monday 4 May"."""
    topic = _cut_day(name)
    kind_words = [word for word in topic.split() if not find_headed_kind((word,))]
    return not _WORD.search(topic) or not kind_words or GENERAL.fullmatch(topic) is not None


def make_piece(passage: Passage, headings: Sequence[str], dated: str, known: date, note: str) -> Piece:
    """The piece of a passage under ``headings`` (outermost first) in ``note``.

    ``dated`` is the date of what it stands in, or ""; a day or time that the passage begins with comes first.
    """
    text = passage.text
    lead = clean_markup(passage.lead)
    headings = (*headings, lead) if lead and lead not in headings else headings
    dated = next((find_day(name, known) for name in reversed(passage.above) if is_day(name)), dated)
    day = find_leading_day(text, known) or _find_done_day(passage) or _at_clock(dated, text)
    prose = "" if passage.form in ("code", "table") else text
    content = _first_line(passage)
    is_short = len(_WORD.findall(text)) <= SHORT
    context = _find_context(passage, headings, note if is_short else "")
    if set(_WORD.findall(context.lower())) <= set(_WORD.findall(content.lower())):
        is_named = passage.form != "steps" or len(content.split()) > SHORT
        context = "" if is_named or is_general(note) else note
    told = " ".join(text.split())
    title = join_title(context, first_words(content) or first_words(told) or told[:40])
    return Piece(
        title=title,
        body=_cut_stamp(text) if passage.form == "message" and day else text,
        key=hash_text("passage", told, day, title if is_short else ""),
        heading=tuple(headings),
        kind=_find_form_kind(passage, headings),
        default_kind=DEFAULT_KINDS.get(passage.form, "fact"),
        tags=clean_tags([*_tag_message(passage), *find_tags(prose)]),
        date=day,
        prose=prose,
        line=passage.line + 1,
        said=passage.form == "message",
    )


@lru_cache(MAX_ABOVE)
def is_day(text: str) -> bool:
    """Whether a text is a day and nothing else, as a bullet over what was written that day."""
    return "\n" not in text and is_only_day(clean_markup(cut_bullet(text)))


def _find_done_day(passage: Passage) -> str:
    """The day on which a task was done, where its check box is followed by one."""
    done = _DONE.search(passage.text) if passage.box and passage.box != " " else None
    return parse_date(done[1] or done[2]) if done else ""


def _find_form_kind(passage: Passage, headings: Sequence[str]) -> str:
    """The kind that the form alone tells, or ""."""
    if passage.box:
        return {" ": "task", "x": "event"}.get(passage.box, "decision")
    if any(map(is_version, headings)):  # what a changelog tells was done
        return "event"
    if passage.form in ("code", "table"):
        return find_headed_kind(headings) or "fact"
    return ""


def _tag_message(passage: Passage) -> tuple[str, ...]:
    match = MESSAGE.match(passage.text) if passage.form == "message" else None
    return tag_speaker(match["who"] or match["nick"]) if match else ()


def _cut_stamp(text: str) -> str:
    """A message without its time, which is that of its node: who, and what."""
    match = MESSAGE.match(text)
    return f"{match['who'] or match['nick']}: {text[match.end() :]}" if match else text


def _first_line(passage: Passage) -> str:
    """What names a passage: its first line without bullet, check box, date and the stamp of a message."""
    lines = [line for line in passage.text.split("\n") if line.strip()]
    if passage.form == "code" and FENCE.match(lines[0]) and len(lines) > 1:
        lines = lines[1:]
    line = lines[0]
    if passage.form == "table":
        line = ", ".join(cell.strip() for cell in _CELLS.split(line.strip().strip("|")))
    if passage.form == "message":
        return clean_markup(_cut_stamp(line))
    if passage.form == "steps":
        return clean_markup(passage.lead)
    if passage.form == "paragraph":
        line = " ".join(lines)
    if passage.form == "bullet":
        line = cut_bullet(line)
    if passage.form not in ("bullet", "paragraph"):
        return clean_markup(line)
    return cut_lead(_SIGNS.sub("", clean_markup(line)).strip() or line)


def _find_context(passage: Passage, headings: Sequence[str], note: str) -> str:
    """The bullet or the nearest heading with a topic that a passage stands below; else ``note``."""
    if passage.above and not is_day(passage.above[-1]):
        return first_words(clean_markup(passage.above[-1]), MAX_CONTEXT).rstrip(":")
    if headings and _CHANGE.match(headings[-1]):
        return join_title(*(_cut_day(name) or name for name in headings[-2:]))
    topics = (_cut_day(name) for name in reversed(headings) if not is_general(name))
    return next(topics, "") or ("" if is_general(note) else note)


def _cut_day(name: str) -> str:
    """A heading without the day that it begins or ends with."""
    if not find_day(name, date.max):
        return name
    parts = re.split(r"\s+[-–—:|]\s+|[()\[\]]|,\s+", cut_lead(name))
    return next((part.strip() for part in parts if part.strip() and not find_day(part, date.max)), "")


def _at_clock(dated: str, text: str) -> str:
    clock = find_clock(text.lstrip("-*+ "))
    if not dated or clock is None:
        return dated
    moment = datetime.fromisoformat(dated).replace(hour=clock[0], minute=clock[1])
    return moment.isoformat(timespec="microseconds")
