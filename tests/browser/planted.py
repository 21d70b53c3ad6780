"""An office after a morning's work, for the pictures in the documentation; planted.yaml has its content."""

import asyncio
import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import yaml

from shared import subjects
from shared.bus.entry import seal
from shared.contracts import Edge, Email, Node, Relation
from shared.memory import Memory
from tests.support.gateway import RunningGateway

PERSON = "ada"
HOME = "/home/ada"
"""Where the pictures show the office's projects to be."""
FIRST = ("memory", "conductor", "scout", "nexus", "cortex", "frontier")
THINKING = ("engineer", "critic")
"""Agents whose model follows a script."""
GIT = ("git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
GOAL_TIMEOUT = 120.0
"""Seconds that a goal may take on a machine that has other things to do."""


async def open_planted(running: RunningGateway, folder: Path) -> None:
    """Start an office in ``folder`` and have a morning's work done; some of it still runs, or waits."""
    plan = read_plan(folder / "src")
    await asyncio.to_thread(make_repositories, folder / "src", plan["repositories"])
    users = running.config.gateway / "users.toml"
    users.parent.mkdir(parents=True, exist_ok=True)
    users.write_text(f'{PERSON} = {{ role = "admin" }}\n')
    await running.open(*FIRST)
    office = running.office
    office.environment["MAILROOM_BRAIN"] = f"scripted:{write_script(folder, plan['thoughts'])}"
    for name in THINKING:
        office.start(name)
    for name in THINKING:
        await office.ready(name)
    async with running.browser() as ada:
        ada.base_url = f"{running.url}/api/v1"
        await remember(running, plan)
        await talk(ada, plan)
        await plan_ahead(running, plan["night"])
        await work(running, plan)
        await ask_person(running, plan["question"])


def read_plan(source: Path) -> dict[str, Any]:
    """What the office is given, with the paths of its projects."""
    text = Path(__file__).with_suffix(".yaml").read_text().replace("SRC", str(source))
    plan: dict[str, Any] = yaml.safe_load(text)
    return plan


def make_repositories(source: Path, projects: dict[str, dict[str, str]]) -> None:
    """The projects that the office is asked about, each with one commit."""
    for project, files in projects.items():
        folder = source / project
        folder.mkdir(parents=True)
        for name, text in files.items():
            (folder / name).write_text(text)
        for arguments in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "Begin")):
            subprocess.run([*GIT, "-C", str(folder), *arguments], check=True, capture_output=True)


def write_script(folder: Path, thoughts: dict[str, str]) -> Path:
    """What the engineer's and the critic's model says about the parser."""
    parser = {"path": "parser/parser.py"}
    split = {"old": '    return line.split(",")', "new": "    return next(csv.reader([line]), [])"}
    header = '"""Reads comma-separated lines."""\n'
    fix = [
        call("copy_project", thoughts["copy"], repo=str(folder / "src" / "parser"), folder="parser"),
        call("test_changes", thoughts["before"], folder="parser"),
        call("edit_file", thoughts["change"], **parser, edits=[split]),
        call("edit_file", **parser, edits=[{"old": header, "new": f"{header}\nimport csv\n"}]),
        call("test_changes", thoughts["after"], folder="parser"),
        {"text": thoughts["answer"], "delay": 0.3},
    ]
    approve = {"agent": "critic", "replies": [{"json": {"approved": True}}]}
    path = folder / "script.yaml"
    path.write_text(yaml.safe_dump([{"agent": "engineer", "replies": fix}, approve]))
    return path


def call(name: str, thought: str = "", **arguments: Any) -> dict[str, Any]:
    """A reply of a model that calls a tool."""
    said = {"text": thought} if thought else {}
    return {"call": {"name": name, "arguments": arguments}, "delay": 0.2, **said}


async def remember(running: RunningGateway, plan: dict[str, Any]) -> None:
    """Memories, each a version of the graph, and then what links them."""
    memory = Memory(running.office.user)
    for one in plan["memories"]:
        await memory.add(Node(**{**one, "tags": tuple(one["tags"])}), insist=True)
    edges = [Edge(from_id=one, to_id=to, relation=Relation(how)) for one, how, to in plan["links"]]
    await memory.add(edges=edges, insist=True)


async def talk(ada: httpx2.AsyncClient, plan: dict[str, Any]) -> None:
    """A conversation with the front desk, and reminders."""
    for words in plan["talk"]:
        answer = await ada.post("/desk/sessions/morning/messages", json={"text": words})
        assert answer.is_success, answer.text
    for text in plan["reminders"]:
        answer = await ada.post("/timetable", json={"text": text})
        assert answer.is_success, answer.text


async def plan_ahead(running: RunningGateway, tasks: list[str]) -> None:
    """Work for the night."""
    night = running.config.state_dir / "job_queue" / "tonight"
    night.mkdir(parents=True, exist_ok=True)
    first = datetime.now(UTC).replace(hour=2, minute=0, second=0, microsecond=0) + timedelta(days=1)
    for number, task in enumerate(tasks):
        due = first + timedelta(hours=number)
        job = {"id": f"night-{number + 1}", "task": task, "run_at": due.isoformat()}
        (night / f"night-{number + 1}.json").write_text(json.dumps(job))


async def work(running: RunningGateway, plan: dict[str, Any]) -> None:
    """Goals that end in each way, one that is at work for a while, and one that waits for a person."""
    office = running.office
    for goal_id, body in plan["goals"].items():
        await office.submit({"goal_id": goal_id, **body})
    for goal_id in plan["goals"]:
        await office.finished(goal_id, GOAL_TIMEOUT)
    for goal_id, body in plan["open_goals"].items():
        await office.submit({"goal_id": goal_id, **body})


async def ask_person(running: RunningGateway, question: dict[str, str]) -> None:
    """A letter of scout's that waits for an answer."""
    scout = await running.office.connect("scout")
    email = Email(sender=scout.name, recipient=subjects.USER, **question)
    await scout.commit([seal(subjects.mail(subjects.USER, scout.name), email)])
