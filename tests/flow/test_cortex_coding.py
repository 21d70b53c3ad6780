"""Cortex writes code: parsed, run and tested in the jail, written again where it fails."""

from pathlib import Path
from typing import Any

import pytest

from services.cortex.__main__ import Cortex
from shared.contracts import Task, TaskStatus
from shared.skills.workspace import snapshots_of
from tests.flow.test_cortex_agent import CORTEX
from tests.flow.test_cortex_cognition import hand_out, says, thinking
from tests.support.team import open_team

pytestmark = pytest.mark.timeout(40)

ADD = "def add(a, b):\n    return a + b\n"
TEST = """
import unittest
from sums import add

class TestAdd(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(1, 2), 3)
"""


def file(code: str, path: str = "sums.py", **more: Any) -> dict[str, Any]:
    return {"json": {"path": path, "code": code, "explanation": "It adds.", **more}}


async def test_code_is_written_into_the_workspace(tmp_path: Path) -> None:
    async with thinking(tmp_path, says("Write code", file("def broken(:"), file(ADD))) as team:
        result = await team.perform("cortex", "write_code", description="Add two numbers")
        assert result.status is TaskStatus.COMPLETED, result.error_message
        path = team.config.workspaces / result.task_id / result.task_id / "sums.py"
        assert result.output_paths == (str(path),)
        assert path.read_text() == ADD
        assert result.output == f"Wrote {path}. It adds."
        done = Task(task_id=result.task_id, text="x", assignee="cortex", requester="user")
        assert snapshots_of(team.config, done).undo().removed == ("sums.py",)


async def test_code_that_fails_is_written_again_with_its_failure(tmp_path: Path) -> None:
    entries = [
        says("(?s)Write code.*failed:.*ZeroDivisionError", file("print(1 / 1)", "main.py")),
        says("Write code", file("print(1 / 0)", "main.py")),
    ]
    async with thinking(tmp_path, *entries) as team:
        result = await team.perform("cortex", "write_code", description="Divide", path="main.py", check="run")
        assert result.status is TaskStatus.COMPLETED, result.error_message
        assert Path(result.output_paths[0]).read_text() == "print(1 / 1)"


async def test_code_is_held_to_a_test_of_its_own(tmp_path: Path) -> None:
    test = {"test_path": "test_sums.py", "test_code": TEST}
    idle = {"test_path": "test_sums.py", "test_code": "import sums"}
    entries = [
        says("(?s)Write code.*proves nothing", file(ADD, **idle)),
        says("(?s)Write code.*adds wrongly", file("def add(a, b):\n    return a - b\n", **test)),
        says("Write code", file(ADD, **test)),
    ]
    async with thinking(tmp_path, *entries) as team:
        right = await team.perform("cortex", "write_code", description="It adds", check="test")
        assert right.status is TaskStatus.COMPLETED, right.error_message
        assert [Path(path).name for path in right.output_paths] == ["sums.py", "test_sums.py"]
        wrong = await team.perform("cortex", "write_code", description="It adds wrongly", check="test")
        assert "The code failed its check 3 times" in wrong.error_message
        assert "AssertionError: -1 != 3" in wrong.error_message
        last = team.config.workspaces / wrong.task_id / wrong.task_id / "sums.py"
        assert f"The last try is in {last}" in wrong.error_message
        empty = await team.perform("cortex", "write_code", description="It proves nothing", check="test")
        assert "It holds no test." in empty.error_message or "NO TESTS RAN" in empty.error_message


@pytest.mark.parametrize(
    "path", ["../out.py", "/tmp/out.py", ".git/hooks/x.py", "a\0b.py", "x" * 300 + ".py"]
)
async def test_code_is_written_beneath_the_workspace_only(tmp_path: Path, path: str) -> None:
    async with thinking(tmp_path, says("Write code", file(ADD, path))) as team:
        chosen = await team.perform("cortex", "write_code", description="Add")
        assert chosen.status is TaskStatus.FAILED
        assert "no usable answer in 3 tries" in chosen.error_message
        if "\0" not in path:
            named = await team.perform("cortex", "write_code", description="Add", path=path)
            assert "Give a path beneath the workspace" in named.error_message
    assert not (tmp_path / "state" / "out.py").exists()


async def test_code_that_is_run_reaches_nothing_outside(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_text("alive")
    code = f"import os; os.remove({str(canary)!r})"
    async with thinking(tmp_path, says("Write code", file(code, "evil.py"))) as team:
        result = await team.perform("cortex", "write_code", description="Add", check="run")
        assert "FileNotFoundError" in result.error_message
    assert canary.read_text() == "alive"


async def test_a_link_in_the_workspace_is_not_written_through(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    async with thinking(tmp_path, says("Write code", file(ADD, "sub/sums.py"))) as team:
        place = team.config.workspaces / "goal-1" / "write"
        place.mkdir(parents=True)
        (place / "sub").symlink_to(outside)
        params = {"description": "Add"}
        more = {"action": "write_code", "params": params}
        task = await hand_out(team, "write", goal_id="goal-1", workspace="write", **more)
        result = await team.result("cortex", "user", task.task_id)
        assert result.status is TaskStatus.FAILED
    assert list(outside.iterdir()) == []


async def test_without_a_model_no_code_is_pretended(tmp_path: Path) -> None:
    async with open_team(tmp_path, ["cortex"]) as team:
        await team.join(Cortex, CORTEX)
        result = await team.perform("cortex", "write_code", description="Add two numbers")
        assert result.error_message == (
            "Code cannot be written without a model. Set MAILROOM_BRAIN, or give a script to run_script"
        )
