"""``mailroom diff`` and ``mailroom apply`` with real repositories and a real server."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from services.cli.commands.patches import _place
from shared.access.credentials import find_address
from shared.access.scopes import Scope
from shared.contracts import TaskStatus, generate_task_id
from shared.errors import MailroomError
from shared.operations.patches import apply_patch, fit_patch, format_undo, read_files
from shared.views.listed import PatchFile
from tests.flow.test_cli import run, stand_in
from tests.support.access import Tokens
from tests.support.conductor import result_of
from tests.support.server import Server, environment, run_mailroom

pytestmark = pytest.mark.usefixtures("office_gateway")

LINES = "".join(f"line {number}\n" for number in range(30))


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def make_repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "a.txt").write_text(LINES)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "Begin")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a file of 30 lines."""
    return make_repository(tmp_path / "my project")


@pytest.fixture
def patch(tmp_path: Path, project: Path) -> Path:
    """A patch that changes line 20 and adds a file with a space and a letter beyond ASCII in its name."""
    (project / "a.txt").write_text(LINES.replace("line 20\n", "changed\n"))
    (project / "new ü.txt").write_bytes(b"new\x00\n")
    git(project, "add", "-A")
    path = tmp_path / "outputs" / "my-project.patch"
    path.parent.mkdir()
    path.write_text(git(project, "diff", "--cached", "--binary"))
    git(project, "reset", "-q", "--hard")
    return path


def changed(project: Path) -> bool:
    return "changed" in (project / "a.txt").read_text() and (project / "new ü.txt").exists()


def undo(command: str) -> None:
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)


# --- with git ----------------------------------------------------------------------------------------


def test_a_patch_is_applied_and_taken_out_again(project: Path, patch: Path) -> None:
    fit = fit_patch(patch, project)
    assert (fit.patch, fit.adapted, fit.applied, fit.problem) == (patch, False, False, "")
    assert not changed(project)
    apply_patch(patch, project)
    assert changed(project)
    assert fit_patch(patch, project).applied
    assert read_files(patch) == ["a.txt", "new ü.txt"]
    undo(format_undo(patch, project))
    assert git(project, "status", "--short") == ""


@pytest.mark.parametrize("outer", [False, True])
def test_a_folder_may_lie_in_another_repository_or_in_none(tmp_path: Path, patch: Path, outer: bool) -> None:
    top = make_repository(tmp_path / "outer") if outer else tmp_path / "plain"
    folder = top / "deep" / "down"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text(LINES)
    apply_patch(patch, folder)
    assert changed(folder)
    undo(format_undo(patch, folder))
    assert (folder / "a.txt").read_text() == LINES
    assert not (folder / "new ü.txt").exists()


def test_nothing_that_the_repository_names_is_run(project: Path, patch: Path, tmp_path: Path) -> None:
    canary, trap = tmp_path / "canary", tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    trap.chmod(0o755)
    for setting in ("core.fsmonitor", "filter.x.smudge", "filter.x.clean", "diff.external", "core.pager"):
        git(project, "config", setting, str(trap))
    git(project, "config", "core.hooksPath", str(tmp_path))
    (project / ".git" / "info" / "attributes").write_text("* filter=x\n")
    (tmp_path / "post-index-change").symlink_to(trap)
    # The second is merged, which needs git's index.
    (project / "a.txt").write_text("before\n" * 3 + LINES.replace("line 19\n", "line 19\n\n"))
    fit_patch(patch, project)
    (project / "a.txt").write_text(LINES)
    apply_patch(fit_patch(patch, project).patch, project)
    assert changed(project)
    assert not canary.exists()
    git(project, "status")
    assert canary.exists()  # plain git falls into the trap


def test_a_patch_is_merged_with_changes_beside_its_own(project: Path, patch: Path) -> None:
    theirs = LINES.replace("line 18\n", "theirs\n")
    (project / "a.txt").write_text(theirs)
    git(project, "commit", "-qam", "Change a line nearby")
    (project / "a.txt").write_text(theirs + "not committed\n")
    fit = fit_patch(patch, project)
    assert (fit.adapted, fit.problem) == (True, "")
    assert (project / "a.txt").read_text() == theirs + "not committed\n"
    apply_patch(fit.patch, project)
    assert (project / "a.txt").read_text() == theirs.replace("line 20\n", "changed\n") + "not committed\n"
    assert git(project, "diff", "--cached") == ""
    undo(format_undo(fit.patch, project))
    assert (project / "a.txt").read_text() == theirs + "not committed\n"


def test_a_conflict_is_refused_and_leaves_the_folder_alone(project: Path, patch: Path) -> None:
    theirs = LINES.replace("line 20\n", "theirs\n")
    (project / "a.txt").write_text(theirs)
    fit = fit_patch(patch, project)
    assert "a.txt" in fit.problem
    with pytest.raises(MailroomError, match=r"a\.txt"):
        apply_patch(patch, project)
    assert git(project, "status", "--short") == " M a.txt\n"
    assert (project / "a.txt").read_text() == theirs


@pytest.mark.parametrize("name", [".git/hooks/pre-commit", "../outside", "link/inside"])
def test_a_patch_cannot_leave_its_folder(project: Path, tmp_path: Path, name: str) -> None:
    (project / "link").symlink_to(tmp_path)
    path = tmp_path / "bad.patch"
    path.write_text(
        f"diff --git a/{name} b/{name}\nnew file mode 100755\n--- /dev/null\n+++ b/{name}\n"
        "@@ -0,0 +1 @@\n+echo evil\n"
    )
    assert fit_patch(path, project).problem
    with pytest.raises(MailroomError):
        apply_patch(path, project)
    assert not (project / name).exists()


# --- the commands ------------------------------------------------------------------------------------


@asynccontextmanager
async def delivered(office: Server, *patches: tuple[Path, Path | None]) -> AsyncIterator[str]:
    """The id of a goal that ended with patches for these folders."""
    goal_id = generate_task_id("goal")
    async with stand_in(office, goal_id) as conductor:
        await conductor.take_up()
        await conductor.hand_out()
        claim = await conductor.claim("changes it")
        targets = [{"path": str(path), "folder": str(folder)} for path, folder in patches if folder]
        metadata = {"patches": [str(path) for path, _ in patches], "patch_targets": targets}
        await claim.finish(
            msgspec.structs.replace(result_of(conductor.task, "scout", "Changed."), metadata=metadata)
        )
        await conductor.finish(TaskStatus.COMPLETED)
    yield goal_id


async def test_the_patch_of_a_goal_is_shown_applied_recorded_and_undone(
    office_server: Server, project: Path, patch: Path
) -> None:
    async with delivered(office_server, (patch, project)) as goal_id:
        shown = await run(office_server, "diff", goal_id)
        assert shown.stdout == patch.read_text()
        again = await run(office_server, "submit", "Look around", "--wait", "--id", goal_id)
        assert f"mailroom apply {goal_id}" in again.stdout
        declined = await run(office_server, "apply", goal_id, text="n\n")
        assert declined.returncode == 1
        assert not changed(project)
        assert "a.txt" in declined.stdout
        done = await run(office_server, "apply", goal_id, text="y\n")
        assert done.returncode == 0, done.stderr
        assert changed(project)
        command = done.stdout.partition("Undo: ")[2].splitlines()[0]
        assert command == format_undo(patch, project)
        twice = await run(office_server, "apply", goal_id, "--yes", "--json")
        assert json.loads(twice.stdout)["patches"][0]["done"] == "already applied"
        undo(command)
        assert not changed(project)
        story = await run(office_server, "show", goal_id)
        assert "user → user report Applied /" in story.stdout
        assert f"patch    mailroom diff {goal_id}" in story.stdout


async def test_a_patch_that_does_not_fit_is_refused_with_what_to_do(
    office_server: Server, project: Path, patch: Path
) -> None:
    (project / "a.txt").write_text("something else\n")
    async with delivered(office_server, (patch, project)) as goal_id:
        done = await run(office_server, "apply", goal_id, "--yes")
    assert done.returncode == 1
    assert f"It does not fit {project}" in done.stderr
    assert f"mailroom retry {goal_id}" in done.stderr
    assert (project / "a.txt").read_text() == "something else\n"


async def test_each_of_several_patches_is_named(
    office_server: Server, tmp_path: Path, project: Path, patch: Path
) -> None:
    other, lost = make_repository(tmp_path / "other"), tmp_path / "lost.patch"
    second = tmp_path / "other.patch"
    for path in (second, lost):
        path.write_bytes(patch.read_bytes())
    async with delivered(office_server, (patch, project), (second, other), (lost, None)) as goal_id:
        one = await run(office_server, "apply", goal_id, "other", "--yes", "--json")
        assert [each["project"] for each in json.loads(one.stdout)["patches"]] == ["other"]
        assert (changed(other), changed(project)) == (True, False)
        unknown = await run(office_server, "apply", goal_id, "nothing", "--yes")
        assert "There is one for lost, my-project, other" in unknown.stderr
        every = await run(office_server, "apply", goal_id, "--yes")
        assert every.returncode == 1
        assert "lost was not applied. The folder it was made for is not recorded" in every.stderr
        assert changed(project)
        elsewhere = make_repository(tmp_path / "elsewhere")
        to = await run(office_server, "apply", goal_id, "lost", "--to", str(elsewhere), "--yes")
        assert to.returncode == 0, to.stderr
        assert changed(elsewhere)
        listed = json.loads((await run(office_server, "diff", goal_id, "--json")).stdout)
        assert [each["folder"] for each in listed] == [str(project), str(other), ""]


async def test_a_goal_without_a_patch_says_so(office_server: Server, tmp_path: Path) -> None:
    async with delivered(office_server) as goal_id:
        done = await run(office_server, "diff", goal_id)
    assert done.returncode == 1
    assert f"The goal {goal_id} has no patch" in done.stderr
    async with delivered(office_server, (tmp_path / "gone.patch", tmp_path)) as goal_id:
        gone = await run(office_server, "apply", goal_id, "--yes")
    assert "cannot be read" in gone.stderr
    assert (await run(office_server, "apply", goal_id, "--json")).returncode == 2


async def test_on_another_machine_a_patch_is_applied_to_a_folder_there(
    office_server: Server, tmp_path: Path, project: Path, patch: Path
) -> None:
    here = make_repository(tmp_path / "here")
    secret = Tokens(office_server.config).add("laptop", Scope.SUBMIT)
    elsewhere = environment(tmp_path / "elsewhere")
    run_mailroom(elsewhere, "login", find_address(office_server.config), text=secret)
    async with delivered(office_server, (patch, project)) as goal_id:
        data = patch.read_bytes()
        patch.rename(patch.with_suffix(".hidden"))  # the gateway's machine has it, this one has not
        away = await asyncio.to_thread(run_mailroom, elsewhere, "diff", goal_id)
        assert "cannot be read" in away.stderr
        patch.with_suffix(".hidden").rename(patch)
        shown = await asyncio.to_thread(run_mailroom, elsewhere, "diff", goal_id)
        assert shown.stdout.encode() == data
        done = await asyncio.to_thread(run_mailroom, elsewhere, "apply", goal_id, "--to", str(here), "--yes")
        assert done.returncode == 0, done.stderr
        story = await run(office_server, "show", goal_id)
    assert (changed(here), changed(project)) == (True, False)
    assert "laptop (user) → user report Applied" in story.stdout


def test_a_patch_that_is_not_on_this_machine_is_written_there(tmp_path: Path, patch: Path) -> None:
    state = tmp_path / "state"
    data = patch.read_bytes()
    patch.unlink()
    with pytest.MonkeyPatch.context() as changes:
        changes.setenv("MAILROOM_STATE_DIR", str(state))
        placed = _place(PatchFile(path=str(patch), folder="/srv/shop", data=data), "goal_1")
    assert Path(placed.path) == state / "patches" / "goal_1" / "my-project.patch"
    assert (Path(placed.path).read_bytes(), placed.folder) == (data, "/srv/shop")
