"""Agents are paused, resumed and restarted by people, and by nobody else, whatever is killed meanwhile."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from shared import subjects
from shared.agent.process import RESTART_STATUS
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import read_presences
from shared.contracts import AgentControl, DeadLetter, TaskStatus
from shared.errors import BusError, Denied, NotFound, TooLate
from shared.operations.goals import control_agent, read_controls
from tests.support.office import Office
from tests.support.slow import install_slow_agent, slow_goal
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    folder: Path = tmp_path_factory.mktemp("office")
    running = Office(folder, **install_slow_agent(folder), MAILROOM_DRAIN_TIMEOUT="0.5")
    try:
        await running.open(["conductor", "critic", "slow", "gateway"])
        running.server.announce()
        yield running
    finally:
        await running.close()


async def control(office: Office, do: str, agent: str = "slow") -> AgentControl:
    return await control_agent(office.user, agent, do, person="ada")  # type: ignore[arg-type]


async def presence_says(office: Office, *, paused: bool) -> None:
    async def says() -> bool:
        found = [each for each in await read_presences(office.user) if each.agent == "slow"]
        return bool(found) and all(each.paused is paused for each in found)

    await eventually(says)


async def begun(office: Office) -> int:
    return len(await office.claimed("slow"))


async def restarted(office: Office, name: str = "slow") -> None:
    """Start ``name`` again as a supervisor does, after it ended for that."""
    process = office.processes[name]
    status = await asyncio.to_thread(process.wait, 20)
    assert status == RESTART_STATUS, (office.config.logs / f"{name}.log").read_text()[-2_000:]
    office.start(name)
    await office.ready(name)


async def test_a_paused_agent_finishes_its_work_and_takes_no_more_until_it_is_resumed(office: Office) -> None:
    await office.submit(slow_goal("before", 1.5))
    await eventually(lambda: begun(office))
    paused = await control(office, "pause")
    assert (paused.paused, paused.asked_by) == (True, "ada")
    await presence_says(office, paused=True)
    await office.submit(slow_goal("meanwhile", 0))
    assert (await office.finished("before")).status is TaskStatus.COMPLETED
    await asyncio.sleep(1)
    assert await begun(office) == 1
    shown = await asyncio.to_thread(office.server.mailroom, "status")
    assert "1 paused" in shown.stdout
    resumed = await control(office, "resume")
    assert not resumed.paused
    assert (await office.finished("meanwhile")).status is TaskStatus.COMPLETED
    await presence_says(office, paused=False)


async def test_a_pause_survives_kills_of_the_agent_the_conductor_and_the_server(office: Office) -> None:
    await control(office, "pause")
    await presence_says(office, paused=True)
    office.kill("slow")
    office.kill("conductor")
    await office.server.restart()
    office.start("slow")
    office.start("conductor")
    await office.ready("slow")
    await office.ready("conductor")
    before = await begun(office)
    await office.submit(slow_goal("killed", 0))
    await eventually(lambda: office.goal("killed"))
    await asyncio.sleep(1)
    assert await begun(office) == before
    await presence_says(office, paused=True)
    await control(office, "resume")
    assert (await office.finished("killed")).status is TaskStatus.COMPLETED


async def test_what_is_asked_while_the_connection_is_away_is_learned_after_it(office: Office) -> None:
    """The live message is lost: the record is read again."""
    office.signal("slow", 19)
    await control(office, "pause")
    await office.server.restart()
    office.signal("slow", 18)
    await presence_says(office, paused=True)
    await control(office, "resume")
    await presence_says(office, paused=False)


async def test_a_restart_during_a_long_task_ends_the_task_once(office: Office) -> None:
    before = await begun(office)
    await office.submit(slow_goal("long", 3))

    async def at_work() -> bool:
        return await begun(office) > before

    await eventually(at_work)
    await control(office, "restart")
    await restarted(office)
    goal = await office.finished("long")
    assert goal.status is TaskStatus.COMPLETED
    ends = await office.stored(subjects.task("slow", "*", goal.tasks[0].task_id, subjects.ENDED))
    assert len(ends) == 1
    assert office.processes["slow"].poll() is None


async def test_a_process_restarts_once_and_a_paused_one_stays_paused(office: Office) -> None:
    await control(office, "pause")
    first = await control(office, "restart")
    assert first.paused
    await restarted(office)
    await presence_says(office, paused=True)
    await asyncio.sleep(1)
    assert office.processes["slow"].poll() is None
    await control(office, "resume")
    await presence_says(office, paused=False)


async def test_every_process_of_an_agent_is_paused_and_restarted(office: Office) -> None:
    office.start("slow", "2")
    await office.ready("slow", "2")
    await control(office, "pause")

    async def both_paused() -> bool:
        found = [each for each in await read_presences(office.user) if each.agent == "slow"]
        return len(found) == 2 and all(each.paused for each in found)

    await eventually(both_paused)
    await control(office, "resume")
    await presence_says(office, paused=False)
    await control(office, "restart")
    ends = [await asyncio.to_thread(office.processes[name].wait, 20) for name in ("slow", "slow2")]
    assert ends == [RESTART_STATUS, RESTART_STATUS]
    office.start("slow")
    await office.ready("slow")


async def test_conductor_restarts_and_cannot_be_paused(office: Office) -> None:
    for name in ("conductor", "memory"):
        with pytest.raises(TooLate, match=f"{name} cannot be paused: "):
            await control(office, "pause", name)
    await control(office, "restart", "conductor")
    await restarted(office, "conductor")
    await office.submit(slow_goal("after", 0))
    assert (await office.finished("after")).status is TaskStatus.COMPLETED
    with pytest.raises(NotFound, match="No agent named 'nobody' is running"):
        await control(office, "pause", "nobody")


async def test_the_command_controls_agents_and_says_what_holds(office: Office) -> None:
    run = office.server.mailroom
    paused = await asyncio.to_thread(run, "agents", "pause", "slow")
    assert paused.stdout.strip() == "slow is paused", paused.stderr
    assert "paused" in (await asyncio.to_thread(run, "agents", "slow")).stdout
    resumed = await asyncio.to_thread(run, "agents", "resume", "slow", "--json")
    assert json.loads(resumed.stdout) == {"agent": "slow", "do": "resume", "paused": False}
    listed = await asyncio.to_thread(run, "agents", "--json")
    assert {each["agent"] for each in json.loads(listed.stdout)} == {"conductor", "critic", "gateway", "slow"}
    refused = await asyncio.to_thread(run, "agents", "pause", "conductor")
    assert refused.returncode == 1
    assert "It can be restarted" in " ".join(refused.stderr.split())
    trail = await asyncio.to_thread(run, "tail", "--no-follow", "--agent", "conductor")
    assert "slow paused by ada" in trail.stdout


async def test_an_agent_controls_nobody(office: Office) -> None:
    """Neither by a submission, nor by a record, nor by a letter in a person's name."""
    before = await read_controls(office.user)
    nexus = await office.connect("nexus")
    order = {"control": {"agent": "slow", "do": "pause"}, "requester": "user", "person": "ada"}
    stored = await nexus.store(subjects.SUBMIT, msgspec.json.encode(order))

    async def refused() -> list[str]:
        letters = [DeadLetter.from_json(data) for _, _, data in await office.stored("dead.conductor")]
        return [each.reason for each in letters if each.stream_seq == stored["seq"]]

    (reason,) = await eventually(refused)
    assert "only people" in reason
    slow = await office.connect("slow")
    forged = AgentControl(sender="slow", agent="critic", do="pause", paused=True)
    for bus, agent in ((slow, "critic"), (slow, "slow"), (nexus, "slow")):
        with pytest.raises((Denied, BusError)):
            await _write(bus, subjects.control(agent), forged)
    with pytest.raises((Denied, BusError)):
        await slow.store(subjects.SUBMIT, msgspec.json.encode(order), timeout=1)
    assert await read_controls(office.user) == before


async def _write(bus: Bus, subject: str, forged: AgentControl) -> None:
    async with asyncio.timeout(2):
        try:
            await bus.commit([seal(subject, forged)])
        except TimeoutError as error:
            raise Denied("no answer") from error


@pytest.mark.parametrize(
    "body",
    [
        {"control": {"agent": "slow", "do": "explode"}},
        {"control": {"agent": "slow"}},
        {"control": {"agent": "a.b", "do": "pause"}},
        {"control": {"agent": "user", "do": "pause"}},
        {"control": {"agent": "conductor", "do": "pause"}},
        {"control": {"agent": "slow", "do": "pause"}, "text": "and do this"},
        {"control": "pause slow"},
    ],
)
async def test_a_submission_that_is_no_order_is_refused(office: Office, body: dict[str, object]) -> None:
    stored = await office.user.store(subjects.SUBMIT, msgspec.json.encode(body))

    async def refused() -> list[str]:
        letters = [DeadLetter.from_json(data) for _, _, data in await office.stored("dead.conductor")]
        return [each.reason for each in letters if each.stream_seq == stored["seq"]]

    assert await eventually(refused)
