"""The engineer changes code: in copies, with a patch and the commands that were run as its result."""

import asyncio
import subprocess
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from services.engineer.__main__ import Engineer
from services.engineer.report import Delivery, report_delivery
from shared.agent.base import Agent
from shared.contracts import CommandVerdict, ResultOutcome, TestRun
from shared.errors import ActionError
from shared.operations.patches import fit_patch
from shared.policy import Ruling
from shared.settings import Settings
from shared.tasks.actions import Outcome
from shared.tasks.context import TaskContext, current_task
from shared.tasks.profiles import load_profile
from tests.flow.hands import Journal

PROFILE = load_profile(Path(__file__).parents[2] / "services" / "engineer" / "profile.yaml")
TEST = """\
import unittest, calc
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(calc.add(1, 2), 3)
"""
HOSTILE = """\
import atexit, os
def pytest_unconfigure(config):
    path = config.option.xmlpath
    atexit.register(lambda: (os.unlink(path), os.mkfifo(path)))
"""
FIX = "--- a/calc.py\n+++ b/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n"


async def allow(command: str, workspace: str = "") -> Ruling:
    """A policy that allows everything: what it judges is tested elsewhere."""
    return Ruling(command=command, verdict=CommandVerdict.ALLOW, rule="test", why="test")


async def allow_read(path: str, *, deep: bool = False, workspace: str = "") -> Ruling:
    return await allow(path, workspace)


@pytest.fixture
def engineer(tmp_path: Path) -> Engineer:
    settings = Settings(state_dir=tmp_path / "state", command_timeout=60)
    made = Engineer(PROFILE, settings, SimpleNamespace(name="engineer", host="office"))  # type: ignore[arg-type]
    assert isinstance(made, Engineer)
    made.context.judge_command = allow  # type: ignore[method-assign]
    made.context.judge_read = allow_read  # type: ignore[method-assign]
    return made


@pytest.fixture
def journal():
    journal = Journal("task_1", "goal_1")
    token = current_task.set(TaskContext(journal))  # type: ignore[arg-type]
    yield journal
    current_task.reset(token)


@pytest.fixture(params=[True, False], ids=["git", "no git"])
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path / "calc project"
    folder.mkdir()
    (folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (folder / "test_calc.py").write_text(TEST)
    (folder / "picture.png").write_bytes(bytes(range(256)))
    if request.param:
        git = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        subprocess.run([*git, "init", "--quiet"], check=True)
        subprocess.run([*git, "add", "calc.py"], check=True)
        subprocess.run([*git, "commit", "--quiet", "--message", "Begin"], check=True)
    return folder


async def call(engineer: Engineer, name: str, **params: object) -> Outcome:
    return await engineer.context.actions.perform(name, params)


def state_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def test_a_patch_is_tried_on_a_copy(engineer: Engineer, journal: Journal, project: Path) -> None:
    before = state_of(project)
    failing = TestRun.from_dict((await call(engineer, "run_tests", repo=str(project))).data["tests"])
    outcome = await call(engineer, "try_patch", repo=str(project), patch=FIX)
    tests = TestRun.from_dict(outcome.data["tests"])
    assert (failing.passed, failing.failed, tests.passed, tests.failed) == (0, 1, 1, 0)
    assert TestRun.from_dict(outcome.data["tests_before"]).failed == 1
    assert "Before the change: 0 passed, 1 failed." in outcome.output
    assert outcome.outcome is ResultOutcome.DONE
    assert Path(outcome.output_paths[-1]).read_text() == f"{FIX}\n"
    assert state_of(project) == before
    assert outcome.data["patch_targets"] == [{"path": outcome.output_paths[-1], "folder": str(project)}]
    assert outcome.data["patches"] == [outcome.output_paths[-1]]
    assert not fit_patch(Path(outcome.output_paths[-1]), project).problem
    with pytest.raises(ActionError, match="does not apply"):
        await call(engineer, "try_patch", repo=str(project), patch=FIX.replace("calc.py", "none.py"))
    with pytest.raises(ActionError, match="patch is empty"):
        await call(engineer, "try_patch", repo=str(project), patch=" \n")
    assert not list(engineer.context.settings.workspaces.glob("*.copies"))


async def test_a_patch_that_another_agent_has_tried_is_not_delivered_again(
    engineer: Engineer, journal: Journal, project: Path
) -> None:
    journal.task = msgspec.structs.replace(journal.task, requester="critic")
    outcome = await call(engineer, "try_patch", repo=str(project), patch=FIX)
    assert "patches" not in outcome.data


async def test_open_work_ends_with_a_patch_and_what_was_run(
    engineer: Engineer, journal: Journal, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state_of(project)

    async def work(self: Agent, task: object) -> Outcome:
        copied = await call(engineer, "copy_project", repo=str(project), folder="calc")
        assert copied.data["folder"] == "calc"
        await call(engineer, "edit_file", path="calc/calc.py", edits=[{"old": "a - b", "new": "a + b"}])
        await call(
            engineer,
            "run_shell",
            command="printf '\\000\\377' > calc/new.bin; cd calc; git commit -qam x; exit 4",
        )
        tested = TestRun.from_dict((await call(engineer, "test_changes", folder="calc")).data["tests"])
        assert (tested.passed, tested.failed) == (1, 0)
        await call(engineer, "write_file", path="notes/found.md", content="A note")
        return Outcome(output="It subtracted.", data={"steps": 4})

    monkeypatch.setattr(Agent, "on_task", work)
    outcome = await engineer.on_task(journal.task)
    patch, note, *_ = map(Path, outcome.output_paths)
    assert note.read_text() == "A note"
    assert (patch.name, outcome.data["patches"]) == ("calc.patch", [str(patch)])
    assert outcome.data["patch_targets"] == [{"path": str(patch), "folder": str(project)}]
    assert "It subtracted." in outcome.output
    assert f"- {patch}, to apply: git -C '{project}' apply {patch}" in outcome.output
    assert "exit 4 (exit code 4)" in outcome.output
    (ran,) = outcome.data["commands"]
    assert ran["exit_code"] == 4
    assert outcome.data["steps"] == 4
    assert state_of(project) == before
    # The patch fits the original, new and binary files included.
    await asyncio.to_thread(subprocess.run, ["git", "apply", str(patch)], cwd=project, check=True)
    assert "a + b" in (project / "calc.py").read_text()
    assert (project / "new.bin").read_bytes() == b"\0\xff"


async def test_a_task_that_fails_leaves_what_it_changed_as_partial(
    engineer: Engineer, journal: Journal, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(self: Agent, task: object) -> Outcome:
        await call(engineer, "copy_project", repo=str(project), folder="calc")
        await call(engineer, "edit_file", path="calc/calc.py", edits=[{"old": "a - b", "new": "a + b"}])
        raise ActionError("it was not finished within 3 steps")

    monkeypatch.setattr(Agent, "on_task", work)
    with pytest.raises(ActionError, match=r"3 steps\. Unfinished: /.+/calc\.patch\. The workspace is /"):
        await engineer.on_task(journal.task)
    (patch,) = engineer.context.settings.outputs.glob("*/changes/task_1/partial/calc.patch")
    assert "+    return a + b" in patch.read_text()


async def test_a_task_that_changed_nothing_hands_nothing_over(
    engineer: Engineer, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(self: Agent, task: object) -> Outcome:
        return Outcome(output="42")

    monkeypatch.setattr(Agent, "on_task", work)
    assert await engineer.on_task(journal.task) == Outcome(output="42")


async def test_links_put_into_the_workspace_hand_nothing_over(
    engineer: Engineer, journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("a secret")
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "key").write_text("a key")

    async def work(self: Agent, task: object) -> Outcome:
        command = (
            f"ln -s {tmp_path}/secret a; ln -s {tmp_path}/private b; mkfifo c; mkdir -p p/.git; echo x > p/q"
            "; mkdir -p $'\\xff/.git' $'a\\nb/.git'; touch $'\\xfe'"
        )
        await call(engineer, "run_shell", command=command)
        return Outcome(output="done")

    monkeypatch.setattr(Agent, "on_task", work)
    outcome = await engineer.on_task(journal.task)
    delivered = "".join(Path(path).read_text() for path in outcome.output_paths)
    assert "secret" not in delivered
    assert "key" not in delivered
    assert "the changes of p: No patch can be made" in outcome.output
    assert msgspec.json.encode(outcome)  # names that are no text would not travel


async def test_what_cannot_be_looked_into_costs_nobody_the_result(
    engineer: Engineer, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(self: Agent, task: object) -> Outcome:
        nested = "for i in $(seq 30); do mkdir $(printf %0200d 0); cd $(printf %0200d 0); done"
        await call(engineer, "run_shell", command=f"echo mine > made.txt; {nested}")
        return Outcome(output="done")

    monkeypatch.setattr(Agent, "on_task", work)
    outcome = await engineer.on_task(journal.task)
    assert "done" in outcome.output
    assert "Not handed over" in outcome.output
    assert any(path.endswith("made.txt") for path in outcome.output_paths)


async def test_only_a_copy_of_a_project_can_be_tested(
    engineer: Engineer, journal: Journal, tmp_path: Path
) -> None:
    with pytest.raises(ActionError, match="not the copy of a project"):
        await call(engineer, "test_changes", folder="calc")
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.txt").write_text("a")
    await call(engineer, "copy_project", repo=str(tmp_path / "p"))
    for folder in ("", "p"):  # the copy that there is, not another one
        again = await call(engineer, "copy_project", repo=str(tmp_path / "p"), folder=folder)
        assert again.data["folder"] == "p"
        assert "is a copy of" in again.output
    second = await call(engineer, "copy_project", repo=str(tmp_path / "p"), folder="q")
    assert second.data["folder"] == "q"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("a")
    with pytest.raises(ActionError, match="already"):
        await call(engineer, "copy_project", repo=str(tmp_path / "other"), folder="p")
    for wrong in ("../p", ".git", "/p"):
        with pytest.raises(ActionError):
            await call(engineer, "copy_project", repo=str(tmp_path / "p"), folder=wrong)


async def test_what_the_policy_guards_is_not_copied(
    tmp_path: Path, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed: list[object] = []

    class Bus:
        name = "engineer"

        async def commit(self, entries: list[object]) -> None:
            committed.extend(entries)

    settings = Settings(state_dir=tmp_path / "state", command_timeout=60)
    engineer = Engineer(PROFILE, settings, Bus())  # type: ignore[arg-type]
    assert isinstance(engineer, Engineer)
    secrets = tmp_path / ".ssh"
    secrets.mkdir()
    (secrets / "id_ed25519").write_text("a key")
    (tmp_path / "innocent").symlink_to(secrets)
    for path in (str(secrets), str(tmp_path / "innocent"), str(tmp_path / "x" / ".." / ".ssh")):
        for action, more in (("copy_project", {}), ("try_patch", {"patch": FIX}), ("clone_repository", {})):
            with pytest.raises(ActionError, match=r"secret\.file|no folder that can be copied"):
                await call(engineer, action, repo=path, **more)
    assert committed
    assert list(engineer.context.settings.workspaces.glob("*/*/*")) == []


async def test_a_report_swapped_for_a_pipe_or_a_link_is_not_read(
    engineer: Engineer, journal: Journal, tmp_path: Path
) -> None:
    folder = tmp_path / "hostile"
    folder.mkdir()
    (folder / "test_a.py").write_text("def test_a(): pass\n")
    (folder / "conftest.py").write_text(HOSTILE)
    outcome = await call(engineer, "run_tests", repo=str(folder))
    assert TestRun.from_dict(outcome.data["tests"]).passed == 1


async def test_what_nothing_bears_out_stands_at_the_top(
    engineer: Engineer, journal: Journal, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def claim(self: Agent, task: object) -> Outcome:
        return Outcome(output="I fixed add(). All tests pass.", data={"steps": 2})

    async def run_them(self: Agent, task: object) -> Outcome:
        await call(engineer, "run_tests", repo=str(project))
        return Outcome(output="One test fails: add() subtracts.", data={"steps": 2})

    monkeypatch.setattr(Agent, "on_task", claim)
    claimed = await engineer.on_task(journal.task)
    assert claimed.output.splitlines()[:3] == [
        "Not borne out by what is on record:",
        "- it says 'tests pass', and no run of them is on record",
        "- it says 'I fixed', and there is neither a patch nor a file",
    ]
    assert claimed.outcome is ResultOutcome.NOT_CHECKED
    monkeypatch.setattr(Agent, "on_task", run_them)
    ran = await engineer.on_task(journal.task)
    assert (ran.output, ran.outcome) == ("One test fails: add() subtracts.", ResultOutcome.FINDINGS)


async def test_a_command_is_tried_in_a_copy_with_what_was_changed(
    engineer: Engineer, journal: Journal, project: Path
) -> None:
    await call(engineer, "copy_project", repo=str(project), folder="calc")
    await call(engineer, "edit_file", path="calc/calc.py", edits=[{"old": "a - b", "new": "a + b"}])
    line = "python3 -c 'import calc; print(calc.add(1, 2))'; touch made; touch ../../made; ls"
    tried = await call(engineer, "try_command", folder="calc", command=line, ok_codes=(0, 1))
    assert tried.output.startswith("3\n"), tried.output
    assert "made" in tried.output.split(), "the copy can be changed"
    workspace = engineer.context.settings.workspaces
    assert not list(workspace.rglob("made")), "and is gone"
    assert not (project / "made").exists()
    with pytest.raises(ActionError, match="is not the copy of a project"):
        await call(engineer, "try_command", folder="nope", command="true")
    with pytest.raises(ActionError, match="The command is empty"):
        await call(engineer, "try_command", folder="calc", command=" ")


async def test_a_refused_command_is_not_tried(engineer: Engineer, journal: Journal, project: Path) -> None:
    async def deny(command: str, workspace: str = "") -> Ruling:
        return Ruling(command=command, verdict=CommandVerdict.DENY, rule="test", why="it is a test")

    await call(engineer, "copy_project", repo=str(project), folder="calc")
    engineer.context.judge_command = deny  # type: ignore[method-assign]
    with pytest.raises(ActionError, match="it is a test"):
        await call(engineer, "try_command", folder="calc", command="touch made")


async def test_what_an_earlier_attempt_and_an_unchanged_redo_ran_is_on_record(
    engineer: Engineer, journal: Journal, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another attempt has only what is on disk; a redo counts the tests before it if it changed nothing."""

    async def work(self: Agent, task: object) -> Outcome:
        await call(engineer, "copy_project", repo=str(project), folder="calc")
        await call(engineer, "edit_file", path="calc/calc.py", edits=[{"old": "a - b", "new": "a + b"}])
        await call(engineer, "test_changes", folder="calc")
        await call(engineer, "run_shell", command="echo looked")
        return Outcome(output="It adds now, the tests pass.", data={"steps": 1})

    async def say(self: Agent, task: object) -> Outcome:
        return Outcome(output="It adds now, the tests pass.", data={"steps": 1})

    async def change(self: Agent, task: object) -> Outcome:
        await call(engineer, "edit_file", path="calc/calc.py", edits=[{"old": "a + b", "new": "b + a"}])
        return await say(self, task)

    async def run(task_id: str, does: object, continues: str = "") -> Outcome:
        workspace = journal.task.workspace or journal.task.task_id
        journal.task = msgspec.structs.replace(
            journal.task, task_id=task_id, continues=continues, workspace=workspace
        )
        token = current_task.set(TaskContext(journal))  # type: ignore[arg-type]
        monkeypatch.setattr(Agent, "on_task", does)
        try:
            return await engineer.on_task(journal.task)
        finally:
            current_task.reset(token)

    first = await run("task_1", work)
    assert first.outcome is ResultOutcome.DONE, first.output
    again = await run("task_1", say)
    assert again.outcome is ResultOutcome.DONE, again.output
    redone = await run("task_2", say, continues="task_1")
    assert redone.outcome is ResultOutcome.DONE, redone.output
    assert "echo looked (exit code 0)" in redone.output
    changed = await run("task_3", change, continues="task_2")
    assert changed.outcome is ResultOutcome.NOT_CHECKED
    assert "no run of them is on record" in changed.output


def test_places_in_a_copy_are_places_in_its_project(tmp_path: Path) -> None:
    (tmp_path / "calc.py").write_text("1\n2\n")
    outcome = Outcome(
        output="x",
        evidence_refs=(
            *("calc/calc.py:2", "calc/calc.py:9", "calc/new.py:1", "calc/calc.py"),
            *("other/calc.py:1", "https://example.org/a", "calc/calc.py:2:7"),
        ),
    )
    told = report_delivery(outcome, Delivery(), (), tmp_path, {"calc": tmp_path}.get)
    assert told.evidence_refs == (
        *(f"{tmp_path}/calc.py:2", f"{tmp_path}/calc.py"),
        *("other/calc.py:1", "https://example.org/a", f"{tmp_path}/calc.py:2:7"),
    )
