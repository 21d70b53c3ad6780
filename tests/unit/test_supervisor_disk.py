"""After a full disk: when the server is to be started anew."""

import shutil
from pathlib import Path

import pytest

from services.cli.supervisor.logs import LogLine
from services.cli.supervisor.supervisor import RESTART_FREE, RESTART_INTERVAL, DiskMonitor

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
    monitor = DiskMonitor(tmp_path)
    disk.free = RESTART_FREE
    monitor.observe(LogLine("scout", "error", STORED_NOTHING))
    monitor.observe(LogLine("nats", "error", "something else"))
    assert not monitor.has_recovered()
    disk.free = RESTART_FREE - 1
    monitor.observe(LogLine("nats", "error", STORED_NOTHING))
    assert not monitor.has_recovered()
    disk.free = RESTART_FREE
    assert [monitor.has_recovered(), monitor.has_recovered()] == [True, False]


def test_it_is_not_tried_again_at_once(disk: Disk, tmp_path: Path) -> None:
    monitor = DiskMonitor(tmp_path)
    disk.free = RESTART_FREE
    monitor.observe(LogLine("nats", "error", STORED_NOTHING))
    assert monitor.has_recovered()
    monitor.observe(LogLine("nats", "error", STORED_NOTHING))
    disk.now += RESTART_INTERVAL - 1
    assert not monitor.has_recovered()
    disk.now += 1
    assert monitor.has_recovered()
