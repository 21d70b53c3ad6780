"""A calendar on a CalDAV server: read and written as a file is, on a real server."""

import socket
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from services.nexus.tools.appointments import write_event
from shared import settings
from shared.contracts import Question, Response
from shared.errors import ActionError
from shared.settings import Settings
from shared.skills.calendar import read_agenda
from tests.support.asking import ask_nexus
from tests.support.caldav import PASSWORD, CalendarServer, run_calendar_server
from tests.support.http import Site
from tests.support.office import Office

LUNCH = ("UID:lunch", "DTSTAMP:20260101T000000Z", "DTSTART:20260318T110000Z", "DTEND:20260318T120000Z")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CalendarServer]:
    with run_calendar_server(tmp_path_factory.mktemp("caldav")) as made:
        yield made


def config(tmp_path: Path, address: str, password: str = PASSWORD) -> Settings:
    secret = tmp_path / "calendar-password"
    secret.write_text(password)
    environment = {
        "MAILROOM_STATE_DIR": str(tmp_path),
        "MAILROOM_CALENDAR": address,
        "MAILROOM_CALENDAR_PASSWORD_FILE": str(secret),
        "MAILROOM_TIME_ZONE": "Europe/Berlin",
        "MAILROOM_HTTP_TIMEOUT": "2",
    }
    return settings.load(environment)


async def test_its_events_are_read_with_their_repetitions(server: CalendarServer, tmp_path: Path) -> None:
    address = server.make("Read")
    server.put(address, *LUNCH, "SUMMARY:Lunch", "RRULE:FREQ=WEEKLY;COUNT=3")
    server.put(address, "UID:fair", "DTSTAMP:20260101T000000Z", "DTSTART;VALUE=DATE:20260326", "SUMMARY:Fair")
    agenda = await read_agenda(config(tmp_path, address), 8, "2026-03-25")
    assert [(each.start, each.title) for each in agenda.events] == [
        ("2026-03-25T12:00:00+01:00", "Lunch"),
        ("2026-03-26", "Fair"),
        ("2026-04-01T13:00:00+02:00", "Lunch"),
    ]
    assert (await read_agenda(config(tmp_path, address), 2, "2026-06-01")).events == ()


async def test_an_event_is_added_once_and_stays_as_a_person_changes_it(
    server: CalendarServer, tmp_path: Path
) -> None:
    address = server.make("Written")
    here = config(tmp_path, address)
    write_event(here, "Tee; mit Käte", datetime(2026, 3, 20, 11, tzinfo=UTC), "one")
    write_event(here, "Fair", date(2026, 3, 21), "two")
    agenda = await read_agenda(here, 2, "2026-03-20")
    assert [each.sentence for each in agenda.events] == [
        "Fri 2026-03-20 12:00 to 13:00 Tee; mit Käte",
        "Sat 2026-03-21 (all day) Fair",
    ]
    write_event(here, "Something else", date(2026, 3, 21), "two")
    assert len(server.events(address)) == 2
    assert "Something else" not in "".join(server.events(address))


async def test_the_only_calendar_needs_no_path(server: CalendarServer, tmp_path: Path) -> None:
    address = server.make("Another")
    server.make("One more")
    bare = f"{address.partition('127')[0]}{server.host}"
    with pytest.raises(ActionError, match=r"127\.0\.0\.1 has \d calendars of this user: /ada/"):
        await read_agenda(config(tmp_path, bare))


@pytest.mark.parametrize(
    ("change", "password", "sentence"),
    [
        (("", ""), "wrong", "refuses the user or the password. Check MAILROOM_CALENDAR and"),
        (("/ada/", "/ada/none/"), PASSWORD, "has no such calendar. Check the path"),
        (("caldav://", "caldav://"), "", "refuses the user or the password"),
    ],
)
async def test_what_is_wrong_is_one_sentence(
    server: CalendarServer, tmp_path: Path, change: tuple[str, str], password: str, sentence: str
) -> None:
    address = server.make("Wrong").replace(*change)
    with pytest.raises(ActionError, match=sentence) as error:
        await read_agenda(config(tmp_path, address, password))
    assert "\n" not in str(error.value)
    assert "ada" not in str(error.value)


async def test_other_servers_and_none(tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    page = site.page("/secret/calendar/", "<html>Sign in</html>").replace("http://", "caldav://ada@")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for address, sentence in (
            (page, "does not answer as a CalDAV server"),
            ("caldav://ada@127.0.0.1:1/secret/", "cannot be reached: nothing listens there"),
            (f"caldav://127.0.0.1:{silent.getsockname()[1]}/secret/", "cannot be reached: no answer in time"),
            ("caldav://ada@dav.example.org/secret/", r"dav\.example\.org would be read without TLS"),
        ):
            with pytest.raises(ActionError, match=sentence) as error:
                await read_agenda(config(tmp_path, address))
            assert "secret" not in str(error.value)
    monkeypatch.setitem(sys.modules, "caldav", None)
    with pytest.raises(ActionError, match=r"pip install 'mailroom\[caldav\]'"):
        write_event(config(tmp_path, page), "Fair", date(2026, 3, 21), "two")


async def test_the_desk_reads_it_and_adds_to_it(server: CalendarServer, tmp_path: Path) -> None:
    address = server.make("Desk")
    more = {"MAILROOM_CALENDAR_PASSWORD": PASSWORD, "MAILROOM_TIME_ZONE": "Europe/Berlin"}
    office = Office(tmp_path, MAILROOM_CALENDAR=address, **more)
    try:
        await office.open(["memory", "nexus"])
        added = await say(office, "Put lunch with Ana on Friday at 12 in my calendar")
        assert added.text == "Added to the calendar: lunch with Ana, Friday 20 March 2026 at 12:00"
        assert (
            "12:00 to 13:00 lunch with Ana" in (await say(office, "What is on my calendar on Friday?")).text
        )
        (event,) = server.events(address)
        assert "SUMMARY:lunch with Ana" in event
    finally:
        await office.close()


async def say(office: Office, text: str) -> Response:
    now = "2026-03-18T13:05:00+00:00"
    question = Question(sender="user", recipient="nexus", text=text, created_at=now)
    return await ask_nexus(office.user, question, 30)
