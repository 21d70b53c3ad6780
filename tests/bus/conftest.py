"""A real nats-server for each test, provisioned for a few agents."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from shared import subjects
from shared.bus import Bus, Delivery
from shared.bus.consumer import Consumer, ConsumerConfig
from tests.support.server import Server

AGENTS = ("conductor", "critic", "engineer", "memory", "nexus")
ACK_WAIT = 1.0


def server_in(folder: Path, **more: str) -> Server:
    """A server of the agents above that is still to be started; ``more`` are further settings."""
    return Server(folder, AGENTS, MAILROOM_TASK_ACK_WAIT=str(ACK_WAIT), **more)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = server_in(tmp_path)
    try:
        await server.start()
        yield server
    finally:
        await server.close()


async def consume(
    bus: Bus,
    handler: Callable[[Delivery], Awaitable[None]],
    *,
    buried: list[str] | None = None,
    concurrency: int = 4,
    max_attempts: int = 5,
    durables: tuple[str, ...] = (),
) -> Consumer:
    """Have ``handler`` handle what comes for ``bus``; the reasons of dead letters are added to ``buried``."""

    async def bury(delivery: Delivery, reason: str) -> None:
        if buried is not None:
            buried.append(reason)

    return await bus.consume(
        ConsumerConfig(
            stream=subjects.OFFICE,
            durables=durables or tuple(subjects.mailboxes(bus.name)),
            concurrency=concurrency,
            ack_wait=ACK_WAIT,
            max_attempts=max_attempts,
        ),
        handler,
        bury,
    )


async def pull_one(server: Server, agent: str) -> bytes:
    """What a process of ``agent`` receives that dies before it acknowledges anything: one message."""
    subject = f"$JS.API.CONSUMER.MSG.NEXT.{subjects.OFFICE}.{agent}"
    async with server.raw_client(agent) as client:
        message = await client.request(subject, b'{"batch":1}', timeout=5, old_style=True)
        return message.data
