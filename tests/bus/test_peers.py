"""What a dead process had in hand comes to a living one at once, and nothing of a living one's is touched."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest

from shared import subjects
from shared.bus import Bus, Delivery
from shared.bus.consumer import Consumer
from shared.bus.peers import INTERVAL, Holder, Peers
from shared.contracts import Presence
from shared.errors import BusUnavailable, Retry
from tests.bus.conftest import AGENTS, consume, pull_one
from tests.support.server import Server
from tests.support.waiting import eventually

QUICK = 3.0
"""Seconds within which what is left must be back; the durables' ack_wait is ten times as long."""
AGENT = "engineer"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path, AGENTS, MAILROOM_TASK_ACK_WAIT="30")
    try:
        await server.start()
        yield server
    finally:
        await server.close()


class Process:
    """What a process of the agent does on the bus; ``got`` are the messages it was given.

    It finishes none of them before ``released`` is set.
    """

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.got: list[Delivery] = []
        self.released = asyncio.Event()
        self.consumers: list[Consumer] = []
        self.peers = Peers(bus, self.consumers)
        self._watching: asyncio.Task[None] | None = None

    @classmethod
    async def start(cls, server: Server, *, pid: int = 0, host: str = "", silent: bool = False) -> "Process":
        """One on this machine; or, with ``host``, on another. A ``silent`` one answers no other process."""
        process = cls(await server.connect(AGENT))
        here = Holder.this(process.bus.instance)
        presence = Presence(
            sender=AGENT,
            agent=AGENT,
            instance=here.instance,
            version="1",
            host=host or here.host,
            space=here.space,
            pid=pid or os.getppid(),
        )
        if silent:
            subject = subjects.peer(AGENT, here.instance)
            await process.bus.subscribe(subject, process._ignore)
        else:
            await process.peers.answer()
        await process.bus.store(subjects.presence(AGENT, here.instance), presence.to_json())
        process.consumers.append(await consume(process.bus, process._handle))
        return process

    async def _ignore(self, *_: object) -> None:
        pass

    async def _handle(self, delivery: Delivery) -> None:
        self.got.append(delivery)
        await self.released.wait()

    def watch(self) -> None:
        self._watching = asyncio.create_task(self.peers.watch())

    async def die(self) -> None:
        """End without a word to the server, as by kill -9."""
        await self.bus._client.close()
        await self.bus.close()

    async def stop(self) -> None:
        self.released.set()
        if self._watching is not None:
            assert not self._watching.done() or self._watching.result()
            self._watching.cancel()


def bodies(process: Process) -> list[bytes]:
    return sorted(delivery.data for delivery in process.got)


async def send(server: Server, *texts: str) -> None:
    async with server.connection("conductor") as conductor:
        for text in texts:
            await conductor.store(subjects.mail(AGENT, "conductor"), text.encode())


@pytest.fixture
def ended() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


async def test_what_a_dead_process_had_in_hand_comes_to_the_one_that_is_started(
    server: Server, ended: int
) -> None:
    dead = await Process.start(server, pid=ended)
    await send(server, "one", "two")
    await eventually(lambda: len(dead.got) == 2)
    await dead.die()
    started = await Process.start(server)
    started.watch()
    await eventually(lambda: bodies(started) == [b"one", b"two"], QUICK)
    assert [delivery.deliveries for delivery in started.got] == [2, 2]
    await started.stop()


async def test_it_comes_to_one_that_was_there(server: Server, ended: int) -> None:
    dead = await Process.start(server, pid=ended, host="")
    await send(server, "one")
    await eventually(lambda: dead.got)
    living = await Process.start(server)
    await dead.die()
    living.watch()
    await eventually(lambda: bodies(living) == [b"one"], QUICK)
    await living.stop()


async def test_what_a_second_one_took_over_and_could_not_hand_back_comes_to_the_third(
    server: Server, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = await Process.start(server, pid=ended)
    await send(server, "one")
    await eventually(lambda: dead.got)
    await dead.die()
    second = await Process.start(server, pid=ended)
    taken = asyncio.Event()

    async def hang(gone: Sequence[str]) -> None:
        assert list(gone) == [dead.bus.instance]
        taken.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(second.peers, "_return_unfinished", hang)
    monkeypatch.setattr(second.peers, "_here", msgspec.structs.replace(second.peers._here, pid=ended))
    second.watch()
    await asyncio.wait_for(taken.wait(), QUICK)
    await second.stop()
    await second.die()
    third = await Process.start(server)
    third.watch()
    await eventually(lambda: bodies(third) == [b"one"], QUICK)
    await third.stop()


async def test_it_is_handed_back_though_the_server_does_not_answer_at_first(
    server: Server, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = await Process.start(server, pid=ended)
    await send(server, "one")
    await eventually(lambda: dead.got)
    await dead.die()
    started = await Process.start(server)
    ask, failures = started.peers._state, iter([1])

    async def fail_once(stream: str, durable: str) -> object:
        if next(failures, None):
            raise BusUnavailable("No answer")
        return await ask(stream, durable)

    monkeypatch.setattr(started.peers, "_state", fail_once)
    started.watch()
    await eventually(lambda: bodies(started) == [b"one"], QUICK)
    await started.stop()


async def test_what_a_living_process_has_in_hand_stays_there(server: Server, ended: int) -> None:
    living, dead = await Process.start(server), await Process.start(server, pid=ended)
    await send(server, *(f"{number}" for number in range(8)))
    await eventually(lambda: len(living.got) + len(dead.got) == 8)
    before, left = bodies(living), bodies(dead)
    assert before
    assert left
    await dead.die()
    started = await Process.start(server)
    started.watch()
    await eventually(lambda: set(bodies(started)) == set(left), QUICK)
    await asyncio.sleep(0.5)
    assert (bodies(living), bodies(started)) == (before, left)
    await asyncio.gather(living.stop(), started.stop())


async def test_of_several_survivors_one_hands_it_back(server: Server, ended: int) -> None:
    dead = await Process.start(server, pid=ended)
    await send(server, "one", "two", "three")
    await eventually(lambda: len(dead.got) == 3)
    others = [await Process.start(server) for _ in range(3)]
    await dead.die()
    for other in others:
        other.watch()
    await eventually(lambda: sum(len(other.got) for other in others) == 3, QUICK)
    await asyncio.sleep(2.5)
    assert sorted(body for other in others for body in bodies(other)) == [b"one", b"three", b"two"]
    await asyncio.gather(*(other.stop() for other in others))


async def test_a_dead_process_of_another_machine_is_known_by_its_connection(server: Server) -> None:
    dead = await Process.start(server, host="elsewhere")
    await send(server, "one")
    await eventually(lambda: dead.got)
    living = await Process.start(server)
    living.watch()
    await asyncio.sleep(1.5)
    assert not living.got
    await dead.die()
    await eventually(lambda: bodies(living) == [b"one"], QUICK + 1)
    await living.stop()


async def test_one_that_runs_here_and_lost_its_connection_counts_as_there(server: Server) -> None:
    cut_off = await Process.start(server, pid=os.getppid())
    await send(server, "one")
    await eventually(lambda: cut_off.got)
    await cut_off.die()
    living = await Process.start(server)
    living.watch()
    await asyncio.sleep(4)
    assert not living.got
    await living.stop()


async def test_a_frozen_process_counts_as_there(server: Server) -> None:
    frozen = await Process.start(server, host="elsewhere", silent=True)
    await send(server, "one")
    await eventually(lambda: frozen.got)
    living = await Process.start(server)
    living.watch()
    await asyncio.sleep(3.5)
    assert not living.got
    assert await present(living.bus) == {frozen.bus.instance, living.bus.instance}
    await asyncio.gather(frozen.stop(), living.stop())


async def test_one_that_starts_alone_needs_no_presence(server: Server, ended: int) -> None:
    dead = await Process.start(server, pid=ended)
    await send(server, "one")
    await eventually(lambda: dead.got)
    subject = subjects.presence(AGENT, dead.bus.instance)
    await dead.bus.store(subject, b"", headers={"KV-Operation": "DEL"})
    await dead.die()
    started = await Process.start(server)
    started.watch()
    await eventually(lambda: bodies(started) == [b"one"], QUICK)
    await started.stop()


async def test_the_directory_forgets_a_dead_process(server: Server, ended: int) -> None:
    dead = await Process.start(server, pid=ended)
    await dead.die()
    living = await Process.start(server)
    living.watch()

    async def forgotten() -> bool:
        return await present(living.bus) == {living.bus.instance}

    await eventually(forgotten, QUICK)
    await living.stop()


async def present(bus: Bus) -> set[str]:
    request = {"multi_last": [subjects.presence(AGENT, "*")], "batch": 100}
    stream = subjects.bucket_stream(subjects.AGENTS_BUCKET)
    return {stored.subject.rpartition(".")[2] async for stored in bus.read(stream, request) if stored.data}


async def drop_requests(process: Process) -> None:
    """Take the requests back, and make new ones, as a process does that was full or blocked."""
    consumer = process.consumers[0]
    await asyncio.wait([lane.pull.drop() for lane in consumer._lanes])
    await consumer._advance()


async def test_what_was_sent_while_requests_were_taken_back_comes_at_once(server: Server) -> None:
    # Between accounts the server counts such a message as delivered; so does it what another client pulled.
    await send(server, "lost", "lost too")
    assert sorted([await pull_one(server, AGENT), await pull_one(server, AGENT)]) == [b"lost", b"lost too"]
    process = await Process.start(server)
    await process.peers.return_lost()
    assert process.got == []
    await drop_requests(process)
    process.watch()
    await eventually(lambda: bodies(process) == [b"lost", b"lost too"], QUICK)
    await drop_requests(process)
    await asyncio.sleep(2 * INTERVAL)
    assert [delivery.deliveries for delivery in process.got] == [2, 2]
    await process.stop()


async def test_what_is_to_come_later_is_not_taken_for_lost(server: Server) -> None:
    process = await Process.start(server)
    tried: list[bytes] = []

    async def fail(delivery: Delivery) -> None:
        tried.append(delivery.data)
        raise Retry("not yet", 20.0)

    process.consumers[0]._handler = fail
    process.watch()
    await send(server, "later")
    await eventually(lambda: tried == [b"later"], QUICK)
    await drop_requests(process)
    await asyncio.sleep(2 * INTERVAL)
    assert tried == [b"later"]
    await process.stop()
