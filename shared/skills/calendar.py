"""The calendar: events of an ICS file or address, or of a CalDAV server, to which events can be added."""

import asyncio
import contextlib
import re
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from datetime import time as clock_time
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit
from zoneinfo import ZoneInfo, available_timezones

import msgspec

from shared.clock import localize, read_zone
from shared.effects import begin_effect
from shared.errors import ActionError
from shared.settings import Settings
from shared.skills.mail import LOCAL
from shared.skills.skill import Skill
from shared.tasks.actions import Outcome, register_action
from shared.text.display import count, decode, format_network_error
from shared.web.fetching import fetch_configured, parse_address
from shared.web.quoting import clean

SCHEMES = {"caldavs": "https", "caldav": "http"}
"""What an address begins with, and how it is reached: without TLS on this machine alone."""


def is_on_server(source: str) -> bool:
    """Whether the setting ``calendar`` names a calendar on a CalDAV server."""
    return bool(re.match(r"caldavs?://", source, re.IGNORECASE))


def load_events(config: Settings, begin: datetime, end: datetime, most: int) -> bytes:
    """The events between two moments as one text of ICS, repeated ones with their rules.

    Raises ActionError if the calendar cannot be read, or has more than ``most`` bytes of them.
    """
    with _open(config) as calendar:
        found = calendar.search(start=begin, end=end, event=True, expand=False)
        data = "\r\n".join(str(each.data) for each in found) or "BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n"
    if len(data) > most:
        raise ActionError(f"The calendar has more than {most:,} bytes of events", "Ask for fewer days")
    return data.encode()


def add_event(config: Settings, event: bytes, uid: str) -> None:
    """Store an event, an ICS text with this ``uid``; one that is there already stays as it is.

    Raises ActionError if the server cannot be reached or refuses it.
    """
    with _open(config) as calendar:
        from caldav.lib.error import NotFoundError

        try:
            calendar.event_by_uid(uid)
        except NotFoundError:
            calendar.save_event(event.decode())


@contextlib.contextmanager
def _open(config: Settings) -> Iterator[Any]:
    """The calendar of the settings; what fails in the block becomes an ActionError that names the host."""
    try:
        import caldav
        from caldav.lib.error import AuthorizationError, NotFoundError
    except ImportError:
        raise ActionError(
            "The calendar is on a CalDAV server, and the package caldav is missing",
            "Install it: pip install 'mailroom[caldav]'",
        ) from None
    parts = urlsplit(config.calendar)
    host = parts.hostname or ""
    if parts.scheme == "caldav" and host not in LOCAL:
        raise ActionError(f"The calendar at {host} would be read without TLS", "Write it as caldavs://")
    url = urlunsplit((SCHEMES[parts.scheme], parts.netloc.rpartition("@")[2], parts.path, "", ""))
    user = {"username": unquote(parts.username or "") or None, "password": config.calendar_password}
    try:
        with caldav.DAVClient(url, **user, timeout=config.http_timeout) as client:  # type: ignore[arg-type]
            if parts.path.strip("/"):
                yield client.calendar(url=url)  # type: ignore[no-untyped-call]
            else:
                yield _find_only(client, host)
    except ActionError:
        raise
    except AuthorizationError:
        raise ActionError(
            f"The calendar at {host} refuses the user or the password",
            "Check MAILROOM_CALENDAR and MAILROOM_CALENDAR_PASSWORD",
        ) from None
    except NotFoundError:
        raise ActionError(f"{host} has no such calendar", "Check the path in MAILROOM_CALENDAR") from None
    except OSError as error:
        raise ActionError(
            f"The calendar at {host} cannot be reached: {format_network_error(error)}",
            "Check the network connection and MAILROOM_CALENDAR",
        ) from None
    except Exception as error:  # an odd answer makes the libraries raise many kinds
        kind = type(error).__name__
        raise ActionError(
            f"The calendar at {host} does not answer as a CalDAV server ({kind})", "Check MAILROOM_CALENDAR"
        ) from None


def _find_only(client: Any, host: str) -> Any:
    """The user's calendar on a server that was named without a path; raises ActionError if it has several."""
    found = client.principal().calendars()
    if len(found) == 1:
        return found[0]
    paths = ", ".join(clean(urlsplit(str(each.url)).path, 100) for each in found[:5])
    raise ActionError(
        f"{host} has {len(found) or 'no'} calendars of this user{': ' if paths else ''}{paths}",
        "Add the path of one to MAILROOM_CALENDAR",
    )


SIZE = 5_000_000  # Bytes of a calendar that are read at most: some ten thousand events
LONGEST = 400  # The most days of one query
MOST = 200  # The most events of one answer
MOST_PROBLEMS = 5  # The most events of which an answer says why they cannot be read
PATIENCE = 5.0
"""Seconds that working out repeated events may take; those left over are counted. A year's calendar takes a
tenth of a second, and a rule made to be expensive can take minutes."""
FINEST = ("SECONDLY", "MINUTELY", "HOURLY")
"""Rules that repeat more often than daily: no appointments, and a million dates when worked out."""
CURE = "Check MAILROOM_CALENDAR"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An appointment: ISO 8601 ``start`` and ``end`` in the people's zone, dates if it is all-day."""

    title: str
    start: str
    end: str
    all_day: bool = False
    place: str = ""

    @property
    def sentence(self) -> str:
        """The event on one line: its times, its title, where it is."""
        where = f" ({self.place})" if self.place else ""
        return f"{_times(self)} {self.title}{where}"


class Agenda(msgspec.Struct, frozen=True, kw_only=True):
    """The events of the days from ``first`` to ``last``; ``problems`` are sentences about what is missing."""

    first: str
    last: str
    events: tuple[Event, ...] = ()
    problems: tuple[str, ...] = ()


class CalendarSkill(Skill):
    """Knows the calendar."""

    @register_action(
        "Read the calendar: appointments of a day and the days after it",
        {"days": "How many days, 1 to 400", "start": "The first day, as 2026-01-31; empty for today"},
        personal=True,
    )
    async def show_calendar(self, days: int = 1, start: str = "") -> Outcome:
        """The events as text, and in data key ``agenda``; ActionError if the calendar cannot be read."""
        agenda = await read_agenda(self.context.settings, days, start)
        span = agenda.first if agenda.first == agenda.last else f"{agenda.first} to {agenda.last}"
        head = f"Calendar for {span}:" if agenda.events else f"The calendar has nothing for {span}."
        lines = [f"- {event.sentence}" for event in agenda.events]
        return Outcome(
            output="\n".join([head, *lines, *agenda.problems]), data={"agenda": msgspec.to_builtins(agenda)}
        )


async def read_agenda(settings: Settings, days: int = 1, start: str = "", most: int = MOST) -> Agenda:
    """The first ``most`` appointments of ``days`` days from ``start`` (default: today), in the people's zone.

    Raises ActionError if no calendar is set, or it cannot be reached or read.
    """
    if not settings.calendar:
        raise ActionError(
            "No calendar is set",
            "Set MAILROOM_CALENDAR to the path or the https address of an ICS file, or to a caldavs address",
        )
    if not 1 <= days <= LONGEST:
        raise ActionError(f"days is {days}", f"Ask for 1 to {LONGEST} days")
    zone = read_zone(settings.time_zone)
    try:
        first = date.fromisoformat(start) if start else datetime.now(UTC).astimezone(zone).date()
        first + timedelta(days=days)
    except (ValueError, OverflowError):
        raise ActionError(f"{start[:40]!r} is no date", "Write it as in 2026-01-31") from None
    if is_on_server(settings.calendar):
        await begin_effect()
        data = await asyncio.to_thread(load_events, settings, *_span(first, days, zone), SIZE)
    else:
        data = await _load(settings)
    return await asyncio.to_thread(_read, data, first, days, zone, most)


async def _load(settings: Settings) -> bytes:
    source = settings.calendar
    if not re.match(r"https?://", source, re.IGNORECASE):
        return await asyncio.to_thread(_load_file, Path(source).expanduser())
    # Errors name only the host: the rest of the address is often what gives access.
    host = parse_address(source).netloc
    try:
        answer = await fetch_configured(
            source, "text/calendar", timeout=settings.http_timeout, private_hosts=settings.private_hosts
        )
    except ActionError as error:
        reason = re.sub(r"https?://\S+", "it", error.cause)
        raise ActionError(
            f"The calendar at {host} cannot be reached: {reason}",
            "Check the network connection and MAILROOM_CALENDAR",
        ) from None
    return answer.body


def _load_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(SIZE + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ActionError(f"The calendar {path} cannot be read: {reason}", CURE) from None
    if len(data) > SIZE:
        raise ActionError(f"The calendar {path} has more than {SIZE:,} bytes", CURE)
    return data


def _span(first: date, days: int, zone: tzinfo | None) -> tuple[datetime, datetime]:
    """When the days begin and end."""
    begin, end = (datetime.combine(day, datetime.min.time()) for day in (first, first + timedelta(days=days)))
    return localize(begin, zone), localize(end, zone)


def _read(data: bytes, first: date, days: int, zone: tzinfo | None, most: int = MOST) -> Agenda:
    last = first + timedelta(days=days - 1)
    begin, end = _span(first, days, zone)
    events: list[Event] = []
    broken = left_out = 0
    deadline = time.monotonic() + PATIENCE
    found_series, unread = _series(data)
    for series in found_series:
        try:
            if any(map(_is_too_fine, series)) or time.monotonic() > deadline:
                left_out += 1
                continue
            found = (_event(each, begin, end, zone) for each in _occurrences(series, begin, end))
            events += [event for event in found if event]
        except Exception:  # whatever a broken event makes the libraries raise
            broken += 1
    events.sort(key=lambda event: (event.start[:10], not event.all_day, event.start))
    problems = [f"{problem[:1].upper()}{problem[1:]}." for problem in unread[:MOST_PROBLEMS]]
    if broken:
        problems.append(f"{count(broken, 'event')} of the calendar cannot be read.")
    if left_out:
        problems.append(f"{count(left_out, 'event')} of the calendar repeat too often to be worked out.")
    if len(events) > most:
        problems.append(f"... and {len(events) - most} more events.")
    return Agenda(
        first=first.isoformat(), last=last.isoformat(), events=tuple(events[:most]), problems=tuple(problems)
    )


def read_components(data: bytes, names: Sequence[str]) -> tuple[list[Any], list[str]]:
    """The components of an ICS file that have one of ``names``, such as VEVENT, and a sentence for each that
    cannot be read, or whose time zone is unknown. Raises ValueError if it is no ICS file.

    Lines are put together before characters are read, since they may be cut within one. The last day of a
    rule counts whole if it is given as a date.
    """
    import icalendar

    text = decode(re.sub(rb"\r?\n[ \t]", b"", data)).lstrip("\ufeff")
    if "BEGIN:VCALENDAR" not in text[:100_000].upper():
        raise ValueError("it does not begin with BEGIN:VCALENDAR")
    found: list[Any] = []
    problems: list[str] = []
    with warnings.catch_warnings(action="ignore"):  # icalendar's, about the zones that it guesses
        try:
            calendars = icalendar.Calendar.from_ical(text, multiple=True)
            components = [each for one in calendars for each in one.walk() if each.name in names]
        except Exception:  # the parser raises many kinds for broken files: component by component then
            components, problems = _read_apart(text, names)
        for component in components:
            try:
                problems += _mend(component)
                found.append(component)
            except Exception as error:  # whatever a broken one makes the libraries raise
                title = clean(str(component.get("SUMMARY", "")), 80) or "without a title"
                problems.append(f"the entry {title!r} cannot be read: {clean(str(error), 200)}")
    return found, problems


def _read_apart(text: str, names: Sequence[str]) -> tuple[list[Any], list[str]]:
    """The components that can be read by themselves, with the time zones of the file."""
    import icalendar

    zones = "".join(
        re.findall(
            r"(?ms)^BEGIN:VTIMEZONE$(?:(?!^BEGIN:VTIMEZONE).)*?^END:VTIMEZONE$\n", text.replace("\r\n", "\n")
        )
    )
    blocks = re.compile(rf"(?ms)^BEGIN:({'|'.join(names)})\s*?$(?:(?!^BEGIN:\1).)*?^END:\1\s*?$")
    components: list[Any] = []
    problems: list[str] = []
    for block in blocks.finditer(text):
        whole = f"BEGIN:VCALENDAR\n{zones}{block[0]}\nEND:VCALENDAR\n"
        try:
            components += icalendar.Calendar.from_ical(whole).walk(block[1])
        except Exception as error:  # as above
            problems.append(f"an entry cannot be read: {clean(str(error) or type(error).__name__, 200)}")
    return components, problems


def _mend(component: Any) -> list[str]:
    """Give a component the zones that its times name, and its rule a last day that counts; raises ValueError
    if it says no time that can be read. Returns what had to be guessed.
    """
    problems = []
    for name, reason in list(component.errors):
        if name in ("DTSTART", "RECURRENCE-ID", "RRULE", "RDATE", "EXDATE"):
            raise ValueError(reason)
        component.pop(name, None)
    for name in ("DTSTART", "DTEND", "DUE", "RECURRENCE-ID"):
        value = component.get(name)
        written, moment = value.params.get("TZID") if value else None, getattr(value, "dt", None)
        if not written or not isinstance(moment, datetime) or moment.tzinfo:
            continue
        if (zone := find_zone(str(written))) is not None:
            value.dt = moment.replace(tzinfo=zone)
            value.params.pop("TZID")
        elif name == "DTSTART":
            title = clean(str(component.get("SUMMARY", "")), 80)
            problems.append(
                f"{title!r}: the time zone {clean(str(written), 80)!r} is unknown, taken as local"
            )
    start = getattr(component.get("DTSTART"), "dt", None)
    rules: Any = component.get("RRULE") or []
    for rule in rules if isinstance(rules, list) else [rules]:
        until = rule.get("UNTIL", [None])[0] if hasattr(rule, "get") else None
        if isinstance(start, datetime) and isinstance(until, date) and not isinstance(until, datetime):
            last = datetime.combine(until, LAST_MOMENT, start.tzinfo)
            rule["UNTIL"] = [last.astimezone(UTC) if start.tzinfo else last]
    return problems


LAST_MOMENT = clock_time(23, 59, 59)
_OFFSET = re.compile(
    r"\(?(?:UTC|GMT)\s*(?P<sign>[+-])(?P<hours>\d{1,2}):?(?P<minutes>\d\d)?\)?\s*(?P<places>.*)",
    re.IGNORECASE,
)


def find_zone(written: str) -> tzinfo | None:
    """The time zone that a calendar names as programs of Microsoft show it, such as ``(UTC+01:00) Amsterdam,
    Berlin``, or as an offset, ``UTC+2``; None if it is unknown.
    """
    from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

    match = _OFFSET.fullmatch(written.strip())
    if match is None:
        return None
    known = {name.rpartition("/")[2].replace("_", " "): name for name in sorted(available_timezones())}
    for place in map(str.strip, match["places"].split(",")):
        named = WINDOWS_TO_OLSON.get(re.sub(r"\s+Time\b.*", " Standard Time", place)) or known.get(place)
        if named:
            return ZoneInfo(named)
    offset = timedelta(hours=int(match["hours"]), minutes=int(match["minutes"] or 0))
    return timezone(-offset if match["sign"] == "-" else offset) if offset < timedelta(days=1) else None


def _series(data: bytes) -> tuple[list[list[Any]], list[str]]:
    """The events of a calendar, each with the exceptions from its rule, and what of it cannot be read; raises
    ActionError if it is no calendar.
    """
    try:
        events, problems = read_components(data, ("VEVENT",))
    except ValueError as error:
        raise ActionError(f"The calendar is no ICS file: {error}", CURE) from None
    series: dict[str, list[Any]] = defaultdict(list)
    for number, event in enumerate(events):
        series[str(event.get("UID") or f"#{number}")].append(event)
    return list(series.values()), problems


def _is_too_fine(event: Any) -> bool:
    rules = event.get("RRULE") or ()
    rules = rules if isinstance(rules, list) else [rules]
    frequencies = [freq for rule in rules if hasattr(rule, "get") for freq in rule.get("FREQ", ())]
    return any(str(freq).upper() in FINEST for freq in frequencies)


def _occurrences(series: list[Any], begin: datetime, end: datetime) -> list[Any]:
    import icalendar
    import recurring_ical_events

    calendar = icalendar.Calendar()
    for event in series:
        calendar.add_component(event)
    return list(recurring_ical_events.of(calendar).between(begin, end))


def _event(component: Any, begin: datetime, end: datetime, zone: tzinfo | None) -> Event | None:
    """An occurrence; None if it is cancelled, or not between ``begin`` and ``end``."""
    if str(component.get("STATUS", "")).upper() == "CANCELLED":
        return None
    start, stop, first, last = component.start, component.end, begin.date(), end.date()
    all_day = not isinstance(start, datetime)
    if not all_day:
        start, stop, first, last = _to_zone(start, zone), _to_zone(stop, zone), begin, end
    if not (start < last and (stop > first or start >= first)):
        return None
    return Event(
        title=clean(str(component.get("SUMMARY", "")), 200) or "(no title)",
        start=start.isoformat(),
        end=stop.isoformat(),
        all_day=all_day,
        place=clean(str(component.get("LOCATION", "")), 100),
    )


def _to_zone(moment: Any, zone: tzinfo | None) -> datetime:
    """A calendar's moment in the people's zone; one without a zone is in that zone already."""
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, datetime.min.time())
    return localize(moment, zone) if moment.tzinfo is None else moment.astimezone(zone)


def _times(event: Event) -> str:
    if event.all_day:
        first = date.fromisoformat(event.start)
        last = max(first, date.fromisoformat(event.end) - timedelta(days=1))
        span = f"{first:%a} {first}" + (f" to {last:%a} {last}" if last > first else "")
        return f"{span} (all day)"
    start, stop = datetime.fromisoformat(event.start), datetime.fromisoformat(event.end)
    until = f"{stop:%H:%M}" if stop.date() == start.date() else f"{stop:%a} {stop.date()} {stop:%H:%M}"
    span = f"{start:%a} {start.date()} {start:%H:%M}"
    return span if stop == start else f"{span} to {until}"
