"""The skills of the hands in the jail: files, shell, undo, git, Python, linters."""

import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from shared.contracts import CommandVerdict
from shared.errors import ActionError, NotApproved
from shared.sandbox.snapshots import Snapshots
from shared.tasks.actions import Outcome
from tests.flow.hands import Hand, Journal


@pytest.fixture
def hand(tmp_path: Path) -> Hand:
    return Hand(tmp_path)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "Project X"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    git = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run([*git, "init", "--quiet", "--initial-branch=trunk"], check=True)
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "Begin"], check=True)
    return folder


async def edit(hand: Hand, path: str, *edits: tuple[str, str], **options: Any) -> Outcome:
    """Replace passages of a file."""
    made = [{"old": old, "new": new, **options} for old, new in edits]
    return await hand.call("edit_file", path=path, edits=made)


def git_in(repo: Path, *arguments: str) -> bytes:
    """What git says in a repository."""
    return subprocess.run(["git", "-C", str(repo), *arguments], capture_output=True, check=True).stdout


# --- files ---------------------------------------------------------------------------------------


async def test_files_are_written_read_patched_and_listed(hand: Hand) -> None:
    await hand.call("write_file", path="src/a.py", content="x = 1\ny = 2\nz = 3\n")
    read = await hand.call("read_file", path="src/a.py", offset=2, limit=1)
    assert read.output == "2\ty = 2\n[lines 2-2 of 3]"
    assert read.data == {"path": "src/a.py", "start": 2, "end": 2, "lines": 3, "cut": False}
    await edit(hand, "src/a.py", ("y = 2", "y = 20"))
    assert (hand.workspace / "src" / "a.py").read_text() == "x = 1\ny = 20\nz = 3\n"
    assert (await hand.call("list_files")).data["files"] == ["src/", "src/a.py"]
    assert (await hand.call("list_files", pattern="*.txt")).output == "There is nothing in ."


DIFF = """\
--- a/a.txt
+++ b/a.txt
@@ -1,2 +1,2 @@
-one
+eins
 two
--- /dev/null
+++ b/new/b.txt
@@ -0,0 +1 @@
+new
"""


async def test_a_diff_is_applied_whole_or_not_at_all(hand: Hand) -> None:
    await hand.call("write_file", path="p/a.txt", content="one\ntwo\n")
    applied = await hand.call("apply_diff", diff=DIFF, folder="p")
    assert applied.data["files"] == ["a.txt", "new/b.txt"]
    assert (hand.workspace / "p" / "a.txt").read_text() == "eins\ntwo\n"
    assert (hand.workspace / "p" / "new" / "b.txt").read_text() == "new\n"
    with pytest.raises(ActionError, match="does not apply"):
        await hand.call("apply_diff", diff=DIFF, folder="p")
    for path in ("../../outside", "/etc/outside", ".git/hooks/pre-commit"):
        evil = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
        with pytest.raises(ActionError):
            await hand.call("apply_diff", diff=evil, folder="p")
    assert sorted(path.name for path in (hand.workspace / "p").iterdir()) == ["a.txt", "new"]


async def test_a_search_finds_lines_and_is_no_way_out(hand: Hand, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("needle outside\n")
    await hand.call("write_file", path="src/a.py", content="import os\n# needle\n")
    await hand.call("write_file", path="b.txt", content="Needle\n")
    (hand.workspace / "link").symlink_to(tmp_path / "secret")
    found = await hand.call("search_files", pattern="need(le|y)")
    assert found.output == "src/a.py\n2:# needle"
    assert found.evidence_refs == ("src/a.py:2",)
    both = await hand.call("search_files", pattern="needle", ignore_case=True, glob="*.txt")
    assert both.output == "b.txt\n1:Needle"
    assert (await hand.call("search_files", pattern="no such")).data["matches"] == 0
    for path in ("..", "/etc", "link"):
        with pytest.raises(ActionError):
            await hand.call("search_files", pattern="x", path=path)
    with pytest.raises(ActionError, match="search failed"):
        await hand.call("search_files", pattern="(")


async def test_hunks_whose_lines_are_miscounted_are_applied(hand: Hand) -> None:
    await hand.call("write_file", path="a.txt", content="one\ntwo\n")
    await hand.call("apply_diff", diff="--- a/a.txt\n+++ b/a.txt\n@@ -1,7 +1,9 @@\n-one\n+eins\n two\n")
    assert (hand.workspace / "a.txt").read_text() == "eins\ntwo\n"


async def test_lines_are_counted_and_ended_as_in_the_file(hand: Hand) -> None:
    await hand.call("write_file", path="a", content="one\u2028still\r\ntwo\r\nthree\r\n")
    assert (await hand.call("read_file", path="a", offset=2, limit=1)).output == (
        "2\ttwo\n[lines 2-2 of 3, CRLF line ends]"
    )
    await edit(hand, "a", ("two\nthree", "2\n3"))
    assert (hand.workspace / "a").read_bytes().endswith(b"still\r\n2\r\n3\r\n")


async def test_what_is_no_text_is_refused(hand: Hand) -> None:
    await hand.call("list_files")
    (hand.workspace / "binary").write_bytes(b"\x7fELF\0\0")
    (hand.workspace / "latin").write_bytes(b"caf\xe9")
    os.mkfifo(hand.workspace / "pipe")
    with (hand.workspace / "huge").open("wb") as file:
        file.truncate(1 << 40)
    Path(os.fsdecode(os.fsencode(hand.workspace) + b"/caf\xe9")).touch()
    for path, reason in (
        ("binary", "not a text"),
        ("pipe", "regular"),
        ("huge", "more than"),
    ):
        with pytest.raises(ActionError, match=reason):
            await hand.call("read_file", path=path)
    assert "not all UTF-8" in (await hand.call("read_file", path="latin")).output
    with pytest.raises(ActionError, match="not UTF-8"):
        await edit(hand, "latin", ("caf", "tea"))
    assert (await hand.call("list_files")).data["files"] == [
        "binary", "caf\\xe9", "huge", "latin", "pipe (special file)",
    ]  # fmt: skip


async def test_large_answers_are_cut_and_say_so(hand: Hand) -> None:
    await hand.call("write_file", path="a", content="line\n" * 30_000)
    read = await hand.call("read_file", path="a")
    assert len(read.output) < 19_000
    assert f"of 30,000, read on with offset={read.data['end'] + 1}]" in read.output
    assert (await hand.call("read_file", path="a", offset=29_500)).data["end"] == 30_000
    with pytest.raises(ActionError, match="more than the 2,000,000"):
        await hand.call("write_file", path="b", content="x" * 2_000_001)


# --- shell ---------------------------------------------------------------------------------------


async def test_a_command_runs_and_undo_takes_it_back(hand: Hand) -> None:
    await hand.call("write_file", path="a.txt", content="one")
    ran = await hand.call("run_shell", command="echo two > a.txt; mkdir b; echo said; exit 3")
    assert ran.output == "said\n[exit code 3]"
    (record,) = ran.data["commands"]
    assert (record["exit_code"], record["timed_out"]) == (3, False)
    assert Path(ran.output_paths[0]).read_text() == "said\n"
    undone = await hand.call("undo")
    assert undone.data["written"] == ["a.txt"]
    assert undone.data["removed"] == ["b"]
    assert (hand.workspace / "a.txt").read_text() == "one"
    await hand.call("undo")
    assert not (hand.workspace / "a.txt").exists()
    with pytest.raises(ActionError, match="nothing to undo"):
        await hand.call("undo")


async def test_undo_takes_back_what_another_task_did_only_when_told_to(hand: Hand) -> None:
    await hand.call("write_file", path="a.txt", content="mine")
    first, hand.journal = hand.journal, Journal("task_2", workspace="task_1")
    await hand.call("run_shell", command="cat a.txt")
    hand.journal = first
    assert (await hand.call("undo")).data["removed"] == ["a.txt"]  # the other one only looked
    await hand.call("write_file", path="a.txt", content="mine")
    hand.journal = Journal("task_2", workspace="task_1")
    with pytest.raises(
        ActionError, match=r"not this task's alone: write a\.txt\. Leave it, or .* \(of_others\)"
    ):
        await hand.call("undo")
    assert (hand.workspace / "a.txt").read_text() == "mine"
    assert (await hand.call("undo", of_others=True)).data["removed"] == ["a.txt"]


async def test_who_is_cancelled_while_a_snapshot_is_taken_holds_nothing(
    hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = Snapshots.take

    def take_long(*arguments: Any, **options: Any) -> Any:
        time.sleep(0.3)
        return taken(*arguments, **options)

    monkeypatch.setattr(Snapshots, "take", take_long)
    writing = asyncio.ensure_future(hand.call("write_file", path="a.txt", content="a"))
    await asyncio.sleep(0.1)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    with pytest.raises(ActionError, match="nothing to undo"):
        await hand.call("undo")
    assert writing.cancelled()  # as long as somebody asks what became of it


async def test_undo_leaves_alone_what_another_task_does_meanwhile(hand: Hand) -> None:
    slow = asyncio.create_task(
        hand.call("run_shell", command="until [ -e go ]; do sleep 0.05; done; echo x > a.txt")
    )
    while not hand.journal.effects:
        await asyncio.sleep(0.01)
    first, hand.journal = hand.journal, Journal("task_2", workspace="task_1")
    await hand.call("write_file", path="go", content="")
    with pytest.raises(ActionError, match="being changed just now"):
        await hand.call("undo")
    await slow
    with pytest.raises(ActionError, match="not this task's alone: write go"):
        await hand.call("undo")
    hand.journal = first
    assert (hand.workspace / "a.txt").exists()


async def test_a_command_reaches_only_its_workspace(hand: Hand, tmp_path: Path) -> None:
    (tmp_path / "canary").write_text("alive")
    ran = await hand.call(
        "run_shell",
        command=f"cat {tmp_path}/canary; rm -rf {tmp_path} ~ 2>/dev/null; echo x > {tmp_path}/new;"
        " (exec 3<>/dev/tcp/127.0.0.1/4222) 2>&1",
    )
    assert "alive" not in ran.output
    assert (tmp_path / "canary").read_text() == "alive"
    assert not (tmp_path / "new").exists()
    assert "Connection refused" in ran.output or "unreachable" in ran.output
    assert (tmp_path / "state" / "snapshots" / "goal_1").is_dir()
    seen = await hand.call("run_shell", command=f"ls -d {tmp_path}/state/snapshots {tmp_path}/state/keys")
    assert seen.data["exit_code"] != 0


async def test_what_the_policy_denies_does_not_run(hand: Hand) -> None:
    hand.verdict = CommandVerdict.DENY
    with pytest.raises(NotApproved, match=r"test-rule.*The test says so"):
        await hand.call("run_shell", command="touch ran")
    assert hand.asked == []
    assert list(hand.workspace.iterdir()) == []
    assert hand.journal.effects == []


async def test_what_needs_a_person_is_asked_for_first(hand: Hand) -> None:
    hand.verdict = CommandVerdict.ASK
    await hand.call("run_shell", command="touch ran")
    assert hand.asked == ["run in the workspace: touch ran"]
    assert (hand.workspace / "ran").exists()

    async def refuse(what: str, **_: object) -> None:
        raise NotApproved("A person refused it")

    hand.agent.context.approvals.require = refuse  # type: ignore[method-assign]
    with pytest.raises(NotApproved):
        await hand.call("run_shell", command="touch again")
    assert not (hand.workspace / "again").exists()


@pytest.mark.parametrize("wish", ["sandbox", "jail", "writable", "network", "cwd"])
async def test_nothing_switches_the_jail_off(hand: Hand, wish: str) -> None:
    with pytest.raises(ActionError, match="has no parameter"):
        await hand.call("run_shell", command="id", **{wish: False})
    with pytest.raises(ActionError, match="has no parameter"):
        await hand.call("run_python", script="1", **{wish: ["/"]})


async def test_commands_that_make_no_sense_are_refused(hand: Hand) -> None:
    for command, reason in (("  ", "empty"), ("a\0b", "NUL"), ("x" * 30_000, "30,000 characters")):
        with pytest.raises(ActionError, match=reason):
            await hand.call("run_shell", command=command)
    for timeout in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ActionError, match="timeout"):
            await hand.call("run_shell", command="true", timeout=timeout)


async def test_its_time_is_bounded(hand: Hand) -> None:
    ran = await hand.call("run_shell", command="sleep 60", timeout=0.3)
    assert "its time was up" in ran.output
    assert ran.data["commands"][0]["timed_out"] is True


async def test_no_snapshot_no_command(hand: Hand) -> None:
    (hand.settings.state_dir).mkdir(parents=True)
    (hand.settings.state_dir / "snapshots").write_text("a file where the snapshots go")
    with pytest.raises(ActionError, match="snapshots"):
        await hand.call("run_shell", command="touch ran")
    assert list(hand.workspace.iterdir()) == []


async def test_goals_have_workspaces_of_their_own(hand: Hand) -> None:
    from tests.flow.hands import Journal

    await hand.call("run_shell", command="echo mine > a")
    hand.journal = Journal("task_2", "goal_2")
    ran = await hand.call("run_shell", command="ls; ls ../../goal_1")
    assert "mine" not in ran.output
    assert "goal_1" in ran.output  # cannot access
    with pytest.raises(ActionError, match="nothing to undo"):
        await hand.call("undo")


# --- git, Python, linters ------------------------------------------------------------------------


async def test_a_clone_is_changed_and_committed_and_its_source_is_not(hand: Hand, repo: Path) -> None:
    hook = repo / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {repo}/hooked\n")
    hook.chmod(0o755)
    git_in(repo, "config", "core.fsmonitor", f"touch {repo}/monitored")
    before = git_in(repo, "log", "--all")
    cloned = await hand.call("clone_repository", repo=str(repo))
    assert cloned.data["folder"] == "project-x"
    await hand.call("write_file", path="project-x/a.txt", content="two\n")
    assert "-one\n+two" in (await hand.call("show_diff", folder="project-x")).output
    assert "M a.txt" in (await hand.call("show_status", folder="project-x")).output
    done = await hand.call("commit_changes", folder="project-x", message="Say two", branch="topic/two")
    assert done.data["branch"] == "topic/two"
    assert (
        (await hand.call("show_log", folder="project-x")).output.splitlines()[0].endswith("Mailroom: Say two")
    )
    with pytest.raises(ActionError, match="Nothing is changed"):
        await hand.call("commit_changes", folder="project-x", message="Again", branch="topic/two")
    assert git_in(repo, "log", "--all") == before
    assert sorted(path.name for path in repo.iterdir()) == [".git", "a.txt"]


async def test_what_is_no_repository_is_refused(hand: Hand, repo: Path, tmp_path: Path) -> None:
    for wrong in ("project", str(tmp_path), "/nowhere", str(hand.settings.state_dir), "a\0b"):
        with pytest.raises(ActionError):
            await hand.call("clone_repository", repo=wrong)
    await hand.call("clone_repository", repo=str(repo), folder="p")
    with pytest.raises(ActionError, match="already"):
        await hand.call("clone_repository", repo=str(repo), folder="p")
    for folder in ("..", ".", "nothing", str(repo)):
        with pytest.raises(ActionError):
            await hand.call("show_status", folder=folder)
    with pytest.raises(ActionError, match="commit or branch"):
        await hand.call("show_diff", folder="p", since="--output=/tmp/x")
    with pytest.raises(ActionError, match="name a folder"):
        await hand.call("clone_repository", repo=str(repo), folder="../p")


async def test_another_work_tree_of_a_repository_is_cloned_too(
    hand: Hand, repo: Path, tmp_path: Path
) -> None:
    git_in(repo, "worktree", "add", "--quiet", str(tmp_path / "tree"), "-b", "side")
    (tmp_path / "tree" / "a.txt").write_text("side\n")
    git_in(tmp_path / "tree", "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qam", "Side")
    await hand.call("clone_repository", repo=str(tmp_path / "tree"))
    assert (hand.workspace / "tree" / "a.txt").read_text() == "side\n"


async def test_what_may_be_copied_is_judged(hand: Hand, repo: Path) -> None:
    hand.verdict = CommandVerdict.DENY
    with pytest.raises(NotApproved, match="denies to copy"):
        await hand.call("clone_repository", repo=str(repo))
    hand.verdict = CommandVerdict.ASK
    await hand.call("clone_repository", repo=str(repo))
    assert hand.asked == [f"copy {repo} into the workspace"]


async def test_python_runs_as_a_script_or_a_file(hand: Hand) -> None:
    ran = await hand.call("run_python", script="import sys\nprint(sys.argv[1:], 6 * 7)", args=["a b"])
    assert "['a b'] 42\n[exit code 0]" in ran.output
    await hand.call("write_file", path="s/run.py", content="open('made', 'w').write('x')\n")
    assert (await hand.call("run_python", path="s/run.py")).data["exit_code"] == 0
    assert (hand.workspace / "made").exists()
    await hand.call("undo")
    assert not (hand.workspace / "made").exists()
    for wrong in (
        {},
        {"script": "1", "path": "s/run.py"},
        {"path": "../x.py"},
        {"path": "s"},
        {"path": "no.py"},
    ):
        with pytest.raises(ActionError):
            await hand.call("run_python", **wrong)


async def test_linters_find_mistakes_and_flaws(hand: Hand) -> None:
    await hand.call(
        "write_file", path="a.py", content="import os\nimport subprocess\nsubprocess.call('x', shell=True)\n"
    )
    found = await hand.call("lint_files")
    assert any("a.py:1" in line and "F401" in line for line in found.data["findings"])
    assert any("a.py:3" in line and "B602" in line for line in found.data["findings"])
    await hand.call("write_file", path="b.py", content="print(1)\n")
    assert (await hand.call("lint_files", path="b.py")).output == "ruff and bandit found nothing in b.py"
    with pytest.raises(ActionError, match="There is no"):
        await hand.call("lint_files", path="c.py")
    with (hand.workspace / "data.py").open("wb") as file:
        file.write(b"import os\n")
        file.truncate(3 << 30)
    found = await hand.call("lint_files")
    assert found.output.splitlines()[-1] == "Not checked, more than 2,000,000 bytes: ./data.py"
    assert found.data["findings"]
    assert not any("data.py" in line for line in found.data["findings"])
    with pytest.raises(ActionError, match="more than 2,000,000 bytes"):
        await hand.call("lint_files", path="data.py")
