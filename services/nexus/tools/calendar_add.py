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

EXAMPLES = """
put lunch with Ana on Friday at 12 in my calendar
add a meeting with the bank tomorrow at 10
schedule a call with Tom on Monday at 3pm
book the dentist for 24 March at 8:30
create an appointment: parent evening, Thursday 19:00
block Friday afternoon for writing
enter the rehearsal on Sunday at 5 into the calendar
calendar: haircut wednesday 11:00
set up a meeting with the supplier next Tuesday at 9
make an entry for the concert on 3 May
add Ana's birthday party to the calendar, saturday at 8
pencil in coffee with Lea on Thursday at 4
I have a doctor's appointment on Monday at 9, please add it
new event: team lunch, 1 April 12:30
put me down for the workshop on the 12th
reserve two hours tomorrow morning in my calendar for the grant
can you add the flight on the 28th at 6:40 to my calendar
save the date: wedding of Tom on 18 July
move the meeting with Bob to 4
reschedule the call with the bank to Friday
delete the lunch on Friday from my calendar
cancel my appointment with the dentist
add "sprint review" every second Wednesday at 14:00 to the calendar
schedule lunch for 12:30 tomorrow with Kim
put the vet in the diary for Thursday 4pm
make an appointment with the accountant next Tuesday at 11
I'm meeting Joel on Friday at 2, put it in
block the whole of next Wednesday
book the hall for the 12th at 19:00 in the calendar
staff meeting every Monday at 9, add it
shift the workshop to the afternoon in my calendar
remove the dentist from Thursday
note in the calendar: school holidays start on 30 March
move lunch with Kim to 1pm
add to my agenda: call with the bank 10:30 tomorrow
put "pick up the keys" into the calendar on Saturday 10
schedule me a haircut on Friday morning
enter my vacation 3 to 14 August
save 20 June for the summer party
set up the interview with Mr. Okafor on Wednesday 3pm
my appointment on Tuesday is cancelled, take it out
extend the meeting with the architect to two hours
can you slot in 30 minutes with Lea tomorrow
appointment: tyre change, 2 April 7:30
add the autumn fair to my calendar please
put the choir weekend into the diary
add this to my calendar
can you put it in the calendar
enter the inspection in my agenda
please note the appointment in my calendar
put lunch with Tomasz on Friday at 12:30 in my calendar
add dentist 2 April 9am
book me a slot with Fiona on Tuesday at ten
new event: stocktake, Saturday all day
schedule a meeting with the architect for next Thursday 3 pm
Please enter the parents' evening on the 26th from 19h to 21h
I'm seeing the vet on Monday at 5, stick it in the diary
block out tomorrow morning for grading
calendar entry rehearsal Sunday two till six church hall
can you pencil in coffee with Anjali next Wednesday around 4
make an appointment for Friday, site visit, 8 o'clock
could you add the school trip 13 to 15 may to the calendar
mark the 1st of June as a holiday in my calendar
write into my calendar: tax office, 30 March, 11:15
set up a team meeting on thursday 9:30 for one hour
put me down for the fire drill at 11 tomorrow
Enter please the birthday of Mila, 5th April, in the calendar
I have a call with Toronto tonight at 8, add it
save the date: wedding of Ola and Sam, 22 August
add to calendar gig in Leeds Saturday load in at 4
reserve two hours on monday afternoon for the grant
theres a lab safety talk on the 20th at noon can you calendar that
need an entry for the boiler inspection next Tuesday between 8 and 10
plan in a one to one with Greta for tomorrow at 2pm
get the board meeting of 9 April 18:00 into the diary
every Tuesday at 7 pm we have band practice, put it in the calendar
new appointment on the 27th quarter past nine, hairdresser
pop the delivery on my calendar for Thursday 7am will you
calendar: flight to Oslo 3/4 6:40
put the open day on there, Saturday after next, ten to four
"""

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
    examples=EXAMPLES,
    run=add,
    effect=Effect.WRITES,
    parameters=Event,
    read=read,
)
