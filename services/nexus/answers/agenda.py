"""What the calendar answers: when an event comes, what is next, before or after it, and when one is free.

An event is found by the words of its title that a question names. Each answer is a sentence, and the events
that it is about, one a line, the first of which is the one that "that" means afterwards.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo

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
        self.now, self.zone = now, now.tzinfo
        self.text = " ".join(question.replace("’", "'").split())
        self.events = agenda.events
        self.named = find_named(self.text, self.events)
        self.window = _read_window(self.text, now)

    def tell(self) -> str:
        """The first aspect that the question asks for."""
        if self.named:
            return self._tell_of_event()
        if WAYS["free"].search(self.text):
            return self._tell_free()
        if WAYS["next"].search(self.text) and not self.window.timed:
            return self._tell_next()
        if not self.window.named and WAYS["asks_of_event"].match(self.text):
            return (
                f"The calendar has no such event from today until {_day(self.now.date() + timedelta(AHEAD))}."
            )
        return self._tell_days()

    def _tell_of_event(self) -> str:
        event = self._choose()
        start, end = begin_of(event, self.zone), end_of(event, self.zone)
        if side := WAYS["beside"].search(self.text):
            return self._tell_beside(event, "before" if side["before"] else "after")
        if WAYS["how_many"].search(self.text) and not WAYS["until"].search(self.text):
            return _list(
                f"{count(len(self._within(self.named)), 'event')} of that name:", self._within(self.named)
            )
        if WAYS["until"].search(self.text):
            return _list(f"{_distance(self.now, start, event.all_day)}:", [event])
        if WAYS["all_day"].search(self.text):
            days = max(1, (end.date() - start.date()).days)
            whole = f"Yes, it takes {'all day' if days == 1 else f'{days} whole days'}:"
            return _list(whole if event.all_day else f"No, it lasts {_length(end - start)}:", [event])
        if WAYS["lasts"].search(self.text):
            until = (
                f"{count((end.date() - start.date()).days, 'day')}" if event.all_day else _length(end - start)
            )
            return _list(f"It lasts {until}, until {_end(event, end)}:", [event])
        if WAYS["where"].search(self.text):
            return _list(f"In {event.place}:" if event.place else "The calendar names no place:", [event])
        if self.window.named and not self._within([event]):
            return _list("Not then. It is:", [event])
        return _list(f"{_distance(self.now, start, event.all_day)}:", [event])

    def _choose(self) -> Event:
        """Of those named the one in the days that are named, else the next one; the last one of the past."""
        within = self._within(self.named) if self.window.named else []
        ahead = [each for each in self.named if end_of(each, self.zone) > self.now]
        behind = [each for each in self.named if each not in ahead]
        if WAYS["past"].search(self.text) and not within and behind:
            return behind[-1]
        after_next = bool(WAYS["after_next"].search(self.text))
        return (within or ahead[after_next:] or ahead or behind[-1:])[0]

    def _tell_beside(self, event: Event, side: str) -> str:
        """What is before or after an event on its day; after the last one what comes next."""
        start, end = begin_of(event, self.zone), end_of(event, self.zone)
        day = [
            each
            for each in self.events
            if not each.all_day and begin_of(each, self.zone).date() == start.date()
        ]
        if side == "before":
            found = [each for each in day if end_of(each, self.zone) <= start and each is not event]
            return (
                _list("Before that, on its day:", found)
                if found
                else _list("Nothing is before that on its day:", [event])
            )
        later = [each for each in self.events if begin_of(each, self.zone) >= end and each is not event]
        found = [each for each in later if each in day]
        if found:
            return _list("After that, on its day:", found)
        return (
            _list("Nothing is after that on its day. Next:", later[:1]) if later else "Nothing is after that."
        )

    def _tell_next(self) -> str:
        """The next event of the days that are named, or of all."""
        ahead = [
            each
            for each in self.events
            if begin_of(each, self.zone) > self.now and (not self.window.named or self._within([each]))
        ]
        if not ahead:
            return "Nothing more is in the calendar then."
        most = 5 if WAYS["several"].search(self.text) else 1
        return _list(
            f"Next, {_distance(self.now, begin_of(ahead[0], self.zone), ahead[0].all_day).lower()}:",
            ahead[:most],
        )

    def _tell_free(self) -> str:
        """Whether nothing is in the time that is named; of whole days the gaps, of what is named free."""
        taken = self._within(self.events)
        if not taken:
            return f"Yes, you are free {_span(self.window)}: the calendar has nothing then."
        if self.window.timed:
            return _list("No, there is:", taken)
        gaps = _find_gaps(self.window, taken, self.now, self._wanted_length())
        free = ", ".join(gaps[:6])
        head = f"You are free {free}. Taken:" if gaps else "Nothing is free between these:"
        return _list(head, taken)

    def _wanted_length(self) -> timedelta:
        lasting = next(
            (each for each in find_phrases(self.text) if each.kind == "lasting" and each["amount"]), None
        )
        return (self.now + read_amount(lasting["amount"])) - self.now if lasting else LEAST_GAP

    def _tell_days(self) -> str:
        """What is in the days that are named, or today."""
        window, found = self.window, self._within(self.events)
        if WAYS["left"].search(self.text):
            found = [each for each in found if end_of(each, self.zone) > self.now]
        if WAYS["how_many"].search(self.text):
            return _list(f"{count(len(found), 'event')} {_span(window)}:", found)
        if not found:
            return f"The calendar has nothing {_span(window)}."
        return _list(f"Calendar {_span(window)}:", found)

    def _within(self, events: Sequence[Event]) -> list[Event]:
        return [
            each
            for each in events
            if begin_of(each, self.zone) < self.window.end and end_of(each, self.zone) > self.window.begin
        ]


def begin_of(event: Event, zone: tzinfo | None) -> datetime:
    """When ``event`` begins; one of whole days at midnight."""
    return _moment(event.start, zone)


def end_of(event: Event, zone: tzinfo | None) -> datetime:
    """When ``event`` ends, after it has begun."""
    return max(_moment(event.end, zone), begin_of(event, zone) + timedelta(seconds=1))


def _moment(text: str, zone: tzinfo | None) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=zone)


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


def _find_gaps(window: Window, taken: Sequence[Event], now: datetime, least: timedelta) -> list[str]:
    """The gaps of each day between ``taken`` that are at least so long, within the hours of a day."""
    gaps, day = [], window.begin
    while day < window.end:
        at = max(day.replace(hour=FREE_FROM.hour), now if now.date() == day.date() else day)
        close = day.replace(hour=FREE_UNTIL.hour)
        busy = sorted(
            (begin_of(each, now.tzinfo), end_of(each, now.tzinfo))
            for each in taken
            if begin_of(each, now.tzinfo) < close and end_of(each, now.tzinfo) > at
        )
        for begin, end in [*busy, (close, close)]:
            if begin - at >= least:
                gaps.append(f"on {at:%a} {at.day} {at:%b} from {at:%H:%M} to {begin:%H:%M}")
            at = max(at, end)
        day += timedelta(days=1)
    return gaps


def _list(head: str, events: Sequence[Event]) -> str:
    more = [f"... and {len(events) - MOST_TOLD} more"] if len(events) > MOST_TOLD else []
    return "\n".join([head, *(f"- {event.sentence}" for event in events[:MOST_TOLD]), *more])


def _distance(now: datetime, then: datetime, whole_day: bool) -> str:
    """How far ``then`` is from ``now``: "In 3 days", "In 2 hours 5 minutes", "Tomorrow"."""
    days = (then.date() - now.date()).days
    if abs(days) > 1 or (whole_day and days):
        words = "Tomorrow" if days == 1 else "Yesterday" if days == -1 else ""
        return words or (f"In {days} days" if days > 0 else f"{-days} days ago")
    if whole_day:
        return "Today"
    apart = _length(abs(then.astimezone(UTC) - now.astimezone(UTC)))
    return f"In {apart}" if then > now else f"{apart} ago"


def _length(span: timedelta) -> str:
    minutes = round(span.total_seconds() / 60)
    days, hours = divmod(minutes // 60, 24)
    parts = ((days, "day"), (hours, "hour"), (minutes % 60, "minute"))
    return " ".join(count(number, unit) for number, unit in parts if number) or "no time"


def _end(event: Event, end: datetime) -> str:
    return _day((end - timedelta(days=1)).date()) if event.all_day else f"{end:%H:%M}"


def _day(day: date) -> str:
    return f"{day:%A} {day.day} {day:%B %Y}"


def _span(window: Window) -> str:
    """``window`` in words: "on 2026-12-01", "on 2026-12-01 from 12:00 to 18:00"."""
    first, last = window.begin.date(), (window.end - timedelta(seconds=1)).date()
    days = f"for {first}" if first == last else f"for {first} to {last}"
    return f"{days} from {window.begin:%H:%M} to {window.end:%H:%M}" if window.timed else days
