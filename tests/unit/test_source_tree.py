"""Listing a folder: bounded, ignoring what is ignored, never leaving it."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from shared.errors import ActionError
from shared.source import Limits, read_text, read_tree


def plant(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write ``files`` beneath ``root`` and return it."""
    for path, content in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def test_ignored_files_are_left_out(tmp_path: Path) -> None:
    files = {
        ".gitignore": "*.log\n/build/\n!keep.log\n[bad\nsecret/*\n!secret/open.txt\n",
        "a.log": "",
        "keep.log": "",
        "build/x.py": "",
        "src/build/y.py": "",
        "src/.gitignore": "y.*\n!a.log\n",
        "src/a.log": "",
        "src/y.txt": "",
        "secret/key": "",
        "secret/open.txt": "",
        "node_modules/left/pad.js": "",
        ".git/config": "",
        "env/pyvenv.cfg": "",
        "env/lib/x.py": "",
        "pkg.egg-info/PKG-INFO": "",
        "zz.py": "",
    }
    listed = read_tree(plant(tmp_path, files)).files
    assert listed == (".gitignore", "keep.log", "secret/open.txt", "src/.gitignore", "src/a.log", "zz.py")


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = plant(tmp_path / "outside", {"secret.py": "x = 1"})
    root = plant(tmp_path / "root", {"a.py": ""})
    (root / "link.py").symlink_to(outside / "secret.py")
    (root / "folder").symlink_to(outside)
    (root / "round").symlink_to(root)
    os.mkfifo(root / "pipe")
    assert read_tree(root).files == ("a.py",)
    assert read_text(root, "link.py") == ""
    assert read_text(root, "pipe") == ""


def test_a_root_that_is_a_link_is_its_target(tmp_path: Path) -> None:
    plant(tmp_path / "real", {"a.py": ""})
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert read_tree(tmp_path / "link").root == (tmp_path / "real").resolve()


def test_a_large_tree_is_cut_and_says_so(tmp_path: Path) -> None:
    for folder in range(50):
        (tmp_path / f"d{folder:02}").mkdir()
        for number in range(100):
            (tmp_path / f"d{folder:02}" / f"f{number}.py").touch()
    plant(tmp_path, {"README.md": "At the top"})
    started = time.monotonic()
    tree = read_tree(tmp_path, Limits(files=1_000))
    assert time.monotonic() - started < 5
    assert len(tree.files) == 1_000
    assert "README.md" in tree.files
    assert tree.cut == "only the first 1,000 files were read"
    assert read_tree(tmp_path).cut == ""


def test_one_huge_folder_is_cut_too(tmp_path: Path) -> None:
    for number in range(300):
        (tmp_path / f"{number}").touch()
    tree = read_tree(tmp_path, Limits(files=100))
    assert len(tree.files) == 100
    assert tree.cut


def test_time_and_depth_are_bounded(tmp_path: Path) -> None:
    deep = "/".join("d" * 40)
    plant(tmp_path, {f"{deep}/x.py": "", "a.py": ""})
    assert read_tree(tmp_path).files == ("a.py",)
    assert "within 0 s" in read_tree(tmp_path, Limits(seconds=0)).cut


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x00\x01\x02", ""),
        (b"\xef\xbb\xbfa\r\nb", "a\nb"),
        (b"a\xffb", "a�b"),
        (b"a\x0cb\rc\xe2\x80\xa8d\n", "a b c d\n"),
        (b"", ""),
    ],
)
def test_what_counts_as_text(tmp_path: Path, data: bytes, text: str) -> None:
    (tmp_path / "f").write_bytes(data)
    assert read_text(tmp_path, "f") == text


def test_names_that_cannot_travel_are_left_out(tmp_path: Path) -> None:
    plant(tmp_path, {"good.py": ""})
    for name in (b"bad\xff.py", b"two\nlines.py"):
        try:
            (tmp_path / os.fsdecode(name)).touch()
        except OSError:
            pytest.skip("this file system takes no such names")
    assert read_tree(tmp_path).files == ("good.py",)


@pytest.mark.parametrize("path", ["relative", "/no/such/folder", "/etc/hosts"])
def test_what_is_no_folder_is_refused_in_a_sentence(path: str) -> None:
    with pytest.raises(ActionError) as error:
        read_tree(Path(path))
    assert path in str(error.value)
