"""How long what goals leave on disk is kept, and logs that are rotated while their process writes."""

import os
import time
from pathlib import Path

import pytest

from services.cli.supervisor import logs
from services.engineer.working_copy import remove_old
from shared.queries.checks import check_kept
from shared.settings import Settings, load

DAY = 86_400


def office(folder: Path, **environ: str) -> Settings:
    settings = load({"MAILROOM_STATE_DIR": str(folder), **environ})
    for place in (settings.workspaces, settings.snapshots, settings.outputs):
        for name, days in (("goal_new", 1), ("goal_old", 8), ("goal_ancient", 100), ("goal_open", 100)):
            file = place / name / "a.txt"
            file.parent.mkdir(parents=True)
            file.write_text("x" * 1_000)
            for path in (file, file.parent):
                os.utime(path, (time.time() - days * DAY,) * 2)
    return settings


def left(folder: Path) -> set[str]:
    return {path.name.removeprefix("goal_") for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("keep", "workspaces", "outputs"),
    [
        ("", {"new", "open"}, {"new", "old", "open"}),
        ("outputs=5,workspaces=30", {"new", "old", "open"}, {"new", "open"}),
        ("outputs=0,workspaces=0", {"new", "old", "ancient", "open"}, {"new", "old", "ancient", "open"}),
    ],
)
def test_what_is_old_goes_and_what_an_open_goal_has_stays(
    tmp_path: Path, keep: str, workspaces: set[str], outputs: set[str]
) -> None:
    settings = office(tmp_path, MAILROOM_KEEP=keep)
    remove_old(settings, {"goal_open"})
    assert (left(settings.workspaces), left(settings.snapshots)) == (workspaces, workspaces)
    assert left(settings.outputs) == outputs


def test_a_folder_in_which_something_was_written_lately_stays(tmp_path: Path) -> None:
    settings = office(tmp_path)
    (settings.outputs / "goal_ancient" / "a.txt").touch()
    remove_old(settings, ())
    assert "ancient" in left(settings.outputs)


def test_the_doctor_tells_how_much_of_each_kind_there_is(tmp_path: Path) -> None:
    found = check_kept(office(tmp_path, MAILROOM_KEEP="outputs=0")).finding
    assert found == "outputs 4.0 kB, workspaces 4.0 kB (kept 7 days), snapshots 4.0 kB (kept 7 days)"


def test_a_log_is_rotated_while_its_process_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_LOG", 100)
    path = tmp_path / "scout.log"
    with path.open("ab", buffering=0) as output:
        output.write(b"old\n" * 50)
        follower = logs.LogFollower("scout", path)
        logs.rotate(path)
        output.write(b'{"event": "new", "level": "error"}\n')
        assert path.read_bytes() == b'{"event": "new", "level": "error"}\n'
        assert path.with_name("scout.log.1").read_bytes() == b"old\n" * 50
        assert [line.text for line in follower.read()] == ["new"]
        logs.rotate(path)
        assert path.stat().st_size == 35
