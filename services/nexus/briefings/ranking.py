"""What is new, ranked by interests, projects, recency and urgency, and told by a model if there is one."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

import msgspec

from services.nexus.briefings.lines import Line, Source, line, plain
from shared.clock import parse_timestamp
from shared.contracts import Goal
from shared.errors import MailroomError
from shared.llm.protocol import Message
from shared.reasoning.model import ModelSession
from shared.text.prose import is_supported
from shared.web.quoting import clean, quote

INTEREST, PROJECT, RECENT, URGENT = 0.6, 0.25, 0.15, 0.2
"""The shares of a rank: relevance to the interests, a project's name, how recent it is, words of urgency."""
HALF_LIFE = 3.0  # Days until something new is half as new
MODEL_TIME = 60.0  # Seconds a model may take to tell what is new; after that the rules tell it
TOLD = 3  # The most sentences of a model
SHOWN_TO_MODEL = 8
_URGENT = re.compile(
    r"(?i)\b(?:vulnerabilit\w+|cve-\d+|exploit\w*|security|breach\w*|outage|deprecat\w+|end of life"
    r"|recalled|deadline|urgent|patch(?:es|ed)? now)\b"
)
_PATH = re.compile(r"(?:~|\.{0,2})?/[\w./-]+")


def find_projects(goals: Iterable[Goal]) -> frozenset[str]:
    """The names of the folders that goals are about."""
    paths = (PurePosixPath(path) for goal in goals for path in _PATH.findall(goal.text))
    return frozenset(path.name.casefold() for path in paths if len(path.name) > 2)


def rank_items(
    items: Iterable[Mapping[str, Any]], projects: frozenset[str], now: datetime
) -> list[tuple[Mapping[str, Any], Line]]:
    """Papers and news as lines, each with why it matters, the one that matters most first."""
    ranked = [(item, _as_line(item, projects, now)) for item in items]
    return sorted(ranked, key=lambda each: -each[1].score)


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
    return line(f"{told}{why}", *item_sources(item), short=short, score=round(score, 3))


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


class NewSentence(msgspec.Struct, kw_only=True):
    """A sentence about what is new, and the numbers of the items it rests on."""

    statement: str
    sources: list[int]


class WhatIsNew(msgspec.Struct, kw_only=True):
    """What is new and why it matters."""

    sentences: list[NewSentence]


async def tell_new(
    models: ModelSession, ranked: Sequence[tuple[Mapping[str, Any], Line]], projects: frozenset[str]
) -> Line | None:
    """What a model says is new and why it matters, each sentence with its sources; None without any.

    A sentence that its sources do not support is dropped.
    """
    if not ranked or not models.model.available:
        return None
    shown = dict(enumerate(ranked[:SHOWN_TO_MODEL], start=1))
    listed = [
        f"{number}. {told.text}\n{clean(_text_of(item), 600)}\n" for number, (item, told) in shown.items()
    ]
    asked = (
        f"Tell what of this matters to the reader and why, in at most {TOLD} short sentences, the most "
        "important first. Give with each the numbers of the items it rests on. Say only what they say.\n"
        f"The reader's projects: {', '.join(sorted(projects)[:20]) or 'none known'}\n\n"
    )
    message = Message(role="user", text=asked + quote("what is new", "\n".join(listed)))
    try:
        async with asyncio.timeout(MODEL_TIME):
            answer = await models.ask_model_for([message], WhatIsNew)
    except (MailroomError, TimeoutError):
        return None
    kept = [
        (plain(each.statement, 160), [shown[number] for number in dict.fromkeys(each.sources)])
        for each in answer.sentences[:TOLD]
        if each.sources
        and all(number in shown for number in each.sources)
        and is_supported(each.statement, " ".join(_known_of(*shown[number]) for number in each.sources))
    ]
    if not kept:
        return None
    sources = [[source for _, told in items for source in told.sources[:1]] for _, items in kept]
    parts = [
        f"{text.rstrip('.')}{''.join(f' [{one.label}]' for one in cited)}."
        for (text, _), cited in zip(kept, sources, strict=True)
    ]
    return Line(
        text=f"New for you: {' '.join(parts)}",
        inline=True,
        sources=tuple(dict.fromkeys(one for cited in sources for one in cited)),
    )


def _known_of(item: Mapping[str, Any], told: Line) -> str:
    return _text_of(item) + told.text


def _text_of(item: Mapping[str, Any]) -> str:
    return f"{item.get('title', '')}. {item.get('abstract') or item.get('summary') or ''} "
