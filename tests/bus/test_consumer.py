"""Verdicts: what becomes of a delivery whose handler returns, raises, hangs or is cut off."""

import asyncio
import time
from contextvars import ContextVar

from shared.bus import Delivery, Entry
from shared.bus.consumer import yield_slot
from shared.errors import Conflict, Reject, Retry, TakenOver
from tests.bus.conftest import ACK_WAIT, consume, pull_one
from tests.support.server import Server
from tests.support.waiting import eventually


async def send(server: Server, *bodies: str) -> None:
    conductor = await server.connect("conductor")
    entries = [
        Entry("mail.engineer.conductor", body.encode(), f"m-{body}-{time.time_ns()}") for body in bodies
    ]
    for start in range(0, len(entries), 500):
        await conductor.commit(entries[start : start + 500])


async def test_handled_messages_do_not_come_back(server: Server) -> None:
    seen: list[bytes] = []

    async def handle(delivery: Delivery) -> None:
        seen.append(delivery.data)

    await consume(await server.connect("engineer"), handle)
    await send(server, *(str(n) for n in range(300)))
    await eventually(lambda: len(seen) >= 300)
    await asyncio.sleep(2 * ACK_WAIT)
    assert sorted(seen) == sorted(str(n).encode() for n in range(300))


async def test_retry_comes_back_after_its_delay(server: Server) -> None:
    times: list[float] = []

    async def handle(delivery: Delivery) -> None:
        times.append(time.monotonic())
        if len(times) < 3:
            raise Retry("not yet", delay=0.3)

    await consume(await server.connect("engineer"), handle)
    await send(server, "x")
    await eventually(lambda: len(times) == 3)
    assert times[1] - times[0] >= 0.29


async def test_unforeseen_errors_are_tried_again_later_and_later_then_buried(server: Server) -> None:
    times: list[float] = []
    buried: list[str] = []

    async def handle(delivery: Delivery) -> None:
        times.append(time.monotonic())
        raise ZeroDivisionError("oops")

    await consume(await server.connect("engineer"), handle, buried=buried, max_attempts=3)
    await send(server, "x")
    await eventually(lambda: bool(buried))
    await asyncio.sleep(2 * ACK_WAIT)
    assert len(times) == 3
    assert times[2] - times[1] > times[1] - times[0]
    assert "ZeroDivisionError: oops" in buried[0]


async def test_reject_buries_at_once(server: Server) -> None:
    buried: list[str] = []
    seen: list[int] = []

    async def handle(delivery: Delivery) -> None:
        seen.append(delivery.seq)
        raise Reject("no use for it")

    await consume(await server.connect("engineer"), handle, buried=buried)
    await send(server, "x")
    await eventually(lambda: bool(buried))
    await asyncio.sleep(1.5 * ACK_WAIT)
    assert buried == ["no use for it"]
    assert len(seen) == 1


async def test_a_lost_race_is_never_a_reason_to_bury(server: Server) -> None:
    tries = 0
    buried: list[str] = []

    async def handle(delivery: Delivery) -> None:
        nonlocal tries
        tries += 1
        if tries < 8:
            raise Conflict("lost")

    await consume(await server.connect("engineer"), handle, buried=buried, max_attempts=5)
    await send(server, "x")
    await eventually(lambda: tries == 8)
    assert buried == []


async def test_slow_work_is_not_handed_out_twice(server: Server) -> None:
    begun: list[int] = []
    ended = asyncio.Event()

    async def handle(delivery: Delivery) -> None:
        begun.append(delivery.seq)
        await asyncio.sleep(3 * ACK_WAIT)
        ended.set()

    await consume(await server.connect("engineer"), handle)
    await send(server, "x")
    async with asyncio.timeout(10):
        await ended.wait()
    await asyncio.sleep(ACK_WAIT)
    assert len(begun) == 1


async def test_stopping_hands_back_what_is_unfinished_at_once(server: Server) -> None:
    started = asyncio.Event()

    async def hang(delivery: Delivery) -> None:
        started.set()
        await asyncio.sleep(60)

    first = await consume(await server.connect("engineer"), hang, concurrency=1)
    await send(server, "x", "y")
    await started.wait()
    taken: list[bytes] = []

    async def handle(delivery: Delivery) -> None:
        taken.append(delivery.data)

    await consume(await server.connect("engineer"), handle)
    await eventually(lambda: len(taken) == 1)
    begun = time.monotonic()
    await first.stop(grace=0.1)
    await eventually(lambda: len(taken) == 2)
    assert time.monotonic() - begun < ACK_WAIT


async def test_stopping_lets_running_handlers_end_within_the_grace(server: Server) -> None:
    ended: list[bytes] = []
    started = asyncio.Event()

    async def handle(delivery: Delivery) -> None:
        started.set()
        await asyncio.sleep(0.2)
        ended.append(delivery.data)

    consumer = await consume(await server.connect("engineer"), handle, concurrency=1)
    await send(server, "x")
    await started.wait()
    await consumer.stop(grace=2)
    assert ended == [b"x"]


async def test_pulls_go_on_after_the_server_was_killed(server: Server) -> None:
    seen: set[bytes] = set()

    async def handle(delivery: Delivery) -> None:
        seen.add(delivery.data)

    await consume(await server.connect("engineer"), handle)
    await send(server, "before")
    await eventually(lambda: b"before" in seen)
    server.kill()
    await server.restart()
    await send(server, "after")
    await eventually(lambda: b"after" in seen, timeout=10)


async def test_replicas_share_the_work_and_none_hoards_it(server: Server) -> None:
    taken: dict[str, int] = {"a": 0, "b": 0}

    def worker(name: str):
        async def handle(delivery: Delivery) -> None:
            taken[name] += 1
            await asyncio.sleep(0.05)

        return handle

    for name in taken:
        await consume(await server.connect("engineer"), worker(name), concurrency=2)
    await send(server, *(str(n) for n in range(40)))
    await eventually(lambda: sum(taken.values()) == 40)
    assert min(taken.values()) >= 10


async def test_a_process_that_always_dies_with_a_message_does_not_get_it_for_ever(server: Server) -> None:
    """The deliveries of a process that is killed each time are counted by the server alone."""
    await send(server, "poison")
    bus = await server.connect("engineer")
    for _ in range(4):
        assert await pull_one(server, "engineer") == b"poison"
        await asyncio.sleep(ACK_WAIT * 1.1)
    buried: list[str] = []
    ran: list[bytes] = []

    async def handle(delivery: Delivery) -> None:
        ran.append(delivery.data)

    await consume(bus, handle, buried=buried, max_attempts=2)
    await eventually(lambda: bool(buried), timeout=10)
    assert "never finished" in buried[0]
    assert ran == []


async def test_what_another_has_taken_over_is_neither_acknowledged_nor_handed_back(server: Server) -> None:
    times: list[float] = []

    async def handle(delivery: Delivery) -> None:
        times.append(time.monotonic())
        if len(times) == 1:
            raise TakenOver("another works on it")

    await consume(await server.connect("engineer"), handle)
    await send(server, "x")
    await eventually(lambda: len(times) == 2)
    assert times[1] - times[0] > ACK_WAIT * 0.8


async def test_who_yields_its_slot_lends_the_next_handler_nothing(server: Server) -> None:
    """What a handler has set for itself, such as what is asked before its effects, is its own."""
    own: ContextVar[str] = ContextVar("own", default="")
    seen: list[str] = []
    both = asyncio.Event()

    async def handle(delivery: Delivery) -> None:
        seen.append(own.get())
        own.set(delivery.data.decode())
        if len(seen) == 2:
            both.set()
        await consumer.reconnected()  # what comes next comes by a request of this handler
        async with yield_slot():
            await both.wait()

    consumer = await consume(await server.connect("engineer"), handle, concurrency=1)
    await send(server, "a", "b")
    await eventually(both.is_set)
    assert seen == ["", ""]
