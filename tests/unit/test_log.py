"""Logging: one event a line, as JSON into files and readable on terminals."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from shared import log


@pytest.fixture(autouse=True)
def _own_configuration():
    yield
    structlog.contextvars.clear_contextvars()
    structlog.reset_defaults()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_an_event_is_one_line_of_json_with_service_module_level_and_time():
    out = io.StringIO()
    log.configure("engineer", form="json", stream=out)
    log.logger("git").info("cloned", repo="/srv/project", files=3)
    (line,) = out.getvalue().splitlines()
    event = json.loads(line)
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "event": "cloned",
        "level": "info",
        "service": "engineer",
        "module": "git",
        "repo": "/srv/project",
        "files": 3,
    }


def test_what_is_bound_to_the_context_is_in_every_event():
    out = io.StringIO()
    log.configure("engineer", form="json", stream=out)
    with structlog.contextvars.bound_contextvars(task="t-1", cause="m-1"):
        log.logger("git").info("cloned")
    log.logger("git").info("idle")
    during, after = map(json.loads, out.getvalue().splitlines())
    assert (during["task"], during["cause"]) == ("t-1", "m-1")
    assert "task" not in after


def test_events_below_the_level_are_left_out():
    out = io.StringIO()
    log.configure("engineer", level="warning", form="json", stream=out)
    log.logger("git").info("cloned")
    log.logger("git").warning("slow")
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["slow"]


def test_an_exception_stays_in_the_one_line():
    out = io.StringIO()
    log.configure("engineer", form="json", stream=out)
    try:
        raise ValueError("broken")
    except ValueError:
        log.logger("git").exception("failed")
    (line,) = out.getvalue().splitlines()
    assert "ValueError: broken" in json.loads(line)["exception"]


def test_auto_is_readable_on_a_terminal_and_json_elsewhere():
    terminal, file = Terminal(), io.StringIO()
    log.configure("engineer", stream=terminal)
    log.logger("git").info("cloned", files=3)
    assert "cloned" in terminal.getvalue()
    assert "\x1b[" in terminal.getvalue()
    log.configure("engineer", stream=file)
    log.logger("git").info("cloned", files=3)
    assert json.loads(file.getvalue())["files"] == 3


def test_console_without_a_terminal_has_no_colours():
    out = io.StringIO()
    log.configure("engineer", form="console", stream=out)
    log.logger("git").info("cloned")
    assert "cloned" in out.getvalue()
    assert "\x1b[" not in out.getvalue()


def test_a_log_file_is_appended_to_line_by_line_and_its_folder_made(tmp_path):
    path = tmp_path / "logs" / "engineer.log"
    for number in range(2):
        with log.open_log(path) as file:
            file.write(f"line {number} ü\n")
            assert path.read_text(encoding="utf-8").endswith(f"line {number} ü\n")
    assert path.read_text(encoding="utf-8") == "line 0 ü\nline 1 ü\n"


def test_an_event_that_the_disk_has_no_space_for_is_dropped():
    program = (
        "from shared import log; log.configure('engineer'); log.logger('git').error('lost'); print('done')"
    )
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=full, timeout=60
        )
    assert done.stdout == b"done\n"


def test_logging_does_not_import_what_it_does_not_use():
    program = "import sys, shared.log; sys.exit(bool({'rich', 'greenlet'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
