"""The lease over a real server: one holder, a takeover after its end, and a holder that was frozen."""

import asyncio
import os
import signal
import subprocess
import sys

import msgspec
import pytest

from shared import subjects
from shared.bus import Bus
from shared.bus.lease import Lease
from shared.bus.peers import Holder, Peers
from shared.errors import BusUnavailable
from tests.support.server import Server
from tests.support.waiting import eventually

HERE = Holder(instance="first", host="here", space="", pid=os.getpid())
THERE = Holder(instance="second", host="there", space="", pid=1)


async def ignore(holder: Holder) -> None:
    pass


async def test_the_second_waits_until_the_first_lets_go(server: Server) -> None:
    bus = await server.connect("memory")
    first, second = Lease(bus, "memory", HERE), Lease(bus, "memory", THERE)
    waited_for: list[Holder] = []

    async def waiting(holder: Holder) -> None:
        waited_for.append(holder)

    await first.acquire(waiting)
    taking = asyncio.create_task(second.acquire(waiting))
    await eventually(lambda: waited_for == [HERE])
    assert not taking.done()
    await first.release()
    await asyncio.wait_for(taking, 5)
    assert waited_for == [HERE]
    await second.release()


async def test_one_that_was_killed_on_this_host_is_followed_at_once(server: Server) -> None:
    bus = await server.connect("memory")
    gone = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", "import time; time.sleep(60)"]
    )
    dead = Lease(bus, "memory", msgspec.structs.replace(Holder.this("dead"), pid=gone.pid))
    await dead.acquire(ignore)
    gone.send_signal(signal.SIGKILL)
    gone.wait()
    follower = Lease(bus, "memory", Holder.this("follower"))
    await asyncio.wait_for(follower.acquire(ignore), 2)
    await dead.release()
    await follower.release()


async def test_one_that_was_killed_elsewhere_is_followed_once_its_connection_is_gone(server: Server) -> None:
    first, bus = await server.connect("memory"), await server.connect("memory")
    await Peers(first, []).answer()
    dead = Lease(first, "memory", msgspec.structs.replace(THERE, instance=first.instance))
    await dead.acquire(ignore)
    taking = asyncio.create_task(Lease(bus, "memory", Holder.this(bus.instance)).acquire(ignore))
    await asyncio.sleep(4)
    assert not taking.done()
    await first._client.close()
    await asyncio.wait_for(taking, 5)


async def test_a_holder_whose_connection_was_lost_looks_at_once_whether_it_still_has_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.bus.lease.RENEW", 60.0)
    bus = await server.connect("memory")
    lease = Lease(bus, "memory", HERE)
    await lease.acquire(ignore)
    first = await position(bus)
    server.kill()
    await eventually(lambda: not bus.connected)
    await asyncio.sleep(0.3)
    await server.restart()

    async def renewed() -> bool:
        return bus.connected and await position(bus) > first

    await eventually(renewed, 5)
    await lease.release()


async def position(bus: Bus) -> int:
    """The sequence of the lease's entry."""
    stored = await bus.last("KV_leases", subjects.lease("memory"))
    assert stored
    return stored.seq


async def test_a_holder_that_slept_too_long_finds_it_lost(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.bus.lease.RENEW", 0.2)
    bus = await server.connect("memory")
    lease = Lease(bus, "memory", HERE)
    await lease.acquire(ignore)
    await bus.store(subjects.lease("memory"), msgspec.json.encode(THERE))
    await asyncio.wait_for(lease.lost.wait(), 5)
    assert (await bus.last("KV_leases", subjects.lease("memory"))).data == msgspec.json.encode(THERE)  # type: ignore[union-attr]
    await lease.release()


async def test_of_many_that_want_it_one_gets_it(server: Server) -> None:
    bus = await server.connect("memory")
    leases = [
        Lease(bus, "memory", msgspec.structs.replace(THERE, instance=f"i{index}")) for index in range(8)
    ]
    takings = [asyncio.create_task(lease.acquire(ignore)) for lease in leases]
    await eventually(lambda: any(taking.done() for taking in takings))
    await asyncio.sleep(0.3)
    assert sum(taking.done() for taking in takings) == 1
    for taking in takings:
        taking.cancel()
    await asyncio.gather(*takings, return_exceptions=True)
    for lease in leases:
        await lease.release()


async def test_who_asks_is_told_by_the_broker(server: Server) -> None:
    memory, engineer, user = [await server.connect(name) for name in ("memory", "engineer", "user")]

    async def add(data: bytes, asker: str) -> bytes:
        return b"%s says %s" % (asker.encode(), data)

    await memory.serve("memory", "0.0.0", "remembers", {}, {"add": add})
    for bus in (engineer, user):
        assert await bus.request("memory.add", b"x") == b"%s says x" % bus.name.encode()


async def test_nobody_asks_in_another_name(server: Server) -> None:
    memory, engineer = await server.connect("memory"), await server.connect("engineer")
    asked: list[str] = []

    async def add(data: bytes, asker: str) -> bytes:
        asked.append(asker)
        return b""

    await memory.serve("memory", "0.0.0", "remembers", {}, {"add": add})
    await engineer.publish("memory.add.user", b"forged")
    await asyncio.sleep(0.3)
    assert asked == []


async def test_one_that_answers_nothing_is_followed_by_who_is_level(server: Server) -> None:
    """It keeps its connection, as a process does that is frozen; it has answered before."""
    first, bus = await server.connect("memory"), await server.connect("memory")
    held = Lease(first, "memory", msgspec.structs.replace(THERE, instance=first.instance))
    await Peers(first, []).answer()
    await held.acquire(ignore)
    follower = Lease(bus, "memory", Holder.this(bus.instance), silent=0.5)
    assert (await follower.acquire_or_find()).instance == first.instance  # type: ignore[union-attr]
    level = False
    taking = asyncio.create_task(follower.acquire(ignore, lambda: level))
    await asyncio.sleep(1.5)
    assert not taking.done()  # it answers

    async def ask(instance: str, _: float = 0.0) -> bytes:
        await asyncio.sleep(0.2)
        raise BusUnavailable("No answer")

    follower._liveness.ask = ask  # type: ignore[method-assign]
    await asyncio.sleep(1.5)
    assert not taking.done()  # who is behind does not take it
    level = True
    await asyncio.wait_for(taking, 5)
    await held.release()
    await follower.release()


async def test_a_holder_that_was_frozen_does_not_go_on_before_it_has_asked(server: Server) -> None:
    bus = await server.connect("memory")
    lease = Lease(bus, "memory", HERE)
    await lease.acquire(ignore)
    await asyncio.wait_for(lease.confirm(), 5)
    await bus.store(subjects.lease("memory"), msgspec.json.encode(THERE))
    await asyncio.wait_for(lease.confirm(), 5)  # relied on for a second, in which nobody takes it
    lease._confirmed -= 1.0
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(lease.confirm(), 1)
    assert lease.lost.is_set()
    await lease.release()
