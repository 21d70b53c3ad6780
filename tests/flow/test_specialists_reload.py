"""What new accounts cost those who are connected: nothing is lost, refused, or stored twice."""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from services.cli.supervisor.provisioning import provision_streams, write_config
from shared import subjects
from shared.bus import Bus, Delivery
from shared.bus.consumer import ConsumerConfig
from shared.bus.entry import seal
from shared.bus.records import read_task, submission_entry
from shared.contracts import Email, Task
from tests.support.team import Team, open_team

pytestmark = pytest.mark.timeout(40)
STAFF = ["conductor", "engineer", "memory"]


@pytest.fixture
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    async with open_team(tmp_path, STAFF) as team:
        yield team


async def letters(user: Bus) -> AsyncIterator[str]:
    """The bodies of all letters to the engineer, as they are stored."""
    seq = 1
    while True:
        request = {"seq": seq, "batch": 500, "next_by_subj": subjects.mail("engineer", "conductor")}
        batch = [stored async for stored in user.read(subjects.OFFICE, request)]
        if not batch:
            return
        for stored in batch:
            yield msgspec.json.decode(stored.data)["body"]
        seq = batch[-1].seq + 1


async def test_the_work_goes_on_while_the_server_reads_its_configuration_anew(team: Team) -> None:
    sender, receiver = await team.connect("conductor"), await team.connect("engineer")
    got: Counter[str] = Counter()

    async def take(delivery: Delivery) -> None:
        got[msgspec.json.decode(delivery.data)["body"]] += 1

    async def bury(delivery: Delivery, reason: str) -> None:
        raise AssertionError(reason)

    await receiver.consume(
        ConsumerConfig(
            stream=subjects.OFFICE, durables=("engineer",), concurrency=4, ack_wait=20, max_attempts=5
        ),
        take,
        bury,
    )
    stopped, sent = asyncio.Event(), 0

    async def send(bus: Bus) -> None:
        nonlocal sent
        for number in itertools.count():
            if stopped.is_set():
                return
            letter = Email(sender=bus.name, recipient="engineer", subject="x", body=str(number))
            await bus.commit([seal(subjects.mail("engineer", bus.name), letter)])
            sent += 1

    sending = asyncio.create_task(send(sender))
    names = list(STAFF)
    for number in range(3):
        await asyncio.sleep(0.1)
        names.append(f"specialist-{number}")
        write_config(team.config, names)
        for _ in range(2):
            team.server.reload()
            await asyncio.sleep(0.2)
        await provision_streams(team.config, team.server.url, names)
        # the others, connected before, can give it work, and it can find it
        task = Task(task_id=f"t{number}", text="x", assignee=names[-1], requester="conductor")
        await sender.commit([submission_entry(task)])
        newcomer = await team.connect(names[-1])
        assert await read_task(newcomer, task) is not None
    stopped.set()
    await sending
    while len(got) < sent:
        await asyncio.sleep(0.02)
    assert sent > 50
    # An acknowledgement that falls into the moment of a reload may be lost, and its message come again.
    assert sum(got.values()) - len(got) <= 3 * 4
    bodies = [body async for body in letters(team.user)]
    assert len(bodies) == len(set(bodies)) == sent
    assert sender.connected
    assert receiver.connected
