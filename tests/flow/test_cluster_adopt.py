"""An office of one server moves to three in place; killed at any step it goes on, and nothing is lost."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from services.cli.supervisor.adopting import manifest_of
from services.cli.supervisor.cluster import require_place
from shared import subjects
from shared.bus import Bus, Delivery, Entry
from shared.errors import StartError
from shared.queries.records import call_server, last_sequence
from tests.bus.conftest import consume
from tests.support.cluster import Cluster
from tests.support.forking import ROOT
from tests.support.server import Server
from tests.support.waiting import eventually

AGENTS = ("conductor", "engineer", "memory", "gateway")
DYING = """
import os, signal, sys, asyncio
from services.cli.supervisor.adopting import Move
from shared import settings
def report(step):
    print(step, flush=True)
    if step == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(Move(settings.load(), sys.argv[2].split(","), report).run())
"""
SAVING = ("one server starts, without writers", "MEMORY is saved")
MOVING = (
    "all is saved",
    "the store is set aside",
    "three servers start",
    "MEMORY is restored",
    "the log is whole, as before",
)
DONE = "the move is done"


def die_at(server: Server, step: str) -> None:
    """Begin the move, or go on with it, and be killed at ``step``."""
    killed = subprocess.run(
        [sys.executable, "-c", DYING, step, ",".join(AGENTS)],
        env=server.environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr


async def fill(folder: Path) -> tuple[Server, dict[int, tuple[str, bytes, str]]]:
    """An office of one server with a gap in its log, and a durable that has handled a part."""
    server = Server(folder, AGENTS)
    await server.start()
    async with server.connection("user") as user, server.connection("engineer") as engineer:
        for number in range(30):
            entry = Entry(subject=subjects.mail("engineer", "user"), payload=b"%d" % number, id=f"m{number}")
            await user.commit([entry])
        handled: list[int] = []

        async def handle(delivery: Delivery) -> None:
            handled.append(1)

        await consume(engineer, handle)
        await eventually(lambda: len(handled) == 30, 20)
        async with server.connection("admin") as admin:
            await call_server(admin, "STREAM.MSG.DELETE.OFFICE", {"seq": 7})
            messages = await contents(admin)

            async def acknowledged() -> bool:
                info = await call_server(admin, "CONSUMER.INFO.OFFICE.engineer")
                return (info["num_pending"], info["num_ack_pending"]) == (0, 0)

            await eventually(acknowledged, 20)
    process = server.process
    process.terminate()
    process.wait()
    return server, messages


async def contents(bus: Bus) -> dict[int, tuple[str, bytes, str]]:
    end = await last_sequence(bus, subjects.OFFICE)
    pages = [page async for page in bus.read_all(subjects.OFFICE, 1, end)]
    return {one.seq: (one.subject, one.data, one.time) for page in pages for one in page}


async def check_on_three(folder: Path, server: Server, messages: dict[int, tuple[str, bytes, str]]) -> None:
    cluster = Cluster(folder, AGENTS)
    try:
        await cluster.start()
        async with cluster.connection("admin") as admin:
            assert await contents(admin) == messages
            for name in (await call_server(admin, "STREAM.NAMES"))["streams"]:
                assert (await call_server(admin, f"STREAM.INFO.{name}"))["config"]["num_replicas"] == 3
            durable = await call_server(admin, "CONSUMER.INFO.OFFICE.engineer")
            assert (durable["num_pending"], durable["num_ack_pending"]) == (0, 0)
    finally:
        await cluster.close()


async def test_all_is_on_three_servers_afterwards(tmp_path: Path) -> None:
    server, messages = await fill(tmp_path)
    assert len(messages) == 29
    done = server.mailroom("cluster", "adopt")
    assert done.returncode == 0, done.stderr
    assert "The log lies on three servers" in done.stdout
    again = server.mailroom("cluster", "adopt")
    assert "on three servers already" in again.stderr
    with pytest.raises(StartError, match="lies on three servers"):
        require_place(server.config)
    await check_on_three(tmp_path, server, messages)


@pytest.mark.timeout(600)
async def test_killed_at_step_after_step_it_goes_on(tmp_path: Path) -> None:
    server, messages = await fill(tmp_path)
    for step in SAVING:
        die_at(server, step)
        require_place(server.config)  # it may still be opened as it was
    for step in MOVING:
        die_at(server, step)
        with pytest.raises(StartError, match="is being moved"):
            require_place(server.config)
    die_at(server, DONE)
    assert not manifest_of(server.config).exists()
    await check_on_three(tmp_path, server, messages)
