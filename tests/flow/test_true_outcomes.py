"""What a goal came to is true: a command that fails fails it, and what was not judged is not approved."""

import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shared.contracts import AgentReport, Goal, ResultOutcome, TaskStatus
from shared.subjects import mail
from tests.support.http import Site
from tests.support.model_formats import Answer
from tests.support.model_server import ModelServer, Request
from tests.support.office import Office
from tests.support.server import run_mailroom

REVIEW = "Judge whether these results do what was asked for"


@asynccontextmanager
async def opened(folder: Path, worker: str = "engineer", **environment: str) -> AsyncIterator[Office]:
    office = Office(folder, **environment)
    try:
        await office.open(["conductor", worker, "critic", "gateway"])
        yield office
    finally:
        await office.close()


def submit(
    office: Office, action: str, *params: str, agent: str = "engineer"
) -> "subprocess.CompletedProcess[str]":
    """``mailroom submit --wait`` of an action of ``agent``."""
    words = [f"assignee={agent}", f"action={action}", *params]
    context = [part for word in words for part in ("-c", word)]
    return run_mailroom(office.environment, "submit", "Try this", *context, "--wait")


def headline(done: "subprocess.CompletedProcess[str]") -> str:
    """The line that says what the goal came to."""
    marks = ("✓", "✗", "?", "!")
    return next(line for line in done.stdout.splitlines() if line.startswith(marks))


async def last_goal(office: Office) -> Goal:
    shown = run_mailroom(office.environment, "show", "last", "--json")
    goal = await office.goal(json.loads(shown.stdout)["goal"]["goal_id"])
    assert goal is not None
    return goal


async def test_the_exit_code_of_a_command_is_what_its_goal_came_to(tmp_path: Path) -> None:
    failing = [
        (["run_shell", "command=echo hi; exit 3"], "`echo hi; exit 3` ended with exit code 3: hi"),
        (["run_shell", "command=exit 3", "ok_codes:=[0, 1]"], "`exit 3` ended with exit code 3"),
        (
            ["run_shell", "command=sleep 30", "timeout:=1"],
            "`sleep 30` was stopped after 1 s",
        ),
        (["run_shell", "command=kill -9 $$"], "`kill -9 $$` was ended by signal 9 (SIGKILL)"),
        (["run_shell", "command=nothing-like-this"], "ended with exit code 127"),
        (["run_python", "script=import sys; sys.exit(4)"], "ended with exit code 4"),
        (["run_shell", "command=true", "ok_codes:=[300]"], "ok_codes[0] must be a whole number <= 255"),
        (["run_shell", "command=rm -rf /"], "The policy denies"),
    ]
    fine = [
        ["run_shell", "command=echo hi"],
        ["run_shell", "command=echo hi; exit 3", "ok_codes:=[0, 3]"],
        ["run_shell", "command=kill -9 $$", "ok_codes:=[137]"],
    ]
    async with opened(tmp_path) as office:
        for asked, why in failing:
            done = submit(office, *asked)
            assert done.returncode == 1, (asked, done.stdout)
            assert headline(done).startswith("✗ failed"), done.stdout
            assert why in headline(done)
        for asked in fine:
            done = submit(office, *asked)
            assert done.returncode == 0, (asked, done.stdout)
            assert headline(done).startswith("✓ done"), done.stdout
        goal = await last_goal(office)
        [result] = [each for each in await office.results("engineer") if each.goal_id == goal.goal_id]
        assert result.metadata["commands"][0]["exit_code"] == -9
        review = run_mailroom(office.environment, "show", goal.goal_id).stdout
        assert "Checked: the delivered file is there." in review


async def test_what_the_gate_refused_is_a_failure_though_the_program_takes_it_for_an_answer(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, MAILROOM_REACH="nothing.invalid") as office:
        done = submit(office, "run_shell", "command=curl -s http://nothing.invalid/")
        assert done.returncode == 1, done.stdout
        assert "was refused a connection by the gate: nothing.invalid cannot be resolved" in headline(done)
        [result] = await office.results("engineer")
        assert (result.status, result.metadata["exit_code"]) == (TaskStatus.FAILED, 0)


@pytest.fixture
def refusing() -> Iterator[ModelServer]:
    """A model that never gives a judgement in the form it is asked for."""

    def answer(request: Request) -> Answer:
        asked = REVIEW in json.dumps(request.body)
        judgement = {"approved": False, "reasons": [{"task": "task", "text": "It is wrong"}]}
        return Answer(text=json.dumps(judgement) if asked else "I do not know.")

    server = ModelServer(answer)
    yield server
    server.close()


async def test_a_judgement_that_cannot_be_used_never_approves(tmp_path: Path, refusing: ModelServer) -> None:
    (tmp_path / "project").mkdir()
    brain = {"MAILROOM_BRAIN": "openai:small", "MAILROOM_BRAIN_URL": refusing.url, "MAILROOM_BRAIN_KEY": "k"}
    async with opened(tmp_path, **brain) as office:
        counted = submit(office, "run_shell", "command=echo hi")
        assert headline(counted).startswith("✓ done")
        assert not refusing.requests, "no model judges what a program did"
        done = run_mailroom(
            office.environment, "submit", "Say who wrote it", "-c", "assignee=engineer", "--wait"
        )
        asked = [each for each in refusing.requests if REVIEW in json.dumps(each.body)]
        assert len(asked) == 2, "the model was asked again, once"
        goal = await last_goal(office)
        assert (goal.status, goal.outcome) == (TaskStatus.COMPLETED, ResultOutcome.NOT_CHECKED)
        assert not goal.verdict["approved"]
        assert done.returncode == 1
        assert headline(done).startswith("? not checked")
        assert "Not judged: the content: " in headline(done)

        report = Path(goal.report_path).read_text().splitlines()
        assert report[2].startswith("Not checked. ")
        assert not any("Approved" in line or "to be true" in line for line in report), report
        shown = run_mailroom(office.environment, "show", "last").stdout
        assert "review   Not judged: the content: " in shown
        assert "? not checked" in run_mailroom(office.environment, "tasks", "--all").stdout
        letters = await office.stored(mail("user", "conductor"))
        letter = AgentReport.from_json(letters[-1][2])
        assert letter.summary.startswith("Outcome: not checked: the content: ")
        assert letter.metadata["review"].startswith("Not judged: the content: ")
        assert letter.metadata["outcome"] == "not_checked"


async def test_a_page_that_is_not_there_or_has_no_text_is_not_done(tmp_path: Path) -> None:
    with Site() as site:
        site.page("/gone", "<p>Sorry, it is not here.</p>", status=404, kind="text/html")
        site.page("/forbidden", "<p>Sign in.</p>", status=403, kind="text/html")
        site.page("/empty", "", kind="text/html")
        site.page("/menu", "<html><body><nav></nav></body></html>", kind="text/html")
        reasons = {"gone": "404", "forbidden": "403", "empty": "has no text", "menu": "has no text"}
        async with opened(tmp_path, "scout", MAILROOM_PRIVATE_HOSTS=site.pair) as office:
            for name, why in reasons.items():
                done = submit(office, "fetch_page", f"url={site.url(f'/{name}')}", agent="scout")
                assert done.returncode == 1, done.stdout
                assert headline(done).startswith("✗ failed")
                assert why in headline(done)
