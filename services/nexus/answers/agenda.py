"""What the calendar answers: when an event comes, what is next, before or after it, and when one is free.

An event is found by the words of its title that a question names. Each answer is a sentence, and the events
that it is about, one a line, the first of which is the one that "that" means afterwards.
"""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import NamedTuple

import msgspec

from shared.language.sayings import read_sayings
from shared.language.times.clocks import decide, read_clocks, read_part
from shared.language.times.days import UnclearTime, find_calendar_range, read_amount
from shared.language.times.time_parser import choose
from shared.language.times.time_phrases import PARTS, find_phrases
from shared.skills.calendar import Agenda, Event
from shared.text.display import count
from shared.text.prose import find_stems, find_terms

WAYS = read_sayings(__file__, "agenda")
BEHIND, AHEAD = 31, 366  # Days around today that are looked through
LEAST_NAMED = 0.6  # The least share of the words of a question that the title of the event has that it names
MOST_TOLD = 20  # The most events of an answer
FREE_FROM, FREE_UNTIL = time(8), time(18)  # When a gap counts as one
LEAST_GAP = timedelta(minutes=30)


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """The days that a question names, and the part of them; ``named`` is whether it names any."""

    begin: datetime
    end: datetime
    named: bool
    timed: bool = False


def find_named(question: str, events: Sequence[Event]) -> list[Event]:
    """The events, in their order, whose title or place has most of what the question names; [] if none."""
    text = question.replace("’", "'")
    for phrase in reversed([each for each in find_phrases(text) if not each["vague"]]):
        text = f"{text[: phrase.match.start()]} {text[phrase.match.end() :]}"
    text = WAYS["aspects"].sub(" ", text)
    wanted = find_terms(text).keys() - find_stems(WAYS["common"].pattern.replace("|", " "))
    if not wanted:
        return []
    shares = [len(wanted & _find_words(event)) for event in events]
    most = max(shares, default=0)
    if most < max(1.0, LEAST_NAMED * len(wanted)):
        return []
    return [event for event, share in zip(events, shares, strict=True) if share == most]


def _find_words(event: Event) -> frozenset[str]:
    """The stems of the words of an event: of "Stand-up" also that of "standup"."""
    said = f"{event.title} {event.place}"
    return find_stems(said) | find_stems(said.replace("-", ""))


def asks_of_event(question: str) -> bool:
    """Whether ``question`` asks when or how long something is, as of an appointment."""
    return bool(WAYS["asks_of_event"].search(question))


def tell(question: str, agenda: Agenda, now: datetime) -> str:
    """What the ``agenda`` answers, which reaches BEHIND and AHEAD of the day of ``now``."""
    answer = _Answer(question, agenda, now).tell()
    return "\n".join([answer, *agenda.problems])


class _Answer:
    """One question, and what it names."""

    def __init__(self, question: str, agenda: Agenda, now: datetime) -> None:
        self.now = now
        self.text = " ".join(question.replace("’", "'").split())
        self.events = [_time(each, now.tzinfo) for each in agenda.events]
        self.named = find_named(self.text, agenda.events)
        self.window = _read_window(self.text, now)

    def tell(self) -> str:
        """The first aspect that the question asks for, of the event that it names, or of days."""
        if self.named:
            event = self._choose([each for each in self.events if each.event in self.named])
            tells = (tell for way, tell in OF_EVENT if not way or WAYS[way].search(self.text))
            return next(answer for tell in tells if (answer := tell(self, event)))
        if WAYS["free"].search(self.text):
            return self._tell_free()
        if WAYS["next"].search(self.text) and not self.window.timed:
            return self._tell_next()
        if not self.window.named and WAYS["asks_of_event"].match(self.text):
            until = _day(self.now.date() + timedelta(AHEAD))
            return f"The calendar has no such event from today until {until}."
        return self._tell_days()

    def _choose(self, named: list["Timed"]) -> "Timed":
        """Of those named the one in the days that are named, else the next one; the last one of the past."""
        within = self._within(named) if self.window.named else []
        ahead = [each for each in named if each.end > self.now]
        behind = [each for each in named if each not in ahead]
        if WAYS["past"].search(self.text) and not within and behind:
            return behind[-1]
        after_next = bool(WAYS["after_next"].search(self.text))
        return (within or ahead[after_next:] or ahead or behind[-1:])[0]

    def _tell_beside(self, event: "Timed") -> str:
        """What is before or after an event on its day; after the last one what comes next."""
        side = WAYS["beside"].search(self.text)
        timed = [each for each in self.events if not each.event.all_day and each is not event]
        day = [each for each in timed if each.begin.date() == event.begin.date()]
        if side and side["before"]:
            found = [each for each in day if each.end <= event.begin]
            return _list(
                "Before that, on its day:" if found else "Nothing is before that on its day:",
                found or [event],
            )
        later = [each for each in self.events if each.begin >= event.end and each is not event]
        if found := [each for each in later if each in day]:
            return _list("After that, on its day:", found)
        return (
            _list("Nothing is after that on its day. Next:", later[:1]) if later else "Nothing is after that."
        )

    def _count_named(self, _: "Timed") -> str:
        if WAYS["until"].search(self.text):
            return ""
        found = self._within([each for each in self.events if each.event in self.named])
        return _list(f"{count(len(found), 'event')} of that name:", found)

    def _tell_until(self, event: "Timed") -> str:
        return _list(f"{_distance(self.now, event)}:", [event])

    def _tell_all_day(self, event: "Timed") -> str:
        whole = f"Yes, it takes {'all day' if event.days <= 1 else f'{event.days} whole days'}:"
        lasts = f"No, it lasts {_length(event.end - event.begin)}:"
        return _list(whole if event.event.all_day else lasts, [event])

    def _tell_length(self, event: "Timed") -> str:
        whole = event.event.all_day
        lasts = count(event.days, "day") if whole else _length(event.end - event.begin)
        end = _day((event.end - timedelta(days=1)).date()) if whole else f"{event.end:%H:%M}"
        return _list(f"It lasts {lasts}, until {end}:", [event])

    def _tell_place(self, event: "Timed") -> str:
        place = event.event.place
        return _list(f"In {place}:" if place else "The calendar names no place:", [event])

    def _tell_when(self, event: "Timed") -> str:
        if self.window.named and not self._within([event]):
            return _list("Not then. It is:", [event])
        return self._tell_until(event)

    def _tell_next(self) -> str:
        """The next event of the days that are named, or of all."""
        within = self._within(self.events) if self.window.named else self.events
        ahead = [each for each in within if each.begin > self.now]
        if not ahead:
            return "Nothing more is in the calendar then."
        most = 5 if WAYS["several"].search(self.text) else 1
        return _list(f"Next, {_distance(self.now, ahead[0]).lower()}:", ahead[:most])

    def _tell_free(self) -> str:
        """Whether nothing is in the time that is named; of whole days the gaps, of what is named free."""
        taken = self._within(self.events)
        if not taken:
            return f"Yes, you are free {_span(self.window)}: the calendar has nothing then."
        if self.window.timed:
            return _list("No, there is:", taken)
        gaps = _find_gaps(self.window, taken, self.now, self._wanted_length())
        free = ", ".join(gaps[:6])
        return _list(f"You are free {free}. Taken:" if gaps else "Nothing is free between these:", taken)

    def _wanted_length(self) -> timedelta:
        phrases = find_phrases(self.text)
        lasting = next((each for each in phrases if each.kind == "lasting" and each["amount"]), None)
        return (self.now + read_amount(lasting["amount"])) - self.now if lasting else LEAST_GAP

    def _tell_days(self) -> str:
        """What is in the days that are named, or today."""
        found = self._within(self.events)
        if WAYS["left"].search(self.text):
            found = [each for each in found if each.end > self.now]
        if WAYS["how_many"].search(self.text):
            return _list(f"{count(len(found), 'event')} {_span(self.window)}:", found)
        days = _span(self.window)
        return _list(f"Calendar {days}:", found) if found else f"The calendar has nothing {days}."

    def _within(self, events: Sequence["Timed"]) -> list["Timed"]:
        return [each for each in events if each.begin < self.window.end and each.end > self.window.begin]


OF_EVENT: Sequence[tuple[str, Callable[[_Answer, "Timed"], str]]] = (
    ("beside", _Answer._tell_beside),
    ("how_many", _Answer._count_named),
    ("until", _Answer._tell_until),
    ("all_day", _Answer._tell_all_day),
    ("lasts", _Answer._tell_length),
    ("where", _Answer._tell_place),
    ("", _Answer._tell_when),
)
"""What is told of an event, by what asks for it; the first that tells something counts."""


class Timed(NamedTuple):
    """An event, when it begins and ends: one of whole days at midnight."""

    event: Event
    begin: datetime
    end: datetime

    @property
    def days(self) -> int:
        """How many midnights it lasts over."""
        return (self.end.date() - self.begin.date()).days


def _time(event: Event, zone: tzinfo | None) -> Timed:
    begin, end = (datetime.fromisoformat(text) for text in (event.start, event.end))
    begin, end = (each if each.tzinfo else each.replace(tzinfo=zone) for each in (begin, end))
    return Timed(event, begin, max(end, begin + timedelta(seconds=1)))


def _read_window(text: str, now: datetime) -> Window:
    """The days and the part of the day that ``text`` names; all of today if it names none."""
    days = find_calendar_range(text, now.date())
    phrases = choose(text).chosen
    first, number = days or (now.date(), 1)
    begin, end = _start(first, now), _start(first + timedelta(days=number), now)
    span = WAYS["span"].search(text)
    part, _, _ = read_part(phrases)
    clocks = [clock for each in phrases if each.kind == "clock" for clock in _clocks(each)]
    timed = True
    if span:
        hours = [int(span[name]) + 12 * (int(span[name]) < 7) for name in ("from", "to")]
        begin, end = (begin.replace(hour=each % 24) for each in hours)
    elif clocks:
        at, _ = decide(clocks[0], part, first, now, text)
        moment = begin.replace(hour=at.hour, minute=at.minute)
        around = WAYS["around"].search(text)
        begin = moment if not (around and around["before"]) else begin
        end = (end if around["after"] else moment) if around else moment + timedelta(minutes=30)
    elif part in PARTS:
        _, earliest, latest = PARTS[part]
        before, after = re.search(rf"(?i)\bbefore {part}", text), re.search(rf"(?i)\bafter {part}", text)
        end = (
            begin.replace(hour=earliest + 1)
            if before
            else end
            if after
            else begin.replace(hour=latest, minute=59)
        )
        begin = begin if before else begin.replace(hour=13 if part == "lunch" and after else earliest)
    else:
        timed = False
    named = bool(days) or timed
    return Window(begin=begin, end=end, named=named, timed=timed)


def _clocks(phrase: object) -> list:  # type: ignore[type-arg]
    try:
        return read_clocks(phrase)  # type: ignore[arg-type]
    except UnclearTime:
        return []


def _start(day: date, now: datetime) -> datetime:
    return datetime.combine(day, time(), tzinfo=now.tzinfo)


def _find_gaps(window: Window, taken: Sequence[Timed], now: datetime, least: timedelta) -> list[str]:
    """The gaps of each day between ``taken`` that are at least so long, within the hours of a day."""
    gaps, day = [], window.begin
    while day < window.end:
        at = max(day.replace(hour=FREE_FROM.hour), now if now.date() == day.date() else day)
        close = day.replace(hour=FREE_UNTIL.hour)
        busy = sorted((each.begin, each.end) for each in taken if each.begin < close and each.end > at)
        for begin, end in [*busy, (close, close)]:
            if begin - at >= least:
                gaps.append(f"on {at:%a} {at.day} {at:%b} from {at:%H:%M} to {begin:%H:%M}")
            at = max(at, end)
        day += timedelta(days=1)
    return gaps


def _list(head: str, events: Sequence[Timed]) -> str:
    more = [f"... and {len(events) - MOST_TOLD} more"] if len(events) > MOST_TOLD else []
    return "\n".join([head, *(f"- {each.event.sentence}" for each in events[:MOST_TOLD]), *more])


def _distance(now: datetime, event: Timed) -> str:
    """How far the beginning is from ``now``: "In 3 days", "In 2 hours 5 minutes", "Tomorrow"."""
    days, whole_day = (event.begin.date() - now.date()).days, event.event.all_day
    if abs(days) > 1 or (whole_day and days):
        words = "Tomorrow" if days == 1 else "Yesterday" if days == -1 else ""
        return words or (f"In {days} days" if days > 0 else f"{-days} days ago")
    if whole_day:
        return "Today"
    apart = _length(abs(event.begin.astimezone(UTC) - now.astimezone(UTC)))
    return f"In {apart}" if event.begin > now else f"{apart} ago"


def _length(span: timedelta) -> str:
    minutes = round(span.total_seconds() / 60)
    days, hours = divmod(minutes // 60, 24)
    parts = ((days, "day"), (hours, "hour"), (minutes % 60, "minute"))
    return " ".join(count(number, unit) for number, unit in parts if number) or "no time"


def _day(day: date) -> str:
    return f"{day:%A} {day.day} {day:%B %Y}"


def _span(window: Window) -> str:
    """``window`` in words: "on 2026-12-01", "on 2026-12-01 from 12:00 to 18:00"."""
    first, last = window.begin.date(), (window.end - timedelta(seconds=1)).date()
    days = f"for {first}" if first == last else f"for {first} to {last}"
    return f"{days} from {window.begin:%H:%M} to {window.end:%H:%M}" if window.timed else days
