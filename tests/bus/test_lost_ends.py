"""Streams that lost their end by damage: put on record by one seal, told for ever, and sealing goes on."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared import subjects
from shared.bus import Entry
from shared.contracts import Seal, generate_id
from shared.trail.bundle import prove, write_bundle
from shared.trail.verification import Verification, verify_stream
from tests.bus.conftest import AGENTS
from tests.bus.test_seals import quick, sealed, seals_of  # noqa: F401  # a fixture
from tests.support.block_files import cut_blocks
from tests.support.server import ROOT, Server
from tests.support.waiting import eventually


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path, (*AGENTS, subjects.GATEWAY))
    try:
        await server.start()
        yield server
    finally:
        await server.close()


async def write(server: Server, number: int) -> None:
    engineer = await server.connect("engineer")
    for _ in range(number):
        await engineer.append(Entry(subjects.memory_write("engineer"), b"{}", generate_id()))


async def seal_memory(server: Server, end: int) -> list[Seal]:
    """The seals of MEMORY once one ends there."""
    user = await server.connect(subjects.USER)

    async def found() -> list[Seal]:
        seals = await seals_of(user, subjects.MEMORY)
        return seals if seals and seals[-1].last == end else []

    async with sealed(await server.connect(subjects.GATEWAY)):
        return await eventually(found, 20)


async def verify(server: Server) -> Verification:
    return await verify_stream(await server.connect(subjects.USER), subjects.MEMORY)


async def cut(server: Server, number: int, stream: str = subjects.MEMORY) -> None:
    """Have the server find nothing after the first messages of a stream, as after damage to its file."""
    server.process.terminate()
    server.process.wait()
    (folder,) = (server.config.state_dir / "nats" / "store").rglob(f"streams/{stream}/msgs")
    cut_blocks(folder, number)
    await server.restart()


async def test_a_loss_is_told_before_anybody_put_it_on_record(server: Server) -> None:
    await write(server, 20)
    await seal_memory(server, 20)
    await cut(server, 15)
    assert (await verify(server)).problems == ["MEMORY ends at 15, and lost 16 to 20, which were sealed"]


@pytest.mark.parametrize(("left", "grown"), [(0, 40), (5, 0), (20, 3), (25, 0), (25, 40)])
async def test_a_lost_end_is_put_on_record_once_and_sealing_goes_on(
    server: Server, tmp_path: Path, left: int, grown: int
) -> None:
    """Also if the stream grew past its old end before anything of the gateway ran again."""
    user = await server.connect(subjects.USER)
    await write(server, 20)
    await seal_memory(server, 20)
    await write(server, 10)
    before = (await seal_memory(server, 30))[-1]
    await cut(server, left)
    await write(server, grown)
    end = left + grown
    said = (await seal_memory(server, end))[2]
    begin = left + 1 if left in (0, 20) else 1 if left < 20 else 21
    assert (said.number, said.first, said.last) == (before.number + 1, begin, left)
    await write(server, 7)
    await seal_memory(server, end + 7)
    seals = await seal_memory(server, end + 7)
    assert len(seals) == (4 if not grown else 5)
    found = await verify(server)
    (problem,) = found.problems
    lost = f"MEMORY lost its messages {left + 1} to 30, found {said.created_at[:16]} by the gateway (seal 3)"
    assert problem == lost
    assert (found.sealed, found.last, found.messages) == (end + 7, end + 7, end + 7)
    for seq in (1, left, left + 1, end + 7):
        if seq:
            assert await prove(user, subjects.MEMORY, seq) is not None
    await check_elsewhere(
        server, tmp_path / "bundle", f"NOT WHOLE: lost: MEMORY {left + 1} to 30, as seal 3 says"
    )


async def check_elsewhere(server: Server, bundle: Path, expected: str) -> None:
    with bundle.open("wb") as file:
        await write_bundle(await server.connect(subjects.USER), file)
    if node := shutil.which("node"):
        command = [node, str(ROOT / "docs" / "verify-bundle.mjs"), str(bundle)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        assert done.stdout == f"{expected}\n", done.stderr


async def test_what_is_changed_before_a_lost_end_is_found_all_the_same(server: Server) -> None:
    """The seal that says the loss does not make another message of the same seal's span right."""
    await write(server, 30)
    await seal_memory(server, 30)
    admin = await server.connect(subjects.ADMIN)
    await admin.call("STREAM.MSG.DELETE.MEMORY", {"seq": 7})
    await cut(server, 24)
    await write(server, 10)
    await seal_memory(server, 34)
    found = await verify(server)
    assert "MEMORY 7 is missing or damaged, and no person ordered that" in found.problems


async def test_a_seal_that_claims_to_void_others_without_replacing_them_is_none(
    server: Server, tmp_path: Path
) -> None:
    await write(server, 20)
    await seal_memory(server, 20)
    await write(server, 10)
    seals = await seal_memory(server, 30)
    bundle = tmp_path / "bundle"
    with bundle.open("wb") as file:
        await write_bundle(await server.connect(subjects.USER), file)
    lines = bundle.read_text().splitlines()
    of_memory = [line for line in lines if '"stream":"MEMORY"' in line]
    (place,) = [at for at, line in enumerate(of_memory) if f'"chain":"{seals[1].chain}"' in line]
    without = of_memory[: place - 10]  # the ten messages before it are taken out
    bundle.write_text("\n".join([*without, of_memory[place].replace("{", '{"void":true,', 1)]))
    if node := shutil.which("node"):
        command = [node, str(ROOT / "docs" / "verify-bundle.mjs"), str(bundle)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        assert done.stdout.startswith("NOT WHOLE: seal MEMORY 2 21 30 10 has no messages"), done.stderr
