"""Lanes: which message has the next free slot of a consumer of several durables, and in which process."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import cast

import pytest

from shared import subjects
from shared.bus import Bus, Delivery, Entry, pulls
from shared.bus.client import BusClient
from shared.bus.consumer import PATIENCE, Consumer
from shared.bus.pulls import PROBE_WAIT, SHARE, Lane, Pull, choose, take
from tests.bus.conftest import ACK_WAIT, consume
from tests.support.server import Server
from tests.support.waiting import eventually

SENDERS = {"urgent": "conductor", "medium": "critic", "low": "nexus"}
"""Each lane of these tests has a sender of its own, and takes the mail of it."""
LANES = tuple(SENDERS)


class Office:
    """A server with a durable for each lane."""

    def __init__(self, server: Server, admin: Bus, senders: dict[str, Bus]) -> None:
        self._server, self._admin, self._senders = server, admin, senders

    async def send(self, lane: str, *bodies: str) -> None:
        entries = [
            Entry(f"mail.engineer.{SENDERS[lane]}", body.encode(), f"{lane}-{body}") for body in bodies
        ]
        await self._senders[lane].commit(entries)

    async def consume(
        self,
        handler: Callable[[Delivery], Awaitable[None]],
        *,
        concurrency: int = 1,
        durables: tuple[str, ...] = LANES,
    ) -> Consumer:
        """Handle what comes in all lanes, in a process of its own."""
        bus = await self._server.connect(subjects.ADMIN)
        return await consume(bus, handler, concurrency=concurrency, durables=durables)

    async def make(self, lane: str) -> None:
        config = {
            "durable_name": lane,
            "filter_subjects": [f"mail.engineer.{SENDERS[lane]}"],
            "ack_policy": "explicit",
            "ack_wait": int(ACK_WAIT * 1e9),
        }
        request = json.dumps({"stream_name": subjects.OFFICE, "config": config}).encode()
        await self._ask(f"DURABLE.CREATE.{subjects.OFFICE}.{lane}", request)

    async def delete(self, lane: str) -> None:
        await self._ask(f"DELETE.{subjects.OFFICE}.{lane}")

    async def _ask(self, verb: str, request: bytes = b"") -> None:
        answer = await self._admin.request(f"$JS.API.CONSUMER.{verb}", request)
        assert "error" not in json.loads(answer)


async def ignore(*_: object) -> None:
    """What nothing is to be done with."""


@pytest.fixture
async def office(server: Server) -> Office:
    admin = await server.connect(subjects.ADMIN)
    office = Office(server, admin, {lane: await server.connect(sender) for lane, sender in SENDERS.items()})
    for lane in LANES:
        await office.make(lane)
    return office


@pytest.mark.parametrize("seconds", [0.02, 2 * PATIENCE])
async def test_what_is_urgent_is_begun_next_whatever_was_sent_before(office: Office, seconds: float) -> None:
    begun: list[str] = []

    async def handle(delivery: Delivery) -> None:
        begun.append(delivery.data.decode())
        if begun == ["low 0", "low 1"]:
            await office.send("urgent", "urgent")
        await asyncio.sleep(seconds)

    await office.consume(handle)
    await office.send("low", *(f"low {n}" for n in range(8)))
    await eventually(lambda: len(begun) >= 4, timeout=10)
    assert begun[:4] == ["low 0", "low 1", "urgent", "low 2"]


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_no_lane_starves_and_the_highest_has_the_rest(office: Office, concurrency: int) -> None:
    begun: list[str] = []

    async def handle(delivery: Delivery) -> None:
        begun.append(delivery.data.decode())

    for lane, count in (("low", 5), ("medium", 5), ("urgent", 70)):
        await office.send(lane, *(f"{lane} {n}" for n in range(count)))
    await office.consume(handle, concurrency=concurrency)
    await eventually(lambda: len(begun) == 80)
    lanes = [body.split()[0] for body in begun]
    for lane, most in (("low", SHARE), ("medium", SHARE + 1)):
        places = [place for place, other in enumerate(lanes[:75]) if other == lane]
        assert max(after - before for before, after in pairwise([-1, *places])) <= most
        assert len(places) >= 3
    assert lanes[:60].count("urgent") >= 53


def test_the_highest_lane_of_the_conductor_has_half_of_the_slots_though_all_others_are_full() -> None:
    names = (*subjects.mailboxes(subjects.CONDUCTOR), subjects.timers_durable(subjects.CONDUCTOR))
    lanes = [Lane(Pull(cast(BusClient, None), subjects.OFFICE, name, ignore, ignore)) for name in names]
    given: list[str] = []
    for _ in range(400):
        for lane in lanes:
            lane.put(cast(Delivery, None))
        lane = choose(lanes)
        assert lane is not None
        take(lane, lanes)
        given.append(lane.pull.durable)
    assert given[100:].count(subjects.CONDUCTOR) >= 0.4 * 300
    assert min(given.count(name) for name in names) >= 400 / SHARE - 2


async def test_messages_of_one_lane_keep_their_order(office: Office) -> None:
    begun: list[str] = []

    async def handle(delivery: Delivery) -> None:
        begun.append(delivery.data.decode())

    await office.send("medium", *(f"{n:03}" for n in range(200)))
    await office.consume(handle)
    await eventually(lambda: len(begun) == 200)
    assert begun == sorted(begun)


async def test_nothing_waits_in_a_busy_process_while_another_is_idle(office: Office) -> None:
    sent: dict[str, float] = {}
    waited: dict[str, float] = {}
    busy, over = asyncio.Event(), asyncio.Event()

    async def hang(delivery: Delivery) -> None:
        busy.set()
        await over.wait()

    async def handle(delivery: Delivery) -> None:
        body = delivery.data.decode()
        waited[body] = time.monotonic() - sent[body]

    async def send(lane: str, body: str) -> None:
        sent[body] = time.monotonic()
        await office.send(lane, body)

    await office.consume(hang)
    await office.send("low", "long work")
    await busy.wait()
    await send("medium", "early")  # the busy process has asked for this lane, and may get it
    await office.consume(handle)
    await asyncio.sleep(3 * PATIENCE)
    for number in range(30):
        await send(LANES[number % len(LANES)], f"late {number}")
    await eventually(lambda: len(waited) == 31)
    over.set()
    assert waited.pop("early") < 4 * PATIENCE
    assert max(waited.values()) < PATIENCE


async def test_processes_share_what_waits_in_all_lanes(office: Office) -> None:
    taken: dict[str, list[str]] = {"a": [], "b": []}
    ended: list[float] = []

    def worker(name: str) -> Callable[[Delivery], Awaitable[None]]:
        async def handle(delivery: Delivery) -> None:
            taken[name].append(delivery.data.decode())
            await asyncio.sleep(0.01)
            ended.append(time.monotonic())

        return handle

    for lane in LANES:
        await office.send(lane, *(f"{lane} {n}" for n in range(60)))
    for name in taken:
        await office.consume(worker(name), concurrency=2)
    await eventually(lambda: len(ended) >= 180)
    assert sorted(taken["a"] + taken["b"]) == sorted(f"{lane} {n}" for lane in LANES for n in range(60))
    assert min(map(len, taken.values())) >= 50
    assert max(after - before for before, after in pairwise(ended)) < 2 * PROBE_WAIT


async def test_what_was_handed_back_is_begun_when_a_slot_is_free(office: Office) -> None:
    """A single process has nobody to hand its messages to, and does not lose or forget them."""
    begun: list[tuple[str, int]] = []

    async def handle(delivery: Delivery) -> None:
        begun.append((delivery.data.decode(), delivery.deliveries))
        await asyncio.sleep(3 * PATIENCE)

    await office.consume(handle)
    await office.send("low", "first")
    await eventually(lambda: len(begun) == 1)
    await office.send("medium", "second")
    await office.send("low", "third")
    await eventually(lambda: len(begun) == 3)
    assert [body for body, _ in begun] == ["first", "second", "third"]
    assert max(deliveries for _, deliveries in begun) <= 2


async def test_a_lane_that_the_server_refuses_does_not_hold_up_the_others(office: Office) -> None:
    begun: list[str] = []

    async def handle(delivery: Delivery) -> None:
        begun.append(delivery.data.decode())

    await office.consume(handle, durables=("gone", "urgent", "low"))
    await office.send("low", *(f"low {n}" for n in range(20)))
    await office.send("urgent", "urgent")
    await eventually(lambda: len(begun) == 21, timeout=5)


async def test_lanes_are_pulled_again_after_the_server_was_killed(server: Server, office: Office) -> None:
    begun: set[str] = set()

    async def handle(delivery: Delivery) -> None:
        begun.add(delivery.data.decode())

    await office.consume(handle)
    await office.send("low", "before")
    await eventually(lambda: "before" in begun)
    server.kill()
    await server.restart()
    for lane in LANES:
        await office.send(lane, lane)
    await eventually(lambda: begun >= set(LANES), timeout=10)


async def test_stopping_hands_back_what_waits_in_every_lane(office: Office) -> None:
    begun = asyncio.Event()

    async def hang(delivery: Delivery) -> None:
        begun.set()
        await asyncio.sleep(60)

    first = await office.consume(hang)
    await office.send("low", "running")
    await begun.wait()
    for lane in LANES:
        await office.send(lane, f"waiting {lane}")
    await first.stop(grace=0)
    taken: set[str] = set()

    async def handle(delivery: Delivery) -> None:
        taken.add(delivery.data.decode())

    since = time.monotonic()
    await office.consume(handle)
    await eventually(lambda: len(taken) == 4)
    assert time.monotonic() - since < 0.8 * ACK_WAIT  # before the server delivers them again by itself


async def test_a_process_whose_durable_is_gone_or_whose_server_is_silent_does_not_pull(
    office: Office, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the health check of a container and the readiness of a pod see, although the connection is up."""
    monkeypatch.setattr(pulls, "TOLD_AFTER", 0.3)
    monkeypatch.setattr(pulls, "HEARTBEAT", 0.2)
    bus = await server.connect(subjects.ADMIN)
    consumer = await consume(bus, ignore, durables=LANES)
    assert bus.pulling
    await asyncio.sleep(1)  # of standing requests the server tells every 0.2 s that it has them
    assert bus.pulling
    await office.delete("medium")
    await eventually(lambda: not bus.pulling)
    await consumer.pause(paused=True)  # it takes messages of the first durable alone
    assert bus.pulling
    await consumer.pause(paused=False)
    assert not bus.pulling
    await office.make("medium")
    await eventually(lambda: bus.pulling)
    await server.freeze()
    assert bus.connected
    await eventually(lambda: not bus.pulling)
    await server.restart()
    await eventually(lambda: bus.pulling)
