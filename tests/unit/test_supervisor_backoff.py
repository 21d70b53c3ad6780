"""How long the supervisor waits before it starts a process again."""

from services.cli.supervisor.child import ALERT_AFTER, Backoff


def test_waits_double_up_to_half_a_minute() -> None:
    backoff = Backoff()
    waits = [backoff.after(5, was_ready=True) for _ in range(9)]
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_a_minute_of_life_makes_it_forget() -> None:
    backoff = Backoff()
    for _ in range(6):
        backoff.after(5, was_ready=True)
    assert backoff.after(59.9, was_ready=True) == 30
    assert backoff.after(60, was_ready=True) == 0.5
    assert backoff.after(1, was_ready=True) == 1


def test_what_never_gets_ready_is_tried_slowly() -> None:
    backoff = Backoff()
    waits = [backoff.after(0.1, was_ready=False) for _ in range(ALERT_AFTER + 1)]
    assert waits == [0.5, 1, 2, 4, 30, 30]
    assert backoff.failed_starts == ALERT_AFTER + 1


def test_one_good_start_ends_a_row_of_failed_ones() -> None:
    backoff = Backoff()
    for _ in range(ALERT_AFTER):
        backoff.after(0.1, was_ready=False)
    backoff.after(5, was_ready=True)
    assert backoff.failed_starts == 0
    backoff.after(0.1, was_ready=False)
    assert backoff.failed_starts == 1
