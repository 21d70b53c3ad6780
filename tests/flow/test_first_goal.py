"""The first goal, done for real: check-ups of repositories, reviews, and goals that cannot be done."""

import asyncio
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from services.conductor.review import MAX_REVIEWS
from services.conductor.state_machine import ALLOWED
from shared import subjects
from shared.bus.entry import seal
from shared.contracts import (
    AgentReport,
    Goal,
    OfficeState,
    Question,
    Response,
    StateChanged,
    TaskStatus,
    generate_id,
)
from shared.memory import Memory
from tests.support.office import Office
from tests.support.python import make_environment
from tests.support.server import ROOT
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "ghp_" + "R4tK9mZx2QpLw8VbNc5YdHs7JfGa3UeT6oiB"

KETTLE = {
    "README.md": "# Kettle\n\nKettle boils water for tea.\n\n## Install\n\n```\npip install kettle\n```\n",
    "ARCHITECTURE.md": "# Architecture\n\n## Rules\n\n- `kettle.core` must not import `kettle.web`.\n",
    "pyproject.toml": (
        '[project]\nname = "kettle"\n\n[tool.uv]\npackage = false\n\n'
        '[tool.pytest.ini_options]\npythonpath = ["."]\n'
    ),
    "kettle/__init__.py": "",
    "kettle/web.py": "def serve():\n    return 'tea'\n",
    "kettle/core.py": (
        "import os\nfrom kettle.web import serve\n\n\ndef boil(words):\n    return eval(words)\n\n\n"
        "def pour():\n    return serve()\n"
    ),
    "kettle/settings.py": f'TOKEN = "{SECRET}"\n',
    "tests/test_core.py": (
        "from kettle.core import boil, pour\n\n\ndef test_boil():\n    assert boil('40 + 2') == 42\n\n\n"
        "def test_pour():\n    assert pour() == 'coffee'\n"
    ),
}
TEAPOT = {
    "README.md": "# Teapot\n\nTeapot keeps tea warm.\n",
    "package.json": '{\n  "name": "teapot",\n  "scripts": {"test": "node --test"}\n}\n',
    "index.js": "exports.warm = () => 60;\n",
    "test/index.test.js": (
        "const test = require('node:test');\nconst assert = require('node:assert');\n"
        "const { warm } = require('../index.js');\n\n"
        "test('keeps warm', () => assert.strictEqual(warm(), 60));\n"
        "test('keeps hot', () => assert.strictEqual(warm(), 90));\n"
    ),
}
SAMOVAR = {
    "README.md": "# Samovar\n\nSamovar brews tea in a shell.\n",
    "brew.sh": "#!/bin/sh\necho tea\n",
    "Makefile": "all:\n\t@true\n\ntest:\n\t./brew.sh | grep -q coffee\n",
}
TEA = "teapot" if shutil.which("node") else "samovar"

SLOPPY = '''"""An agent for tests: gives nothing at first."""
from shared.tasks.actions import Outcome, register_action
from shared.agent.base import Agent
from shared.agent.process import run

class Sloppy(Agent):
    """Answers when it is told to do it again."""

    @register_action("Answer in the end", {})
    async def answer(self) -> Outcome:
        told = self.context.task.context.get("feedback", ())
        return Outcome(output=f"42, since I was told: {told[0]}" if told else "")

    @register_action("Never answer", {})
    async def refuse(self) -> Outcome:
        return Outcome(output="")

if __name__ == "__main__":
    run(Sloppy, __file__)
'''


class Checkup(NamedTuple):
    """A check-up that has ended: the repository as it was before, and what came of it."""

    repo: Path
    before: Mapping[str, tuple[object, ...]]
    goal: Goal
    report: str

    def section(self, title: str) -> list[str]:
        """The lines below a heading that say something."""
        _, _, rest = self.report.partition(f"\n## {title}\n")
        return [line for line in rest.partition("\n## ")[0].splitlines() if line.strip()]


def make_repository(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755 if name.endswith(".sh") else 0o644)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Put the kettle on")
    return folder


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Tester", "-c", "user.email=tester@example.org")
    done = subprocess.run(
        ["git", *identity, "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout


def snapshot(folder: Path) -> dict[str, tuple[object, ...]]:
    """Everything about every file, .git included."""
    return {
        path.relative_to(folder).as_posix(): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Office]:
    """The whole office, and a sloppy agent beside it; tests use goals of their own."""
    folder = tmp_path_factory.mktemp("office")
    home = folder / "agents" / "sloppy"
    home.mkdir(parents=True)
    (home / "profile.yaml").write_text("name: sloppy\ndescription: Gives nothing at first.\n")
    (home / "__main__.py").write_text(SLOPPY)
    running = Office(folder, MAILROOM_AGENTS_DIR=str(folder / "agents"), PYTHONPATH=str(ROOT))
    try:
        await running.open()
        yield running
    finally:
        await running.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def checkups(office: Office, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checkup]:
    """Two repositories checked up on at once; one lies in a folder whose name has blanks and more."""
    folder = tmp_path_factory.mktemp("repositories")
    repos = {
        "kettle": make_repository(folder / "my kettle (größe)", KETTLE | {".gitignore": ".venv\n"}),
        TEA: make_repository(folder / TEA, TEAPOT if TEA == "teapot" else SAMOVAR),
    }
    shutil.copytree(make_environment(folder, "pytest"), repos["kettle"] / ".venv", symlinks=True)
    before = {name: snapshot(repo) for name, repo in repos.items()}
    for name, repo in repos.items():
        await office.submit(
            {"text": f"Check up on the repository at '{repo}'.", "goal_id": f"checkup-{name}"}
        )
    result = {}
    for name, repo in repos.items():
        goal = await office.finished(f"checkup-{name}", 60)
        report = Path(goal.report_path)
        result[name] = Checkup(repo, before[name], goal, report.read_text() if goal.report_path else "")
    return result


both = pytest.mark.parametrize("name", ["kettle", TEA])


# --- the report ----------------------------------------------------------------------------------


@both
async def test_a_check_up_is_completed_and_approved(
    office: Office, checkups: dict[str, Checkup], name: str
) -> None:
    goal = checkups[name].goal
    assert goal.status is TaskStatus.COMPLETED, goal.reason
    assert goal.playbook == "checkup"
    assert {task.name: task.status for task in goal.tasks} == dict.fromkeys(
        ("reading", "tests", "history", "inspection"), TaskStatus.COMPLETED
    )
    assert goal.verdict["approved"] is True
    assert Path(goal.report_path) == office.config.outputs / f"checkup-{name}" / "report.md"


@both
async def test_the_repository_is_as_it_was(checkups: dict[str, Checkup], name: str) -> None:
    assert snapshot(checkups[name].repo) == checkups[name].before


async def test_the_report_says_what_is_wrong_and_where(checkups: dict[str, Checkup]) -> None:
    report = checkups["kettle"]
    assert report.report.startswith("# Check-up of kettle\n\n**kettle: 1 of 2 tests fails")
    assert any(
        "`tests/test_core.py::test_pour` (`tests/test_core.py:9`)" in row for row in report.section("Tests")
    )
    assert "1 passed, 1 failed" in "\n".join(report.section("Tests"))
    rows = "\n".join(report.section("Lint, security and secrets"))
    assert re.search(r"medium \| `kettle/core\.py:6` .*bandit B307", rows)
    assert re.search(r"`kettle/core\.py:1` .*`os` imported but unused.*ruff F401", rows)
    assert re.search(r"high \| `kettle/settings\.py:1` ", rows)
    drift = "\n".join(report.section("Drift from its own rules"))
    assert "**Broken** 1 time: `kettle.core` must not import `kettle.web`. (`ARCHITECTURE.md:5`)" in drift
    assert "`kettle/core.py:2`: kettle.core imports kettle.web" in drift
    assert "Kettle boils water for tea. (`README.md:3`)" in "\n".join(report.section("What it is"))
    assert "`pip install kettle` (`README.md:8`)" in "\n".join(report.section("How it is built"))
    assert "Put the kettle on" in "\n".join(report.section("History"))


async def test_the_worst_comes_first(checkups: dict[str, Checkup]) -> None:
    rows = checkups["kettle"].section("Lint, security and secrets")
    ranks = [row.split("|")[1].strip() for row in rows if row.startswith("| ")][1:]
    ranks = [rank for rank in ranks if rank in ("high", "medium", "low")]
    assert ranks == sorted(ranks, key=["high", "medium", "low"].index)
    assert {"high", "medium", "low"} <= set(ranks)


async def test_no_secret_is_told_to_anybody(office: Office, checkups: dict[str, Checkup]) -> None:
    assert SECRET not in checkups["kettle"].report
    assert not [subject for _, subject, data in await office.stored() if SECRET.encode() in data]
    assert not [s for _, s, data in await office.stored(stream=subjects.MEMORY) if SECRET.encode() in data]


async def test_a_project_that_is_not_python_is_checked_too(checkups: dict[str, Checkup]) -> None:
    report = checkups[TEA]
    command, place = ("npm run test", "package.json:3") if TEA == "teapot" else ("make test", "Makefile:4")
    told = "\n".join(report.section("Tests"))
    assert f"`{command}`" in told
    assert f"`{place}" in told
    if TEA == "teapot":
        assert "1 passed, 1 failed" in told
        assert "`keeps hot` (`test/index.test.js:6`)" in told
    found = "\n".join(report.section("Lint, security and secrets"))
    assert f"Nothing was found in {'2 JavaScript files' if TEA == 'teapot' else '1 shell script'}" in found


STATED = (
    "What it is",
    "How it is built",
    "How it is laid out",
    "Lint, security and secrets",
    "Drift from its own rules",
    "Open questions",
)
SAID_WITHOUT_A_PLACE = ("(counted)", "(the repository as a whole)")


def statements(checkup: Checkup) -> list[str]:
    """The lines of a report that say something about the repository."""
    lines = [line for title in STATED for line in checkup.section(title)]
    lines += [line for line in checkup.section("History") if "git:" in line]
    _, *failing = "\n".join(checkup.section("Tests")).split("Failing:\n")
    lines += [line for block in failing for line in block.splitlines()]
    told = [line for line in lines if line.lstrip().startswith(("- ", "| "))]
    return [line for line in told if not line.startswith(("| Severity", "| ---"))]


def places(line: str) -> list[str]:
    """What a line names as its source: in a column of the table, in brackets, or ahead of a colon."""
    if line.startswith("|"):
        return re.findall(r"`([^`]+)`", line.split(" | ")[1])
    return re.findall(r"\(`([^`]+)`\)", line) or re.findall(r"^ +- `([^`]+)`:", line)


def resolves(place: str, repo: Path) -> bool:
    if place.startswith("git:"):
        return git(repo, "cat-file", "-t", place.removeprefix("git:")).strip() == "commit"
    path, _, line = place.partition(":")
    target = repo / path
    if not line:
        return target.exists()
    return target.is_file() and 1 <= int(line) <= len(target.read_text().splitlines())


@both
async def test_every_statement_has_a_source_that_can_be_looked_up(
    checkups: dict[str, Checkup], name: str
) -> None:
    told = statements(checkups[name])
    assert len(told) >= 6
    for line in told:
        if not line.endswith(SAID_WITHOUT_A_PLACE):
            assert places(line), f"no source: {line}"
        for place in places(line):
            assert resolves(place, checkups[name].repo), f"{place} of: {line}"


@both
async def test_the_states_of_a_goal_follow_each_other_as_they_may(
    office: Office, checkups: dict[str, Checkup], name: str
) -> None:
    stored = await office.stored(subjects.goal(checkups[name].goal.goal_id))
    changes = [StateChanged.from_json(data) for _, _, data in stored]
    state = OfficeState.IDLE
    for change in changes:
        assert change.previous is state
        assert change.state in ALLOWED[state]
        state = change.state
    assert {change.state for change in changes} == set(OfficeState) - {OfficeState.PLANNING}


async def test_the_report_comes_by_mail(office: Office, checkups: dict[str, Checkup]) -> None:
    letters = [AgentReport.from_json(data) for _, _, data in await office.stored("mail.user.conductor")]
    (letter,) = [letter for letter in letters if letter.goal_id == "checkup-kettle"]
    assert letter.report_type == "checkup"
    assert letter.output_paths == (checkups["kettle"].goal.report_path,)
    assert letter.summary.startswith("kettle: 1 of 2 tests fails")


# --- memory --------------------------------------------------------------------------------------


async def test_what_was_found_is_in_memory(office: Office, checkups: dict[str, Checkup]) -> None:
    memory = Memory(office.user)
    name = checkups["kettle"].repo.name

    async def is_found() -> bool:
        hits = await memory.search("which test of the kettle fails?", limit=10, tags=["checkup", name])
        return any("failing test tests/test_core.py::test_pour" in hit.node.title for hit in hits)

    await eventually(is_found)  # the goal ends once it is in the log
    hits = await memory.search("kettle.core imports kettle.web", limit=3, kinds=["observation"])
    assert hits[0].node.metadata["place"] == "kettle/core.py:2"
    assert hits[0].node.source.agent == "conductor"
    (event,) = [
        hit.node
        for hit in await memory.search("check-up of the kettle", limit=10, kinds=["event"])
        if hit.node.metadata["goal_id"] == "checkup-kettle"
    ]
    assert event.metadata["report_path"] == checkups["kettle"].goal.report_path


async def test_the_front_desk_tells_what_was_found_and_where_it_stands(
    office: Office, checkups: dict[str, Checkup]
) -> None:
    question = Question(sender="user", recipient="nexus", text="what did the check-up find?")
    await office.user.commit([seal(subjects.mail("nexus", "user"), question)])
    answers: list[Response] = []

    async def answered() -> bool:
        for _, _, data in await office.stored("mail.user.nexus"):
            response = Response.from_json(data)
            if response.cause == question.id:
                answers.append(response)
        return bool(answers)

    await eventually(answered)
    (answer,) = answers
    assert answer.citations
    cited = await Memory(office.user).get(*answer.citations)
    assert [node.id for node in cited] == list(answer.citations)
    assert {node.metadata["goal_id"] for node in cited} <= {f"checkup-{name}" for name in checkups}
    assert any(part in answer.text for part in ("test_pour", "1 of 2 tests fails")), answer.text


# --- reviews -------------------------------------------------------------------------------------


async def play(office: Office, text: str = "do it", timeout: float = 30, **context: Any) -> Goal:
    goal_id = f"goal-{generate_id()}"
    await office.submit({"text": text, "goal_id": goal_id, "context": context})
    return await office.finished(goal_id, timeout)


async def reviews_of(office: Office, goal: Goal) -> int:
    asked = await office.submitted("critic", "conductor")
    return sum(task.goal_id == goal.goal_id and task.context["action"] == "review" for task in asked)


async def test_the_critic_sends_empty_work_back_and_approves_the_second_try(office: Office) -> None:
    goal = await play(office, assignee="sloppy", action="answer")
    assert goal.status is TaskStatus.COMPLETED
    assert (goal.reviews, goal.verdict["decision"], goal.reason) == (2, "nothing_checked", "")
    assert goal.tasks[0].task_id == f"{goal.goal_id}-task-2"
    assert "42, since I was told: task: it completed without any output" in Path(goal.report_path).read_text()
    assert await reviews_of(office, goal) == 2


async def test_work_that_stays_empty_is_refused_three_times_and_told_as_it_is(office: Office) -> None:
    goal = await play(office, assignee="sloppy", action="refuse")
    assert (goal.reviews, goal.verdict["approved"]) == (MAX_REVIEWS, False)
    assert goal.reason == "the review did not approve: task: it completed without any output"
    assert await reviews_of(office, goal) == MAX_REVIEWS
    done = await office.submitted("sloppy", "conductor")
    assert sum(task.goal_id == goal.goal_id for task in done) == MAX_REVIEWS


# --- what cannot be done -------------------------------------------------------------------------


async def test_a_goal_for_an_agent_that_does_not_exist_fails_at_once(office: Office) -> None:
    goal = await play(office, timeout=5, assignee="typist", action="type")
    assert goal.status is TaskStatus.FAILED
    assert goal.reason.startswith("There is no agent 'typist'. There are conductor, cortex, critic")
    assert "sloppy" in goal.reason


async def test_an_unknown_action_is_answered_with_those_there_are(office: Office) -> None:
    goal = await play(office, assignee="engineer", action="dance")
    assert goal.status is TaskStatus.FAILED
    assert "engineer has no action 'dance'. Its actions are " in goal.reason
    assert "git_log" in goal.reason
    meant = await play(office, assignee="engineer", action="run_test")
    assert "Did you mean 'run_tests'?" in meant.reason


@pytest.mark.parametrize(
    "text",
    ["Paint my house blue", f"Find out why the parser in {ROOT} is slow, and propose a patch"],
    ids=["paint", "find out"],
)
async def test_a_goal_no_playbook_is_near_to_is_answered_with_what_can_be_done(
    office: Office, text: str
) -> None:
    goal = await play(office, text)
    assert goal.status is TaskStatus.FAILED
    assert goal.answer.startswith("No model is configured, and no playbook fits this request")
    assert "\n- Check up on the repository at PATH\n" in goal.answer
    assert goal.answer.index("Set MAILROOM_BRAIN") < goal.answer.index("- Check up"), "lists are cut off"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Check up on the repository at /no/such/folder.",
            "There is no folder /no/such/folder. Correct the path",
        ),
        ("Check up on the repository at ~nobody-at-all/src", "cannot be opened"),
        (f"Check up on the repository at /{'x' * 300}", "cannot be opened: File name too long"),
    ],
)
async def test_a_repository_that_cannot_be_found_is_said_at_once(
    office: Office, text: str, said: str
) -> None:
    goal = await play(office, text)
    assert goal.status is TaskStatus.FAILED
    assert said in goal.reason


async def test_a_folder_that_is_missing_is_asked_for(office: Office, tmp_path: Path) -> None:
    goal = await play(office, "Lint the repository")
    assert (goal.status, str(goal.outcome)) == (TaskStatus.COMPLETED, "not_checked")
    assert goal.question.startswith("The goal does not say the folder of the repository. Name it in the text")
    said = {"resume": goal.goal_id, "text": f"in {tmp_path}", "request_id": "r1"}
    await office.submit(said)
    while (goal := await office.finished(goal.goal_id, 60)).question:
        await asyncio.sleep(0.05)
    assert (goal.playbook, goal.parameters) == ("lint", {"repo": str(tmp_path)})


async def test_odd_folders_are_checked_up_on_without_a_crash(office: Office, tmp_path: Path) -> None:
    empty, plain, broken = tmp_path / "empty", tmp_path / "plain", tmp_path / "broken"
    for folder in (empty, plain, broken):
        folder.mkdir()
    (plain / "notes.txt").write_text("nothing but notes\n")
    make_repository(broken, {"pyproject.toml": "[project\n", "a.py": "def broken(:\n", "b.py": "\xff\x00"})
    (broken / ".git" / "HEAD").write_text("nonsense")
    goals = await asyncio.gather(
        *(play(office, f"Check up on the repository at {path}") for path in (empty, plain, broken))
    )
    for goal in goals:
        assert goal.status is TaskStatus.COMPLETED, goal.reason
        assert Path(goal.report_path).read_text().startswith("# Check-up of ")


async def test_a_check_up_survives_the_death_of_those_who_do_it(
    office: Office, checkups: dict[str, Checkup]
) -> None:
    """Killed once each, at whatever they are doing; what was handed out is not handed out again."""
    goal_id = f"goal-{generate_id()}"
    await office.submit({"text": f"Check up on '{checkups[TEA].repo}'", "goal_id": goal_id})
    for name in ("conductor", "engineer", "conductor", "critic"):
        await asyncio.sleep(0.3)
        office.kill(name)
        office.start(name)
    goal = await office.finished(goal_id, 60)
    assert goal.status is TaskStatus.COMPLETED
    assert {task.status for task in goal.tasks} == {TaskStatus.COMPLETED}
    tasks = [task.task_id for task in await office.submitted(requester="conductor")]
    mine = sorted(task_id for task_id in tasks if task_id.startswith(goal_id))
    assert mine == sorted([*(task.task_id for task in goal.tasks), f"{goal_id}-review-1"])
    ends = [result.task_id for result in await office.results(requester="conductor")]
    assert sorted(task_id for task_id in ends if task_id.startswith(goal_id)) == mine


async def test_a_goal_waits_for_a_memory_daemon_that_comes_back(office: Office, tmp_path: Path) -> None:
    """Playbooks are chosen by what memory makes of their words."""
    (tmp_path / "README.md").write_text("# Tea\n\nTea is a drink.\n")
    office.kill("memory")
    goal_id = f"goal-{generate_id()}"
    await office.submit({"text": f"Summarise the README of {tmp_path}", "goal_id": goal_id})
    await asyncio.sleep(0.5)
    office.start("memory")
    goal = await office.finished(goal_id)
    assert (goal.status, goal.playbook) == (TaskStatus.COMPLETED, "read")


async def test_nothing_of_all_this_was_buried(office: Office) -> None:
    assert [json.loads(data)["reason"] for _, _, data in await office.stored("dead.*")] == []
