"""A briefing as a page of Markdown, 80 columns wide: its head of five lines at most, what is new in it."""

import asyncio
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, tzinfo
from pathlib import PurePosixPath
from typing import Any

import msgspec

from services.nexus.answers.unsupported_claims import remove_unsupported
from services.nexus.briefings.lines import MAX_LINE, MAX_LINES, Line, Section, Source, cite, line, plain
from shared.clock import format_moment, parse_timestamp
from shared.contracts import Goal
from shared.errors import MailroomError
from shared.llm.protocol import Message
from shared.reasoning.model import ModelSession
from shared.text.display import format_list
from shared.text.prose import is_supported
from shared.web.quoting import clean, quote

WIDTH = 80  # Columns; only an address or a path that is longer goes beyond


def format_page(
    kind: str,
    day: date,
    made_at: datetime,
    head: Sequence[Line],
    sections: Sequence[Section],
    additions: Sequence[tuple[datetime, Sequence[Section]]],
    zone: tzinfo | None,
) -> str:
    """The page: the head, what was added later (the latest first), the sections; none of them is empty."""
    parts = [
        f"# {format_title(kind, day)}",
        _wrap(each.told for each in head),
        f"Made on {format_moment(made_at, zone)}.",
    ]
    for moment, added in reversed(additions):
        lines = [f"{each.title}: {one.told}" for each in added for one in each.lines]
        parts.append(f"## Added at {moment.astimezone(zone):%H:%M}\n\n{_wrap(lines)}")
    parts += [text for each in sections if (text := format_section(each))]
    return "\n\n".join(part for part in parts if part) + "\n"


def format_title(kind: str, day: date) -> str:
    """``Morning briefing, Monday 23 November 2026``."""
    return f"{kind.capitalize()} briefing, {day:%A} {day.day} {day:%B %Y}"


def format_section(section: Section) -> str:
    """A section with its heading; empty if it has nothing to tell."""
    told = [each.told for each in section.lines[:MAX_LINES]]
    if len(section.lines) > MAX_LINES:
        told.append(f"... and {len(section.lines) - MAX_LINES} more")
    remark = textwrap.fill(plain(section.problem, 800), WIDTH, break_on_hyphens=False, break_long_words=False)
    parts = [text for text in (_wrap(told), remark) if text]
    return "\n\n".join([f"## {section.title}", *parts]) if parts else ""


def _wrap(lines: Iterable[str]) -> str:
    return "\n".join(
        textwrap.fill(
            line,
            WIDTH,
            initial_indent="- ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in lines
    )


_CLOCK = re.compile(r"\d\d:\d\d")
MOST = 5  # The most lines of a head
NAMED = 3  # How many things a line of the head names
SHORT = 90  # The most characters of one of them
_BEGINNINGS = {
    "waits": "Waits for you",
    "failed": "Failed",
    "due": "Due",
    "night": "The night brought",
    "new": "New for you",
    "done": "Done",
    "missed": "Missed",
    "learned": "Learned",
    "spent": "Spent",
    "tomorrow": "Tomorrow",
}
ORDER = {
    "morning": ("waits", "failed", "due", "night", "new"),
    "evening": ("done", "missed", "learned", "spent", "tomorrow"),
}
"""The lines of each kind's head, in their order."""
QUIET = {
    "morning": "A quiet night: nothing waits.",
    "evening": "A quiet day: nothing was done, and nothing was missed.",
}
_WITH = {"due": ("calendar",)}  # Sections that are told in the line of another
_LOUD = {"morning": ("waits", "failed", "due", "night"), "evening": ("done", "missed")}
"""What keeps a night or a day from being quiet."""


def make_head(kind: str, sections: Sequence[Section], told: Sequence[Line] = ()) -> tuple[Line, ...]:
    """The head of a briefing, in a model's words where it ``told`` what matters.

    What waits and what failed is in it whether a model told it or not. A section that could not be read is
    told as such: nothing is called quiet that is not known.
    """
    by_key = {each.key: each for each in sections}
    cited = {source for each in told for source in each.sources}
    lines = []
    for key in _LOUD[kind][:2] if told else ORDER[kind]:
        found = [by_key[each] for each in (key, *_WITH.get(key, ())) if each in by_key]
        held = tuple(one for each in found for one in each.lines)
        if key == "due":
            held = tuple(sorted(held, key=_rank_due))
        if held and cited.isdisjoint(source for one in held for source in one.sources):
            lines.append(_sum_up(key, held))
    loud = [by_key[key] for key in _LOUD[kind] if key in by_key]
    missed = [each.title for each in loud if each.missed]
    if missed and (told or not any(each.lines for each in loud)):
        lines.insert(0, Line(text=f"Not known yet: {format_list(missed)}."))
    elif not told and not any(each.lines for each in loud):
        lines.insert(0, Line(text=QUIET[kind]))
    return tuple([*lines, *told][:MOST])


def _rank_due(one: Line) -> tuple[int, str]:
    """What is late and the deadlines until tomorrow, then today by the hour, whole days, later deadlines."""
    clock = _CLOCK.match(one.text)
    if clock:
        return 1, clock[0]
    if any(source.kind == "calendar" for source in one.sources):
        return 2, ""
    return (3 if one.score < -1 else 0), ""


def _sum_up(key: str, lines: Sequence[Line]) -> Line:
    """The first things of a section, each with its source, and how many more there are."""
    named = lines[:NAMED]
    room = MAX_LINE // len(named)
    parts = [
        f"{plain(each.short or each.text, min(SHORT, room)).rstrip('.')}{cite(each.sources[:1])}"
        for each in named
    ]
    more = len(lines) - len(named)
    text = "; ".join(parts) + (f"; and {more} more" if more else "")
    return Line(
        text=f"{_BEGINNINGS[key]}: {text}.",
        inline=True,
        sources=tuple(source for each in named for source in each.sources[:1]),
    )


INTEREST, PROJECT, RECENT, URGENT = 0.6, 0.25, 0.15, 0.2
"""The shares of a rank: relevance to the interests, a project's name, how recent it is, words of urgency."""
HALF_LIFE = 3.0  # Days until something new is half as new
MODEL_TIME = 60.0  # Seconds a model may take to tell what matters; after that the rules tell it
SHOWN_TO_MODEL = 8  # The most lines of a section that it is shown
_URGENT = re.compile(
    r"(?i)\b(?:vulnerabilit\w+|cve-\d+|exploit\w*|security|breach\w*|outage|deprecat\w+|end of life"
    r"|recalled|deadline|urgent|patch(?:es|ed)? now)\b"
)
_PATH = re.compile(r"(?:~|\.{0,2})?/[\w./-]+")


def find_projects(goals: Iterable[Goal]) -> frozenset[str]:
    """The names of the folders that goals are about."""
    paths = (PurePosixPath(path) for goal in goals for path in _PATH.findall(goal.text))
    return frozenset(path.name.casefold() for path in paths if len(path.name) > 2)


def rank_items(items: Iterable[Mapping[str, Any]], projects: frozenset[str], now: datetime) -> list[Line]:
    """Papers and news as lines, each with why it matters, the one that matters most first."""
    return sorted((_as_line(item, projects, now) for item in items), key=lambda each: -each.score)


def _as_line(item: Mapping[str, Any], projects: frozenset[str], now: datetime) -> Line:
    text = f"{item.get('title', '')} {item.get('abstract') or item.get('summary') or ''}"
    ratings = [each for each in item.get("relevance") or () if isinstance(each, dict)]
    rated = sum(float(each.get("score") or 0) for each in ratings) / max(1, len(ratings))
    relevance = min(10.0, max(0.0, rated + float(item.get("liking") or 0)))
    interest = next((str(each["interest"]) for each in ratings if each.get("interest")), "")
    project = next((name for name in sorted(projects) if re.search(rf"(?i)\b{re.escape(name)}\b", text)), "")
    urgent = _URGENT.search(text)
    score = INTEREST * relevance / 10 + RECENT * _recency(str(item.get("published") or ""), now)
    score += PROJECT * bool(project) + URGENT * bool(urgent)
    reasons = [f"near your interest {interest!r}"] if interest and relevance >= 1 else []
    reasons += [f"like {item['like']!r}, which you kept"] if item.get("like") else []
    reasons += [f"your project {project}"] if project else []
    reasons += [f"about {urgent[0].lower()}"] if urgent else []
    told = f"{item.get('told') or item.get('title')}".rstrip(".")
    why = f" ({', '.join(reasons)})" if reasons else ""
    short = f"{clean(str(item.get('title')), 100)}{why}"
    found = line(f"{told}{why}", *item_sources(item), short=short, score=round(score, 3))
    detail = clean(f"{item.get('title', '')}. {item.get('abstract') or item.get('summary') or ''}", 600)
    return msgspec.structs.replace(found, detail=detail)


def item_sources(item: Mapping[str, Any]) -> tuple[Source, ...]:
    """The addresses of an item: its own, and those of others that tell the same story."""
    named = [Source(kind="news", id=plain(str(item["item_id"]), 40))] if item.get("item_id") else []
    if item.get("arxiv_id"):
        return (Source(kind="arxiv", id=plain(str(item["arxiv_id"]), 40)), *named)
    links = [str(item.get("link") or ""), *(str(each) for each in item.get("also") or ())]
    return (*(Source(kind="web", id=link) for link in links[:3] if link.isprintable() and link), *named)


def _recency(published: str, now: datetime) -> float:
    try:
        days = (now - parse_timestamp(published)).total_seconds() / 86_400
    except ValueError:
        return 0.0
    return float(0.5 ** (max(0.0, days) / HALF_LIFE))


class Sentence(msgspec.Struct, kw_only=True):
    """A sentence about what matters, and the numbers of the lines it rests on."""

    statement: str
    lines: list[int]


class WhatMatters(msgspec.Struct, kw_only=True):
    """What matters and why, the most important first."""

    sentences: list[Sentence]


_ASKED = (
    f"Tell the reader what of the lines below matters, and why, in at most {MOST} short sentences, the most "
    "important first: what waits for a person or failed before what is only new. Give with each sentence the "
    "numbers of the lines it rests on. Say only what they say."
)


async def tell_what_matters(models: ModelSession, sections: Sequence[Section]) -> tuple[Line, ...]:
    """What matters and why in a model's sentences, each with its sources; nothing without a model.

    A sentence that cites no line, or that its lines do not support, is dropped. It never raises.
    """
    shown = [(each.title, one) for each in sections for one in each.lines[:SHOWN_TO_MODEL] if one.sources]
    if not shown or not models.model.available:
        return ()
    listed = [
        f"{number}. {title}: {one.text}{cite(one.sources[:1])}{f' - {one.detail}' if one.detail else ''}"
        for number, (title, one) in enumerate(shown, 1)
    ]
    message = Message(role="user", text=quote("the day", "\n".join(listed), "private mail repository web"))
    try:
        async with asyncio.timeout(MODEL_TIME):
            answer = await models.ask_model_for([message], WhatMatters, rules=_ASKED)
    except (MailroomError, TimeoutError):
        return ()
    told = []
    for sentence in answer.sentences[:MOST]:
        numbers = list(dict.fromkeys(sentence.lines))
        if not numbers or not all(1 <= number <= len(shown) for number in numbers):
            continue
        rests_on = [shown[number - 1] for number in numbers]
        known = " ".join(f"{title}: {one.text} {one.short} {one.detail}" for title, one in rests_on)
        _, claims, _ = remove_unsupported(sentence.statement, known, (), known)
        if not claims and is_supported(sentence.statement, known):
            sources = tuple(dict.fromkeys(source for _, one in rests_on for source in one.sources[:1]))
            text = plain(sentence.statement, MAX_LINE).rstrip(".")
            told.append(Line(text=f"{text}{cite(sources)}.", inline=True, sources=sources))
    return tuple(told)
