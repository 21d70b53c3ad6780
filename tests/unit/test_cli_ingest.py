"""``mailroom memory ingest``: what is copied for memory, and what is not."""

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from services.cli.command import cli


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAILROOM_STATE_DIR", str(tmp_path / "state"))
    folder = tmp_path / "notes"
    (folder / "old").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("x")
    (folder / "oven.md").write_text("# Oven")
    (folder / "old" / "oven.md").write_text("# Old oven")
    return folder


def test_the_files_of_a_folder_are_copied_with_their_places(notes: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["memory", "ingest", str(notes), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["files"] == ["old/oven.md", "oven.md"]
    taken = tmp_path / "state" / "ingest"
    assert (taken / "oven.md").read_text() == "# Oven"
    assert (taken / "old" / "oven.md").read_text() == "# Old oven"
    assert (notes / "oven.md").exists()
    assert not (taken / ".git").exists()


def test_a_copy_is_as_old_as_its_file(notes: Path, tmp_path: Path) -> None:
    os.utime(notes / "oven.md", (1_700_000_000, 1_700_000_000))
    assert CliRunner().invoke(cli, ["memory", "ingest", str(notes)]).exit_code == 0
    assert (tmp_path / "state" / "ingest" / "oven.md").stat().st_mtime == 1_700_000_000


def test_a_file_is_copied_and_counted(notes: Path) -> None:
    result = CliRunner().invoke(cli, ["memory", "ingest", str(notes / "oven.md")])
    assert result.output.startswith("1 file copied to ")
    assert ": memory takes them in when it runs" in result.output
    result = CliRunner().invoke(cli, ["memory", "ingest", str(notes / "oven.md"), "--no-wait"])
    assert "1 file to be taken in" in result.output


def test_a_folder_without_files_is_a_mistake(notes: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = CliRunner().invoke(cli, ["memory", "ingest", str(tmp_path / "empty")])
    assert result.exit_code == 1
    assert "There is no file in what was named" in result.output


def test_a_name_stands_for_one_file(notes: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "notes"
    other.mkdir(parents=True)
    (other / "oven.md").write_text("# Another oven")
    for _ in range(2):  # the second time each replaces what it said itself
        for folder in (notes, other):
            assert CliRunner().invoke(cli, ["memory", "ingest", str(folder)]).exit_code == 0
        assert CliRunner().invoke(cli, ["memory", "ingest", str(other / "oven.md")]).exit_code == 0
    taken = tmp_path / "state" / "ingest"
    assert (taken / "oven.md").read_text() == "# Oven"
    assert (taken / "notes" / "oven.md").read_text() == "# Another oven"
    assert sorted(path.name for path in taken.iterdir() if not path.name.startswith(".")) == [
        "notes",
        "old",
        "oven.md",
    ]


def test_two_folders_at_once_keep_their_files(notes: Path, tmp_path: Path) -> None:
    other = tmp_path / "notes-2" / "notes"
    shutil.copytree(notes, other)
    result = CliRunner().invoke(cli, ["memory", "ingest", str(notes), str(other), "--json"])
    assert json.loads(result.output)["files"] == [
        "notes/old/oven.md",
        "notes/oven.md",
        "old/oven.md",
        "oven.md",
    ]


def test_links_and_empty_files_are_left_out_and_said(notes: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("The key is 4711")
    (notes / "link.md").symlink_to(tmp_path / "secret")
    (notes / "empty.md").touch()
    result = CliRunner().invoke(cli, ["memory", "ingest", str(notes), "--json"])
    report = json.loads(result.output)
    assert report["files"] == ["old/oven.md", "oven.md"]
    assert report["left_out"] == [
        "empty.md is empty",
        f"link.md is a symbolic link to {tmp_path / 'secret'}: name that to take it in",
    ]
    assert not (tmp_path / "state" / "ingest" / "link.md").exists()


def test_of_many_that_are_left_out_the_first_are_named(notes: Path) -> None:
    for number in range(7):
        (notes / f"empty{number}.md").touch()
    shown = CliRunner().invoke(cli, ["memory", "ingest", str(notes), "--no-wait"]).output
    assert shown.count(" is empty") == 5
    assert "Left out: 2 more; --json names all" in shown


def test_files_that_are_gone_since_are_named_once(notes: Path) -> None:
    for expected in ([], ["oven.md"], []):
        result = CliRunner().invoke(cli, ["memory", "ingest", str(notes), "--json"])
        assert json.loads(result.output)["gone"] == expected
        (notes / "oven.md").unlink(missing_ok=True)
