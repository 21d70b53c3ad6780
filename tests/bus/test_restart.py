"""Requests that the server has not answered when it is killed."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from shared import subjects
from shared.bus import Bus
from shared.errors import BusUnavailable
from tests.support.server import Server
from tests.support.waiting import eventually

QUICK = 3.0
"""Seconds; a request without an answer waits for 5."""
TASK = subjects.task("engineer", "critic", "t1", subjects.ENDED)


async def kill_before_the_answer(server: Server, request: Awaitable[object]) -> object:
    """The outcome of a request that the server gets and does not answer before it is killed."""
    await server.freeze()
    asking = asyncio.ensure_future(request)
    await asyncio.sleep(0.2)
    await server.restart()
    async with asyncio.timeout(QUICK):
        return (await asyncio.gather(asking, return_exceptions=True))[0]


@pytest.mark.parametrize(
    "read",
    [
        lambda bus: bus.last(subjects.OFFICE, TASK),
        lambda bus: bus.request(subjects.position(subjects.OFFICE, "engineer")),
    ],
    ids=["last", "position"],
)
async def test_what_only_reads_is_asked_again(
    server: Server, read: Callable[[Bus], Awaitable[object]]
) -> None:
    bus = await server.connect("engineer")
    await bus.store(TASK, b"x")
    outcome = await kill_before_the_answer(server, read(bus))
    assert outcome is not None
    assert not isinstance(outcome, BaseException)


async def test_what_changes_something_is_not_sent_again(server: Server) -> None:
    """Whether it was stored is not known; whoever sends it again, under the same id, decides when."""
    bus = await server.connect("engineer")
    begun = time.monotonic()
    outcome = await kill_before_the_answer(server, bus.store(TASK, b"x", timeout=1.0))
    assert isinstance(outcome, BusUnavailable)
    assert "within 1 s" in str(outcome)
    assert time.monotonic() - begun >= 1.0
    stored = await bus.last(subjects.OFFICE, TASK)
    assert stored is None or stored.seq == 1


async def test_a_request_waits_for_no_server_longer_than_it_may(server: Server) -> None:
    bus = await server.connect("engineer")
    server.kill()
    begun = time.monotonic()
    with pytest.raises(BusUnavailable, match="within 1 s"):
        await bus.request(subjects.position(subjects.OFFICE, "engineer"), timeout=1.0)
    assert time.monotonic() - begun < QUICK
    await server.restart()
    await eventually(lambda: bus.connected)
