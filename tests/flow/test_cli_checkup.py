"""``mailroom checkup``, and what people name goals and folders by, against real servers and agents."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from services.cli.supervisor.lock import is_held
from shared.contracts import (
    Finding,
    Inspection,
    ResultOutcome,
    TaskStatus,
    TestFailure,
    TestRun,
    ToolRun,
    generate_task_id,
)
from tests.flow.test_cli import run, stand_in
from tests.support.conductor import result_of
from tests.support.server import ROOT, Server, environment, run_mailroom
from tests.support.up import processes_of

pytestmark = pytest.mark.usefixtures("office_gateway")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one test that passes and one that fails."""
    folder = tmp_path / "my project"
    folder.mkdir()
    (folder / "README.md").write_text("# Small\n")
    (folder / "test_small.py").write_text(
        "def test_right():\n    assert 1 + 1 == 2\n\n\ndef test_wrong():\n    assert 1 + 1 == 3\n"
    )
    return folder


def in_folder(folder: Path, variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``mailroom`` in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "services.cli", *arguments],
        cwd=folder,
        env={**variables, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_one_command_starts_an_office_checks_the_folder_and_leaves_nothing_running(
    tmp_path: Path, project: Path
) -> None:
    variables = environment(tmp_path / "state")
    files = ("--junit", str(tmp_path / "tests.xml"), "--sarif", str(tmp_path / "findings.sarif"))
    done = in_folder(project, variables, "checkup", "--office", "--json", "--fail-on", "tests", *files)
    assert done.returncode == 3, (done.stdout, done.stderr)
    assert done.stderr == f"Starting the office in {tmp_path / 'state'}\n"
    found = json.loads(done.stdout)
    assert (found["tests"]["passed"], found["tests"]["failed"], found["tests"]["errors"]) == (1, 1, 0)
    assert "pytest" in found["tests"]["command"]
    assert found["folder"] == str(project)
    assert found["exit_code"] == 3
    assert Path(found["report"]).is_file()
    assert {"goal_id", "outcome", "findings", "not_checked", "seconds"} <= found.keys()
    (suite,) = ElementTree.parse(tmp_path / "tests.xml").getroot().findall("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    runs = json.loads((tmp_path / "findings.sarif").read_text())["runs"]
    assert {"ruff", "bandit"} <= {each["tool"]["driver"]["name"] for each in runs}
    assert not is_held(tmp_path / "state")
    assert processes_of(tmp_path / "state") == {}


async def test_folders_are_checked_for_before_anything_is_submitted(
    office_server: Server, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for wrong in ("no-such-folder", str(tmp_path / "file")):
        done = await run(office_server, "checkup", wrong)
        assert done.returncode == 2
        assert wrong in done.stderr
    both = await run(office_server, "checkup", "--no-wait", "--office")
    assert both.returncode == 2
    nowhere = await run(office_server, "checkup", "--junit", str(tmp_path / "no" / "x.xml"))
    assert nowhere.returncode == 2
    assert "there is no folder" in nowhere.stderr


async def test_several_folders_are_a_goal_each(office_server: Server, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    folders = [str(tmp_path / name) for name in ("a", "b", "a")]
    done = await run(office_server, "checkup", *folders, "--no-wait", "--json", "--only", "secrets")
    submitted = json.loads(done.stdout)["checkups"]
    assert len(submitted) == 2
    last = await run(office_server, "show", submitted[1]["goal_id"])
    assert "waits for the conductor" in last.stderr


async def test_relative_paths_are_submitted_as_absolute_ones_and_told(office_server: Server) -> None:
    goal_id = generate_task_id("goal")
    done = await run(
        office_server, "submit", "Run the tests of ./services", "-c", "repo=services", "--id", goal_id
    )
    assert f"./services is {ROOT}/services\n" in done.stderr
    async with office_server.connection() as bus:
        stored = await bus.last("OFFICE", "tasks.submit")
    assert stored is not None
    body = json.loads(stored.data)
    assert body["text"] == f"Run the tests of {ROOT}/services"
    assert body["context"] == {"repo": f"{ROOT}/services"}


async def test_a_goal_is_named_by_the_beginning_or_end_of_its_id(
    office_server: Server,
) -> None:
    begin, end = generate_task_id("first"), generate_task_id("goal")
    async with stand_in(office_server, begin, "One") as one, stand_in(office_server, end, "Two") as two:
        await one.play()
        await two.play()
    shown = await run(office_server, "show", begin[:30], "--json")
    assert json.loads(shown.stdout)["goal"]["goal_id"] == begin
    shown = await run(office_server, "show", end[-8:], "--json")
    assert json.loads(shown.stdout)["goal"]["goal_id"] == end
    assert (await run(office_server, "show", begin[:30])).returncode == 0
    another = generate_task_id("first")
    async with stand_in(office_server, another, "Three") as three:
        await three.play()
    twice = await run(office_server, "show", "first_")
    assert twice.returncode == 1
    assert "may mean 2 goals" in twice.stderr
    await run(office_server, "submit", "Count", "--id", another)
    refused = await run(office_server, "cancel", "no-such-goal")
    assert "There is no goal 'no-such-goal'" in refused.stderr


async def test_the_last_goal_is_the_one_that_was_submitted_last(office_server: Server) -> None:
    goal_id = json.loads((await run(office_server, "submit", "Look around", "--json")).stdout)["goal_id"]
    async with stand_in(office_server, goal_id, "Look around") as conductor:
        await conductor.play()
    for name in ("last", "-"):
        shown = await run(office_server, "show", name, "--json")
        assert json.loads(shown.stdout)["goal"]["goal_id"] == goal_id


@pytest.mark.parametrize(
    ("outcome", "headline", "code"),
    [
        (ResultOutcome.DONE, "✓ done in", 0),
        (ResultOutcome.FINDINGS, "! done with findings in", 0),
        (ResultOutcome.NOT_CHECKED, "? not checked in", 1),
    ],
)
async def test_the_outcome_is_the_headline_and_the_exit_code(
    office_server: Server, outcome: ResultOutcome, headline: str, code: int
) -> None:
    goal_id = generate_task_id("goal")
    async with stand_in(office_server, goal_id) as conductor:
        await conductor.take_up()
        await conductor.finish(TaskStatus.COMPLETED, outcome=outcome)
    again = await run(office_server, "submit", "Look around", "--wait", "--id", goal_id)
    assert again.returncode == code, again.stderr
    assert headline in again.stdout
    assert headline in (await run(office_server, "show", goal_id)).stdout
    assert headline in (await run(office_server, "tasks")).stdout
    assert (await run(office_server, "show", goal_id, "--fail-on", "any")).returncode == code


async def test_reports_are_written_for_a_goal_that_has_ended(office_server: Server, tmp_path: Path) -> None:
    goal_id = generate_task_id("goal")
    failure = TestFailure(test="test_a", message="1 == 2", source="test_a.py:3")
    tests = TestRun(command="pytest", passed=4, failed=1, skipped=0, errors=0, failures=(failure,))
    found = Finding(tool="bandit", rule="B602", severity="medium", file="a.py", line=7, message="a shell")
    inspection = Inspection(findings=(found,), total=1, tools=(ToolRun(name="bandit", findings=1),))
    async with stand_in(office_server, goal_id) as conductor:
        await conductor.take_up()
        await conductor.hand_out()
        claim = await conductor.claim("looks")
        metadata = {"tests": tests.to_dict(), "inspection": inspection.to_dict()}
        result = result_of(conductor.task, "scout", "Looked.")
        await claim.finish(msgspec.structs.replace(result, metadata=metadata))
        await conductor.finish(TaskStatus.COMPLETED, outcome=ResultOutcome.FINDINGS)
    junit, sarif = tmp_path / "tests.xml", tmp_path / "findings.sarif"
    files = ("--junit", str(junit), "--sarif", str(sarif), "--fail-on", "tests")
    shown = await run(office_server, "show", goal_id, *files)
    assert shown.returncode == 3, shown.stderr
    assert "! done with findings" in shown.stdout
    assert "1 test fails" in shown.stdout
    (case,) = ElementTree.parse(junit).getroot().iter("testcase")
    assert (case.get("name"), case.get("file"), case.get("line")) == ("test_a", "test_a.py", "3")
    (of_bandit,) = json.loads(sarif.read_text())["runs"]
    assert of_bandit["results"][0]["ruleId"] == "B602"
    assert of_bandit["results"][0]["level"] == "warning"


def test_without_an_office_the_way_to_start_one_is_named(tmp_path: Path) -> None:
    done = run_mailroom(environment(tmp_path), "checkup")
    assert done.returncode == 1
    assert "with 'mailroom up', or for this command alone with --office" in done.stderr


def test_fail_on_needs_the_end_of_the_goal(tmp_path: Path) -> None:
    done = run_mailroom(environment(tmp_path), "submit", "Look around", "--fail-on", "tests")
    assert done.returncode == 2
    assert "need --wait" in done.stderr
