"""A circuit breaker: a model server that keeps failing is left alone for a while."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from shared.errors import ModelUnavailable

FAILURES = 5
"""So many in a row open it: more than the attempts at one question, so that one question never does."""
PAUSE = 30.0
"""Seconds it stays open; a server that was restarted has loaded a small model by then."""


class CircuitBreaker:
    """Closed, it lets everything through; ``failures`` in a row open it for ``pause`` seconds.

    Then one probe goes through: it closes the breaker, or opens it again.
    """

    def __init__(
        self,
        place: str,
        *,
        failures: int = FAILURES,
        pause: float = PAUSE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``place`` is how the server is called in the refusal; ``clock`` in seconds."""
        self._place = place
        self._limit = failures
        self._pause = pause
        self._clock = clock
        self._failed = 0
        self._reason = ""
        self._open_until = 0.0
        self._probing = False

    def admit(self) -> None:
        """Nothing where a call may go out; raises ModelUnavailable that says until when none does."""
        if self._failed < self._limit:
            return
        left = self._open_until - self._clock()
        if left > 0:
            until = datetime.now(UTC) + timedelta(seconds=left)
            raise ModelUnavailable(
                f"{self._reason}; after {self._failed} failures in a row it is left alone until "
                f"{until:%H:%M:%S} UTC",
                "'mailroom doctor' says what is wrong with it",
            )
        if self._probing:
            raise ModelUnavailable(f"The model server at {self._place} failed and is just being tried again")
        self._probing = True

    def succeed(self) -> None:
        """The server answered."""
        self._failed = 0
        self._probing = False

    def fail(self, reason: str) -> None:
        """The server did not answer, or said that it cannot now; ``reason`` goes into the refusal."""
        self._failed += 1
        self._reason = reason
        self._probing = False
        if self._failed >= self._limit:
            self._open_until = self._clock() + self._pause

    def abandon(self) -> None:
        """Nobody waits for the answer any more: nothing is known."""
        self._probing = False


_breakers: dict[str, CircuitBreaker] = {}


def find_circuit_breaker(url: str, place: str) -> CircuitBreaker:
    """The breaker of a server; all brains of this process that use it share it."""
    return _breakers.setdefault(url, CircuitBreaker(place))
