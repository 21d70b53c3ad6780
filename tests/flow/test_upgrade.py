"""An office of an earlier commit, with goals at work, is upgraded one process after the other."""

import asyncio
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from services.cli.supervisor.programs import find_server, free_port, is_listening, server_command
from shared import settings, subjects
from shared.bus import Bus
from shared.bus.records import submission_entry
from shared.contracts import Task
from shared.trail.verification import verify_stream
from tests.flow.test_backup import ends_of, letters
from tests.support.server import ROOT, environment
from tests.support.slow import install_slow_agent, slow_goal
from tests.support.waiting import eventually

COMMITS = int(os.environ.get("UPGRADE_FROM", "40"))
"""How many commits before this one the office was installed."""
AGENTS = ("memory", "conductor", "nexus", "critic", "slow")
SECONDS = 2.5  # How long each goal works
PER_STEP = 2  # Goals that are submitted before each process is replaced


def read_tree(revision: str) -> bytes:
    """The files of a revision as a tar; empty if it is not here, as in a shallow clone or without git."""
    found = subprocess.run(
        ["git", "archive", "--format=tar", revision, "services", "shared", "deploy", "pyproject.toml"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    return found.stdout if not found.returncode else b""


class Installation:
    """Processes of one revision, whose files are in ``tree``, on one server."""

    def __init__(self, tree: Path, variables: dict[str, str]) -> None:
        self.tree, self.variables = tree, {**variables, "PYTHONPATH": str(tree)}

    def run(self, *arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "services.cli", *arguments],
            cwd=self.tree,
            env=self.variables,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    async def start(self, name: str, state: Path) -> "subprocess.Popen[bytes]":
        own = self.tree / "services" / name
        command = (
            ["-m", f"services.{name}"]
            if own.is_dir()
            else [str(state.parent / "agents" / name / "__main__.py")]
        )
        with (state / f"{name}.log").open("ab") as log:
            process = await asyncio.to_thread(
                subprocess.Popen,
                [sys.executable, *command],
                cwd=self.tree,
                env=self.variables,
                stdout=log,
                stderr=log,
            )

        def alive() -> bool:
            assert process.poll() is None, (state / f"{name}.log").read_text()[-2000:]
            return any((state / "run").glob(f"{name}-*-{process.pid}.alive"))

        await eventually(alive, 60)
        return process


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[tuple[Installation, Installation, str]]:
    """The installation of then and that of now, and the address of a server that the former prepared."""
    tree = await asyncio.to_thread(read_tree, f"HEAD~{COMMITS}")
    if not tree:
        pytest.skip(f"the history does not go back {COMMITS} commits here")
    with tarfile.open(fileobj=io.BytesIO(tree)) as tar:
        tar.extractall(tmp_path / "then", filter="data")
    state = tmp_path / "state"
    variables = environment(state, **install_slow_agent(tmp_path))
    then = Installation(tmp_path / "then", variables)
    then.run("provision", "--only", "keys")
    config = settings.load(environment(state))
    port = free_port()
    server = await asyncio.to_thread(subprocess.Popen, server_command(config, find_server(config), port))
    try:
        await eventually(lambda: is_listening(port))
        url = then.variables["NATS_URL"] = f"nats://127.0.0.1:{port}"
        yield then, Installation(ROOT, {**variables, "NATS_URL": url}), url
    finally:
        server.kill()
        await asyncio.to_thread(server.wait)


async def test_goals_end_once_while_every_process_is_replaced(
    tmp_path: Path, running: tuple[Installation, Installation, str]
) -> None:
    then, now, url = running
    state = tmp_path / "state"
    await asyncio.to_thread(then.run, "provision")
    processes = {name: await then.start(name, state) for name in AGENTS}
    bus = await Bus.connect(subjects.USER, url, state / "keys" / f"{subjects.USER}.nk")
    try:
        due = (datetime.now(UTC) + timedelta(seconds=20)).isoformat()
        params = {"text": "call Ana", "when": due}
        reminder = Task(
            task_id="wish",
            text="remind me",
            assignee="nexus",
            requester="user",
            context={"action": "set_reminder", "params": params},
        )
        await bus.commit([submission_entry(reminder)])
        goals: dict[str, int] = {}

        async def submit() -> None:
            for _ in range(PER_STEP):
                goals[f"g{len(goals)}"] = 1
                await bus.store(
                    subjects.SUBMIT, msgspec.json.encode(slow_goal(f"g{len(goals) - 1}", SECONDS))
                )

        await submit()
        await asyncio.to_thread(now.run, "provision")
        for name in AGENTS:
            await submit()
            processes[name].terminate()
            await asyncio.to_thread(processes[name].wait)
            processes[name] = await now.start(name, state)
        await submit()

        async def all_ended() -> bool:
            return await ends_of(bus) == goals and bool(await letters(bus, "nexus"))

        await eventually(all_ended, 60)
        assert set((await letters(bus, "conductor")).values()) == {1}
        assert len(await letters(bus, "conductor")) == len(goals)
        assert sum((await letters(bus, "nexus")).values()) == 1
        for stream in subjects.LOG:
            assert (await verify_stream(bus, stream)).problems == []
    finally:
        await bus.close()
        for process in processes.values():
            process.kill()
            await asyncio.to_thread(process.wait)
