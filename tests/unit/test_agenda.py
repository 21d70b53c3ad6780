"""What the calendar answers, in many wordings."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from services.nexus.answers.agenda import BEHIND, asks_of_event, find_named, tell
from shared.skills.calendar import Agenda, Event

ZONE = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 18, 8, 15, tzinfo=ZONE)  # a Wednesday


def event(title: str, start: str, end: str, place: str = "") -> Event:
    """An event by its days, or by its times in the people's zone."""
    if len(start) == 10:
        return Event(title=title, start=start, end=end, all_day=True, place=place)
    times = (datetime.fromisoformat(each).replace(tzinfo=ZONE).isoformat() for each in (start, end))
    return Event(title=title, start=next(times), end=next(times), place=place)


AGENDA = Agenda(
    first=str((NOW - timedelta(days=BEHIND)).date()),
    last="2027-03-19",
    events=(
        event("Choir rehearsal", "2026-03-11T19:30", "2026-03-11T21:00"),
        event("Stand-up", "2026-03-18T07:30", "2026-03-18T07:45"),
        event("Dentist (Dr Huber)", "2026-03-18T11:30", "2026-03-18T12:15"),
        event("Call with Priya", "2026-03-18T15:00", "2026-03-18T15:30"),
        event("Choir rehearsal", "2026-03-18T19:30", "2026-03-18T21:00"),
        event("Lunch with Karim", "2026-03-19T12:30", "2026-03-19T13:30"),
        event("Board meeting", "2026-03-20T10:00", "2026-03-20T12:00"),
        event("Offsite", "2026-03-23", "2026-03-25", "Queenstown"),
        event("Choir rehearsal", "2026-03-25T19:30", "2026-03-25T21:00"),
        event("Mum's birthday", "2026-04-07", "2026-04-08"),
    ),
)


@pytest.mark.parametrize(
    ("question", "head", "first"),
    [
        # when it comes
        ("when is the board meeting", "In 2 days:", "Board meeting"),
        ("when's mums birthday", "In 20 days:", "Mum's birthday"),
        ("What time is the dentist?", "In 3 hours 15 minutes:", "Dentist"),
        ("is the board meeting on thursday", "Not then. It is:", "Board meeting"),
        ("when was choir last", "6 days ago:|7 days ago:", "2026-03-11"),
        ("and when is choir after that?", "In 7 days:", "2026-03-25"),
        ("when is the standup", "30 minutes ago:|45 minutes ago:", "Stand-up"),
        # how long until it, how long it is, where
        ("how long until the call with priya", "In 6 hours 45 minutes:", "Priya"),
        ("how many days till mum's birthday?", "In 20 days:", "Mum's birthday"),
        ("how long does the board meeting last", "It lasts 2 hours, until 12:00:", "Board"),
        ("when does choir end tonight", "It lasts 1 hour 30 minutes, until 21:00:", "2026-03-18"),
        ("does the offsite take the whole day", "Yes, it takes 2 whole days:", "Offsite"),
        ("is the board meeting all day", "No, it lasts 2 hours:", "Board"),
        ("where is the offsite", "In Queenstown:", "Offsite"),
        # before and after it
        ("what do I have before the dentist today", "Before that, on its day:", "Stand-up"),
        ("what comes after the call with priya", "After that, on its day:", "2026-03-18 19:30"),
        (
            "what is after “Choir rehearsal” on 2026-03-18?",
            "Nothing is after that on its day. Next:",
            "Karim",
        ),
        # what is next, what is left, what is free
        ("what's next", "Next, in 3 hours 15 minutes:", "Dentist"),
        ("when is my next appointment", "Next, in 3 hours 15 minutes:", "Dentist"),
        ("what's left for today?", "Calendar for 2026-03-18:", "Dentist"),
        ("am i free tomorrow afternoon", "No, there is:", "Karim"),
        ("am I free on Saturday?", "Yes, you are free", ""),
        ("do i have time for a coffee at 3pm today", "No, there is:", "Priya"),
        (
            "when can I meet Tim tomorrow for an hour",
            "You are free on Thu 19 Mar from 08:00",
            "Karim",
        ),
        ("anything on in the evening", "Calendar for 2026-03-18 from 16:00", "Choir"),
        ("how many meetings do i have today", "4 events for 2026-03-18:", "Stand-up"),
        ("do I have a meeting at 5", "The calendar has nothing for 2026-03-18 from 17:00", ""),
        ("when is the harvest party", "The calendar has no such event", ""),
    ],
)
def test_the_calendar_looks_ahead(question: str, head: str, first: str) -> None:
    told, *lines = tell(question, AGENDA, NOW).splitlines()
    assert any(told.startswith(each) for each in head.split("|")), told
    assert first in (lines[0] if lines else "")


@pytest.mark.parametrize(
    "question",
    [
        "who decided the budget of the new board", "when is Lena's birthday party", "when do we deploy",
        "where does the key of the choir's cupboard for music stands hang", "what is a dentist",
        "is the rent due tomorrow", "how long is the lease of the hall",
    ],
)  # fmt: skip
def test_what_shares_a_word_with_an_event_is_not_about_it(question: str) -> None:
    assert not (asks_of_event(question) and find_named(question, AGENDA.events))


def test_an_empty_calendar_has_nothing() -> None:
    empty = Agenda(first="2026-02-15", last="2027-03-19")
    for question in ("what's next", "when is the dentist", "am I free today?", "", "after that", "1" * 3_000):
        assert tell(question, empty, NOW)
