"""Messages about schedules and the night: the goal in them, and the times."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from services.nexus.timetable.schedule_words import (
    Order,
    read_move,
    read_night_job,
    read_order,
    read_queue_call,
    read_scheduled,
    read_whole,
)
from shared.errors import ActionError

ZURICH = ZoneInfo("Europe/Zurich")
NOW = datetime(2026, 11, 23, 9, 30, tzinfo=ZURICH)


@pytest.mark.parametrize(
    ("text", "goal", "first", "rule"),
    [
        ("every night at 2 run the tests of ~/x", "run the tests of ~/x", "24 02:00", "FREQ=DAILY"),
        ("please run the linter every Monday at 8:15", "run the linter", "30 08:15", "BYDAY=MO"),
        ("run the suite nightly", "run the suite", "24 02:00", "FREQ=DAILY"),
        ("every weekday at 6 collect the figures", "collect the figures", "24 06:00", "BYDAY=MO,TU,WE,TH,FR"),
        ("every evening at 6 collect the figures", "collect the figures", "23 18:00", "FREQ=DAILY"),
        ("check /srv/app every week", "check /srv/app", "30 02:00", "FREQ=WEEKLY"),
        ("schedule a scan of /srv/app weekly", "a scan of /srv/app", "30 02:00", "FREQ=WEEKLY"),
        ("schedule: build ~/a daily at 13:30", "build ~/a", "23 13:30", "FREQ=DAILY"),
        ("from now on build ~/a every day at noon", "build ~/a", "23 12:00", "FREQ=DAILY"),
        ("tomorrow at 6:00 run the tests", "run the tests", "24 06:00", ""),
        ("run the tests of ~/x again every night at 3", "run the tests of ~/x", "24 03:00", "FREQ=DAILY"),
        ("look at the trains to Berlin every day at 7", "look at the trains to Berlin", "24 07:00", "DAILY"),
        ("at 17:00 look at each file", "look at each file", "23 17:00", ""),
        ("twice a week, Mondays and Thursdays at six, run x", "run x", "26 06:00", "BYDAY=MO,TH"),
        ("every weekday except Friday at half past six run x", "run x", "24 06:30", "BYDAY=MO,TU,WE,TH"),
        ("weekly, say Sunday at 23h, run x", "run x", "29 23:00", "BYDAY=SU"),
    ],
)
def test_a_goal_and_its_times(text: str, goal: str, first: str, rule: str) -> None:
    when, found = read_scheduled(text, NOW, ZURICH)
    assert found == goal
    assert when.first.astimezone(ZURICH).strftime("%d %H:%M") == first
    assert rule in when.repeats
    assert bool(rule) is bool(when.repeats)


@pytest.mark.parametrize(
    ("text", "first", "rule"),
    [
        ("last Friday of the month at 9", "27 09:00", "FREQ=MONTHLY;BYDAY=-1FR"),
        ("1st and 15th of the month at 8", "01 08:00", "FREQ=MONTHLY;BYMONTHDAY=1,15"),
        ("last day of the month", "30 02:00", "FREQ=MONTHLY;BYMONTHDAY=-1"),
        ("the first of the month at 6", "01 06:00", "FREQ=MONTHLY;BYMONTHDAY=1"),
        ("every 3 months", "01 02:00", "FREQ=MONTHLY;INTERVAL=3;BYMONTHDAY=1"),
        ("monthly", "01 02:00", "FREQ=MONTHLY;BYMONTHDAY=1"),
        ("every half year", "01 02:00", "FREQ=MONTHLY;INTERVAL=6;BYMONTHDAY=1"),
        ("yearly", "01 02:00", "FREQ=YEARLY;BYMONTH=1;BYMONTHDAY=1"),
        ("every other week on Tuesday at 7", "24 07:00", "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU"),
    ],
)
def test_times_that_say_nothing_else(text: str, first: str, rule: str) -> None:
    found = read_whole(text, NOW, ZURICH)
    assert (found.first.astimezone(ZURICH).strftime("%d %H:%M"), rule in found.repeats) == (first, True)


def test_words_that_say_no_time_are_asked_about() -> None:
    with pytest.raises(ActionError, match="I did not understand '1st or' in "):
        read_whole("on the 1st or 15th of the month at 8", NOW, ZURICH)


@pytest.mark.parametrize(
    "text",
    [
        "do that every night",
        "run them again every night at 3",
        "run this daily",
        "every day at 7",
        "run the tests",
    ],
)
def test_what_lacks_the_goal_or_the_time_is_asked_about(text: str) -> None:
    with pytest.raises(ActionError) as asked:
        read_scheduled(text, NOW, ZURICH)
    assert "every night at 2" in asked.value.cure


def test_a_repetition_that_was_not_understood_does_not_become_a_single_run() -> None:
    with pytest.raises(ActionError, match="how often 'every'"):
        read_scheduled("count the trees at 17:00 every", NOW, ZURICH)


@pytest.mark.parametrize(
    ("text", "job"),
    [
        ("tonight run the checkup of ~/src/shop", {"task": "run the checkup of ~/src/shop"}),
        ("while I sleep, look through the logs", {"task": "look through the logs"}),
        ("queue this for tonight: rebuild the docs", {"task": "rebuild the docs"}),
        ("put a scan of /srv/app into the night queue", {"task": "a scan of /srv/app"}),
        ("after work run the long simulation", {"task": "run the long simulation"}),
        ("run x tonight at 11", {"task": "run x", "run_at": "2026-11-23T23:00:00+01:00"}),
        ("at 2 tonight back up ~/notes", {"task": "back up ~/notes", "run_at": "2026-11-24T02:00:00+01:00"}),
        ("run x on Friday at 10", {"task": "run x", "run_at": "2026-11-27T10:00:00+01:00"}),
        ("tomorrow at 3 pm run x", {"task": "run x", "run_at": "2026-11-24T15:00:00+01:00"}),
        ("run x at 2 in the morning tonight", {"task": "run x", "run_at": "2026-11-24T02:00:00+01:00"}),
        ("run x at half past two tonight", {"task": "run x", "run_at": "2026-11-24T02:30:00+01:00"}),
        ("tonight at eleven run x", {"task": "run x", "run_at": "2026-11-23T23:00:00+01:00"}),
        ("While everybody sleeps, would you kindly run x", {"task": "run x"}),
    ],
)
def test_a_job_for_the_night(text: str, job: dict[str, str]) -> None:
    assert read_night_job(text, NOW, ZURICH) == job


@pytest.mark.parametrize(
    ("text", "job", "about", "begins"),
    [
        ("make tonight's job 2 am instead", "", "", "24T02:00"),
        ("please move the lint job to half past one", "", "lint", "24T01:30"),
        ("have tonight's scan start at eleven", "", "scan", "23T23:00"),
        ("move job job-20261123-002 to tomorrow at 4:00", "job-20261123-002", "", "24T04:00"),
        ("move the scan of ~/x to 3", "", "scan of ~/x", "24T03:00"),
    ],
)
def test_a_job_that_waits_gets_another_time(text: str, job: str, about: str, begins: str) -> None:
    found = read_move(text, NOW, ZURICH)
    assert found is not None
    assert (found["job_id"], found["about"]) == (job, about)
    assert found["run_at"].startswith(f"2026-11-{begins}")


@pytest.mark.parametrize(
    "text",
    [
        "make the backup tonight",
        "tonight's job: retag the books",
        "run x tonight at 2",
        "start the test at 2",
    ],
)
def test_new_work_is_no_other_time_for_a_job(text: str) -> None:
    assert read_move(text, NOW, ZURICH) is None


@pytest.mark.parametrize("text", ["do that tonight please", "tonight", "not now, run it tonight"])
def test_a_night_without_work_is_asked_about(text: str) -> None:
    with pytest.raises(ActionError, match="what is to be done"):
        read_night_job(text, NOW, ZURICH)


def test_commands_are_exact() -> None:
    added = read_order("/schedule add\nevery day at 7\nLook at /x\nand at /y")
    assert added == Order(verb="add", when="every day at 7", text="Look at /x\nand at /y")
    assert read_order("/schedule pause s12ab") == Order(verb="pause", name="s12ab")
    assert read_order("remove s12ab") == Order(verb="remove", name="s12ab")
    for text in ("run the tests", "run daily", "pause", "pause s1 and s2", "add", "", "\n"):
        assert read_order(text) is None
    assert read_queue_call("/queue run job-1", NOW, ZURICH) == ("run_job", {"job_id": "job-1"})
    assert read_queue_call("/night_job add\nnow\nLook", NOW, ZURICH) == (
        "queue_job",
        {"task": "Look", "when": "now"},
    )
    at = read_queue_call("/night_job add\n2026-11-24T02:00:00+01:00\nLook", NOW, ZURICH)
    assert at == ("queue_job", {"task": "Look", "run_at": "2026-11-24T01:00:00+00:00"})
    assert read_queue_call("/queue list", NOW, ZURICH) is None
