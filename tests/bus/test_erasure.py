"""Erasing in OFFICE what quotes a forgotten text: what is left, who acts on it, and crashes."""

import asyncio
import contextlib
import json
import sys
from pathlib import Path

import pytest

from shared import subjects
from shared.bus import Bus, Delivery, Entry
from shared.bus.client import HEADER, is_handled
from shared.bus.entry import SALT, seal
from shared.bus.records import read_task, step_entry, submission_entry
from shared.contracts import (
    DeadLetter,
    Email,
    ErasureOrder,
    MemoryErasable,
    MemoryErased,
    MemoryForgotten,
    MemoryWrite,
    MessagesErased,
    Node,
    Presence,
    Task,
    TaskChanged,
    TaskStatus,
    decode,
    generate_id,
    generate_iso_timestamp,
)
from shared.errors import BusError
from shared.operations.erasure.eraser import delete, describe
from shared.operations.erasure.orders import carry_out_orders, count_orders, find_erased
from shared.queries.records import scan
from shared.trail.verification import verify_stream
from shared.views.timeline import TaskTimeline
from tests.bus.conftest import consume, server_in
from tests.support.indexing import read_timeline
from tests.support.server import Server
from tests.support.waiting import eventually

SECRET = "The harbour master keeps the spare key below the third bollard"
TRACE = "third bollard"


def letter(sender: str, recipient: str, body: str) -> Entry:
    return seal(subjects.mail(recipient, sender), Email(sender=sender, recipient=recipient, body=body))


async def order(server: Server, text: str = SECRET) -> str:
    """A person's order that memory has carried out."""
    user, memory = await server.connect(subjects.USER), await server.connect("memory")
    write = MemoryWrite(sender="user", forget=("node",))
    left = ErasureOrder(sender="user", cause=write.id, nodes=("node",), texts=(text,))
    await user.store(subjects.forgetting(write.id), left.to_json())
    await user.append(seal(subjects.memory_write("user"), write))
    done = MemoryForgotten(sender="memory", cause=write.id, orders=(write.id,), ids=("node",))
    await memory.append(seal(subjects.memory_write("memory"), done))
    return write.id


async def office(bus: Bus, pattern: str = ">") -> list[bytes]:
    return [stored.data async for stored in scan(bus, subjects.OFFICE, pattern)]


def holders(server: Server) -> list[Path]:
    """The files of the server that hold the text."""
    paths = [path for path in server.config.state_dir.rglob("*") if path.is_file()]
    return [path for path in paths if TRACE.encode() in path.read_bytes()]


async def verify(bus: Bus) -> int:
    found = await verify_stream(bus, subjects.OFFICE)
    assert found.problems == []
    return found.erased


async def carry_out(server: Server, patience: float = 0.0) -> None:
    eraser = await server.connect(subjects.ERASER)
    await carry_out_orders(eraser, server.config, patience=patience)


def task(text: str = f"Write down: {SECRET}") -> Task:
    return Task(task_id="t1", requester="conductor", assignee="engineer", text=text)


async def run_task(server: Server, *, until: str) -> Task:
    """A task of the conductor's for the engineer, up to a step, that quotes the text in each."""
    conductor, engineer = await server.connect("conductor"), await server.connect("engineer")
    mine = task()
    (seq,) = await conductor.commit([submission_entry(mine)])
    if until == "new":
        return mine
    claimed = TaskChanged(sender="engineer", task_id="t1", origin=seq, attempt=1, worker="w", note=SECRET)
    (seq,) = await engineer.commit([step_entry(mine, subjects.CLAIMED, claimed, seq)])
    if until == "claimed":
        return mine
    result = mine.result("engineer", TaskStatus.COMPLETED, output="It is done and written down", attempt=1)
    await engineer.commit([step_entry(mine, subjects.ENDED, result, seq)])
    return mine


async def take(server: Server, name: str) -> list[dict[str, str]]:
    """The headers of all that waits for an agent, which takes it and says that it is done."""
    taken: list[dict[str, str]] = []

    async def handle(delivery: Delivery) -> None:
        taken.append(delivery.headers)

    async with server.connection(name) as bus:
        await consume(bus, handle)
        before = -1
        while before != len(taken):
            before = len(taken)
            await asyncio.sleep(0.4)
    return taken


async def test_what_is_left_stands_on_the_same_subject_and_the_trail_is_whole(server: Server) -> None:
    engineer, user = await server.connect("engineer"), await server.connect(subjects.USER)
    record = subjects.record("engineer", "letter", "one")
    await engineer.commit([letter("engineer", "critic", f"As **they** say:\n> {SECRET.upper()}!")])
    await engineer.commit([letter("engineer", "critic", "Nothing of interest")])
    for number, text in enumerate((SECRET, "between", f"In JSON: {json.dumps([SECRET])}")):
        last = await user.last(subjects.OFFICE, record)
        body = json.dumps({"number": number, "text": text}).encode()
        await engineer.commit([Entry(record, body, f"r{number}", last.seq if last else 0)])
    await engineer.store(subjects.event("engineer", "said"), SECRET.encode())
    await order(server)
    assert holders(server)
    await carry_out(server)
    assert holders(server) == []
    assert await verify(user) == 4
    (first, second) = [decode(data).body for data in await office(user, "mail.>")][::-1]
    assert (first, second) == ("As **they** say:\n> [forgotten]!", "Nothing of interest")
    left = [json.loads(data) for data in await office(user, record)]
    assert [each["number"] for each in left] == [1, 2]  # of a record the last state counts
    assert left[-1]["text"] == 'In JSON: ["[forgotten]"]'
    assert await office(user, subjects.event("engineer", "said")) == [b"[forgotten]"]
    eraser = await server.connect(subjects.ERASER)
    assert await count_orders(eraser) == 0
    records = [MessagesErased.from_json(data) for data in await office(user, subjects.ERASED)]
    described = {message.subject: message for each in records for message in each.messages}
    assert described["mail.critic.engineer"].kind == "email.v1"
    assert TRACE not in str(records)
    assert json.loads((await office(user, "mail.>"))[-1])["replaces"]["seq"] == 1


async def test_a_task_that_has_ended_stays_ended_and_nobody_acts_on_it_again(server: Server) -> None:
    mine, user = await run_task(server, until="ended"), await server.connect(subjects.USER)
    assert len(await take(server, "engineer")) == 1
    assert len(await take(server, "conductor")) == 1
    before = await read_timeline(user, "t1")
    assert isinstance(before, TaskTimeline)
    shown = [(entry.subject, entry.time) for entry in before.entries]
    await order(server)
    await carry_out(server)
    assert holders(server) == []
    state = await read_task(user, mine)
    assert state is not None
    assert (state.step, state.status) == (subjects.ENDED, TaskStatus.COMPLETED)
    assert [is_handled(headers) for headers in await take(server, "engineer")] == [True]
    assert [is_handled(headers) for headers in await take(server, "conductor")] == [True]
    steps = [stored.subject.rpartition(".")[2] async for stored in scan(user, subjects.OFFICE, "task.>")]
    assert steps == [subjects.NEW["MEDIUM"], subjects.CLAIMED, subjects.ENDED]
    await verify(user)
    # It is shown in the order and with the times that it had, also after a second order.
    await order(server, "It is done and written down")
    await carry_out(server)
    after = await read_timeline(user, "t1")
    assert isinstance(after, TaskTimeline)
    assert [(entry.subject, entry.time) for entry in after.entries] == shown


async def test_a_task_that_waits_is_done_once_without_the_text(server: Server) -> None:
    mine, user = await run_task(server, until="new"), await server.connect(subjects.USER)
    await order(server)
    await carry_out(server)
    assert holders(server) == []
    state = await read_task(user, mine)
    assert state is not None
    assert state.task is not None
    assert (state.status, state.task.text) == (TaskStatus.PENDING, "Write down: [forgotten]")
    assert [headers[HEADER] for headers in await take(server, "engineer")] == ["1 waiting"]
    await verify(user)


async def test_a_task_under_way_is_left_until_it_has_ended(server: Server) -> None:
    mine, user = await run_task(server, until="claimed"), await server.connect(subjects.USER)
    eraser, engineer = await server.connect(subjects.ERASER), await server.connect("engineer")
    await order(server)
    (carried,) = (await carry_out_orders(eraser, server.config, patience=0)).values()
    assert carried.busy == 2
    assert await count_orders(eraser) == 1
    state = await read_task(user, mine)
    assert state is not None
    result = mine.result("engineer", TaskStatus.COMPLETED, output=f"So it is: {SECRET}", attempt=1)
    await engineer.commit([step_entry(mine, subjects.ENDED, result, state.seq)])
    for name in ("engineer", "conductor"):
        await take(server, name)
    await carry_out(server)
    assert holders(server) == []
    assert await count_orders(eraser) == 0
    await verify(user)


async def test_an_order_that_memory_never_got_or_refused_erases_nothing(server: Server) -> None:
    eraser, user = await server.connect(subjects.ERASER), await server.connect(subjects.USER)
    engineer = await server.connect("engineer")
    await engineer.commit([letter("engineer", "critic", SECRET)])
    left = ErasureOrder(sender="user", cause=generate_id(), nodes=("node",), texts=(SECRET,))
    await user.store(subjects.forgetting(left.cause), left.to_json())
    assert await carry_out_orders(eraser, server.config) == {}
    assert await count_orders(eraser) == 1
    assert TRACE in str(await office(eraser))


async def test_short_texts_are_left_alone(server: Server) -> None:
    engineer, user = await server.connect("engineer"), await server.connect(subjects.USER)
    for text in ("Done", "yes", "All of it is Done, yes", "We deploy."):
        await engineer.commit([letter("engineer", "critic", text)])
    before = await office(user, "mail.>")
    await order(server, "Done\n- yes\n- We deploy.")
    await carry_out(server)
    assert await office(user, "mail.>") == before


KILLED = """
import asyncio, sys
from shared import settings
from shared.bus import Bus
from shared.operations.erasure.eraser import delete, describe
from shared.operations.erasure.orders import carry_out_orders

async def main():
    config = settings.load()
    eraser = await Bus.connect("eraser", sys.argv[1], config.keys / "eraser.nk")
    print("begins", flush=True)
    await carry_out_orders(eraser, config)

asyncio.run(main())
"""


async def test_killed_at_any_moment_it_is_finished_by_the_next(server: Server) -> None:
    """kill -9 of who carries it out, and of the server: nothing is replaced twice, and nothing stays."""
    engineer, user = await server.connect("engineer"), await server.connect(subjects.USER)
    for number in range(60):
        await engineer.commit([letter("engineer", "critic", f"{number}: {SECRET}")])
    await run_task(server, until="ended")
    for name in ("engineer", "critic", "conductor"):
        await take(server, name)
    cause = await order(server)
    for number, pause in enumerate((0.0, 0.02, 0.06, 0.12, 0.2)):
        with server.start_process([sys.executable, "-c", KILLED, server.url]) as process:
            assert process.stdout is not None
            await asyncio.to_thread(process.stdout.readline)
            await asyncio.sleep(pause)
            process.kill()
        if number == 2:
            await asyncio.sleep(1)  # the bytes of what it is erasing when killed may stay
            await server.restart()
    await carry_out(server)
    assert holders(server) == []
    letters = [decode(data).body for data in await office(user, "mail.>")]
    assert sorted(letters) == sorted(f"{number}: [forgotten]" for number in range(60))
    assert await find_erased(user, cause)
    await verify(user)


KILLED_BEFORE = """
import asyncio, importlib, os, sys
from shared import settings
from shared.bus import Bus
from shared.operations.erasure.orders import carry_out_orders

def end(*_, **__):
    os.kill(os.getpid(), 9)

async def main():
    config = settings.load()
    eraser = await Bus.connect("eraser", sys.argv[1], config.keys / "eraser.nk")
    setattr(importlib.import_module(sys.argv[2]), sys.argv[3], end)
    await carry_out_orders(eraser, config)

asyncio.run(main())
"""


async def kill_before(server: Server, step: str) -> None:
    """Kill who carries out the orders before it does a step: ``module.function``."""
    module, _, function = step.rpartition(".")
    program = [sys.executable, "-c", KILLED_BEFORE, server.url, f"shared.{module}", function]
    with server.start_process(program) as process:
        assert await asyncio.to_thread(process.wait, 20) == -9


@pytest.mark.parametrize("step", ["eraser.delete", "orders.overwrite_quotations", "orders._drop"])
async def test_killed_between_record_and_deletion_the_text_goes_all_the_same(
    server: Server, step: str
) -> None:
    engineer, user = await server.connect("engineer"), await server.connect(subjects.USER)
    await engineer.commit([letter("engineer", "critic", SECRET)])
    await take(server, "critic")
    cause = await order(server)
    await kill_before(server, f"operations.erasure.{step}")
    await carry_out(server)
    assert holders(server) == []
    assert [decode(data).body for data in await office(user, "mail.>")] == ["[forgotten]"]
    assert await find_erased(user, cause)
    assert await verify(user) == 1


async def test_killed_between_record_and_deletion_memorys_text_goes_all_the_same(server: Server) -> None:
    user = await server.connect(subjects.USER)
    first = await write(server, "engineer", SECRET)
    await ask_for(server, await give_order(server, "node"), first)
    await kill_before(server, "operations.erasure.orders.delete")
    await carry_out(server)
    assert holders(server) == []
    found = await verify_stream(user, subjects.MEMORY)
    assert (found.problems, found.erased) == ([], 1)


async def test_hundreds_of_quotations_are_erased_together(server: Server) -> None:
    engineer, user = await server.connect("engineer"), await server.connect(subjects.USER)
    await engineer.commit([letter("engineer", "critic", f"{number}: {SECRET}") for number in range(300)])
    await order(server)
    await carry_out(server)
    assert await verify(user) == 300
    assert holders(server) == []


async def test_while_the_store_is_full_the_order_waits(tmp_path: Path) -> None:
    server = server_in(tmp_path, MAILROOM_NATS_MAX_STORE=str(4_000_000))
    try:
        await server.start()
        engineer, admin = await server.connect("engineer"), await server.connect(subjects.ADMIN)
        await engineer.commit([letter("engineer", "critic", SECRET)])
        await order(server)
        filler = json.dumps({"name": "FILLER", "subjects": ["filler"], "storage": "file"}).encode()
        await admin.request("$JS.API.STREAM.CREATE.FILLER", filler)
        for size in (100_000, 1_000, 10):
            with contextlib.suppress(BusError):
                while True:
                    await admin.store("filler", b"x" * size)
        with pytest.raises(BusError):
            await carry_out(server)
        assert await count_orders(admin) == 1
        assert holders(server)
        await admin.request("$JS.API.STREAM.DELETE.FILLER")
        await carry_out(server)
        assert holders(server) == []
        await verify(admin)
    finally:
        await server.close()


async def test_an_order_goes_on_while_an_agent_has_in_hand_what_came_before(server: Server) -> None:
    """It may have read the text, and writes it yet."""
    engineer, eraser = await server.connect("engineer"), await server.connect(subjects.ERASER)
    conductor = await server.connect("conductor")
    me = Presence(agent="engineer", instance="one", version="1", started_at=generate_iso_timestamp())
    await engineer.store(subjects.presence("engineer", "one"), me.to_json())
    working, go_on = asyncio.Event(), asyncio.Event()

    async def handle(delivery: Delivery) -> None:
        working.set()
        await go_on.wait()
        await engineer.commit([letter("engineer", "critic", f"I remember: {SECRET}")])

    await conductor.commit([letter("conductor", "engineer", "What do you know?")])
    await consume(engineer, handle)
    await working.wait()
    await order(server)
    await carry_out(server)
    assert await count_orders(eraser) == 1
    go_on.set()
    await eventually(lambda: holders(server))
    await carry_out(server, patience=5)
    assert holders(server) == []
    assert await count_orders(eraser) == 0
    await verify(eraser)


async def test_a_gap_that_no_person_ordered_is_a_problem_though_another_was_ordered(server: Server) -> None:
    engineer, eraser = await server.connect("engineer"), await server.connect(subjects.ERASER)
    await engineer.commit([letter("engineer", "critic", SECRET)])
    await order(server)
    await carry_out(server)
    await verify(eraser)
    (seq,) = await engineer.commit([letter("engineer", "critic", "What nobody asked to have forgotten")])
    stored = await eraser.get_exactly(subjects.OFFICE, seq)
    assert stored is not None
    record = MessagesErased(sender=subjects.ERASER, cause=generate_id(), messages=(describe(stored),))
    await eraser.commit([seal(subjects.ERASED, record)])
    await delete(eraser, subjects.OFFICE, seq)
    found = await verify_stream(eraser, subjects.OFFICE)
    assert found.problems == [f"OFFICE {seq} is missing or damaged, and no person ordered that"]


# --- memory's log --------------------------------------------------------------------------------


async def write(server: Server, agent: str, text: str) -> int:
    bus = await server.connect(agent)
    note = MemoryWrite(sender=agent, nodes=(Node(id=generate_id(), title=text),))
    return await bus.append(seal(subjects.memory_write(agent), note))


async def give_order(server: Server, *nodes: str) -> str:
    user = await server.connect(subjects.USER)
    given = MemoryWrite(sender="user", forget=nodes)
    await user.append(seal(subjects.memory_write("user"), given))
    return given.id


async def ask_for(server: Server, cause: str, *seqs: int) -> None:
    """What memory does: a record of what is left of each message, and then word to the eraser."""
    memory = await server.connect("memory")
    for seq in seqs:
        left = MemoryErased(
            sender="memory", cause=cause, seqs=(seq,), subject="memory.write.engineer", time="2026"
        )
        await memory.append(seal(subjects.memory_write("memory"), left))
    told = MemoryErasable(sender="memory", cause=cause, seqs=seqs)
    await memory.commit([seal(subjects.ERASABLE, told)])


async def test_memory_has_erased_what_a_person_ordered_and_nothing_else(server: Server) -> None:
    user = await server.connect(subjects.USER)
    first, kept = await write(server, "engineer", SECRET), await write(server, "engineer", "Kept")
    await ask_for(server, generate_id(), kept)
    await carry_out(server)
    assert [each.seq async for each in scan(user, subjects.MEMORY, "memory.write.engineer")] == [first, kept]
    await ask_for(server, await give_order(server, "node"), first)
    await carry_out(server)
    assert [each.seq async for each in scan(user, subjects.MEMORY, "memory.write.engineer")] == [kept]
    assert holders(server) == []
    found = await verify_stream(user, subjects.MEMORY)
    assert (found.problems, found.erased) == ([], 1)
    assert [(each.messages, each.order != "") for each in found.orders] == [(1, True)]


async def test_an_agent_cannot_order_memorys_log_to_be_erased(server: Server) -> None:
    user, engineer = await server.connect(subjects.USER), await server.connect("engineer")
    seq = await write(server, "critic", SECRET)
    forged = MemoryWrite(sender="user", forget=("node",))
    await engineer.append(seal(subjects.memory_write("engineer"), forged))
    await ask_for(server, forged.id, seq)
    await carry_out(server)
    assert [each.seq async for each in scan(user, subjects.MEMORY, "memory.write.critic")] == [seq]


async def test_what_is_left_has_another_salt_and_so_has_a_dead_letter(server: Server) -> None:
    """With the old salt the commitment to an erased text could be tried with guesses."""
    engineer, eraser = await server.connect("engineer"), await server.connect(subjects.ERASER)
    (seq,) = await engineer.commit([letter("engineer", "critic", SECRET)])
    stored = await eraser.get_exactly(subjects.OFFICE, seq)
    assert stored is not None
    assert len(stored.headers[SALT]) == 22
    dead = DeadLetter(
        sender="engineer", reason="no", subject="s", stream="OFFICE", stream_seq=seq, deliveries=1,
        original=SECRET, original_size=1, headers=stored.headers,
    )  # fmt: skip
    await engineer.commit([seal(subjects.dead("engineer"), dead)])
    await order(server)
    await carry_out(server)
    left = [each async for each in eraser.read_all(subjects.OFFICE, 1, 100)]
    blocks = [
        each for page in left for each in page if stored.headers[SALT].encode() in each.block + each.data
    ]
    assert blocks == []
    assert len({each.block for page in left for each in page}) == sum(map(len, left))
    await verify(eraser)
