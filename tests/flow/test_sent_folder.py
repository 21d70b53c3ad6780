"""A person's repository on a laptop and agents elsewhere: it is sent, worked on there, and patched here."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.cli.api import Login, keep_login
from shared.access.credentials import find_address
from shared.access.scopes import Scope
from tests.flow.test_cli_gateway import Elsewhere
from tests.support.access import Tokens
from tests.support.forking import ROOT
from tests.support.office import Office
from tests.support.server import mailroom_command

AGENTS = ("conductor", "engineer", "critic")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def make_project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "Makefile").write_text("test:\n\tsh ./test.sh\n")
    (folder / "test.sh").write_text('test "$(sh ./calc.sh 1 2)" = 3 && echo "ok 1"\n')
    (folder / "calc.sh").write_text("echo $(($1 - $2))\n")
    (folder / ".gitignore").write_text("ignored/\n")
    git(folder, "init", "--quiet", "--initial-branch=trunk")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=First")
    git(folder, "tag", "v1")
    return folder


PATCH = """--- a/calc.sh
+++ b/calc.sh
@@ -1,2 +1,2 @@
 # adds
-echo $(($1 - $2))
+echo $(($1 + $2))
"""


async def run_in(
    folder: Path, laptop: Elsewhere, *arguments: str, **more: str
) -> "subprocess.CompletedProcess[str]":
    return await asyncio.to_thread(
        subprocess.run,
        mailroom_command(*arguments),
        cwd=folder,
        env={**laptop.variables, "PYTHONPATH": str(ROOT), **more},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
async def office(tmp_path: Path) -> AsyncIterator[Office]:
    office = Office(tmp_path / "office")
    try:
        await office.open(AGENTS)
        office.server.start_gateway()
        yield office
    finally:
        await office.close()


async def test_a_laptop_sends_its_repository_and_applies_the_patch(office: Office, tmp_path: Path) -> None:
    laptop = Elsewhere(tmp_path / "laptop")
    token = Tokens(office.config).add("ada", Scope.SUBMIT)
    keep_login(laptop.config, Login(url=find_address(office.config), token=token))
    project = make_project(tmp_path / "proj")
    (project / "calc.sh").write_text("# adds\necho $(($1 - $2))\n")  # not committed
    (project / "ignored").mkdir()
    (project / "ignored" / "large").write_text("x" * 1000)
    (project / ".env").write_text("PASSWORD=none\n")
    (project / "new.txt").write_text("key = 'AKIA" + "QWERTZUIOPLKJHGF'\n")
    work = ("-c", "assignee=engineer", "-c", "repo=.", "--wait", "--json")

    done = await run_in(project, laptop, "submit", "Show the log", "-c", "action=read_history", *work)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "proj: 4 files" in done.stderr
    assert "left out: .env (untracked, and named as secrets are)" in done.stderr
    assert "left out: new.txt (untracked, and it holds what looks like a secret: AWS" in done.stderr
    (result,) = await office.results("engineer")
    assert "First" in result.output
    assert "calc.sh" in result.output, "what is not committed is there, uncommitted"
    (place,) = (office.config.state_dir / "inputs").glob("*/proj")
    assert sorted(each.name for each in place.iterdir()) == [
        ".git",
        ".gitignore",
        "Makefile",
        "calc.sh",
        "test.sh",
    ]
    assert git(place, "describe", "--tags").strip() == "v1"

    done = await run_in(
        project, laptop, "submit", "Try it", "-c", "action=try_patch", "-c", f"patch={PATCH}", *work
    )
    assert json.loads(done.stdout)["status"] == "completed", done.stdout  # make counts no tests
    goal_id = json.loads(done.stdout)["goal_id"]
    done = await run_in(project, laptop, "apply", goal_id, "--yes", "--json")
    (applied,) = json.loads(done.stdout)["patches"]
    assert (applied["done"], applied["folder"], applied["files"]) == ("applied", str(project), ["calc.sh"])
    assert "+ $2" in (project / "calc.sh").read_text()
    assert (project / ".env").exists()

    # What is named outside of the office by its whole path is none of this machine's folders.
    done = await run_in(tmp_path, laptop, "submit", "Run the tests of .", "--json")
    assert done.returncode == 0, done.stderr
    home = {**laptop.variables, "HOME": str(project)}
    done = await run_in(project, laptop, "submit", "Run the tests of .", HOME=home["HOME"])
    assert "it holds more than a project" in done.stderr
