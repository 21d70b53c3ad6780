"""The calendar: days, zones, repeated and all-day events, files that are broken or made to hurt."""

import time
from pathlib import Path

import pytest

from shared import settings
from shared.errors import ActionError, ConfigError
from shared.settings import Settings
from shared.skills.calendar import MOST, Agenda, read_agenda

ZURICH_ZONE = """BEGIN:VTIMEZONE
TZID:Europe/Zurich
BEGIN:STANDARD
DTSTART:19701025T030000
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:19700329T020000
RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
END:DAYLIGHT
END:VTIMEZONE
"""


def config(tmp_path: Path, *events: str, zone: str = "Europe/Zurich", head: str = "") -> Settings:
    blocks = "".join(
        f"BEGIN:VEVENT\nUID:{number}\n{event.strip()}\nEND:VEVENT\n" for number, event in enumerate(events)
    )
    path = tmp_path / "calendar.ics"
    path.write_text(
        f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\n{head}{blocks}END:VCALENDAR\n".replace("\n", "\r\n")
    )
    return load(tmp_path, str(path), zone)


def load(tmp_path: Path, calendar: str, zone: str = "Europe/Zurich") -> Settings:
    return settings.load(
        {"MAILROOM_STATE_DIR": str(tmp_path), "MAILROOM_CALENDAR": calendar, "MAILROOM_TIME_ZONE": zone}
    )


def told(agenda: Agenda) -> list[str]:
    return [event.sentence for event in agenda.events]


async def test_times_are_those_of_the_peoples_zone(tmp_path: Path) -> None:
    made = config(
        tmp_path,
        "SUMMARY:Call\nDTSTART:20270115T080000Z\nDTEND:20270115T090000Z\nLOCATION:Room 1",
        "SUMMARY:Lunch\nDTSTART;TZID=America/New_York:20270115T060000\nDTEND;TZID=America/New_York:20270115T070000",
        "SUMMARY:Tea\nDTSTART:20270115T160000\nDURATION:PT30M",
        "SUMMARY:Elsewhere\nDTSTART:20270116T080000Z\nDTEND:20270116T090000Z",
        "SUMMARY:Late\nDTSTART:20270115T233000Z\nDTEND:20270115T234500Z",
    )
    assert told(await read_agenda(made, 1, "2027-01-15")) == [
        "Fri 2027-01-15 09:00 to 10:00 Call (Room 1)",
        "Fri 2027-01-15 12:00 to 13:00 Lunch",
        "Fri 2027-01-15 16:00 to 16:30 Tea",
    ]
    tokyo = load(tmp_path, made.calendar, "Asia/Tokyo")
    assert told(await read_agenda(tokyo, 1, "2027-01-15"))[0].startswith("Fri 2027-01-15 16:00")


async def test_repeated_events_over_the_change_of_clocks_with_exceptions(tmp_path: Path) -> None:
    weekly = (
        "SUMMARY:Standup\nDTSTART;TZID=Europe/Zurich:20270322T090000\nDTEND;TZID=Europe/Zurich:20270322T091500\n"
        "RRULE:FREQ=WEEKLY;BYDAY=MO,WE\nEXDATE;TZID=Europe/Zurich:20270324T090000"
    )
    moved = (
        "UID:0\nSUMMARY:Standup\nRECURRENCE-ID;TZID=Europe/Zurich:20270329T090000\n"
        "DTSTART;TZID=Europe/Zurich:20270329T140000\nDTEND;TZID=Europe/Zurich:20270329T141500"
    )
    made = config(tmp_path, weekly, head=ZURICH_ZONE)
    path = Path(made.calendar)
    path.write_text(
        path.read_text().replace("END:VCALENDAR", f"BEGIN:VEVENT\n{moved}\nEND:VEVENT\nEND:VCALENDAR")
    )
    assert told(await read_agenda(made, 14, "2027-03-22")) == [
        "Mon 2027-03-22 09:00 to 09:15 Standup",
        "Mon 2027-03-29 14:00 to 14:15 Standup",
        "Wed 2027-03-31 09:00 to 09:15 Standup",
    ]


async def test_all_day_and_longer_events(tmp_path: Path) -> None:
    made = config(
        tmp_path,
        "SUMMARY:Holiday\nDTSTART;VALUE=DATE:20270114\nDTEND;VALUE=DATE:20270117",
        "SUMMARY:Day off\nDTSTART;VALUE=DATE:20270115",
        "SUMMARY:Yesterday\nDTSTART;VALUE=DATE:20270114\nDTEND;VALUE=DATE:20270115",
        "SUMMARY:Night shift\nDTSTART:20270115T220000\nDTEND:20270116T060000",
        "SUMMARY:Called off\nDTSTART:20270115T100000\nDTEND:20270115T110000\nSTATUS:CANCELLED",
    )
    assert told(await read_agenda(made, 1, "2027-01-15")) == [
        "Thu 2027-01-14 to Sat 2027-01-16 (all day) Holiday",
        "Fri 2027-01-15 (all day) Day off",
        "Fri 2027-01-15 22:00 to Sat 2027-01-16 06:00 Night shift",
    ]
    assert [event.title for event in (await read_agenda(made, 1, "2027-01-16")).events] == [
        "Holiday",
        "Night shift",
    ]


async def test_a_broken_event_does_not_hide_the_others(tmp_path: Path) -> None:
    made = config(
        tmp_path,
        "SUMMARY:Good\nDTSTART:20270115T100000\nDTEND:20270115T110000",
        "SUMMARY:Without a start",
        "SUMMARY:Bad rule\nDTSTART:20270115T100000\nRRULE:FREQ=SOMETIMES",
        "SUMMARY:Bad date\nDTSTART:notadate",
        "SUMMARY:Backwards\nDTSTART:20270115T120000\nDTEND:20270115T110000",
    )
    agenda = await read_agenda(made, 1, "2027-01-15")
    assert "Fri 2027-01-15 10:00 to 11:00 Good" in told(agenda)
    assert not any("Bad" in line for line in told(agenda))
    assert [problem.partition(":")[0] for problem in agenda.problems] == [
        "The entry 'Bad rule' cannot be read",
        "The entry 'Bad date' cannot be read",
        "1 event of the calendar cannot be read.",
    ]


@pytest.mark.parametrize("content", [b"", b"hello", b"\x00\xff" * 50, b"<html>sign in</html>"])
async def test_what_is_no_calendar_is_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "calendar.ics"
    path.write_bytes(content)
    with pytest.raises(ActionError, match="The calendar is no ICS file"):
        await read_agenda(load(tmp_path, str(path)))


async def test_a_file_cut_off_in_the_middle_is_said_or_read_so_far(tmp_path: Path) -> None:
    made = config(tmp_path, "SUMMARY:Good\nDTSTART:20270115T100000\nDTEND:20270115T110000")
    path = Path(made.calendar)
    path.write_bytes(path.read_bytes()[:-30])
    try:
        await read_agenda(made, 1, "2027-01-15")
    except ActionError as error:
        assert str(error).startswith("The calendar cannot be read")


async def test_rules_that_would_take_for_ever_are_left_out(tmp_path: Path) -> None:
    made = config(
        tmp_path,
        *(
            f"SUMMARY:Flood\nDTSTART:20000101T000000Z\nRRULE:FREQ={freq}"
            for freq in ("SECONDLY", "MINUTELY", "HOURLY")
        ),
        "SUMMARY:Good\nDTSTART:20270115T100000\nDTEND:20270115T110000",
    )
    begun = time.perf_counter()
    agenda = await read_agenda(made, 7, "2027-01-15")
    assert time.perf_counter() - begun < 2
    assert told(agenda) == ["Fri 2027-01-15 10:00 to 11:00 Good"]
    assert agenda.problems == ("3 events of the calendar repeat too often to be worked out.",)


async def test_no_more_events_are_told_than_anybody_reads(tmp_path: Path) -> None:
    events = (
        f"SUMMARY:E{number}\nDTSTART:20270115T100000Z\nDTEND:20270115T110000Z" for number in range(MOST + 5)
    )
    agenda = await read_agenda(config(tmp_path, *events), 1, "2027-01-15")
    assert len(agenda.events) == MOST
    assert agenda.problems == ("... and 5 more events.",)


async def test_titles_are_one_line(tmp_path: Path) -> None:
    made = config(tmp_path, "SUMMARY:One\\ntwo\x1b[31m\nDTSTART:20270115T100000Z\nDTEND:20270115T110000Z")
    (event,) = (await read_agenda(made, 1, "2027-01-15")).events
    assert "\n" not in event.title
    assert "\x1b" not in event.title


async def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(ActionError, match="No calendar is set"):
        await read_agenda(load(tmp_path, ""))
    with pytest.raises(ActionError, match="cannot be read: No such file"):
        await read_agenda(load(tmp_path, str(tmp_path / "missing.ics")))
    with pytest.raises(ActionError, match="Is a directory"):
        await read_agenda(load(tmp_path, str(tmp_path)))
    made = config(tmp_path)
    with pytest.raises(ActionError, match="Ask for 1 to 400 days"):
        await read_agenda(made, 0)
    with pytest.raises(ActionError, match="is no date"):
        await read_agenda(made, 1, "Friday")
    with pytest.raises(ActionError, match="is no date"):
        await read_agenda(made, 300, "9999-12-01")
    with pytest.raises(ConfigError, match="which is no time zone"):
        await read_agenda(load(tmp_path, made.calendar, "Mars/Olympus"))


async def test_without_a_zone_it_is_the_machines(tmp_path: Path) -> None:
    made = config(tmp_path, "SUMMARY:Tea\nDTSTART:20270115T160000\nDTEND:20270115T163000", zone="")
    assert told(await read_agenda(made, 1, "2027-01-15")) == ["Fri 2027-01-15 16:00 to 16:30 Tea"]


@pytest.mark.parametrize(
    ("zone", "at"),
    [
        ("W. Europe Standard Time", "09:00"),
        ('"(UTC+01:00) Amsterdam, Berlin, Bern, Rome, Stockholm, Vienna"', "09:00"),
        ('"(UTC-05:00) Eastern Time (US & Canada)"', "15:00"),
        ('"(UTC+05:30) Chennai, Kolkata, Mumbai, New Delhi"', "05:30"),
        ("/mozilla.org/20050126_1/America/New_York", "15:00"),
        ("GMT-0500", "16:00"),
        ("UTC+2", "09:00"),
        ("Nowhere/Land", "09:00"),
    ],
)
async def test_zones_as_programs_name_them(zone: str, at: str, tmp_path: Path) -> None:
    made = config(tmp_path, f"SUMMARY:Call\nDTSTART;TZID={zone}:20260715T090000\nDURATION:PT15M")
    agenda = await read_agenda(made, 1, "2026-07-15")
    assert [event.start[11:16] for event in agenda.events] == [at]
    assert ["unknown" in problem for problem in agenda.problems] == ([True] if "Nowhere" in zone else [])


@pytest.mark.parametrize(
    "start",
    [
        "DTSTART:20261103T143000",
        "DTSTART:20261103T143000Z",
        "DTSTART;TZID=Europe/Zurich:20261103T143000",
        "DTSTART;TZID=America/New_York:20261103T143000",
        "DTSTART;VALUE=DATE:20261103",
    ],
)
async def test_the_day_until_which_something_repeats_belongs_to_it(start: str, tmp_path: Path) -> None:
    made = config(tmp_path, f"SUMMARY:Call\n{start}\nRRULE:FREQ=WEEKLY;UNTIL=20261201")
    found = [(await read_agenda(made, 1, day)).events for day in ("2026-11-24", "2026-12-01", "2026-12-08")]
    assert [len(events) for events in found] == [1, 1, 0]
