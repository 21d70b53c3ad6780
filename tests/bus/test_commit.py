"""Atomic commits: all or none, compare-and-set, grouped, and stored once however often they are sent."""

import asyncio
import contextlib
import json
import signal
import time

import pytest

from shared import subjects
from shared.bus import Bus, Delivery
from shared.bus.claim import claim
from shared.bus.consumer import ConsumerConfig
from shared.bus.entry import Entry, seal
from shared.bus.records import submission_entry
from shared.contracts import Email, Task
from shared.errors import BusError, BusFull, BusUnavailable, Conflict, Denied
from tests.bus.conftest import server_in
from tests.support.server import Server
from tests.support.waiting import eventually


def entry(number: int, subject: str = "mail.critic.engineer", expect: int | None = None) -> Entry:
    return Entry(subject, b"%d" % number, f"id-{number}", expect)


async def count(server: Server, subject: str = "mail.critic.engineer") -> int:
    admin = await server.connect(subjects.ADMIN)
    info = json.loads(
        await admin.request("$JS.API.STREAM.INFO.OFFICE", json.dumps({"subjects_filter": ">"}).encode())
    )
    return int((info["state"].get("subjects") or {}).get(subject, 0))


async def test_sequences_are_those_of_the_stream(server: Server) -> None:
    bus = await server.connect("engineer")
    first = await bus.commit([entry(1), entry(2, "mail.user.engineer")])
    (second,) = await bus.commit([entry(3)])
    assert first[1] == first[0] + 1
    assert second > first[1]
    stored = await (await server.connect("user")).last(subjects.OFFICE, "mail.critic.engineer")
    assert stored is not None
    assert (stored.seq, stored.data) == (second, b"3")


async def test_a_lost_compare_refuses_the_whole_commit(server: Server) -> None:
    bus = await server.connect("engineer")
    state = "task.engineer.conductor.t1.noted"
    (seq,) = await bus.commit([entry(1, state, expect=0)])
    with pytest.raises(Conflict):
        await bus.commit([entry(2), entry(3, state, expect=0)])
    assert await count(server) == 0
    await bus.commit([entry(4), entry(5, state, expect=seq)])
    assert await count(server) == 1


async def test_grouped_commits_fail_one_by_one(server: Server) -> None:
    bus = await server.connect("engineer")
    commits = [
        bus.commit([entry(n, f"task.engineer.conductor.t{n % 50}.noted", expect=0), entry(1000 + n)])
        for n in range(100)
    ]
    results = await asyncio.gather(*commits, return_exceptions=True)
    assert sum(isinstance(result, Conflict) for result in results) == 50
    assert sum(isinstance(result, tuple) for result in results) == 50
    assert await count(server) == 50


async def test_concurrent_commits_share_a_batch(server: Server) -> None:
    bus = await server.connect("engineer")
    sequences = await asyncio.gather(*(bus.commit([entry(n)]) for n in range(500)))
    assert len({seq for (seq,) in sequences}) == 500
    user = await server.connect("user")
    batches = {
        m.headers.get("Nats-Batch-Id")
        async for m in user.read(subjects.OFFICE, {"seq": 1, "batch": 1000, "next_by_subj": ">"})
    }
    assert len(batches) < 50


async def test_the_same_commit_twice_is_stored_once(server: Server) -> None:
    bus = await server.connect("engineer")
    state = "task.engineer.conductor.t1.noted"
    first = await bus.commit([entry(1, state, expect=0), entry(2)])
    assert await bus.commit([entry(1, state, expect=0), entry(2)]) == first
    await bus.commit([entry(2)])
    await asyncio.gather(bus.commit([entry(2)]), bus.commit([entry(7)]))
    assert await count(server) == 2


async def test_a_commit_waits_for_a_server_that_is_away(server: Server) -> None:
    bus = await server.connect("engineer")
    await bus.commit([entry(1)])
    server.kill()
    waiting = [asyncio.create_task(bus.commit([entry(n), entry(100 + n)])) for n in range(2, 12)]
    await asyncio.sleep(0.3)
    assert not any(task.done() for task in waiting)
    await server.restart()
    async with asyncio.timeout(20):
        await asyncio.gather(*waiting)
    assert await count(server) == 21


async def test_kill_the_server_under_load(server: Server) -> None:
    """Nothing acknowledged is lost, and nothing is there twice."""
    bus = await server.connect("engineer")
    acknowledged: set[int] = set()

    async def write(number: int) -> None:
        await bus.commit(
            [entry(number, f"task.engineer.conductor.t{number}.noted", expect=0), entry(10_000 + number)]
        )
        acknowledged.add(number)

    writers = [asyncio.create_task(write(number)) for number in range(400)]
    for _ in range(2):
        await asyncio.sleep(0.02)
        server.kill()
        await server.restart()
    async with asyncio.timeout(60):
        await asyncio.gather(*writers)
    assert len(acknowledged) == 400
    user = await server.connect("user")
    stored = [
        int(m.data)
        async for m in user.read(subjects.OFFICE, {"seq": 1, "batch": 1000, "next_by_subj": "task.>"})
    ]
    assert sorted(stored) == list(range(400))
    assert await count(server) == 400


async def fill(admin: Bus, bus: Bus) -> None:
    """Leave no space, by a stream that can be deleted."""
    await admin.call("STREAM.CREATE.FILLER", {"name": "FILLER", "subjects": ["filler"], "storage": "file"})
    with contextlib.suppress(BusError):
        while True:
            await admin.store("filler", b"x" * 30_000)
    await bus.commit([Entry("mail.critic.engineer", b"x" * 50_000, "too large")])


async def test_a_full_store_says_so_and_recovers(tmp_path) -> None:
    server = server_in(tmp_path, MAILROOM_NATS_MAX_STORE=str(4_000_000))
    try:
        await server.start()
        bus, conductor = await server.connect("engineer"), await server.connect("conductor")
        tried, claims = [], []
        done, settled = asyncio.Event(), asyncio.Event()
        buried: list[str] = []

        async def handle(delivery: Delivery) -> None:
            if delivery.subject.startswith("task."):
                held = await claim(bus, delivery, Task.from_json(delivery.data))
                assert held
                claims.append(held.attempt)
                claimed.set()
                await full.wait()
                await held.finish(held.failure("It cannot be done"))
                settled.set()
                return
            await full.wait()
            tried.append(delivery.deliveries)
            await bus.commit([Entry("mail.critic.engineer", b"x" * 50_000, "answer")])
            done.set()

        async def bury(delivery: Delivery, reason: str) -> None:
            buried.append(reason)

        full, claimed = asyncio.Event(), asyncio.Event()
        await bus.consume(
            ConsumerConfig(
                stream=subjects.OFFICE,
                durables=tuple(subjects.mailboxes("engineer")),
                concurrency=2,
                ack_wait=1,
                max_attempts=1,
            ),
            handle,
            bury,
        )
        task = Task(task_id="sum", text="Add", assignee="engineer", requester="conductor")
        await conductor.commit([submission_entry(task)])
        await claimed.wait()
        await conductor.commit([Entry("mail.engineer.conductor", b"hello", "question")])
        admin = await server.connect("admin")
        with pytest.raises(BusFull, match="is full"):
            await fill(admin, bus)
        full.set()
        await eventually(lambda: bool(tried))
        await asyncio.sleep(0.2)
        assert not done.is_set()
        assert not settled.is_set()
        await admin.call("STREAM.DELETE.FILLER", {})
        await bus.commit([Entry("mail.critic.engineer", b"small", "small")])
        # What found no room waits for it, however few deliveries it has.
        await asyncio.wait_for(asyncio.gather(done.wait(), settled.wait()), 10)
        assert set(tried) == {1}
        assert claims == [1]
        assert not buried
    finally:
        await server.close()


async def test_too_large_a_commit_is_refused(server: Server) -> None:
    bus = await server.connect("engineer")
    with pytest.raises(BusError, match="limit"):
        await bus.commit([entry(n) for n in range(1001)])


async def test_an_envelope_is_its_own_message_id(server: Server) -> None:
    bus = await server.connect("engineer")
    letter = Email(sender="engineer", recipient="critic", body="hello")
    await bus.commit([seal("mail.critic.engineer", letter)])
    stored = await (await server.connect("user")).last(subjects.OFFICE, "mail.critic.engineer")
    assert stored is not None
    assert stored.headers["Nats-Msg-Id"] == letter.id


async def test_memory_writes_that_wait_together_share_a_batch_and_keep_their_own_sequences(
    server: Server,
) -> None:
    engineer, memory = await server.connect("engineer"), await server.connect("memory")
    entries = [Entry("memory.write.engineer", b"write %d" % number, f"w{number}") for number in range(80)]
    begun = time.monotonic()
    found = await asyncio.gather(*(engineer.append(entry, timeout=60) for entry in entries))
    assert sorted(found) == list(range(1, 81))
    everything = {"seq": 1, "next_by_subj": ">", "batch": 100}
    stored = [each async for each in memory.read("MEMORY", everything)]
    assert {each.seq: each.data for each in stored} == {
        seq: entry.payload for seq, entry in zip(found, entries, strict=True)
    }
    # The server drops a batch that takes over 0.5 s, as on a busy machine; its messages are sent alone then.
    assert sum("Nats-Batch-Id" in each.headers for each in stored) > 16 or time.monotonic() - begun > 0.5
    # Sent again, alone or with others, each is stored once.
    again = await asyncio.gather(*(engineer.append(entry, timeout=60) for entry in entries[:40]))
    assert set(again) <= {0, *found}
    assert len([each async for each in memory.read("MEMORY", everything)]) == 80
    with pytest.raises(Denied):
        await engineer.append(Entry("memory.write.critic", b"forged", "f1"))
    await server.freeze()
    with pytest.raises(BusUnavailable):
        await engineer.append(Entry("memory.write.engineer", b"late", "late"), timeout=0.3)
    server.process.send_signal(signal.SIGCONT)
    assert await engineer.append(Entry("memory.write.engineer", b"late", "late"), timeout=60) in (0, 81)


async def test_a_commit_whose_answer_is_late_is_recognised_when_it_is_sent_again(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.bus.commit.ANSWER_TIMEOUT", 0.3)
    bus = await server.connect("engineer")
    guard = "task.engineer.conductor.t1.*"
    note = Entry("task.engineer.conductor.t1.noted", b"note", "n1", 0, None, guard)
    checkpoint = Entry("record.engineer.thinking.t-1", b"page", "p1", 0)
    asked = 0
    last = bus._office._stored_last

    async def slow_to_tell(subject: str) -> tuple[int, bytes] | None:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise BusUnavailable("No answer within 5 s")
        return await last(subject)

    monkeypatch.setattr(bus._office, "_stored_last", slow_to_tell)
    await server.freeze()
    single = Entry("task.engineer.conductor.t2.noted", b"note", "n2", 0, None, "task.engineer.conductor.t2.*")
    waiting = [asyncio.create_task(bus.commit(each)) for each in ([note, checkpoint], [single])]
    await asyncio.sleep(1.0)
    server.process.send_signal(signal.SIGCONT)
    async with asyncio.timeout(10):
        both, (alone,) = await asyncio.gather(*waiting)
    assert asked > 1  # it was refused, because the first attempt was stored
    for entry, seq in zip((note, checkpoint, single), (*both, alone), strict=True):
        assert await last(entry.subject) == (seq, entry.payload)
