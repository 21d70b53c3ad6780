"""What of a person's folder is sent, and what is left out."""

import os
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from shared.agent.travelling import add_history
from shared.errors import ActionError, MailroomError
from shared.operations import sending
from shared.operations.sending import Packed, find_root, pack_folder
from shared.sandbox.parcels import Packer, unpack
from shared.skills.clones import ENVIRONMENT

Make = Callable[[str], Path]


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always"]
    env = {**os.environ, **ENVIRONMENT}
    command = ["git", *who, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, env=env).stdout


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        git(folder, "init", "--quiet", "--initial-branch=trunk")
        for number in range(3):
            (folder / "file").write_text(f"{number}\n")
            git(folder, "add", "--all")
            git(folder, "commit", "--quiet", f"--message=Number {number}")
        return folder

    return make


async def send(folder: Path) -> tuple[Packed, Path]:
    """What was packed, and the folder as agents have it."""
    parcel, draft = folder.with_name(f"{folder.name}.parcel"), folder.with_name(f"{folder.name}.draft")
    with parcel.open("wb") as file:
        packed = pack_folder(folder, file)
    unpack([parcel], draft, is_closed=True)
    await add_history(draft)
    return packed, draft / "files"


def names(folder: Path) -> set[str]:
    found = {str(each.relative_to(folder)) for each in folder.rglob("*") if not each.is_dir()}
    return {each for each in found if not each.startswith(".git/")}


async def test_what_git_knows_and_what_is_uncommitted(make: Make) -> None:
    folder = make("repo")
    git(folder, "tag", "v1", "HEAD~1")
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "file").write_text("changed\n")
    (folder / "odd\nname 'x'").write_text("")
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9")).write_bytes(b"x")
    (folder / "a.log").write_text("ignored")
    (folder / "gone").write_text("")
    git(folder, "add", "gone")
    (folder / "gone").unlink()
    (folder / "inside").symlink_to("file")
    (folder / "outside").symlink_to("../elsewhere")
    os.mkfifo(folder / "pipe")
    hooked = folder / "ran"
    (folder / ".git" / "hooks" / "post-checkout").write_text(f"#!/bin/sh\ntouch {hooked}\n")
    (folder / ".git" / "hooks" / "post-checkout").chmod(0o755)
    git(folder, "config", "core.fsmonitor", f"touch {hooked}; false")
    packed, copy = await send(folder)
    assert not hooked.exists()
    assert names(copy) == {".gitignore", "file", "odd\nname 'x'", os.fsdecode(b"caf\xe9"), "inside"}
    assert (copy / "file").read_text() == "changed\n"
    assert [each.partition(" (")[0] for each in packed.left_out] == ["outside"]
    assert git(copy, "log", "--format=%s").split("\n")[:3] == ["Number 2", "Number 1", "Number 0"]
    assert git(copy, "describe", "--tags").startswith("v1-1-")
    assert git(copy, "symbolic-ref", "HEAD") == "refs/heads/trunk\n"
    assert " M file" in git(copy, "status", "--porcelain")
    assert not list((copy / ".git" / "hooks").glob("*"))
    assert "fsmonitor" not in (copy / ".git" / "config").read_text()


async def test_secrets_that_are_not_tracked_stay_here(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make("repo")
    (folder / "tracked.pem").write_text("known to git\n")
    git(folder, "add", "--all")
    for name in (".env", ".env.local", "id_rsa", "server.key", ".netrc"):
        (folder / name).write_text("x\n")
    (folder / ".env.example").write_text("KEY=\n")
    (folder / "notes.md").write_text("AKIA" + "QWERTZUIOPLKJHGF\n")
    (folder / "large").write_bytes(bytes(2_000))
    monkeypatch.setattr(sending, "MAX_FILE", 1_000)
    packed, copy = await send(folder)
    assert names(copy) == {"file", "tracked.pem", ".env.example"}
    assert len(packed.left_out) == 7


async def test_submodules_are_files_and_clones_may_be_shallow(make: Make, tmp_path: Path) -> None:
    inner, outer = make("inner"), make("outer")
    git(outer, "submodule", "--quiet", "add", str(inner), "lib")
    git(outer, "commit", "--quiet", "--message=With a submodule")
    (outer / "lib" / "new").write_text("not committed\n")
    _, copy = await send(outer)
    assert names(copy) == {".gitmodules", "file", "lib/file", "lib/new"}
    assert "?? lib/" in git(copy, "status", "--porcelain"), "what git knew of it is not there"
    git(tmp_path, "clone", "--quiet", "--depth=2", f"file://{make('origin')}", "shallow")
    _, copy = await send(tmp_path / "shallow")
    assert git(copy, "log", "--format=%s").split("\n")[:-1] == ["Number 2", "Number 1"]
    git(tmp_path, "clone", "--quiet", f"file://{tmp_path / 'origin'}", "partial")
    git(tmp_path / "partial", "config", "remote.origin.promisor", "true")
    packed, copy = await send(tmp_path / "partial")
    assert packed.left_out == ("its history (the clone is partial)",)
    assert not (copy / ".git").exists()


async def test_folders_of_all_kinds(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = tmp_path / "plain"
    (plain / "node_modules").mkdir(parents=True)
    (plain / "node_modules" / "x").write_text("")
    (plain / "version https pointer").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    packed, copy = await send(plain)
    assert names(copy) == {"version https pointer"}, "a pointer of LFS is sent as it is"
    assert packed.left_out == ("its history (it is in no git repository)",)
    empty = tmp_path / "empty"
    empty.mkdir()
    git(empty, "init", "--quiet")
    packed, _ = await send(empty)
    assert packed.left_out == ("its history (nothing is committed)",)
    folder = make("repo")
    (folder / "deep").mkdir()
    assert find_root(folder / "deep") == folder
    monkeypatch.setattr(sending, "MAX_HISTORY", 10)
    packed, _ = await send(folder)
    assert "more than 10 bytes" in packed.left_out[0]
    monkeypatch.setattr(sending, "Packer", partial(Packer, max_bytes=1))
    with (tmp_path / "out").open("wb") as file, pytest.raises(MailroomError, match="more than 1 bytes"):
        pack_folder(folder, file)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("pack", b"PACK and no pack"),
        ("pack", b""),
        ("head", b"0123456789012345678901234567890123456789 trunk\n"),
        ("head", b"--help ../../config\n"),
        ("head", b"%s ../../../x\n"),
    ],
)
async def test_a_hostile_history_is_refused(make: Make, file: str, content: bytes) -> None:
    folder = make("repo")
    head = git(folder, "rev-parse", "HEAD").strip().encode()
    parcel, draft = folder.with_name("parcel"), folder.with_name("draft")
    with parcel.open("wb") as out:
        pack_folder(folder, out)
    unpack([parcel], draft, is_closed=True)
    (draft / "history" / file).write_bytes(content.replace(b"%s", head))
    with pytest.raises(ActionError, match="history that was sent cannot be read"):
        await add_history(draft)
