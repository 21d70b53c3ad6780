"""After a full disk: when the server is to be started anew."""

import shutil
from pathlib import Path

import pytest

from services.cli.supervisor.logs import Line
from services.cli.supervisor.supervisor import ENOUGH, PAUSE, Room

STORED_NOTHING = "JetStream failed to store a msg on stream 'OFFICE': write 1.blk: no space left on device"


class Disk:
    """A disk and a clock that do what a test says."""

    free, now = 0, 1_000.0


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: type("Usage", (), {"free": disk.free}))
    monkeypatch.setattr("services.cli.supervisor.supervisor.time.monotonic", lambda: disk.now)
    return disk


def test_once_there_is_room_again_it_says_so_once(disk: Disk, tmp_path: Path) -> None:
    room = Room(tmp_path)
    disk.free = ENOUGH
    room.hear(Line("scout", "error", STORED_NOTHING))
    room.hear(Line("nats", "error", "something else"))
    assert not room.is_back()
    disk.free = ENOUGH - 1
    room.hear(Line("nats", "error", STORED_NOTHING))
    assert not room.is_back()
    disk.free = ENOUGH
    assert [room.is_back(), room.is_back()] == [True, False]


def test_it_is_not_tried_again_at_once(disk: Disk, tmp_path: Path) -> None:
    room = Room(tmp_path)
    disk.free = ENOUGH
    room.hear(Line("nats", "error", STORED_NOTHING))
    assert room.is_back()
    room.hear(Line("nats", "error", STORED_NOTHING))
    disk.now += PAUSE - 1
    assert not room.is_back()
    disk.now += 1
    assert room.is_back()
