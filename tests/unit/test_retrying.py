"""What is tried again until the bus takes it."""

import pytest
from structlog.testing import CapturingLogger

from shared.bus import records
from shared.bus.records import retry_until_taken
from shared.errors import ActionError, BusUnavailable


async def test_it_ends_with_what_the_first_attempt_that_is_taken_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = CapturingLogger()
    monkeypatch.setattr(records, "log", told)
    failures = [BusUnavailable("no answer"), BusUnavailable("still none")]

    async def attempt() -> int:
        if failures:
            raise failures.pop(0)
        return 7

    assert await retry_until_taken(attempt, pause=0.001, event="timers_not_set", day="Monday") == 7
    assert [(call.args[0], call.kwargs) for call in told.calls] == [
        ("timers_not_set", {"reason": reason, "day": "Monday"}) for reason in ("no answer", "still none")
    ]


async def test_another_error_is_raised_at_once() -> None:
    attempts = 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        raise ActionError("It is no calendar")

    with pytest.raises(ActionError):
        await retry_until_taken(attempt, pause=0.001, event="timers_not_set")
    assert attempts == 1
