"""What people are shown of the processes' logs."""

import json
from pathlib import Path

import pytest

from services.cli.supervisor import logs as logbook
from services.cli.supervisor.logs import (
    LogFollower,
    LogLine,
    print_log_line,
    read_last_error,
    read_last_server_error,
    rotate,
)


def event(text: str, level: str = "info", **more: object) -> str:
    return (
        json.dumps(
            {"event": text, "level": level, "service": "scout", "timestamp": "2026-11-21T22:00:00Z", **more}
        )
        + "\n"
    )


def test_warnings_and_errors_are_read_aloud_and_the_rest_is_not(tmp_path: Path) -> None:
    log = tmp_path / "scout.log"
    log.write_text(event("before", "error"))
    follower = LogFollower("scout", log)
    with log.open("a") as file:
        file.write(event("ready"))
        file.write(event("presence_unsent", "warning", error="no answer", module="shared.agent.process"))
        file.write("something else\n")
        file.write(
            event("handler_failed", "error", exception="Traceback:\n  line 1\nValueError: text is wrong")
        )
    assert list(follower.read()) == [
        LogLine("scout", "warning", "presence unsent error=no answer"),
        LogLine("scout", "error", "handler failed ValueError: text is wrong"),
    ]
    assert list(follower.read()) == []


def test_what_people_are_told_is_printed_with_its_title(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "gateway.log"
    follower = LogFollower("gateway", log)
    log.write_text(event("told", "warning", title="Reminder: call\x1b[31m the bank", link="http://x"))
    (line,) = follower.read()
    assert (line.level, line.text) == ("told", "Reminder: call\x1b[31m the bank")
    print_log_line(line)
    assert "Reminder: call" in capsys.readouterr().out


def test_a_line_is_read_once_it_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "scout.log"
    follower = LogFollower("scout", log)
    assert list(follower.read()) == []
    text = event("bus_disconnected", "warning")
    log.write_text(text[:20])
    assert list(follower.read()) == []
    log.write_text(text)
    assert [line.text for line in follower.read()] == ["bus disconnected"]


def test_an_emptied_log_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "scout.log"
    log.write_text(event("first", "warning") * 3)
    follower = LogFollower("scout", log)
    log.write_text(event("second", "warning"))
    assert [line.text for line in follower.read()] == ["second"]


def test_the_servers_own_signs_are_understood(tmp_path: Path) -> None:
    log = tmp_path / "nats.log"
    follower = LogFollower("nats", log)
    log.write_text(
        "[7] 2026/11/21 22:00:00.000000 [INF] Server is ready\n"
        "[7] 2026/11/21 22:00:01.000000 [WRN] Writes are slow\n"
        "[7] 2026/11/21 22:00:02.000000 [FTL] No such directory\n"
        "[7] 2026/11/21 22:00:02.000000 [INF] Server Exiting..\n"
    )
    assert list(follower.read()) == [
        LogLine("nats", "warning", "Writes are slow"),
        LogLine("nats", "error", "No such directory"),
    ]
    assert read_last_server_error(log) == "No such directory"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", ""),
        (event("ready") + "scout: The key is damaged. Delete it\n", "The key is damaged. Delete it"),
        (
            "Traceback (most recent call last):\n  File\nImportError: no such name\n\n",
            "ImportError: no such name",
        ),
        (event("background_failed", "error", error="gone"), "background failed error=gone"),
    ],
)
def test_the_last_complaint_is_a_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    log = tmp_path / "scout.2.log"
    log.write_text(text)
    assert read_last_error(log) == complaint


def test_no_log_no_complaint(tmp_path: Path) -> None:
    assert read_last_error(tmp_path / "scout.log") == ""
    assert read_last_server_error(tmp_path / "nats.log") == ""


def test_a_large_log_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logbook, "MAX_LOG", 10)
    log = tmp_path / "scout.log"
    log.write_text("0123456789")
    rotate(log)
    assert log.exists()
    log.write_text("0123456789a")
    (tmp_path / "scout.log.1").write_text("old")
    rotate(log)
    assert log.read_text() == ""  # its process has it open, and goes on writing
    assert (tmp_path / "scout.log.1").read_text() == "0123456789a"
    rotate(log)
