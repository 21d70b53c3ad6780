"""Working copies: what is in them, what is not, and that the repository stays as it is."""

import asyncio
import os
import subprocess
import time
from pathlib import Path

import pytest

from services.engineer import working_copy as copies
from services.engineer.report import make_patch
from services.engineer.working_copy import clean_copies, require_folder, working_copy
from shared.errors import ActionError
from shared.sandbox.confined import ConfinedFolder


def git(repo: Path, *arguments: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    command = ["git", "-C", str(repo), *author, *arguments]
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.strip()


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Rights, time and content of everything in a folder, .git included."""
    return {
        str(path): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in (folder, *folder.rglob("*"))
    }


def names(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if not path.is_dir() and ".git" not in path.relative_to(folder).parts
    }


@pytest.fixture
def repo(tmp_path):
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / ".gitignore").write_text("secret.env\n")
    (folder / "src" / "a.py").write_text("a = 1\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Begin")
    return folder


@pytest.fixture
def place(tmp_path):
    return tmp_path / "state" / "workspaces" / "task_1.copies" / "attempt-1"


async def test_holds_the_files_as_they_are_in_the_work_tree(repo, place):
    (repo / "src" / "a.py").write_text("a = 2\n")
    (repo / "new.txt").write_text("new")
    (repo / "secret.env").write_text("KEY=1")
    os.utime(repo / "new.txt", (1_000_000_000, 1_000_000_000))
    before = snapshot(repo)
    async with working_copy(repo, place) as copy:
        assert copy.root.name == "project"
        assert names(copy.root) == {".gitignore", "src/a.py", "run.sh", "new.txt"}
        assert (copy.root / "src" / "a.py").read_text() == "a = 2\n"
        assert (copy.root / "run.sh").stat().st_mode & 0o777 == 0o755
        assert (copy.root / "new.txt").stat().st_mtime == 1_000_000_000
        assert copy.skipped == ()
        (copy.root / "src" / "a.py").write_text("spoilt")
        git(copy.root, "commit", "--quiet", "--all", "--message", "Spoil it")
    assert snapshot(repo) == before
    assert not place.exists()
    assert not place.parent.exists()


async def test_has_a_history_of_its_own(repo, place):
    async with working_copy(repo, place) as copy:
        assert git(copy.root, "status", "--porcelain") == ""
        assert git(copy.root, "log", "--format=%an: %s") == "Mailroom: Working copy"
        assert git(copy.root, "rev-parse", "--show-toplevel") == str(copy.root)
        assert not list((copy.root / ".git" / "hooks").glob("*"))
        assert not (copy.root / ".git" / "objects" / "info" / "alternates").exists()


async def test_a_patch_has_what_is_tracked_though_ignored_and_line_ends_as_they_are(repo, place):
    (repo / ".gitignore").write_text("*.log\nweb/node_modules\n")
    (repo / "kept.log").write_text("one\n")
    (repo / ".gitattributes").write_text("* text=auto\n")
    git(repo, "add", "--force", "--all")
    git(repo, "commit", "--quiet", "--message", "More")
    (repo / "ends.txt").write_bytes(b"one\r\ntwo\r\n")
    for folder in (repo / "node_modules", repo / "web" / "node_modules"):  # the first is not ignored
        folder.mkdir(parents=True)
        (folder / "index.js").write_text("one")
    (repo / "web" / "package.json").write_text("{}")
    async with working_copy(repo, place) as copy:
        for name in ("kept.log", "ends.txt"):
            path = copy.root / name
            path.write_bytes(path.read_bytes().replace(b"one", b"uno"))
        (copy.root / "web" / "node_modules" / "index.js").write_text("uno")
        patch = await make_patch(copy.root.parent, copy.root.name)
    assert copy.skipped == ()
    assert b"node_modules" not in patch
    await asyncio.to_thread(subprocess.run, ["git", "apply", "-"], cwd=repo, input=patch, check=True)
    assert (repo / "kept.log").read_text() == "uno\n"
    assert (repo / "ends.txt").read_bytes() == b"uno\r\ntwo\r\n"


@pytest.mark.parametrize(
    ("manifest", "left_out"),
    [
        ('{"devDependencies": {"m": "1"}}', True),
        ("{}", False),  # nothing is installed in the copy
        ('{"dependencies": {"m": "1"}, "packageManager": "pnpm@9.0.0"}', False),  # pnpm may be missing
    ],
)
@pytest.mark.parametrize("git_folder", [True, False])
async def test_a_copy_to_prepare_lacks_what_npm_installs_there(
    tmp_path, place, manifest, left_out, git_folder
):
    repo = tmp_path / "shop"
    for folder in (repo, repo / "web"):
        (folder / "node_modules").mkdir(parents=True)
        (folder / "node_modules" / "index.js").write_text("one")
        (folder / "package.json").write_text(manifest)
    if git_folder:
        git(repo, "init", "--quiet")
        (repo / ".gitignore").write_text("node_modules\n")
    for to_prepare in (True, False):
        async with working_copy(repo, place, to_prepare=to_prepare) as copy:
            assert (copy.root / "node_modules").exists() != (to_prepare and left_out)
            assert (copy.root / "web" / "node_modules" / "index.js").exists()


async def test_a_folder_without_git_is_copied_without_a_history(tmp_path, place):
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "a.txt").write_text("a")
    async with working_copy(plain, place) as copy:
        assert names(copy.root) == {"a.txt"}
        assert not (copy.root / ".git").exists()


async def test_links_that_lead_outside_are_left_out_and_listed(repo, place, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("canary")
    (repo / "inner").symlink_to("src/a.py")
    (repo / "src" / "up").symlink_to("../run.sh")
    (repo / "absolute").symlink_to(repo / "src")
    (repo / "round").symlink_to("../project/run.sh")
    (repo / "dangling").symlink_to("nowhere")
    (repo / "escape").symlink_to(outside / "secret")
    (repo / "folder").symlink_to(outside)
    (repo / "climb").symlink_to("../outside/secret")
    (repo / "chain").symlink_to("escape")
    async with working_copy(repo, place) as copy:
        assert {name.partition(" ")[0] for name in copy.skipped} == {"escape", "folder", "climb", "chain"}
        assert (copy.root / "inner").readlink() == Path("src/a.py")
        assert (copy.root / "absolute").readlink() == Path("src")
        assert (copy.root / "round").resolve() == (copy.root / "run.sh").resolve()
        for path in copy.root.rglob("*"):
            assert path.resolve().is_relative_to(copy.root.resolve())
            assert not path.is_file() or b"canary" not in path.read_bytes()


async def test_a_tracked_folder_replaced_by_a_link_is_not_followed(repo, place, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("canary")
    (repo / "src" / "a.py").unlink()
    (repo / "src").rmdir()
    (repo / "src").symlink_to(outside)
    async with working_copy(repo, place) as copy:
        assert not (copy.root / "src").exists()
        assert {name.partition(" ")[0] for name in copy.skipped} == {"src/a.py", "src"}


async def test_a_folder_swapped_for_a_link_meanwhile_is_not_followed(repo, place, tmp_path, monkeypatch):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("canary")
    looked = ConfinedFolder.stat

    def swap(confined, path):
        found = looked(confined, path)
        if path == "src/a.py":
            (repo / "src").rename(tmp_path / "moved")
            (repo / "src").symlink_to(outside)
        return found

    monkeypatch.setattr(ConfinedFolder, "stat", swap)
    async with working_copy(repo, place) as copy:
        assert names(copy.root) == {".gitignore", "run.sh"}
        assert [name.partition(" ")[0] for name in copy.skipped] == ["src/a.py"]


async def test_pipes_are_left_out(tmp_path, place):
    plain = tmp_path / "plain"
    plain.mkdir()
    os.mkfifo(plain / "pipe")
    async with working_copy(plain, place) as copy:
        assert names(copy.root) == set()
        assert copy.skipped == ("pipe (neither a file nor a link)",)


async def test_what_an_index_claims_is_not_believed(repo, place, tmp_path, monkeypatch):
    (tmp_path / "secret").write_text("canary")

    async def claim(folder, left_out=""):
        return [
            "../secret",
            str(tmp_path / "secret"),
            ".git/config",
            "src/../../secret",
            "src/.GIT/x",
            "run.sh",
        ]

    monkeypatch.setattr(copies, "list_files", claim)
    async with working_copy(repo, place) as copy:
        assert names(copy.root) == {"run.sh"}
        assert len(copy.skipped) == 5


@pytest.mark.parametrize("limits", [{"max_bytes": 10}, {"max_files": 2}])
async def test_too_much_is_refused_with_the_cure(repo, place, limits):
    with pytest.raises(ActionError, match=r"holds more than the .* Name a smaller folder"):
        async with working_copy(repo, place, **limits):
            pytest.fail("it was copied")
    assert not place.exists()


async def test_copies_at_the_same_time_do_not_meet(repo, place):
    async with working_copy(repo, place) as one, working_copy(repo, place) as two:
        assert one.root != two.root
        (one.root / "src" / "a.py").unlink()
        assert (two.root / "src" / "a.py").exists()


async def test_is_kept_on_request_and_removed_when_it_is_old(repo, place):
    async with working_copy(repo, place, keep=True) as copy:
        pass
    assert (copy.root / "run.sh").exists()
    root = place.parents[1]
    assert clean_copies(root) == 0
    assert copy.root.exists()
    os.utime(place, (time.time() - 90_000, time.time() - 90_000))
    assert clean_copies(root) == 1
    assert not place.parent.exists()
    assert clean_copies(root / "nowhere") == 0


async def test_is_removed_when_the_work_fails_or_is_cancelled(repo, place):
    with pytest.raises(ValueError, match="broken"):
        async with working_copy(repo, place):
            raise ValueError("broken")
    assert not place.exists()
    for number in range(2000):
        (repo / f"{number}.txt").write_text("x" * 100)

    async def copy() -> None:
        async with working_copy(repo, place):
            await asyncio.sleep(60)

    running = asyncio.create_task(copy())
    async with asyncio.timeout(20):
        while not list(place.glob("copy/project/1*.txt")):
            await asyncio.sleep(0.001)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not place.exists()


async def test_a_state_folder_inside_the_project_is_not_copied_into_itself(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    place = tmp_path / "state" / "workspaces" / "task_1.copies" / "attempt-1"
    async with working_copy(tmp_path, place) as copy:
        assert names(copy.root) == {"a.txt"}


def test_a_folder_must_be_absolute_and_there(tmp_path):
    assert require_folder(str(tmp_path)) == tmp_path.resolve()
    with pytest.raises(ActionError, match=r"not an absolute path.* Give the whole path"):
        require_folder("project")
    with pytest.raises(ActionError, match="does not exist"):
        require_folder(str(tmp_path / "nowhere"))
    (tmp_path / "file").touch()
    with pytest.raises(ActionError, match="is a file"):
        require_folder(str(tmp_path / "file"))
    with pytest.raises(ActionError):
        require_folder("/\0")
