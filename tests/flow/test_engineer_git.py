"""Reading repositories, hostile ones included: real git, real folders."""

import asyncio
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from services.engineer.git import read_history, read_only_git
from services.engineer.report import format_history
from services.engineer.working_copy import list_files
from shared.errors import ActionError
from shared.skills.git import find_repository


def git(repo: Path, *arguments: str) -> str:
    """Git as the owner of the repository would use it, but with nothing of this machine's settings."""
    env = {
        **os.environ,
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Ada",
        "GIT_AUTHOR_EMAIL": "ada@example.org",
        "GIT_COMMITTER_NAME": "Ada",
        "GIT_COMMITTER_EMAIL": "ada@example.org",
        "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    }
    command = ["git", "-C", str(repo), *arguments]
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.strip()


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def repo(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=trunk")
    write(folder, {".gitignore": "ignored/\n*.log\n", "a.py": "a = 1\n", "sub/b.py": "b = 1\n"})
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "Begin")
    return folder


def fingerprint(folder: Path) -> str:
    """Everything about a tree that could change: names, kinds, rights, times, contents, .git included."""
    digest = hashlib.sha256()
    for path in sorted([folder, *folder.rglob("*")]):
        info = path.lstat()
        digest.update(f"{path}\0{info.st_mode}\0{info.st_mtime_ns}\0{info.st_size}\0".encode())
        if path.is_symlink():
            digest.update(str(path.readlink()).encode())
        elif path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def plant(repo: Path, canary: Path) -> None:
    """Have the repository run something by every way git offers that is known."""
    trap = repo.parent / "trap.sh"
    trap.write_text(f'#!/bin/sh\necho "$0 $*" >> {canary}\ncat\n')
    trap.chmod(0o755)
    for name in ("post-checkout", "post-index-change", "pre-commit", "post-commit", "reference-transaction"):
        hook = repo / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_bytes(trap.read_bytes())
        hook.chmod(0o755)
    # Textconv and filters are named in .gitattributes and defined in the configuration.
    (repo / ".gitattributes").write_text("* filter=trap diff=trap merge=trap\n")
    (repo / ".git" / "info").mkdir(exist_ok=True)
    (repo / ".git" / "info" / "attributes").write_text("* filter=trap diff=trap\n")
    included = repo.parent / "included.cfg"
    included.write_text(f'[filter "trap"]\n\tprocess = {trap}\n\trequired = true\n')
    settings = {
        "core.fsmonitor": trap,
        "core.hooksPath": repo / ".git" / "hooks",
        "core.pager": trap,
        "core.editor": trap,
        "core.sshCommand": trap,
        "core.gitProxy": trap,
        "core.alternateRefsCommand": trap,
        "core.askPass": trap,
        "filter.trap.clean": trap,
        "filter.trap.smudge": trap,
        "diff.external": trap,
        "diff.trap.textconv": trap,
        "diff.trap.command": trap,
        "gpg.program": trap,
        "log.showSignature": "true",
        "uploadpack.packObjectsHook": trap,
        "credential.helper": trap,
        "alias.status": f"!{trap}",
        "alias.log": f"!{trap}",
        "pager.log": trap,
        "pager.status": trap,
        "include.path": included,
        "extensions.partialClone": "origin",
        "remote.origin.url": f"ext::{trap}",
        "remote.origin.promisor": "true",
        "protocol.ext.allow": "always",
        "status.submoduleSummary": "true",
    }
    text = ""  # written by hand: git itself would run some of it from the first setting on
    for key, value in settings.items():
        section, _, rest = key.partition(".")
        middle, _, last = rest.rpartition(".")
        text += f'[{section} "{middle}"]\n' if middle else f"[{section}]\n"
        text += f'\t{last} = "{value}"\n'
    with (repo / ".git" / "config").open("a") as config:
        config.write(text)


async def test_tells_branch_changes_and_commits(repo):
    write(repo, {"a.py": "a = 2\n", "new.py": "", "ignored/x": "", "c.py": "c = 1\n", "ä.py": ""})
    git(repo, "add", "c.py")
    git(repo, "rm", "--quiet", "sub/b.py")
    history = await read_history(repo)
    assert history.problem == ""
    assert (history.branch, history.commits) == ("trunk", 1)
    assert sorted(history.changes) == [
        "added c.py",
        "deleted sub/b.py",
        "modified a.py",
        "untracked new.py",
        "untracked ä.py",
    ]
    (commit,) = history.latest
    assert commit.text == "2026-01-02 Begin (Ada)"
    assert commit.source == f"git:{git(repo, 'rev-parse', '--short', 'HEAD')}"


async def test_tells_the_latest_commits_first_and_no_more_than_asked_for(repo):
    for number in range(12):
        git(repo, "commit", "--quiet", "--allow-empty", "--message", f"Step {number}")
    history = await read_history(repo)
    assert history.commits == 13
    assert [commit.text.split(" ", 1)[1] for commit in history.latest] == [
        f"Step {number} (Ada)" for number in range(11, 1, -1)
    ]
    assert len((await read_history(repo, 3)).latest) == 3


async def test_many_changes_are_counted(repo):
    for number in range(250):
        (repo / f"{number}.txt").touch()
    history = await read_history(repo)
    assert len(history.changes) == 201
    assert history.changes[-1] == "and 50 more"


async def test_a_repository_without_commits_and_a_folder_without_git(tmp_path):
    git(tmp_path, "init", "--quiet", "--initial-branch=trunk", "new")
    history = await read_history(tmp_path / "new")
    assert (history.branch, history.commits, history.latest, history.problem) == ("trunk", 0, (), "")
    (tmp_path / "plain").mkdir()
    assert "is not in a git repository" in (await read_history(tmp_path / "plain")).problem


async def test_a_detached_head_a_worktree_a_subfolder_and_packed_refs(repo, tmp_path):
    git(repo, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "side"))
    git(repo, "pack-refs", "--all")
    git(repo, "gc", "--quiet")
    side = await read_history(tmp_path / "side")
    assert (side.branch, side.commits, side.changes, side.problem) == ("side", 1, (), "")
    write(repo, {"sub/c.py": "", "d.py": ""})
    inner = await read_history(repo / "sub")
    assert (inner.branch, inner.changes) == ("trunk", ("untracked sub/c.py",))
    git(repo, "checkout", "--quiet", "--detach")
    assert (await read_history(repo)).branch.startswith("detached at ")


async def test_a_shallow_clone(repo, tmp_path):
    git(repo, "commit", "--quiet", "--allow-empty", "--message", "Go on")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repo}", "shallow")
    history = await read_history(tmp_path / "shallow")
    assert (history.commits, history.changes, history.problem) == (1, (), "")


async def test_a_bare_repository_has_a_history_and_no_changes(repo, tmp_path):
    git(tmp_path, "clone", "--quiet", "--bare", str(repo), "bare.git")
    history = await read_history(tmp_path / "bare.git")
    assert (history.branch, history.commits, history.changes, history.problem) == ("trunk", 1, (), "")


async def test_what_git_reads_is_no_way_to_files_elsewhere(repo, tmp_path):
    (tmp_path / "secret").write_text("a secret\n")
    (repo / ".git" / "packed-refs").symlink_to(tmp_path / "secret")
    history = await read_history(repo)
    assert (history.commits, history.problem) == (1, "")
    (repo / ".git" / "index").unlink()
    (repo / ".git" / "index").write_text("no index, but long enough to be taken for one\n")
    problem = (await read_history(repo)).problem
    assert problem.startswith("git status failed in")


async def test_a_broken_repository_is_a_finding(repo):
    (repo / ".git" / "HEAD").write_text("nonsense\n")
    problem = (await read_history(repo)).problem
    assert problem.startswith("git ")
    assert "failed in" in problem


async def test_git_missing_is_a_finding(repo, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git is not installed" in (await read_history(repo)).problem


async def test_a_hostile_repository_runs_nothing_and_is_not_changed(repo, tmp_path):
    canary = tmp_path / "canary"
    plant(repo, canary)
    (repo / "a.py").write_text("a = 3\n")
    os.utime(repo / "sub" / "b.py", (1, 1))  # git must look into it to see whether it changed
    before = fingerprint(repo)
    history = await read_history(repo)
    names = sorted(await list_files(repo))
    assert fingerprint(repo) == before
    assert not canary.exists(), canary.read_text()
    assert history.problem == ""
    assert history.changes == ("modified a.py", "untracked .gitattributes")
    assert names == [".gitattributes", ".gitignore", "a.py", "sub/b.py"]
    # The trap is a real one: plain git walks into it.
    await asyncio.to_thread(subprocess.run, ["git", "-C", str(repo), "status"], capture_output=True)
    assert canary.exists()


async def test_a_hostile_submodule_runs_nothing(repo, tmp_path):
    git(tmp_path, "init", "--quiet", "part")
    write(tmp_path / "part", {"p.py": ""})
    git(tmp_path / "part", "add", "--all")
    git(tmp_path / "part", "commit", "--quiet", "--message", "Part")
    git(
        repo,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "add",
        "--quiet",
        str(tmp_path / "part"),
        "part",
    )
    git(repo, "commit", "--quiet", "--message", "Add a part")
    canary, trap = tmp_path / "canary", tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\necho trapped >> {canary}\n")
    trap.chmod(0o755)
    git(repo / "part", "config", "core.fsmonitor", str(trap))
    write(repo, {"part/new.py": ""})
    history = await read_history(repo)
    assert (history.changes, history.problem) == ((), "")
    assert sorted(await list_files(repo)) == [
        *(".gitignore", ".gitmodules", "a.py", "part/new.py", "part/p.py", "sub/b.py")
    ]
    assert not canary.exists()


async def test_lists_what_is_tracked_or_could_be(repo):
    odd = os.fsdecode(b"\xff/d") if sys.platform == "linux" else "d"  # macOS wants names in UTF-8
    new = ("new file.py", "ä\tb", '"q"', "sub/ö/c", odd)
    write(repo, dict.fromkeys(("ignored/x", "x.log", *new), ""))
    names = set(await list_files(repo))
    assert names == {".gitignore", "a.py", "sub/b.py", *new}
    assert set(await list_files(repo / "sub")) == {"b.py", "ö/c"}


async def test_lists_installed_node_modules_and_nested_repositories(repo):
    files = {"package.json": "{}", "node_modules/m/index.js": "", "nested/n.py": ""}
    write(repo, {**files, ".gitignore": "node_modules\n"})
    git(repo / "nested", "init", "--quiet")
    names = set(await list_files(repo))
    assert names == {
        *(".gitignore", "a.py", "sub/b.py", "package.json", "node_modules/m/index.js", "nested/n.py")
    }


async def test_a_folder_without_git_is_listed_without_junk(tmp_path):
    write(tmp_path, {"a.py": "", ".venv/x": "", "__pycache__/a.pyc": "", "sub/c.py": ""})
    (tmp_path / "link").symlink_to(tmp_path / "sub")
    names = set(await list_files(tmp_path))
    assert names == {"a.py", "sub/c.py", "link"}


async def test_a_borrowed_repository_has_no_settings_that_name_a_program(repo, tmp_path):
    plant(repo, tmp_path / "canary")
    repository = find_repository(repo)
    assert repository is not None
    async with read_only_git(repository) as lent:
        settings = await lent.read("config", "--list", cwd=repo)
        folder = lent.folder
        with pytest.raises(ActionError, match="git log failed"):
            await lent.read("log", "--no-such-option", cwd=repo)
    assert "trap" not in settings
    assert "core.filemode=true" in settings
    assert not folder.exists()


def commit_on_days(folder: Path) -> None:
    folder.mkdir()
    ada = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run([*ada, "init", "--quiet"], check=True)
    for day, name in (("2026-01-10", "a.py"), ("2026-02-10", "b.py"), ("2026-03-10", "b.py")):
        with (folder / name).open("a") as file:
            file.write("one\ntwo\n")
        subprocess.run([*ada, "add", "."], check=True)
        moment = f"{day}T12:00:00+0000"
        commit = [*ada, "commit", "--quiet", "--message", f"Of {day}", "--date", moment]
        subprocess.run(commit, check=True, env={**os.environ, "GIT_COMMITTER_DATE": moment})


async def test_the_history_of_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    await asyncio.to_thread(commit_on_days, folder)
    whole = await read_history(folder)
    assert (whole.commits, whole.files) == (3, ())
    late = await read_history(folder, since="2026-02-01")
    assert (late.commits, late.files) == (2, ("+4 -0 b.py",))
    assert [commit.text for commit in late.latest] == [
        "2026-03-10 Of 2026-03-10 (Ada)",
        "2026-02-10 Of 2026-02-10 (Ada)",
    ]
    early = await read_history(folder, since="2026-01-10", until="2026-01-10")
    assert (early.commits, early.files, early.since, early.until) == (
        1,
        ("+2 -0 a.py",),
        "2026-01-10",
        "2026-01-10",
    )
    none = await read_history(folder, since="2026-04-01")
    assert format_history(none).startswith("There are no commits from 2026-04-01 to today.")
    assert "must be a date such as" in (await read_history(folder, since="; rm -rf /")).problem


@pytest.mark.parametrize(
    ("depth", "since", "files", "first"),
    [
        (1, "2026-03-01", (), "2026-03-10"),
        (2, "2026-02-01", ("+2 -0 b.py",), "2026-02-10"),
        (2, "2026-03-01", ("+2 -0 b.py",), "2026-02-10"),
        (1, "", (), "2026-03-10"),
        (3, "2026-01-01", ("+4 -0 b.py", "+2 -0 a.py"), ""),
        (9, "2026-02-01", ("+4 -0 b.py",), ""),
    ],
)
async def test_what_a_shallow_clone_does_not_know_is_not_told_as_added(tmp_path, depth, since, files, first):
    await asyncio.to_thread(commit_on_days, tmp_path / "shop")
    git(tmp_path, "clone", "--quiet", f"--depth={depth}", f"file://{tmp_path}/shop", "shallow")
    history = await read_history(tmp_path / "shallow", since=since)
    assert history.files == files
    assert history.cut == (
        f"The clone is shallow: its history begins on {first}, and what was before is not known" * bool(first)
    )
    assert history.cut in format_history(history)


@pytest.mark.parametrize(
    ("since", "until", "commits", "files"),
    [
        ("v1.0", "", 2, ("+4 -0 b.py",)),
        ("1.0", "", 2, ("+4 -0 b.py",)),
        ("v1.0", "1.1.0", 1, ("+2 -0 b.py",)),
        ("", "v1.1.0", 2, ("+2 -0 a.py", "+2 -0 b.py")),
        ("1.1.0", "2026-03-31", 1, ("+2 -0 b.py",)),
        ("1.1.0", "1.0", 0, ()),
    ],
)
async def test_the_history_from_one_tag_to_another(
    tmp_path: Path, since: str, until: str, commits: int, files: tuple[str, ...]
) -> None:
    folder = tmp_path / "shop"
    await asyncio.to_thread(commit_on_days, folder)
    for name, place in (("v1.0", "HEAD~2"), ("1.1.0", "HEAD~1")):
        command = ["git", "-C", str(folder), "tag", name, place]
        await asyncio.to_thread(subprocess.run, command, check=True)
    found = await read_history(folder, since=since, until=until)
    assert (found.problem, found.commits, found.files) == ("", commits, files)
    for wrong in ("v9.9", "--all", "v1.0..v2", "HEAD@{1}", "x" * 500):
        problem = (await read_history(folder, since=wrong)).problem
        assert "or a tag of the repository: the last ones are" in problem


async def test_the_history_of_an_author(repo: Path) -> None:
    write(repo, {"c.py": "c = 1\n"})
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--author", "Eve [x] <eve@example.org>", "--message", "Add c")
    for author in ("Eve", "eve@EXAMPLE", "[x]"):
        history = await read_history(repo, author=author)
        assert (history.commits, [each.text for each in history.latest], history.files) == (
            1,
            [next(each.text for each in history.latest if "Add c" in each.text)],
            ("+1 -0 c.py",),
        )
    assert format_history(history).startswith("1 commit by [x], the latest:")
    nobody = await read_history(repo, author="--all", since="2026-01-01")
    assert format_history(nobody).startswith("There are no commits by --all from 2026-01-01 to today.")
