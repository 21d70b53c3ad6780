"""The archive as somebody meets it who does all wrong: a full disk, Ctrl-C, two at once, other files."""

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared import subjects
from shared.trail.archives import read_archives
from shared.trail.verification import verify_stream
from tests.bus.conftest import AGENTS
from tests.bus.test_archive import handled, on_server, seal_all
from tests.bus.test_seals import fill, quick  # noqa: F401  # a fixture
from tests.support.erasing import erasing
from tests.support.server import Server, mailroom_command

LETTERS = 1_500


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path, (*AGENTS, subjects.GATEWAY))
    try:
        await server.start()
        await fill(server, LETTERS)
        await handled(server)
        await seal_all(server)
        yield server
    finally:
        await server.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    return folder


def begin(server: Server, folder: Path, *more: str) -> "subprocess.Popen[str]":
    return server.start_mailroom("audit", "archive", "--before", "0s", str(folder), *more)


async def end(process: "subprocess.Popen[str]") -> tuple[str, str]:
    with process:
        return await asyncio.to_thread(process.communicate, timeout=40)


async def check(server: Server, folder: Path, bundles: int) -> None:
    """Nothing is lost, and nothing but whole bundles lies beside what was in the folder."""
    user = await server.connect(subjects.USER)
    found = await verify_stream(user, subjects.OFFICE)
    assert (found.problems, found.messages, len(found.bundles)) == ([], found.last, bundles)
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted([*(each.path.name for each in await read_archives(user)), "notes.txt"])
    assert (folder / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("size", [0, 20_000])
async def test_a_full_disk_is_a_sentence_and_leaves_nothing(server: Server, folder: Path, size: int) -> None:
    there = await on_server(await server.connect(subjects.USER))
    command = mailroom_command("audit", "archive", "--before", "0s", str(folder))
    process = server.start_process(["prlimit", f"--fsize={size}", *command])
    _, error = await end(process)
    assert process.returncode == 1
    assert "cannot be written: File too large" in " ".join(error.split())
    assert "Traceback" not in error
    await check(server, folder, 0)
    assert await on_server(await server.connect(subjects.USER)) == there
    async with erasing(server):
        process = begin(server, folder)
        await end(process)
    assert process.returncode == 0
    await check(server, folder, 1)


@pytest.mark.parametrize("pause", [0.3, 0.8, 1.2])
async def test_ended_with_ctrl_c_the_next_goes_on(server: Server, folder: Path, pause: float) -> None:
    process = begin(server, folder)
    await asyncio.sleep(pause)
    process.send_signal(signal.SIGINT)
    _, error = await end(process)
    assert process.returncode in (1, 130, -signal.SIGINT)
    assert "Traceback" not in error
    async with erasing(server):
        process = begin(server, folder)
        await end(process)
    assert process.returncode == 0
    await check(server, folder, 1)


async def test_two_at_once_make_one_archive(server: Server, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    async with erasing(server):
        done = [begin(server, folder), begin(server, folder), begin(server, other)]
        told = await asyncio.gather(*map(end, done))
    codes = [each.returncode for each in done]
    assert 0 in codes
    for code, (_, error) in zip(codes, told, strict=True):
        assert code in (0, 1)
        assert "Traceback" not in error
        assert not code or "Another process" in error
    user = await server.connect(subjects.USER)
    found = await verify_stream(user, subjects.OFFICE)
    assert (found.problems, found.messages, len(found.bundles)) == ([], found.last, 1)
    assert len([*folder.glob("*.gz"), *other.glob("*.gz")]) == 1
    assert [*folder.glob(".*"), *other.glob(".*")] == []


async def test_a_time_in_the_future_is_refused(server: Server, folder: Path) -> None:
    done = await asyncio.to_thread(
        server.mailroom, "audit", "archive", "--before", "2999-01-01", str(folder), NATS_URL=server.url
    )
    assert done.returncode == 2
    assert "2999-01-01 is yet to come" in " ".join(done.stderr.split())
    await check(server, folder, 0)


async def test_a_file_with_the_name_of_a_bundle_stays_as_it_is(server: Server, folder: Path) -> None:
    last = (await verify_stream(await server.connect(subjects.USER), subjects.OFFICE)).sealed
    other = folder / f"OFFICE-{1:010d}-{last:010d}.jsonl.gz"
    other.write_bytes(b"another office's")
    process = begin(server, folder, "--json")
    output, error = await end(process)
    assert (process.returncode, output) == (1, "")
    assert other.name in "".join(error.split())
    assert other.read_bytes() == b"another office's"
    assert sorted(path.name for path in folder.iterdir()) == sorted([other.name, "notes.txt"])
