"""Snapshots of a workspace and undo: real files, links, modes, races and kills."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shared.errors import ActionError
from shared.sandbox import remove_tree
from shared.sandbox.snapshots import Snapshots


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "src").mkdir(parents=True)
    (folder / "a.txt").write_text("one")
    (folder / "src" / "b.txt").write_text("two")
    (folder / "link").symlink_to("a.txt")
    return folder


@pytest.fixture
def snapshots(root: Path, tmp_path: Path) -> Snapshots:
    return Snapshots(root, tmp_path / "snapshots")


def tree(root: Path) -> dict[str, object]:
    """What is there: content, link target and mode by path."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = (mode, path.read_bytes() if path.is_file() else None)
    return found


def test_undo_brings_back_content_files_links_and_modes(root: Path, snapshots: Snapshots) -> None:
    (root / "src").chmod(0o750)
    before = tree(root)
    snapshots.take("a mess")
    (root / "a.txt").write_text("changed")
    (root / "src" / "b.txt").unlink()
    (root / "src").rmdir()
    (root / "src").write_text("a file where a folder was")
    (root / "link").unlink()
    (root / "link").mkdir()
    (root / "link" / "inside").write_text("x")
    (root / "new" / "deep").mkdir(parents=True)
    (root / "new" / "deep" / "c").write_text("x")
    restored = snapshots.undo()
    assert tree(root) == before
    assert restored.label == "a mess"
    assert set(restored.removed) == {"src", "link", "new"}
    assert set(restored.written) == {"a.txt", "src", "src/b.txt", "link"}


def test_undo_again_takes_back_the_change_before(root: Path, snapshots: Snapshots) -> None:
    snapshots.take("first")
    (root / "a.txt").write_text("1")
    snapshots.take("second")
    (root / "a.txt").write_text("2")
    snapshots.take("third, which changes nothing")
    assert snapshots.undo().label == "second"
    assert (root / "a.txt").read_text() == "1"
    assert snapshots.undo().label == "first"
    assert (root / "a.txt").read_text() == "one"
    with pytest.raises(ActionError, match="nothing to undo"):
        snapshots.undo()


def test_a_change_of_the_same_size_and_the_same_mtime_is_seen(root: Path, snapshots: Snapshots) -> None:
    snapshots.take("first")
    info = (root / "a.txt").stat()
    (root / "a.txt").write_text("two")
    os.utime(root / "a.txt", ns=(info.st_atime_ns, info.st_mtime_ns))
    snapshots.take("second")
    (root / "a.txt").write_text("six")
    os.utime(root / "a.txt", ns=(info.st_atime_ns, info.st_mtime_ns))
    snapshots.undo()
    assert (root / "a.txt").read_text() == "two"
    snapshots.undo()
    assert (root / "a.txt").read_text() == "one"


def test_unchanged_files_are_not_read_again(root: Path, snapshots: Snapshots) -> None:
    for number in range(300):
        (root / f"{number}.bin").write_bytes(os.urandom(1000))
    snapshots.take("first")
    time.sleep(1.1)  # else they are fresh, and are read again
    snapshots.take("second")
    # Content that is not read again may be gone from the disk's point of view: count what is opened.
    opened = 0
    keep = snapshots._objects.keep

    def counting(*arguments: object) -> str:
        nonlocal opened
        opened += 1
        return keep(*arguments)  # type: ignore[arg-type]

    snapshots._objects.keep = counting  # type: ignore[method-assign, assignment]
    (root / "0.bin").write_text("changed")
    snapshots.take("third")
    assert opened == 1


def test_it_never_leaves_the_workspace(root: Path, snapshots: Snapshots, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "canary").write_text("alive")
    (root / "away").symlink_to(outside)
    snapshots.take("first")
    (taken,) = snapshots.store.glob("*.tree")
    assert b"b.txt" in taken.read_bytes()
    assert b"canary" not in taken.read_bytes()
    (root / "src" / "b.txt").unlink()
    (root / "src").rmdir()
    (root / "src").symlink_to(outside)
    (root / "more").symlink_to(outside)
    snapshots.undo()
    assert (outside / "canary").read_text() == "alive"
    assert sorted(path.name for path in outside.iterdir()) == ["canary"]
    assert (root / "src" / "b.txt").read_text() == "two"


def test_names_that_are_no_utf8_and_pipes(root: Path, snapshots: Snapshots) -> None:
    name = os.fsencode(root) + b"/caf\xe9"
    Path(os.fsdecode(name)).write_text("old")
    os.mkfifo(root / "pipe")
    snapshots.take("first")
    Path(os.fsdecode(name)).write_text("new!")
    os.mkfifo(root / "another")
    restored = snapshots.undo()
    assert Path(os.fsdecode(name)).read_text() == "old"
    assert restored.written == ("caf\\xe9",)
    assert restored.removed == ("another",)


def test_folders_nested_deeper_than_any_stack_are_removed(root: Path, snapshots: Snapshots) -> None:
    snapshots.take("first")
    at = os.open(root, os.O_RDONLY)
    for _ in range(3_000):
        os.mkdir("d" * 20, dir_fd=at)
        below = os.open("d" * 20, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    snapshots.take("second")
    snapshots.undo()
    assert not (root / ("d" * 20)).exists()


def test_folders_that_were_shut_are_opened_and_shut_again(root: Path, snapshots: Snapshots) -> None:
    (root / "shut").mkdir()
    (root / "shut" / "file").write_text("x")
    (root / "shut").chmod(0o500)
    before = tree(root)
    snapshots.take("first")
    (root / "shut").chmod(0o700)
    (root / "shut" / "file").write_text("y")
    (root / "shut").chmod(0o000)
    snapshots.undo()
    assert tree(root) == before
    (root / "shut").chmod(0o700)


def test_what_nobody_could_look_into_stays() -> None:
    folder = Path(tempfile.mkdtemp(prefix="mailroom-test-"))
    folder.chmod(0o777)
    child = os.fork()  # root can look into everything
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            os._exit(_shut_out(folder))
        except BaseException:
            traceback.print_exc()
            os._exit(9)
    _, status = os.waitpid(child, 0)
    remove_tree(folder)
    assert os.waitstatus_to_exitcode(status) == 0


def _shut_out(folder: Path) -> int:
    root = folder / "workspace"
    (root / "shut").mkdir(parents=True)
    (root / "shut" / "kept").write_text("kept")
    (root / "secret").write_text("unreadable")
    (root / "secret").chmod(0)
    (root / "shut").chmod(0)
    snapshots = Snapshots(root, folder / "snapshots")
    lost = snapshots.take("first").lost
    (root / "new").write_text("new")
    restored = snapshots.undo()
    (root / "shut").chmod(0o700)
    kept = (root / "shut" / "kept").read_text() == "kept"
    (root / "secret").chmod(0o600)
    kept = kept and (root / "secret").read_text() == "unreadable"
    return 0 if kept and restored.removed == ("new",) and set(lost) == {"shut", "secret"} else 1


def test_the_number_and_the_bytes_kept_are_bounded(root: Path, tmp_path: Path) -> None:
    snapshots = Snapshots(root, tmp_path / "snapshots", keep=5, max_bytes=10_000)
    for number in range(40):
        snapshots.take(str(number))
        (root / "a.txt").write_bytes(os.urandom(1_000))
    assert len(snapshots.labels()) <= 16
    kept = sum(path.stat().st_size for path in (tmp_path / "snapshots" / "objects").glob("??/*"))
    assert kept <= 11_000
    last = (root / "a.txt").read_bytes()
    snapshots.undo()
    assert (root / "a.txt").read_bytes() != last


def test_what_is_too_large_is_said_not_lost_in_silence(root: Path, tmp_path: Path) -> None:
    snapshots = Snapshots(root, tmp_path / "snapshots", max_file=1_000)
    (root / "large").write_bytes(bytes(2_000))
    assert "large" in snapshots.take("first").lost
    (root / "large").write_bytes(bytes(2_001))
    (root / "a.txt").write_text("changed")
    restored = snapshots.undo()
    assert "large" in restored.lost
    assert (root / "a.txt").read_text() == "one"
    with pytest.raises(ActionError, match="more than the 2,000"):
        Snapshots(root, tmp_path / "others", max_bytes=2_000).take("x")
    with pytest.raises(ActionError, match="more than the 2 files"):
        Snapshots(root, tmp_path / "others", max_files=2).take("x")


def test_what_cannot_be_taken_back_is_not_passed_over(root: Path, tmp_path: Path) -> None:
    small = Snapshots(root, tmp_path / "small", max_file=10)
    (root / "large").write_text("x" * 20)
    small.take("change the small one")
    (root / "a.txt").write_text("changed")
    small.take("change the large one")
    (root / "large").write_text("y" * 20)
    restored = small.undo()
    assert (restored.label, restored.count, set(restored.lost)) == ("change the large one", 0, {"large"})
    assert (root / "a.txt").read_text() == "changed"


def test_more_than_a_snapshot_may_have_is_taken_back_all_the_same(root: Path, tmp_path: Path) -> None:
    small = Snapshots(root, tmp_path / "small", max_files=20)
    before = tree(root)
    small.take("make many")
    for folder in ("new", "src"):
        (root / folder).mkdir(exist_ok=True)
        for number in range(30):
            (root / folder / str(number)).touch()
    with pytest.raises(ActionError, match=r"more than the 20 files .* Take back with undo"):
        small.take("the next")
    assert small.undo().count == 31  # the new folder as one
    assert tree(root) == before


def test_a_workspace_that_was_shut_is_opened_again(root: Path, snapshots: Snapshots) -> None:
    snapshots.take("shut it")
    (root / "new").touch()
    root.chmod(0)
    snapshots.take("the next")
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    root.chmod(0o300)
    assert snapshots.undo().removed == ("new",)
    assert (root / "a.txt").read_text() == "one"


def test_the_store_cannot_be_inside(root: Path) -> None:
    with pytest.raises(ValueError, match="inside"):
        Snapshots(root, root / "snapshots")


def test_what_a_power_cut_spoiled_is_not_taken_for_good(root: Path, snapshots: Snapshots) -> None:
    snapshots.take("first")
    (root / "a.txt").write_text("two")
    snapshots.take("second")
    (root / "a.txt").write_text("three")
    (root / "src" / "b.txt").write_text("three")
    (second,) = snapshots.store.glob("*2.tree")
    second.write_bytes(second.read_bytes()[:20])
    for path in (snapshots.store / "objects").glob("??/*"):
        if path.read_text() == "one":
            path.write_bytes(b"")
    restored = snapshots.undo()
    assert restored.label == "first"
    assert restored.lost == {"a.txt": "what was kept of it is damaged"}
    assert (root / "a.txt").read_text() == "three"
    assert (root / "src" / "b.txt").read_text() == "two"
    (root / "a.txt").write_text("one")
    snapshots.take("third")
    (root / "a.txt").write_text("four")
    snapshots.undo()
    assert (root / "a.txt").read_text() == "one"


def test_many_at_once_do_not_meet(root: Path, tmp_path: Path) -> None:
    def work(number: int) -> None:
        mine = Snapshots(root, tmp_path / "snapshots")
        for turn in range(5):
            mine.take(f"{number}-{turn}")
            (root / f"{number}.txt").write_text(str(turn))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    undone = Snapshots(root, tmp_path / "snapshots")
    while undone.labels():
        with contextlib.suppress(ActionError):  # the last ones may be of nothing changed
            undone.undo()
    assert sorted(tree(root)) == ["a.txt", "link", "src", "src/b.txt"]


FULL = """
import resource, signal, sys
from pathlib import Path
from shared.errors import ActionError
from shared.sandbox.snapshots import Snapshots
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
snapshots = Snapshots(Path(sys.argv[1]), Path(sys.argv[2]))
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
for attempt in (lambda: snapshots.take("x"), snapshots.undo):
    try:
        attempt()
    except ActionError as error:
        print(error)
"""


def test_a_full_disk_is_said_and_spoils_nothing(root: Path, tmp_path: Path) -> None:
    # A limit on the size of files stands in for the disk: writing fails halfway.
    (root / "a.txt").write_bytes(bytes(5_000))
    snapshots = Snapshots(root, tmp_path / "snapshots")
    snapshots.take("first")
    (root / "a.txt").write_bytes(b"1" * 5_000)
    command = [sys.executable, "-c", FULL, str(root), str(snapshots.store)]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "No snapshot of the workspace can be made" in told[0]
    assert "'a.txt' cannot be used: File too large" in told[1]
    assert not list((snapshots.store / "objects").glob("new-*"))
    assert (root / "a.txt").read_bytes() == b"1" * 5_000
    assert snapshots.undo().written == ("a.txt",)
    assert (root / "a.txt").read_bytes() == bytes(5_000)


WORK = """
import os, sys
from pathlib import Path
from shared.sandbox import remove_tree
from shared.sandbox.snapshots import Snapshots
root, store = Path(sys.argv[1]), Path(sys.argv[2])
snapshots = Snapshots(root, store)
print("ready", flush=True)
while True:
    for path in list(root.glob("f*")):
        path.write_bytes(os.urandom(30_000))
    snapshots.take("more")
    (root / "a.txt").write_bytes(os.urandom(8))
    snapshots.undo()
"""


def test_it_survives_kill_9_at_any_moment(root: Path, tmp_path: Path) -> None:
    for number in range(40):
        (root / f"f{number}").write_bytes(os.urandom(30_000))
    store = tmp_path / "snapshots"
    snapshots = Snapshots(root, store)
    (root / "kept").write_text("kept")
    snapshots.take("before the kills")
    for moment in (0.01, 0.03, 0.06, 0.1, 0.15, 0.2):
        with subprocess.Popen(
            [sys.executable, "-c", WORK, str(root), str(store)], stdout=subprocess.PIPE
        ) as worker:
            assert worker.stdout is not None
            worker.stdout.readline()
            time.sleep(moment)
            worker.send_signal(signal.SIGKILL)
        mark = os.urandom(8)
        (root / "a.txt").write_bytes(mark)
        snapshots.take("after a kill")
        (root / "a.txt").write_bytes(b"changed")
        assert snapshots.undo().label == "after a kill"
        assert (root / "a.txt").read_bytes() == mark
        assert (root / "kept").read_text() == "kept"
        assert not list((store / "objects").glob("new-*"))
