"""Add an event to the calendar, if it is a file of this machine or on a CalDAV server."""

import asyncio
import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

from services.nexus.routing.request import Request
from services.nexus.tools.event import Event, read_event
from services.nexus.tools.tool import Answer, Effect, Tool, ask_back, command
from shared.clock import localize
from shared.contracts import Choice
from shared.contracts.conversation import SLOT
from shared.errors import ActionError
from shared.files import write_atomically
from shared.settings import Settings
from shared.skills.calendar_server import add_event, is_on_server
from shared.text.shorten import flatten

if TYPE_CHECKING:
    import icalendar

    from services.nexus.desk import Desk

LASTS = timedelta(hours=1)
"""How long an event lasts if nothing says so."""
_CHANGE = re.compile(
    r"(?i)\b(?:move[sd]?|shift|reschedule|postpone|delete|remove|cancel\w*|extend|take\b.*\bout|change)\b"
)


def read(desk: "Desk", request: Request) -> Event:
    """What the message says of the event."""
    return read_event(request.text, desk.now(request), desk.zone)


async def add(desk: "Desk", request: Request, event: Event) -> Answer:
    """The event that was added; asks for the day or the title if one is missing."""
    source = desk.context.settings.calendar
    if not source or re.match(r"(?i)https?:", source):
        where = "No calendar is set" if not source else "The calendar is an address, which I only read"
        return ask_back(
            f"{where}; nothing was added. Set MAILROOM_CALENDAR to the path of an ICS file, or to a caldavs "
            "address, to add events. Shall I set a reminder instead?",
            choices=(
                Choice(label="set a reminder", text=command("reminder_set", f"remind me: {request.text}")),
            ),
        )
    if _CHANGE.search(request.text):
        return ask_back("I add events and cannot change or remove them; nothing was changed.")
    if not event.title:
        return ask_back("What is the event called?", f"{request.text} {SLOT}")
    if not event.day:
        return ask_back("On which day?", f"{request.text} {SLOT}", expects="time")
    midnight = _read_moment(event.day, event.clock or "00:00", desk.zone)
    start: date | datetime = midnight if event.clock else midnight.date()
    uid = desk.context.bus.derive_id("event", request.letter_id)
    end = _read_moment(event.day, event.ends, desk.zone) if event.ends and event.clock else None
    end = end + timedelta(days=end <= midnight) if end else None
    await asyncio.to_thread(write_event, desk.context.settings, event.title, start, uid, end)
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


TOOL = Tool(
    name="calendar_add",
    description="adds events to the calendar",
    run=add,
    effect=Effect.WRITES,
    parameters=Event,
    read=read,
)
