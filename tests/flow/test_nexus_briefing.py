"""The briefings of the day: what they tell, what they say of services that are away, once at their time."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from services.nexus.__main__ import Nexus
from shared import subjects
from shared.bus.entry import seal
from shared.contracts import AgentReport, Due, DueKind, DueStatus, TimerDue
from shared.errors import ConfigError
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profiles import Profile, load_profile
from shared.timetable import read_timetable, set_timer, to_timestamp
from tests.support.briefing import (
    CORTEX,
    FRONTIER,
    Discoverer,
    NightWorker,
    forecast,
    places,
    remember,
    write_calendar,
)
from tests.support.http import Site
from tests.support.later import keep_items
from tests.support.team import Team, open_team

NEXUS = load_profile(Path(__file__).parents[2] / "services" / "nexus" / "profile.yaml")
ZONE = ZoneInfo("Europe/Zurich")
AGENTS = ["nexus", "memory", "cortex", "frontier"]
TITLES = ["Due", "Overnight", "Calendar", "Weather", "New", "Unresolved contradictions"]


@pytest.fixture
async def team(tmp_path: Path, site: Site) -> AsyncIterator[Team]:
    settings = {
        "MAILROOM_TIME_ZONE": "Europe/Zurich",
        "MAILROOM_HOME_PLACE": "Bern",
        "MAILROOM_WEATHER_URL": site.page("/forecast", forecast(), kind="application/json"),
        "MAILROOM_GEOCODING_URL": site.page("/search", places(), kind="application/json"),
        "MAILROOM_CALENDAR": write_calendar(tmp_path / "calendar.ics"),
    }
    async with open_team(tmp_path, AGENTS, **settings) as team:
        yield team


async def join(team: Team, **options: Any) -> Any:
    waits = {"memory_wait": 1.0, "late": [], **options}
    profile = msgspec.structs.replace(NEXUS, options={**NEXUS.options, **waits})
    return await team.join(Nexus, profile)


async def staff(team: Team) -> None:
    await team.join(NightWorker, CORTEX)
    await team.join(Discoverer, FRONTIER)
    await remember(await team.connect("memory"))


def today() -> str:
    return datetime.now(ZONE).date().isoformat()


def job(number: int) -> AgentReport:
    return AgentReport(
        sender="cortex",
        recipient="nexus",
        report_id=f"job-{number}",
        agent="cortex",
        report_type="overnight_job",
        summary=f"Overnight job {number} completed: all fine",
        output_paths=(f"/archive/{number}.json",),
    )


async def reports(team: Team) -> list[dict[str, Any]]:
    request = {"seq": 1, "next_by_subj": subjects.mail("user", "nexus"), "batch": 100}
    found = [json.loads(stored.data) async for stored in team.user.read(subjects.OFFICE, request)]
    return [each for each in found if each["type"] == "agent_report.v1"]


async def test_the_morning_briefing_tells_what_there_is(team: Team) -> None:
    await staff(team)
    cortex = await team.connect("cortex")
    due = datetime.now(ZONE).replace(hour=23, minute=59, second=59)
    nexus = await team.connect("nexus")
    reminder = Due(due_id="r1", what=DueKind.MAIL, text="call Ana", requester="user", at=to_timestamp(due))
    await keep_items(nexus, reminder)
    agent = await join(team)
    for report in (job(1), job(1), job(2)):
        again = msgspec.structs.replace(report, id=job(0).id)
        await cortex.commit([seal(subjects.mail("nexus", "cortex"), again)])
    while len(await agent.overnight.since(datetime.now(UTC) - timedelta(hours=1))) < 2:
        await asyncio.sleep(0.02)
    result = await team.perform("nexus", "brief_morning")
    path = Path(result.output_paths[0])
    assert path == team.config.inbox / "morning" / f"{today()}.md"
    page = path.read_text()
    assert page == result.output
    assert [line.split()[1] for line in page.splitlines() if line.startswith("## ")] == [
        title.split()[0] for title in TITLES
    ]
    assert "Bern" in page
    assert "Water the plants" in page
    assert "- 23:59 call Ana [reminder r1]" in page
    head, _, body = page.partition("Made on")
    assert head.count("Overnight job 1 completed: all fine") == 1
    assert body.count("Overnight job 1 completed: all fine") == 1
    assert "Overnight job 2 completed" in page
    assert "- Job gulls waits: Count the gulls (until tonight) [job gulls]" in page
    assert "- Remembering # in graphs [arXiv:2601.00001v1]" in page
    assert "- The server is called heron - but: The server is called stork [memory a1]" in page
    assert {"arxiv:2601.00001v1", "a1", "b2"} <= set(result.evidence_refs)
    assert "could not be read" not in page


class Sleeper(NightWorker):
    """Works, and never says so."""

    @register_action("Say how the queue stands")
    async def queue_status(self) -> Outcome:
        await asyncio.sleep(60)
        return Outcome(output="")


async def test_a_colleague_that_does_not_answer_holds_up_nothing(team: Team) -> None:
    await team.join(Sleeper, CORTEX)
    await remember(await team.connect("memory"))
    await join(team, section_timeout=2.5, papers_timeout=2.0)
    result = await team.perform("nexus", "brief_morning")
    told = {each["key"]: each for each in result.metadata["sections"]}
    assert told["night"]["problem"] == "cortex did not report its queue's status."
    assert told["new"]["problem"].startswith("It could not be read")
    assert told["contradictions"]["lines"]


async def test_the_evening_briefing_is_about_tomorrow(team: Team) -> None:
    await staff(team)
    await join(team)
    page = (await team.perform("nexus", "brief_evening")).output
    assert "## Weather tomorrow" in page
    assert "## Tomorrow\n\n- (all day) Water the plants [calendar]" in page
    assert (team.config.inbox / "evening" / f"{today()}.md").exists()


async def test_each_section_says_in_a_sentence_that_its_service_is_away(team: Team, site: Site) -> None:
    site.page("/forecast", "down", 503)
    Path(team.config.calendar).unlink()
    await join(team, section_timeout=4.0, papers_timeout=4.0)
    result = await team.perform("nexus", "brief_morning")
    told = {each["key"]: each for each in result.metadata["sections"]}
    assert "The weather service at 127.0.0.1" in told["weather"]["problem"]
    assert "No such file" in told["calendar"]["problem"]
    assert told["waits"]["problem"] == ""
    assert told["night"]["problem"] == "cortex is not at work. See 'mailroom status'"
    assert told["new"]["problem"] == ("It could not be read: frontier is not at work. See 'mailroom status'.")
    assert "The memory daemon does not answer" in told["contradictions"]["problem"]
    assert all(not each["lines"] for each in told.values())
    assert "Traceback" not in result.output
    assert "## Waits" not in result.output


async def test_at_its_time_a_briefing_is_made_once_also_over_a_restart(team: Team) -> None:
    await staff(team)
    at = (datetime.now(ZONE) + timedelta(seconds=2)).time().replace(microsecond=0).isoformat()
    agent = await join(team, morning=at, evening="")
    await asyncio.sleep(0.2)
    await team.leave(agent)
    await join(team, morning=at, evening="")
    while not await reports(team):
        await asyncio.sleep(0.05)
    path = team.config.inbox / "morning" / f"{today()}.md"
    assert path.exists()
    again = TimerDue(sender="nexus", recipient="nexus", due_id="morning")
    bus = await team.connect("nexus")
    await set_timer(bus, "again", again, datetime.now(UTC))
    await asyncio.sleep(0.8)
    (report,) = await reports(team)
    assert report["report_type"] == "morning_briefing"
    assert report["output_paths"] == [str(path)]
    assert report["summary"].startswith("Morning briefing, ")
    assert any(each.startswith("The night brought: Job gulls waits") for each in report["findings"])
    assert not (team.config.inbox / "evening").exists()


async def test_one_that_came_due_while_nobody_was_there_is_made_at_the_start(team: Team) -> None:
    await staff(team)
    bus = await team.connect("nexus")
    yesterday = (datetime.now(ZONE) - timedelta(days=1)).date()
    items = [
        Due(
            due_id=kind,
            what=DueKind.BRIEFING,
            text=f"The {kind} briefing",
            requester="user",
            at=to_timestamp(datetime.combine(yesterday, time.fromisoformat(clock), ZONE)),
            repeats=f"DTSTART:20240101T{clock.replace(':', '')}\nRRULE:FREQ=DAILY",
        )
        for kind, clock in (("morning", "00:00:00"), ("evening", "23:59:59"))
    ]
    await keep_items(bus, *items)
    await join(team, morning="00:00", evening="23:59:59")
    while len(await reports(team)) < 1:
        await asyncio.sleep(0.05)
    assert [path.name for path in (team.config.inbox / "morning").iterdir()] == [f"{today()}.md"]
    known = {each.due_id: each for each in (await read_timetable(team.user)).of(DueKind.BRIEFING)}
    assert {kind: each.runs for kind, each in known.items()} == {"morning": 1, "evening": 0}
    assert all(datetime.fromisoformat(each.at) > datetime.now(UTC) for each in known.values())
    assert not (team.config.inbox / "evening").exists()


async def test_only_cortex_reports_overnight_jobs(team: Team) -> None:
    agent = await join(team)
    frontier = await team.connect("frontier")
    forged = msgspec.structs.replace(job(3), sender="frontier")
    await frontier.commit([seal(subjects.mail("nexus", "frontier"), forged)])
    await asyncio.sleep(0.4)
    assert await agent.overnight.since(datetime.now(UTC) - timedelta(hours=1)) == []


async def test_an_inbox_that_cannot_be_written_is_said(team: Team) -> None:
    await staff(team)
    team.config.inbox.parent.mkdir(exist_ok=True)
    team.config.inbox.write_text("a file")
    await join(team)
    result = await team.perform("nexus", "brief_morning")
    assert result.error_message.startswith("The briefing cannot be written into ")


async def test_a_time_that_is_none_is_said_at_the_start(team: Team) -> None:
    with pytest.raises(ConfigError, match="'morning' of the nexus profile is '7 am'"):
        Nexus(Profile(name="nexus", description="x", options={"morning": "7 am"}), team.config, team.user)


async def test_one_whose_time_is_taken_away_is_paused_and_goes_on_with_another(team: Team) -> None:
    seen = []
    for clock in ("06:00", "", "06:30"):
        agent = await join(team, morning=clock, evening="")
        await agent.timetable.start(agent.briefings.plan)
        (item,) = (await read_timetable(team.user)).of(DueKind.BRIEFING)
        seen.append((item.status, item.repeats.partition("\n")[0], item.at > datetime.now(UTC).isoformat()))
        await team.leave(agent)
    begins = "DTSTART:20240101T0"
    assert seen == [
        (DueStatus.WAITING, f"{begins}60000", True),
        (DueStatus.PAUSED, f"{begins}60000", True),
        (DueStatus.WAITING, f"{begins}63000", True),
    ]
