"""A day of an office without a model: what it promises to do offline, in one office of real processes."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from services.cli.command import COMMANDS
from shared import subjects
from shared.contracts import Question, TaskStatus
from tests.flow.discovery_pages import PAPERS, RSS
from tests.support.http import Site
from tests.support.office import Office
from tests.support.server import run_mailroom
from tests.support.waiting import eventually

HOUSE = {"README.md": "# House\n\nA house of one module.\n", "house.py": '"""A house."""\n\nROOMS = 3\n'}


@pytest.fixture
async def office(tmp_path: Path, site: Site) -> AsyncIterator[Office]:
    """The whole office; arXiv and the feeds are recorded answers on a local server."""
    running = Office(
        tmp_path,
        MAILROOM_ARXIV_URL=site.page("/api/query", PAPERS),
        MAILROOM_FEEDS=site.page("/rss", RSS),
        MAILROOM_BRAIN="",
    )
    try:
        await running.open(list(running.members))
        yield running
    finally:
        await running.close()


async def mailroom(office: Office, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(run_mailroom, office.environment, *arguments)


async def letters(office: Office, sender: str) -> list[dict[str, Any]]:
    return [json.loads(data) for _, _, data in await office.stored(f"mail.user.{sender}")]


async def ask(office: Office, text: str) -> str:
    question = Question(sender=subjects.USER, recipient=subjects.NEXUS, text=text)
    await office.user.store(subjects.mail(subjects.NEXUS, subjects.USER), question.to_json())
    answers: list[str] = []

    async def answered() -> bool:
        answers[:] = [m["text"] for m in await letters(office, "nexus") if m.get("cause") == question.id]
        return bool(answers)

    await eventually(answered, 30)
    return answers[0]


def build_house(repo: Path) -> Path:
    repo.mkdir()
    for name, text in HOUSE.items():
        (repo / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
    return repo


@pytest.mark.timeout(240)
async def test_a_day_without_a_model(office: Office, tmp_path: Path) -> None:
    repo = build_house(tmp_path / "house")

    # A check-up, a research brief, and a shell task that waits for a person, side by side.
    await office.submit({"text": f"Check up on the repository at {repo}", "goal_id": "checkup"})
    await office.submit(
        {
            "text": "Write a research brief on graph memory",
            "goal_id": "brief",
            "context": {
                "assignee": "frontier",
                "action": "generate_research_brief",
                "params": {"topic": "graph memory"},
            },
        }
    )
    await office.submit(
        {
            "text": "Tidy up",
            "goal_id": "shell",
            "context": {
                "assignee": "engineer",
                "action": "run_shell",
                "params": {"command": "rm -rf *; mkdir keep; ls"},
            },
        }
    )

    asked: list[dict[str, Any]] = []

    async def is_asked() -> bool:
        listed = await mailroom(office, "approvals", "list", "--json")
        asked[:] = json.loads(listed.stdout or "[]")
        return bool(asked)

    await eventually(is_asked, 40)
    granted = await mailroom(office, "approvals", "grant", str(asked[0]["approval_id"])[:12])
    assert granted.returncode == 0, granted.stderr
    shell = await office.finished("shell", 60)
    assert shell.status is TaskStatus.COMPLETED, shell.reason
    assert "keep" in (await office.result("engineer", shell.tasks[0].task_id, "conductor")).output

    brief = await office.finished("brief", 60)
    assert brief.status is TaskStatus.COMPLETED, brief.reason
    researched = await office.result("frontier", brief.tasks[0].task_id, "conductor")
    written = Path(researched.output_paths[0]).read_text()
    assert "arxiv.org" in written.lower()

    checkup = await office.finished("checkup", 90)
    assert checkup.status is TaskStatus.COMPLETED, checkup.reason
    assert "house of one module" in Path(checkup.report_path).read_text()

    # A question over memory, once it has taken in what was found.
    told: list[str] = []

    async def known() -> bool:
        told[:] = [await ask(office, "What did the check-up of the house find?")]
        return "house" in told[0].lower() and "(" in told[0]

    await eventually(known, 30)

    # A reminder, which fires once.
    answer = await ask(office, "Remind me in 3 seconds to water the plants")
    assert "water the plants" in answer
    assert datetime.now(UTC).strftime("%Y") in answer or "UTC" in answer

    async def reminded() -> bool:
        return sum("water the plants" in json.dumps(m) for m in await letters(office, "nexus")) >= 2

    await eventually(reminded, 20)

    # An overnight job in words, dropped as a file: a playbook knows them.
    job = {"id": "job-20260102-001", "task": f"Run the tests of {repo}"}
    tonight = office.config.state_dir / "job_queue" / "tonight"
    (tonight / "job.json").write_text(json.dumps(job))
    result = office.config.state_dir / "job_queue" / "archive" / "job-20260102-001.json"
    await eventually(result.exists, 60)
    assert json.loads(result.read_text())["status"] == "completed"

    async def reported() -> bool:
        return any(b"job-20260102-001" in data for _, _, data in await office.stored("mail.nexus.cortex"))

    await eventually(reported)


def test_every_command_of_the_day_is_there() -> None:
    assert {"approvals", "reminders", "policy", "kpi", "mail"} <= set(COMMANDS)
