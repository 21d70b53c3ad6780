"""The answer to a query over the things of the office, and whether a message is one."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple

from services.nexus.office.query import SHOW_WAYS, Kind, OfficeQuery
from services.nexus.office.things import Thing, format_when
from shared import subjects
from shared.language.times.days import find_calendar_range
from shared.memory import Memory
from shared.memory.nearest import match_meaning, match_words
from shared.text.prose import find_stems

MOST_MISSING, MOST_OF_LETTER = 0.25, 0.5
"""The most words of a question, a share, that the thing it is about may lack; of one for a letter."""
MOST_ROWS = 10  # The most findings of a report that are told
MOST_SHOWN = 8  # The most things of an answer
NAMES = {
    Kind.LETTER: ("letter", "letters"),
    Kind.GOAL: ("goal", "goals"),
    Kind.AGENT: ("agent", "agents"),
    Kind.DEAD: ("dead letter", "dead letters"),
    Kind.APPROVAL: ("request for approval", "requests for approval"),
    Kind.WAITING: ("thing that waits for you", "things that wait for you"),
    Kind.PLANNED: ("plan", "plans"),
    Kind.SPENDING: ("cost", "costs"),
    Kind.OVERVIEW: ("goal", "goals"),
}
_STATES = {
    "failed": "that failed",
    "cancelled": "that were cancelled",
    "running": "at work",
    "done": "that are done",
    "findings": "done with findings",
    "unanswered": "that wait for your answer",
    "paused": "paused",
    "down": "not at work",
    "up": "at work",
    "idle": "idle",
    "stuck": "stuck",
}
SETTLED = {
    Kind.GOAL: frozenset({"failed", "cancelled", "running", "done", "findings"}),
    Kind.LETTER: frozenset({"unanswered"}),
    Kind.AGENT: frozenset({"up", "down", "idle", "running"}),
    Kind.PLANNED: frozenset({"paused"}),
}
"""The states by which things of a kind are told apart."""


class Found(NamedTuple):
    """The things that a query is about, and the words of it that none of them has."""

    things: list[Thing]
    missing: list[str]


def match(things: Sequence[Thing], terms: Mapping[str, str]) -> Found:
    """The things that have most of ``terms``: all of them if there are none."""
    if not terms:
        return Found(list(things), [])
    matched = match_words(terms, [thing.stems for thing in things])
    return Found([things[place] for place in matched.places], matched.missing)


def list_asked(query: OfficeQuery, things: Sequence[Thing]) -> list[Thing]:
    """The things among which a question names one: agents if it is for them; of what recurs plans first."""
    asked = [each for each in things if (each.kind is Kind.AGENT) is (query.kind is Kind.AGENT)]
    return (
        sorted(asked, key=lambda each: each.kind is not Kind.PLANNED)
        if {"comes", "habit"} & query.shows
        else asked
    )


def is_of_office(query: OfficeQuery, things: Sequence[Thing], hint: Kind | None, least: int = 1) -> bool:
    """Whether a message is a question about the office: of its words, or of one of its things and no more.

    One that names no kind of thing has to have more than ``least`` words of a thing, or to be like such.
    """
    if not query.only_asks:
        return False
    if hint is not None and query.is_vague and hint is not Kind.GOAL:
        return False  # what likeness speaks for is meant
    if not query.terms:
        return query.kind is not None or bool(hint and (query.states or query.shows or query.period))
    found = match(list_asked(query, things), query.terms)
    most = MOST_OF_LETTER if query.kind is Kind.LETTER else MOST_MISSING
    if not found.things or len(found.missing) > most * len(query.terms):
        return False
    comes = "comes" in query.shows and found.things[0].kind is Kind.PLANNED
    shown = comes or "shown_after" in query.shows
    return shown or query.kind is not None or hint is not None or len(query.terms) > least


def select(query: OfficeQuery, things: Sequence[Thing], now: datetime, text: str, kind: Kind) -> list[Thing]:
    """The things of ``kind`` that a query is about, but for its words."""
    if kind is Kind.WAITING:
        kinds = (Kind.APPROVAL, Kind.LETTER, Kind.DEAD)
        chosen = [each for each in things if each.kind in kinds and {"unanswered", "failed"} & each.states]
    else:
        chosen = [each for each in things if each.kind is kind]
    chosen = [each for each in chosen if not each.who & set(query.without)]
    if query.agents and kind is not Kind.PLANNED:
        chosen = [each for each in chosen if each.who & set(query.agents)]
    if kind is Kind.GOAL and "ended" in query.shows and "newest" in query.shows:
        chosen = [each for each in chosen if "running" not in each.states]
    if kind is Kind.AGENT and query.agents:
        return chosen  # whatever is asked of one that is named, its state is told
    if kind is Kind.PLANNED and "jobs" in query.shows:
        chosen = [each for each in chosen if each.who == {subjects.CORTEX}] or chosen
    if states := query.states & SETTLED.get(kind, frozenset()):
        fitting = [each for each in chosen if _is_in(each, states)]
        chosen = fitting if not query.terms or match(fitting, query.terms).things else chosen
    if kind is Kind.PLANNED:
        return _select_coming(chosen, now, text)
    if period := query.period:
        ended = "done" in query.states or "failed" in query.states
        chosen = [
            each
            for each in chosen
            if period.since <= each.at < period.until
            or (
                not ended
                and kind is Kind.GOAL
                and "running" not in each.states
                and period.since <= each.began < period.until
            )
        ]
    return sorted(chosen, key=lambda each: each.at, reverse="oldest" not in query.shows)


def _is_in(thing: Thing, states: Collection[str]) -> bool:
    if "done" in states and thing.kind is Kind.GOAL and len(states) == 1:
        return bool({"done", "failed"} & thing.states)  # what was done may have gone wrong
    return bool(thing.states & set(states))


def _select_coming(things: list[Thing], now: datetime, text: str) -> list[Thing]:
    """Those that come within the days that ``text`` names, if any do."""
    if NIGHT.search(text):
        tonight = [each for each in things if "paused" not in each.states and _is_tonight(each, now)]
        return tonight or things
    named = find_calendar_range(text, now.date())
    if named is None or named[0] < now.date():
        return things
    first, days = named

    def comes(thing: Thing) -> bool:
        day: date = thing.at.astimezone(now.tzinfo).date()
        return (
            "paused" not in thing.states and first <= day < first + timedelta(days=days)
        ) or thing.words.count(f"{first:%A}") > 0

    return [each for each in things if comes(each)] or things


NIGHT = SHOW_WAYS["tonight"]
NIGHT_HOURS = (20, 8)  # When what comes "tonight" begins


def _is_tonight(thing: Thing, now: datetime) -> bool:
    begins, ends = (now.replace(hour=hour, minute=0, second=0) for hour in NIGHT_HOURS)
    return begins <= thing.at < ends + timedelta(days=1)


async def find_by_meaning(memory: Memory, text: str, things: Sequence[Thing]) -> list[Thing]:
    """The things whose meaning is near to that of ``text``, the nearest first; none while memory is away."""
    return [things[place] for place in await match_meaning(memory, text, [each.words for each in things])]


def tell(query: OfficeQuery, kind: Kind, things: Sequence[Thing], now: datetime) -> str:
    """``things`` as they are asked for: how many, one in full, or a line of each."""
    head = _format_head(query, kind, things, now)
    if not things:
        return f"No {head}."
    most = 0 if kind is Kind.PLANNED and "newest" in query.shows else query.most
    if query.place:
        things = things[query.place - 1 : query.place]
    elif most:
        things = things[:most]
    shown = len(things) if kind is Kind.AGENT else MOST_SHOWN
    lines = [f"- {each.line}" for each in things[:shown]]
    if len(things) == 1 and things[0].more:
        lines.append(things[0].more)
    if len(things) == 1 and things[0].report:
        lines += find_rows(things[0].report, query.terms)
    if len(things) > shown:
        lines.append(f"... and {len(things) - shown} more")
    if "tally" in query.shows:
        tallied = Counter(name for each in things for name in each.who).most_common()
        lines.insert(0, f"By agent: {', '.join(f'{name} {number}' for name, number in tallied)}.")
    if most or query.place or kind is Kind.DEAD or (len(things) == 1 and "count" not in query.shows):
        return "\n".join(lines)
    return "\n".join([f"{len(things)} {head}:", *lines])


_FAILING = re.compile(
    r"(?m)^(?:Failing:|Tests[^:\n]*: .*\b(?:failed|errors?)\b.*)\n+(?P<rows>(?:- .*(?:\n|\Z))+)"
)
"""The failing tests of a report, or of the answer of a run."""
_OF_TESTS = find_stems("test")


_HAPPENING = (Kind.GOAL, Kind.LETTER, Kind.DEAD, Kind.APPROVAL)
MOST_LATEST = 5  # The most things of an answer to what just happened


def tell_rows(query: OfficeQuery, things: Sequence[Thing]) -> tuple[str, list[Thing]] | None:
    """What just happened, each thing once; or which tests failed, of the latest goal of which that is known.

    None if neither is asked for.
    """
    latest = sorted(things, key=lambda each: each.at, reverse=True)
    if "just" in query.shows:
        came = [each for each in latest if each.kind in _HAPPENING][:MOST_LATEST]
        told = ["The latest:" if came else "Nothing yet.", *(f"- {each.line}" for each in came)]
        return "\n".join(told), came
    if "tests" not in query.shows:
        return None
    goals = [each for each in latest if each.kind is Kind.GOAL and {"failed", "findings"} & each.states]
    about = {stem: word for stem, word in query.terms.items() if stem not in _OF_TESTS}
    goals = [each for each in match(goals, about).things if _OF_TESTS & each.stems]
    for each in goals:
        if rows := _FAILING.search(each.report) or _FAILING.search(each.more):
            return f"{each.line}\n{rows['rows'].rstrip()}", [each]
    if goals:
        return f"{goals[0].line}\n{goals[0].more}", goals[:1]
    return f"No goal tells of a failing test{' of ' * bool(about)}{' '.join(about.values())}.", []


def find_rows(report: str, terms: Mapping[str, str]) -> list[str]:
    """The rows of the tables of a report that have most of ``terms``, else all of them; at most MOST_ROWS."""
    rows = [row for row in report.splitlines() if row.startswith("| ") and "---" not in row]
    places = match_words(terms, [find_stems(row) for row in rows]).places
    return [rows[place] for place in sorted(places)][:MOST_ROWS] or rows[:MOST_ROWS]


def _format_head(query: OfficeQuery, kind: Kind, things: Sequence[Thing], now: datetime) -> str:
    name = NAMES[kind][len(things) != 1]
    known = sorted(query.states & SETTLED.get(kind, frozenset()))
    states = " or ".join(dict.fromkeys(_STATES[each] for each in known))
    of = f"{'from' if kind is Kind.LETTER else 'of'} {' or '.join(query.agents)}" if query.agents else ""
    about = f"about {' '.join(query.terms.values())}" if query.terms else ""
    when = ""
    if period := query.period:
        when = f"between {format_when(period.since, now)} and {format_when(period.until, now)}"
    return " ".join(filter(None, [name, states, of, about, when]))
