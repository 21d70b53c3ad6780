"""What was handed back comes again soon, and hand-backs are no failures of a message."""

import asyncio
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from shared import subjects
from shared.bus import Delivery
from shared.bus.consumer import MAX_REMEMBERED, Failures, backoff
from shared.errors import BusUnavailable, Retry
from tests.bus.conftest import AGENTS, consume
from tests.bus.test_consumer import send
from tests.support.server import Server
from tests.support.waiting import eventually

SOON = 8.0
"""Seconds within which a message must be back; the durables' ack_wait is much longer."""
WRITTEN = 0.5
"""Seconds after which the server has written what it delivered: it does so ten times a second at most."""
AGENT = "engineer"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path, AGENTS, MAILROOM_TASK_ACK_WAIT="30")
    try:
        await server.start()
        yield server
    finally:
        await server.close()


@asynccontextmanager
async def taken(server: Server, number: int) -> AsyncIterator[list[Msg]]:
    """The first ``number`` messages of the agent, as a process holds them that does not answer."""
    async with server.raw_client(AGENT) as client:
        inbox = await client.subscribe("_INBOX.taken")
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{subjects.OFFICE}.{AGENT}"
        await client.publish(subject, b'{"batch":%d}' % number, reply="_INBOX.taken")
        yield [await inbox.next_msg(5) for _ in range(number)]


async def hand_back(server: Server, times: int) -> None:
    """Have the first message of the agent delivered and handed back, again and again."""
    for _ in range(times):
        async with taken(server, 1) as (message,):
            await message.nak()


def state_file(server: Server) -> Path:
    """Where the server keeps how far the agent's durable is."""
    (found,) = server.config.state_dir.rglob(f"{subjects.OFFICE}/obs/{AGENT}/o.dat")
    return found


async def test_a_server_that_forgot_a_delivery_takes_the_message_back(server: Server, tmp_path: Path) -> None:
    """One that is killed loses what it delivered in its last 0.1 s, but knows the messages from before."""
    got: list[int] = []
    handled: set[int] = set()
    back = asyncio.Event()

    async def handle(delivery: Delivery) -> None:
        got.append(delivery.seq)
        if not back.is_set():
            await back.wait()
            raise BusUnavailable("No answer from the server that was killed")
        handled.add(delivery.seq)

    await send(server, *map(str, range(8)))
    async with taken(server, 8) as messages:
        await asyncio.sleep(WRITTEN)
        before = shutil.copy(state_file(server), tmp_path / "before")
        bus = await server.connect(AGENT)
        await consume(bus, handle, concurrency=8)
        for message in messages:
            await message.nak()
        await eventually(lambda: len(got) == 8)
    server.kill()
    shutil.copy(before, state_file(server))
    await server.restart()
    await eventually(lambda: bus.connected)
    back.set()
    await eventually(lambda: len(handled) == 8, SOON)


async def test_what_was_handed_back_often_waits_no_longer_when_it_fails(server: Server) -> None:
    times: list[float] = []
    buried: list[str] = []

    async def handle(delivery: Delivery) -> None:
        times.append(time.monotonic())
        if len(times) < 3:
            raise ValueError("odd")

    await send(server, "x")
    await hand_back(server, 6)
    await consume(await server.connect(AGENT), handle, buried=buried, max_attempts=5)
    await eventually(lambda: len(times) == 3, SOON)
    assert buried == []
    assert times[2] - times[0] < 3


async def test_it_is_buried_after_as_many_failures_as_any_other(server: Server) -> None:
    tries: list[int] = []
    buried: list[str] = []

    async def handle(delivery: Delivery) -> None:
        tries.append(delivery.deliveries)
        raise Retry("no ink", delay=0.05)

    await send(server, "x")
    await hand_back(server, 3)
    await consume(await server.connect(AGENT), handle, buried=buried, max_attempts=3)
    await eventually(lambda: bool(buried))
    assert (tries, buried) == ([4, 5, 6], ["gave up after 3 attempts: no ink"])


async def test_a_message_that_is_rejected_says_why_it_failed_before(server: Server) -> None:
    """Deliveries that never end are bounded too, and the dead letter names the only error there was."""
    buried: list[str] = []

    async def handle(delivery: Delivery) -> None:
        raise Retry("no ink", delay=0.05)

    await send(server, "x")
    await hand_back(server, 5)
    await consume(await server.connect(AGENT), handle, buried=buried, max_attempts=3)
    await eventually(lambda: bool(buried))
    assert buried == ["it was delivered 6 times and never finished; before that: no ink"]


def test_failures_are_counted_for_each_message_and_forgotten() -> None:
    failures = Failures()
    assert [failures.count(7, "a"), failures.count(8, "b"), failures.count(7)] == [1, 1, 2]
    assert failures.last_reason(7) == "a"
    failures.forget(7)
    assert (failures.count(7, "c"), failures.last_reason(9)) == (1, "")


def test_failures_of_countless_messages_take_no_countless_memory() -> None:
    failures = Failures()
    for seq in range(2 * MAX_REMEMBERED):
        failures.count(seq, "x")
    assert failures.last_reason(MAX_REMEMBERED - 1) == ""
    assert failures.last_reason(MAX_REMEMBERED) == "x"


def test_the_pause_doubles_up_to_half_a_minute() -> None:
    assert [backoff(number) for number in (1, 2, 3, 8, 100)] == [0.25, 0.5, 1.0, 30.0, 30.0]
    assert backoff(5, Retry("later", delay=0.1)) == 0.1
