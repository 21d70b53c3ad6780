"""A message that the server stopped handing out: the only sign is its advisory."""

import asyncio
from pathlib import Path

import msgspec

from services.cli.supervisor.provisioning import provision_streams
from shared import subjects
from shared.agent.base import Agent
from shared.agent.dispatcher import Dispatcher
from shared.agent.executor import TaskExecutor
from shared.agent.placing import Placing
from shared.bus.consumer import ConsumerConfig
from shared.bus.entry import Entry
from shared.bus.peers import Peers
from shared.contracts import DeadLetter
from shared.tasks.profiles import Profile
from tests.bus.conftest import ACK_WAIT, AGENTS, pull_one
from tests.support.server import Server


async def test_what_the_server_gave_up_becomes_a_dead_letter(server: Server, tmp_path: Path) -> None:
    config = msgspec.structs.replace(server.config, max_attempts=1)
    assert await provision_streams(config, server.url, AGENTS) != []
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    (seq,) = await conductor.commit([Entry("mail.engineer.conductor", b"never finished", "m1")])
    for _ in range(3):
        assert await pull_one(server, "engineer") == b"never finished"
        await asyncio.sleep(ACK_WAIT * 1.2)
    # The server notices when it would hand the message out once more.
    agent = Agent(Profile(name="engineer", description="x"), config, engineer)
    placing = Placing(agent.context, Peers(engineer, []).offer)
    dispatcher = Dispatcher(agent, TaskExecutor(agent), placing)
    await engineer.consume(
        ConsumerConfig(
            stream=subjects.OFFICE, durables=("engineer",), concurrency=1, ack_wait=ACK_WAIT, max_attempts=1
        ),
        dispatcher.handle,
        dispatcher.dead_letter,
    )
    user = await server.connect(subjects.USER)
    async with asyncio.timeout(10):
        while (stored := await user.last(subjects.OFFICE, "dead.engineer")) is None:
            await asyncio.sleep(0.05)
    letter = DeadLetter.from_json(stored.data)
    assert "gave up after 3 deliveries" in letter.reason
    assert (letter.stream, letter.stream_seq) == (subjects.OFFICE, seq)
