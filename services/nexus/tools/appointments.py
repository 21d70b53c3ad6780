"""Appointments: those of the calendar, and events that are added to it."""

import asyncio
import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from services.nexus.answers import agenda as agenda_answers
from services.nexus.routing.request import Request
from services.nexus.timetable.reminder_requests import clean_text
from services.nexus.tools.keeping import answer_from_memory
from services.nexus.tools.tool import Answer, Call, Effect, Tool, ToolContext, Words, ask_back, command
from shared.agent.context import AgentContext
from shared.clock import localize, parse_timestamp, read_zone
from shared.contracts import Choice
from shared.contracts.emails import SLOT
from shared.errors import ActionError
from shared.files import write_atomically
from shared.language.sayings import read_sayings
from shared.language.times.time_parser import choose, resolve
from shared.settings import Settings
from shared.skills.calendar import Agenda, add_event, is_on_server, read_agenda
from shared.tasks.actions import Outcome, register_action
from shared.text.display import flatten

if TYPE_CHECKING:
    import icalendar

WAYS = read_sayings(__file__, "appointments")

_HOUR = r"(?P<{0}>\d{{1,2}})(?:[:.](?P<{0}_min>[0-5]\d))?\s*(?P<{0}_half>[ap]m)?(?:\s*o['’]?clock)?"
_FROM_UNTIL = re.compile(
    rf"(?i)(?P<lead>\b(?:from|between|at)\s+|(?<=day\s)|(?<=morrow\s)|(?<=,)\s*|\b(?=\d{{1,2}}(?:[:.]\d\d|\s*[ap]m)))"
    rf"{_HOUR.format('begins')}\s*(?:-|–|\bto\b|\btill\b|\buntil\b|\band\b)\s*{_HOUR.format('ends')}"
    r"(?![\w:/%-]|\.\d|\s*(?:of\s+)?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec))"
)
"""From when until when on one day: "7pm to 9", "from 2 to 4"."""


MOST_EVENTS = 5_000  # The most events that are looked through for an answer
FIRST_ONLY = "I add single events, so this is the first one only."


class Appointments:
    """The calendar as it was read last, for questions; read again when it is asked and may have changed."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context
        self._zone = read_zone(context.settings.time_zone)
        self._read: tuple[object, Agenda] | None = None

    @register_action(
        "Answer a question about the calendar: when an event comes, what is next, whether one is free",
        {"question": "The question", "asked_at": "When it was asked, ISO 8601; empty for now"},
        personal=True,
    )
    async def tell_appointments(self, question: str, asked_at: str = "") -> Outcome:
        """The answer, and the events that it is about; ActionError if the calendar cannot be read."""
        now = (parse_timestamp(asked_at) if asked_at else datetime.now(UTC)).astimezone(self._zone)
        agenda = await self._load(now.date())
        self._read = (self._state(now.date()), agenda)
        return Outcome(output=await asyncio.to_thread(agenda_answers.tell, question, agenda, now))

    async def names_event(self, question: str, now: datetime) -> bool:
        """Whether ``question`` asks when or how long an event of the calendar is.

        A calendar elsewhere is known as it was when it was read last: nothing is fetched for that.
        """
        config = self._context.settings
        if not config.calendar or not agenda_answers.asks_of_event(question):
            return False
        today = now.astimezone(self._zone).date()
        if self._read is None or self._read[0] != self._state(today):
            if _is_elsewhere(config.calendar):
                return False
            try:
                self._read = (self._state(today), await self._load(today))
            except ActionError:  # it is said when the calendar is asked
                return False
        return bool(agenda_answers.find_named(question, self._read[1].events))

    async def _load(self, today: date) -> Agenda:
        first = today - timedelta(days=agenda_answers.BEHIND)
        days = agenda_answers.BEHIND + agenda_answers.AHEAD + 1
        return await read_agenda(self._context.settings, days, first.isoformat(), MOST_EVENTS)

    def _state(self, today: date) -> object:
        """What tells whether the calendar is as it was read: the day, and of a file when it was written."""
        source = self._context.settings.calendar
        if _is_elsewhere(source):
            return today
        try:
            return today, Path(source).expanduser().stat().st_mtime_ns
        except OSError:
            return None


def _is_elsewhere(source: str) -> bool:
    return is_on_server(source) or bool(re.match(r"(?i)https?:", source))


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event to add: its title, its day as 2026-03-18, and when it begins and ends, as 14:30.

    Without a beginning it takes all day, without an end an hour. ``note`` says what was assumed.
    """

    title: str = ""
    day: str = ""
    clock: str = ""
    ends: str = ""
    note: str = ""


def read_event(text: str, now: datetime, zone: tzinfo | None) -> Event:
    """What ``text`` says of the event; the day and the title are empty if it does not."""
    span = _FROM_UNTIL.search(text)
    half = (span["begins_half"] or (span["ends_half"] if _is_same_half(span) else "") or "") if span else ""
    if span:
        begins = f"{span['begins']}:{span['begins_min'] or '00'}{half}"
        text = f"{text[: span.start()]} at {begins} {text[span.end() :]}"
    phrases = choose(text)
    found = resolve(phrases, now, zone)
    moment = found.moment.astimezone(zone) if found.moment else None
    day = moment.date() if moment else found.day
    clock = f"{moment:%H:%M}" if moment and not found.missing else ""
    return Event(
        title=_read_title(phrases.rest),
        day=day.isoformat() if day and found.missing in ("", "time") else "",
        clock=clock,
        ends=_read_end(span, clock) if span and clock else "",
        note=FIRST_ONLY if found.rrule else "",
    )


def _is_same_half(span: re.Match[str]) -> bool:
    """Whether "2 to 4pm" begins in the afternoon: its first hour is the smaller one of the half day."""
    return int(span["begins"]) % 12 < int(span["ends"]) % 12 or span["ends"] == "12"


def _read_end(span: re.Match[str], clock: str) -> str:
    """The first such time after ``clock``: "7pm to 9" ends at 21:00."""
    begins = datetime.combine(date.min, datetime.strptime(clock, "%H:%M").time())  # noqa: DTZ007 - local
    half, hour = (span["ends_half"] or "").lower(), int(span["ends"])
    if hour > 23 or (half and not 1 <= hour <= 12):
        return ""
    hour = hour % 12 + 12 * (half == "pm") if half else hour
    ends = datetime.combine(date.min, begins.time().replace(hour=hour, minute=int(span["ends_min"] or 0)))
    while ends <= begins:
        ends += timedelta(hours=24 if half or hour > 12 else 12)
    return f"{ends:%H:%M}"


def _read_title(rest: str) -> str:
    title = WAYS["in_calendar"].sub(" ", WAYS["event_lead"].sub("", rest.strip()))
    title = re.sub(r"\s+(?=[,.;:!?])", "", " ".join(title.split())).strip(" ,.:;-!?")
    title = re.sub(
        r"(?i)^(?:there\s+is|there['’]s|i\s+have|we\s+have|i['’]ve\s+got|we['’]ve\s+got|with(?=\s))\s+",
        "",
        title,
    )
    return re.sub(r"(?i)(?:\s+|^)(?:for|at|on|in|from|and|to)$", "", clean_text(title))


async def show_calendar(context: ToolContext, request: Request, words: Words) -> Answer | Call:
    """What the message asks of the calendar: an event, what is next, free time, or the days that it names.

    If no calendar is set, what memory says of the event that is asked for: it may have taken one in.
    """
    if not context.agent.settings.calendar and WAYS["asks_of_event"].match(request.text):
        known = await answer_from_memory(context, request, words)
        if known.response is not None and known.response.citations:
            return known
    return Call(
        assignee=context.agent.profile.name,
        action="tell_appointments",
        params={"question": request.text, "asked_at": request.asked_at},
    )


CALENDAR = Tool(
    name="calendar",
    description="lists the appointments of the calendar",
    run=show_calendar,
    personal=True,
)


LASTS = timedelta(hours=1)  # How long an event lasts if nothing says so


def read_wanted_event(context: ToolContext, request: Request) -> Event:
    """What the message says of the event."""
    return read_event(request.text, context.now(request), context.zone)


async def add_to_calendar(context: ToolContext, request: Request, event: Event) -> Answer:
    """The event that was added; asks for the day or the title if one is missing."""
    source = context.agent.settings.calendar
    if not source or re.match(r"(?i)https?:", source):
        where = "No calendar is set" if not source else "The calendar is an address, which I only read"
        return ask_back(
            f"{where}; nothing was added. Set MAILROOM_CALENDAR to the path of an ICS file, or to a caldavs "
            "address, to add events. Shall I set a reminder instead?",
            choices=(
                Choice(label="set a reminder", text=command("reminder_set", f"remind me: {request.text}")),
            ),
        )
    if WAYS["changes_event"].search(request.text):
        return ask_back("I add events and cannot change or remove them; nothing was changed.")
    if not event.title:
        return ask_back("What is the event called?", f"{request.text} {SLOT}")
    if not event.day:
        return ask_back("On which day?", f"{request.text} {SLOT}", expects="time")
    midnight = _read_moment(event.day, event.clock or "00:00", context.zone)
    start: date | datetime = midnight if event.clock else midnight.date()
    uid = context.agent.bus.derive_id("event", request.key)
    end = _read_moment(event.day, event.ends, context.zone) if event.ends and event.clock else None
    end = end + timedelta(days=end <= midnight) if end else None
    await asyncio.to_thread(write_event, context.agent.settings, event.title, start, uid, end)
    until = f" to {event.ends}" if event.ends else ""
    at = f" at {event.clock}{until}" if event.clock else ""
    note = f"\n{event.note}" if event.note else ""
    shown = f"{start:%A} {start.day} {start:%B %Y}{at}{note}"
    return Answer(text=f"Added to the calendar: {flatten(event.title, 200)}, {shown}")


def _read_moment(day: str, clock: str, zone: tzinfo | None) -> datetime:
    """A time of day of the calendar; raises ActionError if it is none."""
    try:
        return localize(datetime.combine(date.fromisoformat(day), time.fromisoformat(clock)), zone)
    except ValueError:
        raise ActionError(f"{day} {clock} is no day and time", "Write it as in 2026-03-18 14:30") from None


def write_event(
    config: Settings, title: str, start: date | datetime, uid: str, end: datetime | None = None
) -> None:
    """Add the event to the calendar of the settings, once for each ``uid``; raises ActionError."""
    if is_on_server(config.calendar):
        moment = start.astimezone(UTC) if isinstance(start, datetime) else start
        event = _make_event(title, moment, end.astimezone(UTC) if end else None, uid)
        add_event(config, _make_calendar(event).to_ical(), uid)
    else:
        _write_to_file(Path(config.calendar).expanduser(), _make_event(title, start, end, uid), uid)


def _make_event(title: str, start: date | datetime, end: datetime | None, uid: str) -> "icalendar.Event":
    import icalendar

    event = icalendar.Event()
    event.add("uid", uid)
    event.add("summary", title)
    event.add("dtstart", start)
    event.add("dtend", end or start + (LASTS if isinstance(start, datetime) else timedelta(days=1)))
    event.add("dtstamp", datetime.now(UTC))
    return event


def _make_calendar(*events: "icalendar.Event") -> "icalendar.Calendar":
    import icalendar

    calendar = icalendar.Calendar()
    calendar.add("version", "2.0")
    calendar.add("prodid", "-//Mailroom//front desk//EN")
    for event in events:
        calendar.add_component(event)
    return calendar


def _write_to_file(path: Path, event: "icalendar.Event", uid: str) -> None:
    """Add the event; a missing file is made."""
    import icalendar

    try:
        text = path.read_bytes() if path.exists() else b""
        calendar = icalendar.Calendar.from_ical(text) if text.strip() else _make_calendar()
        if any(str(each.get("uid")) == uid for each in calendar.walk("VEVENT")):
            return
        calendar.add_component(event)
        write_atomically(path, calendar.to_ical())
    except (OSError, ValueError) as error:
        raise ActionError(
            f"The calendar {path} cannot be written: {error}", "Check MAILROOM_CALENDAR"
        ) from None


CALENDAR_ADD = Tool(
    name="calendar_add",
    description="adds events to the calendar",
    run=add_to_calendar,
    effect=Effect.WRITES,
    parameters=Event,
    read=read_wanted_event,
)
