"""Two offices on one server, as people run them."""

import asyncio
import json
import os
import signal
from pathlib import Path

import msgspec

from services.cli.supervisor.programs import free_port
from shared import subjects
from shared.bus import Bus
from shared.contracts import StateChanged
from tests.support.server import environment, run_mailroom
from tests.support.slow import install_slow_agent, slow_goal
from tests.support.up import CRITIC_TOO, UpCommand
from tests.support.waiting import eventually


async def do_goal(office: UpCommand, goal_id: str, text: str) -> str:
    """How a goal ended."""
    key = office.state_dir / "keys" / f"{subjects.USER}.nk"
    bus = await Bus.connect(subjects.USER, (await asyncio.to_thread(office.record))["url"], key)
    try:
        await bus.store(subjects.SUBMIT, msgspec.json.encode({**slow_goal(goal_id, 0.1), "text": text}))

        async def ended() -> str:
            stored = await bus.last(subjects.OFFICE, subjects.goal(goal_id))
            goal = StateChanged.from_json(stored.data).goal if stored else None
            return str(goal.status) if goal is not None and goal.status.final else ""

        return str(await eventually(ended, 60))
    finally:
        await bus.close()


async def read_all(office: UpCommand) -> bytes:
    key = office.state_dir / "keys" / f"{subjects.USER}.nk"
    bus = await Bus.connect(subjects.USER, office.record()["url"], key)
    try:
        request = {"seq": 1, "batch": 1_000, "next_by_subj": ">"}
        return b"".join([each.data async for each in bus.read(subjects.OFFICE, request)])
    finally:
        await bus.close()


def test_two_offices_work_on_one_server_and_neither_sees_the_other(tmp_path: Path) -> None:
    settings = {**CRITIC_TOO, **install_slow_agent(tmp_path), "MAILROOM_NATS_PORT": str(free_port())}
    state = tmp_path / "state"
    variables = {"first": environment(state, **settings)}
    first = UpCommand(state, **settings)
    offices = {"first": first}
    try:
        first.record()
        limit = str(64 << 20)
        added = run_mailroom(variables["first"], "office", "add", "lab", "--max-store", limit, "--json")
        assert json.loads(added.stdout)["in_force"], added.stderr
        folder = state / "offices" / "lab"
        variables["lab"] = environment(folder, **settings)
        # An agent that it did not have when it was added is known a moment after its start
        lab = offices["lab"] = UpCommand(folder, **settings)
        lab.record()
        for name, office in offices.items():
            assert asyncio.run(do_goal(office, "same", f"Wait for {name}")) == "completed"
        for name, other in (("first", "lab"), ("lab", "first")):
            for command in (
                ("tasks", "--json"),
                ("status", "--json"),
                ("memory", "search", "Wait", "--json"),
            ):
                shown = run_mailroom(variables[name], *command)
                assert shown.returncode == 0, shown.stderr
                assert f"Wait for {other}" not in shown.stdout
            assert run_mailroom(variables[name], "audit", "verify").returncode == 0
            log = asyncio.run(read_all(offices[name]))
            assert f"Wait for {name}".encode() in log
            assert f"Wait for {other}".encode() not in log
        (row,) = json.loads(run_mailroom(variables["first"], "office", "list", "--json").stdout)
        assert row["open"]
        assert 0 < row["stored"] < row["max_store"] == 64 << 20
        assert "is open" in run_mailroom(variables["first"], "office", "remove", "lab", "--yes").stderr
        os.kill(first.process("nats-server"), signal.SIGKILL)
        for name, office in offices.items():
            assert asyncio.run(do_goal(office, "after", f"Wait for {name}")) == "completed"
        lab.close()
        removed = run_mailroom(variables["first"], "office", "remove", "lab", "--yes", "--delete-folder")
        assert removed.returncode == 0, removed.stderr
        assert not folder.exists()
        assert not list((state / "nats" / "store" / "jetstream").glob("lab*"))
        # Limits that exceed the server's for a moment leave accounts without JetStream
        assert "insufficient" not in (state / "logs" / "nats.log").read_text()
        assert asyncio.run(do_goal(first, "last", "Wait for first")) == "completed"
    finally:
        for office in reversed(offices.values()):
            office.close()
