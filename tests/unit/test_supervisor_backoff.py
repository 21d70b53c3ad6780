"""How long the supervisor waits before it starts a process again."""

from pathlib import Path

from services.cli.supervisor.child import ALERT_AFTER, Backoff
from services.cli.supervisor.programs import server_program
from shared import settings


def test_waits_double_up_to_two_seconds() -> None:
    backoff = Backoff()
    waits = [backoff.after(5, was_ready=True) for _ in range(10)]
    assert waits == [0.5, 1, *[2] * 8]


def test_a_minute_of_life_makes_it_forget() -> None:
    backoff = Backoff()
    for _ in range(6):
        backoff.after(5, was_ready=True)
    assert backoff.after(59.9, was_ready=True) == 2
    assert backoff.after(60, was_ready=True) == 0.5
    assert backoff.after(1, was_ready=True) == 1


def test_what_never_gets_ready_is_tried_slowly() -> None:
    backoff = Backoff()
    waits = [backoff.after(0.1, was_ready=False) for _ in range(ALERT_AFTER + 1)]
    assert waits == [0.5, 1, 2, 2, 30, 30]
    assert backoff.failed_starts == ALERT_AFTER + 1


def test_what_everything_needs_is_never_waited_for_long() -> None:
    backoff = Backoff(needed=True)
    assert max(backoff.after(0.1, was_ready=False) for _ in range(20)) == 2


def test_the_server_is_needed(tmp_path: Path) -> None:
    config = settings.load({"MAILROOM_STATE_DIR": str(tmp_path)})
    assert server_program(config, 4222).needed


def test_one_good_start_ends_a_row_of_failed_ones() -> None:
    backoff = Backoff()
    for _ in range(ALERT_AFTER):
        backoff.after(0.1, was_ready=False)
    backoff.after(5, was_ready=True)
    assert backoff.failed_starts == 0
    backoff.after(0.1, was_ready=False)
    assert backoff.failed_starts == 1
