"""Files beneath one folder: escapes, links swapped in, special files, full disks."""

import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.errors import ActionError
from shared.jailer.syscalls import has_openat2
from shared.sandbox import remove_tree
from shared.sandbox.confined import ConfinedFolder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    folder = tmp_path / "root"
    (folder / "src").mkdir(parents=True)
    (folder / "a.txt").write_text("inside")
    return folder


@pytest.fixture(params=[False, True], ids=["openat2", "portable"])
def confined(root: Path, request: pytest.FixtureRequest) -> Iterator[ConfinedFolder]:
    with ConfinedFolder(root, portable=request.param) as opened:
        yield opened


def names(folder: Path) -> list[str]:
    """The names in a folder, sorted."""
    return sorted(path.name for path in folder.iterdir())


def test_it_reads_and_writes_what_is_beneath(root: Path, confined: ConfinedFolder) -> None:
    confined.write("new/deep/b.txt", b"two")
    assert confined.read("new/deep/b.txt", 10) == b"two"
    assert confined.read(str(root / "a.txt"), 10) == b"inside"
    (root / "a.txt").chmod(0o755)
    confined.write("./a.txt", b"again")
    assert (root / "a.txt").stat().st_mode & 0o777 == 0o755
    confined.remove("new")
    confined.remove("new")
    assert names(root) == ["a.txt", "src"]


@pytest.mark.parametrize(
    "path",
    ["../outside/secret", "/etc/passwd", "src/../../outside/secret", "..", "a\0b", "/", "\ud800", "src/.."],
)
def test_paths_that_lead_out_are_refused(confined: ConfinedFolder, path: str) -> None:
    for use in (lambda: confined.read(path, 100), lambda: confined.write(path, b"x")):
        with pytest.raises(ActionError):
            use()
    with pytest.raises(ActionError):
        confined.remove(path)


def test_links_are_not_followed(root: Path, confined: ConfinedFolder, tmp_path: Path) -> None:
    (root / "file").symlink_to(tmp_path / "outside" / "secret")
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "self").symlink_to("a.txt")
    for path in ("file", "folder/secret", "self", "folder/new"):
        with pytest.raises(ActionError, match=r"link|cannot be used"):
            confined.read(path, 100)
        with pytest.raises(ActionError, match=r"link|cannot be used"):
            confined.write(path, b"x")
    confined.remove("folder")
    assert (tmp_path / "outside" / "secret").read_text() == "secret"
    assert names(tmp_path / "outside") == ["secret"]


def test_special_files_neither_hang_nor_are_touched(root: Path, confined: ConfinedFolder) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket"))
        for path in ("pipe", "socket", "src"):
            with pytest.raises(ActionError):
                confined.read(path, 100)
            with pytest.raises(ActionError):
                confined.write(path, b"x")


def test_what_is_too_large_is_refused(root: Path, confined: ConfinedFolder) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ActionError, match="more than 1,000 bytes"):
        confined.read("huge", 1_000)


def test_a_full_disk_leaves_what_was_there(root: Path) -> None:
    # RLIMIT_FSIZE stands in for a full disk: the write fails halfway, with another number.
    code = (
        "import resource, signal, sys\nfrom pathlib import Path\n"
        "from shared.sandbox.confined import ConfinedFolder\n"
        "from shared.errors import ActionError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))\n"
        "try:\n    ConfinedFolder(Path(sys.argv[1])).write('a.txt', b'x' * 5000)\n"
        "except ActionError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(root)], capture_output=True, text=True, check=True)
    assert "'a.txt' cannot be used: File too large" in done.stdout
    assert (root / "a.txt").read_text() == "inside"
    assert names(root) == ["a.txt", "src"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 1000


@pytest.mark.skipif(sys.platform != "linux", reason="it swaps by renameat2")
def test_links_swapped_in_meanwhile_change_nothing(
    root: Path, confined: ConfinedFolder, tmp_path: Path
) -> None:
    outside_error = tmp_path / "outside"
    (root / "turn").mkdir()
    (root / "turn" / "secret").write_text("mine")
    (root / "other").symlink_to(outside_error)
    stop = threading.Event()

    def swap() -> None:
        import ctypes

        libc, here = ctypes.CDLL(None), os.fsencode(root)
        while not stop.is_set():  # RENAME_EXCHANGE: at no moment is there nothing
            libc.renameat2(-100, here + b"/turn", -100, here + b"/other", 2)

    swapping = threading.Thread(target=swap)
    swapping.start()
    seen, refused = set(), 0
    try:
        for number in range(3_000):
            try:
                seen.add(confined.read("turn/secret", 100))
                confined.write(f"turn/{number % 7}", b"x")
                if number % 50 == 0:
                    confined.remove(f"turn/{number % 7}")
            except ActionError:
                refused += 1
    finally:
        stop.set()
        swapping.join()
    assert seen == {b"mine"}
    assert refused
    assert names(outside_error) == ["secret"]


def test_this_kernel_is_asked() -> None:
    assert has_openat2() == (sys.platform == "linux" and os.uname().release.split(".") >= ["5", "6"])


def test_whatever_a_program_leaves_behind_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "left"
    left.mkdir()
    (tmp_path / "canary").write_text("alive")
    (left / "link").symlink_to(tmp_path)
    (left / "shut").mkdir()
    (left / "shut" / "file").touch()
    (left / "shut").chmod(0)
    for number in range(2_000):
        (left / "wide" / str(number)).mkdir(parents=True)
    at = os.open(left, os.O_RDONLY)
    for _ in range(2_000):
        os.mkdir("deep", dir_fd=at)
        below = os.open("deep", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    remove_tree(left)
    remove_tree(left)
    assert names(tmp_path) == ["canary"]
