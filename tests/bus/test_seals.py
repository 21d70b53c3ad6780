"""Seals over the log: made by one process at a time, and what verifying finds."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import nats
import pytest

from services.gateway import sealing
from services.gateway.sealing import Sealer, Witnesses
from shared import subjects
from shared.bus import Bus, Entry, Stored
from shared.bus.elsewhere import read_elsewhere
from shared.bus.entry import seal
from shared.contracts import (
    Email,
    ErasureOrder,
    MemoryForgotten,
    MemoryWrite,
    MessagesErased,
    Seal,
    generate_id,
)
from shared.contracts.base import amended
from shared.errors import BusError
from shared.operations.erasure.eraser import delete, describe
from shared.operations.erasure.orders import carry_out_orders
from shared.queries.records import last_sequence, scan
from shared.trail.seals import make_seal, read_seals
from shared.trail.verification import Verification, verify_here, verify_log, verify_stream
from tests.bus.conftest import AGENTS
from tests.bus.test_elsewhere import by_password, serving
from tests.support.block_files import Record, change_blocks
from tests.support.server import Server
from tests.support.waiting import eventually

SECRET = "The harbour master keeps the spare key below the third bollard"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path, (*AGENTS, subjects.GATEWAY))
    try:
        await server.start()
        yield server
    finally:
        await server.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in {"INTERVAL": 0.3, "PAUSE": 0.0, "SILENCE": 0.1, "RETRY": 0.05}.items():
        monkeypatch.setattr(sealing, name, seconds)


@asynccontextmanager
async def sealed(bus: Bus) -> AsyncIterator[Sealer]:
    """A sealer at work."""

    heard = asyncio.Event()

    async def changed() -> None:
        await heard.wait()
        heard.clear()

    def hear(stored: Stored) -> None:
        sealer.hear(stored)
        heard.set()

    sealer = Sealer(bus, changed)
    await bus.follow_log(hear)
    running = asyncio.create_task(sealer.run())
    try:
        yield sealer
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def fill(server: Server, number: int, text: str = "letter") -> None:
    engineer = await server.connect("engineer")
    for begin in range(0, number, 500):
        letters = [
            Email(sender="engineer", recipient="critic", body=f"{text} {n}") for n in range(begin, number)
        ]
        await engineer.commit([seal(subjects.mail("critic", "engineer"), each) for each in letters[:500]])


async def seals_of(bus: Bus, stream: str = subjects.OFFICE) -> list[Seal]:
    return [each async for _, each in read_seals(bus, stream) if each is not None]


async def all_sealed(server: Server) -> Verification:
    """OFFICE as verified once nothing but seals is left to seal: a seal for each thousand, read at once."""
    user = await server.connect(subjects.USER)

    async def is_sealed() -> Verification | None:
        found = await verify_stream(user, subjects.OFFICE)
        left = [each.subject async for each in scan(user, subjects.OFFICE, seq=found.sealed + 1)]
        return found if found.sealed and all(each.startswith("seal.") for each in left) else None

    found: Verification = await eventually(is_sealed, 20)
    return found


async def test_all_is_sealed_a_thousand_at_a_time_and_an_idle_office_writes_none(server: Server) -> None:
    user, engineer = await server.connect(subjects.USER), await server.connect("engineer")
    await fill(server, 2_300)
    await engineer.append(Entry(subjects.memory_write("engineer"), b"{}", generate_id()))
    async with sealed(await server.connect(subjects.GATEWAY)):
        found = await all_sealed(server)
        assert (found.problems, found.erased, found.messages) == ([], 0, found.last)
        spans = [(each.number, each.first, each.last, each.count) for each in await seals_of(user)]
        assert spans[:2] == [(1, 1, 1_000, 1_000), (2, 1_001, 2_000, 1_000)]
        assert [each.last for each in await seals_of(user, subjects.MEMORY)] == [1]
        end = await last_sequence(user, subjects.OFFICE)
        await asyncio.sleep(1.5)
        assert await last_sequence(user, subjects.OFFICE) == end
        await fill(server, 1)
        await eventually(lambda: _is_longer(user, end + 1))
    both = await verify_log(user)
    assert [each.problems for each in both] == [[], []]
    assert [each.witnessed for each in both] == [0, 0]


async def _is_longer(bus: Bus, end: int) -> bool:
    return await last_sequence(bus, subjects.OFFICE) > end


async def test_two_sealers_and_one_that_is_killed_make_one_chain(server: Server) -> None:
    one, two = await server.connect(subjects.GATEWAY), await server.connect(subjects.GATEWAY)
    async with sealed(one):
        async with sealed(two):
            for number in range(10):
                await fill(server, 400, f"round {number}")
                await asyncio.sleep(0.1)
        await fill(server, 1_500)
        found = await all_sealed(server)
    assert (found.problems, found.messages) == ([], found.last)
    numbers = [each.number for each in await seals_of(one)]
    assert numbers == list(range(1, len(numbers) + 1))
    async with sealed(await server.connect(subjects.GATEWAY)):
        await fill(server, 700)
        await server.restart()
        await fill(server, 700)
        assert (await all_sealed(server)).problems == []


async def test_after_an_erasure_all_is_exact_also_of_what_was_never_sealed(server: Server) -> None:
    engineer, user = await server.connect("engineer"), await server.connect(subjects.USER)
    memory, eraser = await server.connect("memory"), await server.connect(subjects.ERASER)
    gateway = await server.connect(subjects.GATEWAY)

    async def forget(text: str, person: str) -> None:
        write = MemoryWrite(sender="user", person=person, forget=("node",))
        left = ErasureOrder(sender="user", cause=write.id, nodes=("node",), texts=(text,))
        await user.store(subjects.forgetting(write.id), left.to_json())
        await user.append(seal(subjects.memory_write("user"), write))
        done = MemoryForgotten(sender="memory", cause=write.id, orders=(write.id,), ids=("node",))
        await memory.append(seal(subjects.memory_write("memory"), done))
        await carry_out_orders(eraser, server.config, patience=0)

    mail = subjects.mail("critic", "engineer")
    await fill(server, 5)
    await engineer.commit([seal(mail, Email(sender="engineer", recipient="critic", body=SECRET))])
    async with sealed(gateway):
        await fill(server, 5)
        await all_sealed(server)
        await forget(SECRET, "Ada")
        await all_sealed(server)
    other = "The second key hangs behind the painting of the blue café in Lisbon"
    await engineer.commit([seal(mail, Email(sender="engineer", recipient="critic", body=other))])
    await forget(other, "Ben")
    async with sealed(gateway):
        found = await all_sealed(server)
    assert (found.problems, found.erased) == ([], 2)
    assert [(each.person, each.messages) for each in found.orders] == [("Ada", 1), ("Ben", 1)]


async def test_on_a_full_store_it_waits_and_goes_on(tmp_path: Path) -> None:
    server = Server(tmp_path, (*AGENTS, subjects.GATEWAY), MAILROOM_NATS_MAX_STORE=str(4_000_000))
    try:
        await server.start()
        admin, gateway = await server.connect(subjects.ADMIN), await server.connect(subjects.GATEWAY)
        await fill(server, 1_500)
        await admin.call(
            "STREAM.CREATE.FILLER", {"name": "FILLER", "subjects": ["filler"], "storage": "file"}
        )
        for size in (100_000, 1_000, 10):
            with contextlib.suppress(BusError):
                while True:
                    await admin.store("filler", b"x" * size)
        async with sealed(gateway):
            await asyncio.sleep(1)
            assert await seals_of(gateway) == []
            await admin.call("STREAM.DELETE.FILLER", {})
            found = await all_sealed(server)
        assert (found.problems, found.messages) == ([], found.last)
    finally:
        await server.close()


async def test_who_lies_about_what_was_erased_is_found(server: Server) -> None:
    """The record of an erasure with another commitment than that of the message."""
    user, eraser = await server.connect(subjects.USER), await server.connect(subjects.ERASER)
    await fill(server, 5)
    async with sealed(await server.connect(subjects.GATEWAY)):
        await all_sealed(server)
    order = MemoryWrite(sender="user", forget=("node",))
    await user.append(seal(subjects.memory_write("user"), order))
    stored = await eraser.get_exactly(subjects.OFFICE, 3)
    assert stored is not None
    lie = describe(stored._replace(data=b"another"))
    record = MessagesErased(sender="eraser", cause=order.id, messages=(lie,))
    await eraser.commit([seal(subjects.ERASED, record)])
    await delete(eraser, subjects.OFFICE, 3)
    found = await verify_stream(user, subjects.OFFICE)
    assert found.problems == ["OFFICE 3 is not what was sealed: it was changed"]


async def test_a_message_that_the_admin_takes_out_is_named(server: Server) -> None:
    user, admin = await server.connect(subjects.USER), await server.connect(subjects.ADMIN)
    await fill(server, 20)
    async with sealed(await server.connect(subjects.GATEWAY)):
        await all_sealed(server)
    await admin.call("STREAM.MSG.DELETE.OFFICE", {"seq": 7})
    found = await verify_stream(user, subjects.OFFICE)
    assert found.problems == ["OFFICE 7 is missing or damaged, and no person ordered that"]


async def test_a_forged_seal_is_none(server: Server) -> None:
    user, admin = await server.connect(subjects.USER), await server.connect(subjects.ADMIN)
    await fill(server, 20)
    async with sealed(await server.connect(subjects.GATEWAY)):
        await all_sealed(server)
    last = (await seals_of(user))[-1]
    end = await last_sequence(user, subjects.OFFICE)
    size = end - last.last
    forged = make_seal(subjects.OFFICE, last, [b"x" * 32] * size, "gateway")
    for flawed in (amended(forged, chain="0" * 64), amended(forged, number=9), amended(forged, first=3)):
        await admin.store(subjects.seal(subjects.OFFICE), flawed.to_json())
    found = await verify_stream(user, subjects.OFFICE)
    assert [problem.partition(": ")[2] for problem in found.problems] == [
        "its chain does not continue that of the seal before",
        "its number does not follow that of the seal before",
        "its messages do not follow those of the seal before",
    ]
    await admin.store(subjects.seal(subjects.OFFICE), forged.to_json())
    found = await verify_stream(user, subjects.OFFICE)
    assert found.problems[3:] == [
        f"OFFICE {seq} is not what was sealed: it was changed" for seq in range(last.last + 1, end + 1)
    ]


async def test_a_log_that_was_written_anew_is_found_by_a_seal_kept_elsewhere(server: Server) -> None:
    """Who holds the admin's key can make another log with seals of its own: only a witness tells."""
    user, admin = await server.connect(subjects.USER), await server.connect(subjects.ADMIN)
    gateway = await server.connect(subjects.GATEWAY)
    await fill(server, 20)
    async with sealed(gateway):
        await all_sealed(server)
    kept = (await seals_of(user))[-1]
    found = await verify_stream(user, subjects.OFFICE, [kept])
    assert (found.problems, found.witnessed) == ([], kept.last)
    await rewrite(server, admin)
    async with sealed(gateway):
        await all_sealed(server)
    assert (await verify_stream(user, subjects.OFFICE)).problems == []
    found = await verify_stream(user, subjects.OFFICE, [kept])
    assert found.problems == [
        f"Seal {kept.number} of OFFICE is not the one that was kept elsewhere: the log was rewritten"
    ]
    cut = amended(kept, number=kept.number + 10, last=500)
    found = await verify_stream(user, subjects.OFFICE, [cut])
    assert "that was kept elsewhere covers OFFICE up to 500" in found.problems[0]


async def changed(server: Server, change: Callable[[list[Record]], list[Record]]) -> Verification:
    """What verifying finds after the files of OFFICE were changed while the server was stopped."""
    await fill(server, 20)
    async with sealed(await server.connect(subjects.GATEWAY)):
        await all_sealed(server)
    server.process.terminate()
    server.process.wait()
    (folder,) = (server.config.state_dir / "nats" / "store").rglob("streams/OFFICE/msgs")
    change_blocks(folder, subjects.OFFICE, change)
    await server.restart()
    return await verify_stream(await server.connect(subjects.USER), subjects.OFFICE)


async def test_a_byte_that_is_changed_in_a_file_is_found_and_named(server: Server) -> None:
    def change(records: list[Record]) -> list[Record]:
        records[6] = records[6]._replace(body=records[6].body.replace(b"letter 6", b"letter 7"))
        return records

    found = await changed(server, change)
    assert found.problems == ["OFFICE 7 is not what was sealed: it was changed"]
    user = await server.connect(subjects.USER)
    pages = [page async for page in user.read_all(subjects.OFFICE, 7, 7)]
    assert b"letter 7" in pages[0][0].data


async def test_two_messages_that_are_swapped_are_found_and_named(server: Server) -> None:
    def change(records: list[Record]) -> list[Record]:
        one, two = records[3], records[4]
        records[3], records[4] = (
            two._replace(seq=one.seq, time=one.time),
            one._replace(seq=two.seq, time=two.time),
        )
        return records

    found = await changed(server, change)
    assert found.problems == [f"OFFICE {seq} is not what was sealed: it was changed" for seq in (4, 5)]


@pytest.mark.parametrize("what", ["salt", "time", "subject"])
async def test_another_salt_time_or_subject_is_found_and_named(server: Server, what: str) -> None:
    def change(records: list[Record]) -> list[Record]:
        one = records[9]
        at = one.headers.index(b"Salt: ") + 6
        changes = {
            "salt": one._replace(headers=one.headers[:at] + b"x" * 22 + one.headers[at + 22 :]),
            "time": one._replace(time=one.time + 1),
            "subject": one._replace(subject=b"mail.critic.conducto"),
        }
        records[9] = changes[what]
        return records

    found = await changed(server, change)
    assert found.problems == ["OFFICE 10 is not what was sealed: it was changed"]


async def test_a_file_that_is_damaged_is_found_and_named(server: Server) -> None:
    await fill(server, 20)
    async with sealed(await server.connect(subjects.GATEWAY)):
        await all_sealed(server)
    server.process.terminate()
    server.process.wait()
    (folder,) = (server.config.state_dir / "nats" / "store").rglob("streams/OFFICE/msgs")
    (path,) = folder.glob("*.blk")
    path.write_bytes(path.read_bytes().replace(b"letter 7", b"letter 8"))
    await server.restart()
    found = await verify_stream(await server.connect(subjects.USER), subjects.OFFICE)
    assert found.problems == ["OFFICE 8 is missing or damaged, and no person ordered that"]


async def test_a_witness_on_another_server_is_read_back_and_compared(server: Server, tmp_path: Path) -> None:
    user, admin = await server.connect(subjects.USER), await server.connect(subjects.ADMIN)
    gateway = await server.connect(subjects.GATEWAY)
    folder = tmp_path / "other"
    folder.mkdir()
    config, name, _ = by_password(folder)
    with serving(folder, config) as port:
        address = f"nats://{name}127.0.0.1:{port}/seals"
        client = await nats.connect(f"nats://{name}127.0.0.1:{port}")
        await client.jetstream().add_stream(name="SEALS", subjects=["seals"])
        await client.close()
        server.config.gateway.mkdir(parents=True)
        own = msgspec.structs.replace(server.config, audit_witness=(address,))
        await fill(server, 20)
        async with sealed(gateway) as sealer:
            witnesses = asyncio.create_task(Witnesses(own, sealer).run())
            last = (await all_sealed(server)).sealed
            await eventually(lambda: read_elsewhere(address))
            witnesses.cancel()
        found = (await verify_here(user, own))[0]
        assert (found.problems, found.outside, found.witnessed, found.unread) == ([], 1, last, [])
        await rewrite(server, admin)
        async with sealed(gateway):
            await all_sealed(server)
        (own.gateway / "seals.jsonl").unlink()
        found = (await verify_here(user, own))[0]
        assert found.problems == [
            "Seal 1 of OFFICE is not the one that was kept elsewhere: the log was rewritten"
        ]
    found = (await verify_here(user, own))[0]
    assert (found.problems, found.outside) == ([], 0)
    (unread,) = found.unread
    assert unread.startswith(f"nats://127.0.0.1:{port}/seals: No connection to 127.0.0.1")


async def rewrite(server: Server, admin: Bus) -> None:
    """Make another log, as who holds the admin's key can."""
    config = (await admin.call("STREAM.INFO.OFFICE", {}))["config"]
    await admin.request("$JS.API.STREAM.DELETE.OFFICE")
    assert "error" not in await admin.call("STREAM.CREATE.OFFICE", config)
    await fill(server, 20, "forged")
