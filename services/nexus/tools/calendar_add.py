"""Add an event to the calendar, if it is a file of this machine or on a CalDAV server."""

import asyncio
import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from services.nexus.reminders.clocks import decide, read_clocks, read_part
from services.nexus.reminders.days import UnclearTime
from services.nexus.reminders.time_parser import choose
from services.nexus.routing.request import Request
from services.nexus.tools.days import find_days
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
_PARTS = {"morning": "09:00", "afternoon": "14:00", "evening": "19:00"}
"""When the parts of a day begin, which the answer says."""
_CHANGE = re.compile(
    r"(?i)\b(?:move[sd]?|shift|reschedule|postpone|delete|remove|cancel\w*|extend|take\b.*\bout|change)\b"
)
_CLOCK = re.compile(
    r"(?i)(?:\b(?:at|@)\s*|\b)(?P<hour>\d{1,2})(?:[:.h](?P<minute>\d\d)\s*(?P<half>am|pm)?|\s*(?P<half2>am|pm)\b)"
    r"|\bat\s+(?P<hour2>\d{1,2})\b(?!\s*(?:st|nd|rd|th|%))|\b(?P<noon>noon|midday)\b"
)
_EVENING = re.compile(
    r"(?i)\b(?:dinner|supper|drinks|cinema|concert|theatre|tonight|afternoon|evening|night)\b"
)
_RANGE = re.compile(r"(?i)\b(?:from|to|till|until|or|and|-)\s*$")
"""What stands before one of two times."""
_LEAD = re.compile(
    r"(?i)^\W*(?:(?:please|can|could|you|and|ok|new|event|calendar|appointment|book|put|add|enter|schedule|create|make"
    r"|block|pencil|in|set|up|note|save|the|date|an?|entry|for|me|down|reserve|slot|my|to|into)\b[\s:,]*)+"
)
_PLACE = re.compile(
    r"(?i)\b(?:(?:in|into|to|on|from)\s+(?:my|the|our)\s+(?:calendar|diary|agenda)|(?:please\s+)?(?:add|put)\s+(?:it|that)"
    r"(?:\s+in)?|please)\b"
)
_DAY_WORDS = re.compile(
    r"(?i)\b(?:on|at|the|next|this|coming)?\s*(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|today|tomorrow|tonight"
    r"|(?:morning|afternoon|evening)|\d{1,2}(?:st|nd|rd|th)?\s+(?:of\s+)?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*"
    r"|\d{4}-\d\d-\d\d|\d{1,2}(?:st|nd|rd|th))\b"
)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event to add: its title, its day as 2026-03-18, and when it begins, as 14:30; empty: all day."""

    title: str = ""
    day: str = ""
    clock: str = ""


def read(desk: "Desk", request: Request) -> Event:
    """What the message says of the event; the day and the title are empty if it does not."""
    request = msgspec.structs.replace(request, text=spell_clock(request.text, desk.now(request)))
    days = find_days(request.text, desk.now(request).date())
    found = _CLOCK.search(request.text)
    clock = ""
    if found:
        hour = 12 if found["noon"] else int(found["hour"] or found["hour2"])
        half = (found["half"] or found["half2"] or "").lower()
        hour = hour % 12 + 12 * (half == "pm") if half else hour + 12 * _is_late(hour, found, request.text)
        clock = f"{hour:02d}:{found['minute'] or '00'}" if hour < 24 else ""
    part = re.search(r"(?i)\b(morning|afternoon|evening)\b", request.text)
    clock = clock or (_PARTS[part[1].lower()] if part else "")
    now = desk.now(request)
    if days and clock and f"{days[0]} {clock}" < f"{now:%Y-%m-%d %H:%M}" and days[0] == now.date():
        days = [days[0] + timedelta(days=7)]
    title = _PLACE.sub(" ", _DAY_WORDS.sub(" ", _CLOCK.sub(" ", request.text)))
    title = " ".join(_LEAD.sub("", title.strip()).split()).strip(" ,.:;-")
    title = re.sub(r"(?i)\s+(?:for|at|on|in|from)$", "", title)
    return Event(title=title, day=days[0].isoformat() if days else "", clock=clock)


def _is_late(hour: int, found: re.Match[str], text: str) -> bool:
    """Whether an hour without am or pm is after noon: by what is done then, or else from one to six."""
    if hour < 12 and _EVENING.search(text):
        return hour > 0
    return 0 < hour < 7 and not found["minute"]


def spell_clock(text: str, now: datetime) -> str:
    """``text`` with "half seven in the evening" and "quarter to ten" as 19:30 and 09:45."""
    phrases, days = choose(text), find_days(text, now.date())
    said = [each for each in phrases["clock"] if each["way"] or each["h4"]]
    if len(said) != 1 or _RANGE.search(text[: said[0].match.start()]):
        return text
    try:
        part, day = read_part(phrases.chosen)[0], days[0] if days else None
        at, _ = decide(read_clocks(said[0])[0], part, day, now.replace(tzinfo=None), text)
    except UnclearTime:
        return text
    for each in sorted([*said, *phrases["part"]], key=lambda each: -each.match.start()):
        spelt = f"at {at:%H:%M}" if each is said[0] else ""
        text = f"{text[: each.match.start()]} {spelt} {text[each.match.end() :]}"
    return " ".join(text.split())


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
    start = read_start(event, desk.zone)
    uid = desk.context.bus.derive_id("event", request.letter_id)
    await asyncio.to_thread(write_event, desk.context.settings, event.title, start, uid)
    at = f" at {event.clock}" if event.clock else ""
    return Answer(
        text=f"Added to the calendar: {flatten(event.title, 200)}, {start:%A} {start.day} {start:%B %Y}{at}"
    )


def read_start(event: Event, zone: tzinfo | None) -> date | datetime:
    """When the event begins: a day, or a moment of it; raises ActionError if it is none."""
    try:
        day = date.fromisoformat(event.day)
        return localize(datetime.combine(day, time.fromisoformat(event.clock)), zone) if event.clock else day
    except ValueError:
        raise ActionError(
            f"{event.day} {event.clock} is no day and time", "Write it as in 2026-03-18 14:30"
        ) from None


def write_event(config: Settings, title: str, start: date | datetime, uid: str) -> None:
    """Add the event to the calendar of the settings, once for each ``uid``; raises ActionError."""
    if is_on_server(config.calendar):
        moment = start.astimezone(UTC) if isinstance(start, datetime) else start
        add_event(config, _make_calendar(_make_event(title, moment, uid)).to_ical(), uid)
    else:
        _write_to_file(Path(config.calendar).expanduser(), _make_event(title, start, uid), uid)


def _make_event(title: str, start: date | datetime, uid: str) -> "icalendar.Event":
    import icalendar

    event = icalendar.Event()
    event.add("uid", uid)
    event.add("summary", title)
    event.add("dtstart", start)
    event.add("dtend", start + (LASTS if isinstance(start, datetime) else timedelta(days=1)))
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
