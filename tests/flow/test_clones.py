"""A clone of a project for each task: what of it is shared, what a task changed, and what is merged."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from services.engineer.__main__ import Engineer
from shared.agent.base import Agent
from shared.contracts import ResultOutcome
from shared.errors import ActionError
from shared.operations.patches import apply_patch
from shared.settings import Settings
from shared.skills.clones import Base
from shared.skills.origins import bases_path, read_origins
from shared.tasks.actions import Outcome
from shared.tasks.context import TaskContext, current_task, workspace_path
from tests.flow.hands import Journal
from tests.flow.test_engineer_changes import PROFILE, allow, allow_read

ODD = {
    "a b.txt": b"one\r\ntwo\r\n",
    "utf16.txt": "ü\n".encode("utf-16"),
    "id.c": b"/* $Id$ */\n",
    "ö.bin": b"\0\xff",
}


class Desk:
    """An engineer, and its tasks of one goal."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(state_dir=folder / "state", command_timeout=60)
        self.engineer = Engineer(PROFILE, self.settings, SimpleNamespace(name="engineer", host="office"))  # type: ignore[arg-type]
        self.engineer.context.judge_command = allow  # type: ignore[method-assign]
        self.engineer.context.judge_read = allow_read  # type: ignore[method-assign]

    @contextmanager
    def task(self, name: str, *starts_from: str, **more: str) -> Iterator[Path]:
        """The task ``name`` is at work, in this workspace."""
        journal = Journal(name, "goal_1", starts_from=starts_from, **more)
        token = current_task.set(TaskContext(journal))  # type: ignore[arg-type]
        try:
            yield workspace_path(self.settings, journal.task)
        finally:
            current_task.reset(token)

    async def call(self, action: str, **params: object) -> Outcome:
        return await self.engineer.context.actions.perform(action, params)

    async def shell(self, command: str) -> str:
        return (await self.call("run_shell", command=command, ok_codes=list(range(256)))).output

    async def deliver(self, monkeypatch: pytest.MonkeyPatch) -> Outcome:
        """End the task at work."""

        async def work(self: Agent, task: object) -> Outcome:
            return Outcome(output="It is changed.")

        monkeypatch.setattr(Agent, "on_task", work)
        return await self.engineer.on_task(self.engineer.context.task)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A dirty repository: uncommitted, ignored and linked files, and a submodule."""
    inner = tmp_path / "inner"
    for folder in (tmp_path / "shop", inner):
        folder.mkdir()
        git(folder, "init", "--quiet")
    (inner / "deep.txt").write_text("deep\n")
    git(inner, "add", "--all")
    git(inner, "commit", "--quiet", "-m", "Begin")
    shop = tmp_path / "shop"
    (shop / "a.txt").write_text("".join(f"line {n}\n" for n in range(20)))
    (shop / "run.sh").write_text("echo hello\n")
    (shop / ".gitignore").write_text("*.log\nnode_modules\n")
    (shop / ".gitattributes").write_text(
        "*.txt text eol=lf\nutf16.txt working-tree-encoding=UTF-16\n*.c ident\n"
    )
    git(shop, "add", "--all")
    git(shop, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    git(shop, "commit", "--quiet", "-m", "Begin")
    for name, content in ODD.items():
        (shop / name).write_bytes(content)
    (shop / "link").symlink_to("a.txt")
    (shop / "out.log").write_text("ignored\n")
    (shop / "package.json").write_text("{}")
    (shop / "node_modules" / "x").mkdir(parents=True)
    (shop / "node_modules" / "x" / "index.js").write_text("1\n")
    return shop


def contents(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in folder.rglob("*"):
        if ".git" not in path.relative_to(folder).parts and (path.is_symlink() or path.is_file()):
            text = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
            found[str(path.relative_to(folder))] = text
    return found


async def test_all_tasks_begin_with_the_same_state(desk: Desk, repo: Path) -> None:
    with desk.task("t1") as one:
        await desk.call("copy_project", repo=str(repo), folder="shop")
    (repo / "a.txt").write_text("changed meanwhile\n")
    (repo / "late.txt").write_text("new meanwhile\n")
    with desk.task("t2") as two:
        await desk.call("copy_project", repo=str(repo), folder="shop")
        seen = await desk.shell("cd shop && git status --short; git log --format=%s")
        assert seen == "Working copy\n[exit code 0]"
    first, second = contents(one / "shop"), contents(two / "shop")
    assert first == second
    assert set(ODD) < first.keys()
    assert first["sub/deep.txt"] == b"deep\n"
    assert first["link"] == b"a.txt"
    assert first["node_modules/x/index.js"] == b"1\n"
    assert "out.log" not in first
    assert not list((two / "shop" / ".git" / "objects").glob("??"))  # they are shared


async def test_a_patch_has_what_the_task_changed_to_the_byte(
    desk: Desk, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk.task("t1") as workspace:
        await desk.call("copy_project", repo=str(repo), folder="shop")
        await desk.shell(
            "cd shop; chmod +x run.sh; git mv a.txt moved.txt; echo more >> moved.txt; rm link; ln -s a link;"
            " printf '\\1\\2' > ö.bin; printf 'three\\r\\n' >> 'a b.txt'; printf '\\0' > new.bin;"
            " git commit -qam x;"
            " echo x > made.log; printf 'u\\0' >> utf16.txt"
        )
        outcome = await desk.deliver(monkeypatch)
        changed = contents(workspace / "shop")
    (patch,) = outcome.data["patches"]
    apply_patch(Path(patch), repo)
    del changed["made.log"]
    now = contents(repo)
    del now["out.log"]
    assert now == changed
    assert os.access(repo / "run.sh", os.X_OK)
    assert "rename from a.txt" in Path(patch).read_text("utf-8", "replace")


async def test_no_command_changes_what_is_shared(desk: Desk, repo: Path) -> None:
    with desk.task("t1"):
        await desk.call("copy_project", repo=str(repo), folder="shop")
        base = Base.of(bases_path(desk.settings, desk.engineer.context.task), repo)
        before = contents(base.folder)
        await desk.shell(
            f"cd shop; B={base.folder}; echo x > $B/config; rm -rf $B; touch $B/hooks; chmod -R u+w $B;"
            " f=$(find $B/objects -type f | head -1); echo x > $f; ln $f x; git gc --prune=now; git repack"
        )
        assert contents(base.folder) == before
        assert await desk.shell("cd shop && git fsck && git status --short") != ""


async def test_what_a_clone_says_of_itself_does_not_count(
    desk: Desk, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    with desk.task("t1") as workspace:
        await desk.call("copy_project", repo=str(repo), folder="shop")
        await desk.shell(
            f"cd shop; printf '#!/bin/sh\\necho x > {canary}\\n' > .git/hooks-x; mkdir -p .git/hooks;"
            " cp .git/hooks-x .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit;"
            f" git config core.fsmonitor 'touch {canary}'; git config core.worktree /etc;"
            " echo changed > a.txt; echo '* -diff' > .git/info/attributes; echo '*' > .git/info/exclude;"
            " git update-ref refs/mailroom/base $(git rev-parse HEAD); echo / > .git/objects/info/alternates;"
            " rm -rf .git/HEAD; echo new > new.txt"
        )
        outcome = await desk.deliver(monkeypatch)
        text = Path(outcome.data["patches"][0]).read_text()
        assert "+changed" in text
        assert "+new" in text
        (workspace / "shop" / "a.txt").unlink()
        (workspace / "shop" / "a.txt").symlink_to("/etc/passwd")
    assert not canary.exists()
    with desk.task("t2", "t1") as other:  # what it begins with is copied as it is, links too
        assert await desk.shell("cat new.txt shop/new.txt") != ""
        assert (other / "shop" / "a.txt").is_symlink()


async def test_two_tasks_that_copy_at_the_same_time_share_a_base(desk: Desk, repo: Path) -> None:
    async def copy(name: str) -> Path:
        with desk.task(name) as workspace:
            await desk.call("copy_project", repo=str(repo), folder="shop")
            return workspace / "shop"

    folders = await asyncio.gather(*(copy(f"t{n}") for n in range(3)))
    bases = list(desk.settings.snapshots.glob("goal_1/.bases/*"))
    assert len(bases) == 1
    assert {(folder / ".git" / "objects" / "info" / "alternates").read_text() for folder in folders} == {
        f"{bases[0]}/objects\n"
    }
    assert len({str(contents(folder)) for folder in folders}) == 1


async def test_changes_are_merged_or_both_sides_are_there(
    desk: Desk, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edits = {
        "t1": "sed -i 's/line 1$/first/' a.txt; git mv run.sh start.sh",
        "t2": "sed -i 's/line 18/last/' a.txt; echo echo bye >> run.sh",
        "t3": "sed -i 's/line 1$/other/' a.txt; printf '\\3' > ö.bin",
    }
    patches = {}
    for name, edit in edits.items():
        with desk.task(name):
            await desk.call("copy_project", repo=str(repo), folder="shop")
            await desk.shell(f"cd shop; {edit}")
            (patches[name],) = (await desk.deliver(monkeypatch)).data["patches"]
    with desk.task("m1") as workspace:
        merged = await desk.call("merge_changes", repo=str(repo), patches=[patches["t1"], patches["t2"]])
        lines = (workspace / "shop" / "a.txt").read_text().splitlines()
        assert (lines[1], lines[18]) == ("first", "last")
        assert (workspace / "shop" / "start.sh").read_text() == "echo hello\necho bye\n"  # by two
        (path,) = merged.data["patches"]
        assert merged.data["patch_targets"] == [{"path": path, "folder": str(repo)}]
        again = await desk.call("merge_changes", repo=str(repo), patches=[patches["t1"], patches["t2"]])
        assert again.data["patches"] == [path]  # as after a crash
    with desk.task("m2") as workspace:
        failed = await desk.call("merge_changes", repo=str(repo), patches=[path, patches["t3"]])
        assert failed.outcome is ResultOutcome.FAILED
        assert failed.data["conflicts"] == {
            "patch": patches["t3"],
            "files": ["a.txt"],
            "repo": str(repo),
            "folder": "shop",
        }
        text = (workspace / "shop" / "a.txt").read_text()
        assert "<<<<<<< HEAD\nfirst\n" in text
        assert "=======\nother\n" in text
    with desk.task("m2-both", workspace="m2"):
        left = await desk.deliver(monkeypatch)
        assert "conflict marks in shop/a.txt" in left.problem
        assert left.outcome is ResultOutcome.FAILED
        assert "patches" not in left.data
        await desk.shell("cd shop; sed -i '/^[<=>|]\\{7\\}/d' a.txt")
        (settled,) = (await desk.deliver(monkeypatch)).data["patches"]
    with desk.task("m3") as workspace:
        last = await desk.call("merge_changes", repo=str(repo), patches=[settled], test=False)
        git(repo, "apply", last.data["patches"][0])
        assert {"first", "other", "last"} <= set((repo / "a.txt").read_text().splitlines())
        assert (repo / "ö.bin").read_bytes() == b"\3"


async def test_a_patch_from_elsewhere_is_merged_too(desk: Desk, repo: Path, tmp_path: Path) -> None:
    folder = desk.settings.outputs / "goal_1" / "changes" / "other"
    folder.mkdir(parents=True)
    (folder / "tried.patch").write_text("--- a/run.sh\n+++ b/run.sh\n@@ -1 +1 @@\n-echo hello\n+echo hi\n")
    with desk.task("m1") as workspace:
        done = await desk.call(
            "merge_changes", repo=str(repo), patches=[str(folder / "tried.patch")], test=False
        )
        assert "+echo hi" in Path(done.data["patches"][0]).read_text()
        assert (workspace / "shop" / "run.sh").read_text() == "echo hi\n"
        secret = tmp_path / "secret.patch"
        secret.write_text("secret")
        for path in (str(secret), f"{folder}/../../../../secret.patch", "gone.patch"):
            with pytest.raises(ActionError):
                await desk.call("merge_changes", repo=str(repo), patches=[path], test=False)


async def test_a_task_has_what_those_made_that_it_builds_on(desk: Desk, repo: Path) -> None:
    with desk.task("t1"):
        await desk.call("copy_project", repo=str(repo), folder="shop")
        await desk.shell("echo 1 > notes; echo old > both; cd shop; echo 1 > one; mkdir build")
    with desk.task("t2", "t1"):
        assert (await desk.call("copy_project", repo=str(repo))).data["folder"] == "shop"
        await desk.shell("rm notes; echo new > both; cd shop; rm one; echo 2 > two")
    with desk.task("t3"):
        await desk.call("copy_project", repo=str(repo), folder="mine")
        await desk.shell("echo 3 > mine/three; ln -s /etc/passwd leak; mkfifo pipe")
    with desk.task("t4", "t3", "t1", "t2", "gone") as workspace:
        assert "new" in await desk.shell("cat both")
        assert sorted(path.name for path in workspace.iterdir()) == ["both", "leak", "shop"]
        assert sorted(path.name for path in (workspace / "shop").glob("t*")) == ["three", "two"]
        assert not (workspace / "shop" / "one").exists()
        origins = read_origins(desk.settings, desk.engineer.context.task)
        assert origins.starts_from == ("t3", "t1", "t2", "gone")
    with desk.task("t5", workspace="t4") as again:
        assert again == workspace


async def test_a_copy_that_was_interrupted_is_made_again(
    desk: Desk, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from services.engineer import __main__ as engineer

    class Killed(BaseException):
        pass

    noted = engineer.note_origin

    def killed(*words: object) -> None:
        if not words[-1].unfinished:  # type: ignore[attr-defined]
            raise Killed
        noted(*words)  # type: ignore[arg-type]

    with desk.task("t1") as workspace:
        monkeypatch.setattr(engineer, "note_origin", killed)
        with pytest.raises(Killed):
            await desk.call("copy_project", repo=str(repo), folder="shop")
        monkeypatch.setattr(engineer, "note_origin", noted)
        (workspace / "shop" / "a.txt").write_text("half")
        await desk.call("copy_project", repo=str(repo), folder="shop")
        assert (workspace / "shop" / "a.txt").read_text().startswith("line 0")
        (workspace / "shop" / "a.txt").write_text("changed")
        await desk.call("copy_project", repo=str(repo), folder="shop")  # the copy that is there
        assert (workspace / "shop" / "a.txt").read_text() == "changed"
