"""Specialists in a real office: made, at work, given tasks, started again, retired; and the limits."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.cli.supervisor import supervisor as supervising
from services.cli.supervisor.lock import InstanceLock
from services.cli.supervisor.logs import LogLine
from services.cli.supervisor.supervisor import Supervisor
from shared import settings, subjects
from shared.bus import Bus
from shared.bus.records import read_presences
from shared.contracts import Goal, Presence, StateChanged, TaskStatus
from shared.tasks.installed_agents import load_agents
from tests.support.server import environment

pytestmark = pytest.mark.timeout(110)
STAFF = ("conductor", "critic", "memory")


class SupervisedOffice:
    """The supervisor of ``mailroom up`` in the process of the test, with few agents."""

    def __init__(self, supervisor: Supervisor, told: list[LogLine], bus: Bus) -> None:
        self.supervisor, self.told, self.bus = supervisor, told, bus
        self.state_dir = supervisor.config.state_dir

    def said(self, name: str, text: str) -> bool:
        return any(line.name == name and text in line.text for line in self.told)


@asynccontextmanager
async def opened(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch, **more: str
) -> AsyncIterator[SupervisedOffice]:
    env = environment(state_dir, **more)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    config = settings.load(env)
    monkeypatch.setattr(
        supervising, "read_agents", lambda config: ([m for m in load_agents(config) if m.name in STAFF], {})
    )
    lock = InstanceLock.acquire(state_dir)
    assert lock is not None
    told: list[LogLine] = []
    supervisor = Supervisor(config, lock, told.append)
    try:
        await supervisor.start()
        bus = await Bus.connect(subjects.USER, supervisor.url, config.keys / "user.nk")
        try:
            yield SupervisedOffice(supervisor, told, bus)
        finally:
            await bus.close()
    finally:
        await supervisor.stop()
        lock.release()


async def do(bus: Bus, goal_id: str, assignee: str, action: str = "", **params: Any) -> Goal:
    """Submit one named action as a goal, and wait for its end."""
    context = {"assignee": assignee, "action": action, "params": params}
    body = {"text": f"{action} {params}", "goal_id": goal_id, "context": context}
    await bus.store(subjects.SUBMIT, json.dumps(body).encode())
    return await ended(bus, goal_id)


async def ended(bus: Bus, goal_id: str) -> Goal:
    while True:
        stored = await bus.last(subjects.OFFICE, subjects.goal(goal_id))
        goal = StateChanged.from_json(stored.data).goal if stored else None
        if goal is not None and goal.status.final:
            return goal
        await asyncio.sleep(0.05)


async def presence(bus: Bus, name: str) -> Presence | None:
    return next((found for found in await read_presences(bus) if found.agent == name), None)


async def test_a_specialist_is_made_works_at_once_comes_back_and_is_retired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state_dir = tmp_path / "state"
    async with opened(state_dir, monkeypatch, MAILROOM_MAX_SPECIALISTS="2") as office:
        bus = office.bus
        made = await do(
            bus,
            "g1",
            "conductor",
            "create_specialist",
            domain="Tax law",
            requirements="Remembers rulings, reads documents",
        )
        assert made.status is TaskStatus.COMPLETED, made.reason
        assert "specialist-tax-law is at work" in made.answer
        page = await presence(bus, "specialist-tax-law")
        assert page is not None
        assert "shared.skills.documents.DocumentsSkill" in page.skills
        assert "remember" in " ".join(page.actions)

        action = next(name for name in page.actions if "recall" in name or "search" in name)
        param = next(iter(page.schemas[action]["required"]))
        done = await do(bus, "g2", "specialist-tax-law", action, **{param: "rulings"})
        assert done.status is TaskStatus.COMPLETED, done.reason
        # a task in words needs a model, and says so
        words = await do(bus, "g3", "specialist-tax-law")
        assert words.status is TaskStatus.FAILED
        assert "without a model" in words.reason

        # another one of the same name, one too many, and one that was never made
        again = await do(
            bus, "g4", "conductor", "create_specialist", domain="tax law!", requirements="Something else"
        )
        assert "There is a specialist 'specialist-tax-law' already" in again.reason
        second = await do(
            bus, "g5", "conductor", "create_specialist", domain="Bees", requirements="Knows bees"
        )
        assert second.status is TaskStatus.COMPLETED, second.reason
        third = await do(
            bus, "g6", "conductor", "create_specialist", domain="Wine", requirements="Knows wine"
        )
        assert "no more are allowed: specialist-tax-law, specialist-bees" in third.reason
        assert "MAILROOM_MAX_SPECIALISTS" in third.reason
        gone = await do(bus, "g7", "conductor", "retire_specialist", name="specialist-bees")
        assert gone.status is TaskStatus.COMPLETED, gone.reason
        assert await presence(bus, "specialist-bees") is None
        late = await do(bus, "g8", "specialist-bees", "recall", query="x")
        assert "There is no agent 'specialist-bees'" in late.reason
        assert (state_dir / "specialists" / "retired" / "specialist-bees" / "profile.yaml").is_file()
        roster = await asyncio.to_thread(mailroom, "status", "--json")
        (row,) = [post for post in json.loads(roster)["agents"] if post["agent"].startswith("specialist")]
        assert row["agent"] == "specialist-tax-law"
        assert len(row["processes"]) == 1

    # the next office starts it again, and what is wrong does not keep the office from opening
    write_evil(state_dir)
    async with opened(state_dir, monkeypatch, MAILROOM_MAX_SPECIALISTS="2") as office:
        bus = office.bus
        while (page := await presence(bus, "specialist-tax-law")) is None:
            await asyncio.sleep(0.1)
        done = await do(bus, "h1", "specialist-tax-law", "no_such_action")
        assert "has no action" in done.reason
        refused = state_dir / "specialists" / "specialist-evil" / "refused"
        while not refused.exists():
            await asyncio.sleep(0.1)
        assert "names the skill 'os.path.join', which a specialist may not have" in refused.read_text()
        assert office.said("specialist-evil", "not started")
        # killed, it is started again like any other
        os.kill(page.pid, 9)
        while all(found.pid == page.pid for found in await read_presences(bus) if found.agent == page.agent):
            await asyncio.sleep(0.1)
    assert not (state_dir / "specialists" / "supervision.json").exists()


SCRIPT = [
    {
        "agent": "conductor",
        "match": "^Make a plan",
        "replies": [
            {
                "json": {
                    "specialists": [{"domain": "Bees", "requirements": "Knows how bees live"}],
                    "tasks": [
                        {"name": "ask", "assignee": "specialist-bees", "text": "Where do bees sleep?"},
                    ],
                }
            }
        ],
    },
    {
        "agent": "conductor",
        "match": "^Describe a new specialist",
        "replies": [
            {"json": {"description": "Bees.", "prompt": "You know bees.", "skills": ["mail", "shell"]}},
            {"json": {"description": "Knows bees.", "prompt": "You know bees.", "skills": ["memory"]}},
        ],
    },
    {
        "agent": "specialist-bees",
        "match": "Where do bees sleep",
        "replies": [{"call": {"name": "finish_task", "arguments": {"result": "In the hive."}}}],
    },
]


async def test_a_plan_may_ask_for_a_specialist_and_give_it_a_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "script.yaml"
    path.write_text(yaml.safe_dump(SCRIPT))
    async with opened(tmp_path / "state", monkeypatch, MAILROOM_BRAIN=f"scripted:{path}") as office:
        body = {"text": "Where do bees sleep?", "goal_id": "g1"}
        await office.bus.store(subjects.SUBMIT, json.dumps(body).encode())
        goal = await ended(office.bus, "g1")
        assert goal.status is TaskStatus.COMPLETED, goal.reason
        assert goal.answer == "In the hive."
        assert goal.tasks[0].assignee == "specialist-bees"
        page = await presence(office.bus, "specialist-bees")
        assert page is not None
        assert (page.description, page.skills) == (
            "Knows bees.",
            ("shared.skills.memory.MemorySkill",),
        )


async def test_the_conductor_is_killed_while_a_specialist_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path / "state", monkeypatch, MAILROOM_TASK_ACK_WAIT="2") as office:
        conductor = await presence(office.bus, "conductor")
        assert conductor is not None
        making = asyncio.create_task(
            do(office.bus, "g1", "conductor", "create_specialist", domain="Owls", requirements="Knows owls")
        )
        profile = office.state_dir / "specialists" / "specialist-owls" / "profile.yaml"
        while not profile.exists():
            await asyncio.sleep(0.002)
        os.kill(conductor.pid, 9)
        goal = await making
        assert goal.status is TaskStatus.COMPLETED, goal.reason
        assert (
            len([page for page in await read_presences(office.bus) if page.agent == "specialist-owls"]) == 1
        )


def write_evil(state_dir: Path) -> None:
    """A profile somebody put there: code beside it is not run, foreign skills are refused."""
    folder = state_dir / "specialists" / "specialist-evil"
    folder.mkdir()
    (folder / "__main__.py").write_text("raise SystemExit('run')")
    (folder / "profile.yaml").write_text(
        "name: specialist-evil\ndescription: Evil.\nskills: [os.path.join]\n"
    )


def mailroom(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "services.cli", *arguments],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_without_mailroom_up_it_is_refused_with_what_to_do(tmp_path: Path) -> None:
    script = (
        "import asyncio;from shared import settings;from shared.tasks.profiles import require_supervision;"
        "require_supervision(settings.load())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(tmp_path),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert "the office was not opened by 'mailroom up'. Run the office with" in done.stderr
