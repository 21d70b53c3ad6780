"""The processes of an office, as the kernel, heartbeats and presences tell of them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shared import settings
from shared.contracts import Presence
from shared.heartbeat import heartbeat_path, read_heartbeats
from shared.queries.processes import _COMMANDS, _seconds_of, find_late
from shared.text.times import format_utc


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("/venv/bin/python -m services.memory", "memory"),
        (
            "/venv/bin/python3.11 -m shared.agent.process /state/specialists/sql-expert/profile.yaml",
            "sql-expert",
        ),
        ("/venv/bin/python /home/ana/agents/juggler", "juggler"),
        ("/venv/bin/nats-server --config /state/nats/nats-server.conf", "nats"),
        (
            "/venv/bin/python -I -S /repo/services/cli/supervisor/watchdog_script.py /state/run/office.json",
            "",
        ),
    ],
)
def test_a_command_line_names_its_agent(command: str, name: str) -> None:
    found = _COMMANDS.search(command)
    assert (next(filter(None, found.groups())) if found else "") == name


@pytest.mark.parametrize(
    ("elapsed", "seconds"), [("00:07", 7), ("12:34", 754), ("01:00:00", 3_600), ("2-03:00:01", 183_601)]
)
def test_the_age_of_a_process(elapsed: str, seconds: int) -> None:
    assert _seconds_of(elapsed) == seconds


def test_a_name_with_dashes_has_a_heartbeat(tmp_path: Path) -> None:
    config = settings.load({"MAILROOM_STATE_DIR": str(tmp_path)})
    path = heartbeat_path(config, "sql-expert", 17)
    path.parent.mkdir()
    path.touch()
    assert [(name, process) for name, process, _ in read_heartbeats(config)] == [("sql-expert", 17)]


def test_a_process_elsewhere_whose_presence_is_late_does_not_respond() -> None:
    def presence(seconds: float) -> Presence:
        at = format_utc(datetime.now(UTC) - timedelta(seconds=seconds))
        return Presence(
            sender="scout",
            agent="scout",
            instance="i",
            version="1",
            description="d",
            pid=7,
            host="elsewhere",
            created_at=at,
        )

    assert find_late([presence(20)]) == []
    (late,) = find_late([presence(30)])
    assert str(late).startswith("scout (process 7 on elsewhere) does not respond for 30.")
