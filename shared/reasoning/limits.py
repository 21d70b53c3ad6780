"""What ends a train of thought that does not end by itself."""

import time

import msgspec

from shared.errors import ActionError
from shared.reasoning.conversation import WINDOW, Call

MAX_FRUITLESS = 5
"""Steps one after another that did nothing (no action, an unknown one, parameters that do not fit)."""
MAX_REPEATS = 5
"""How often the same action may be called with the same parameters one after another."""
AGAIN = "This is the same call as before. If it does not get you further, do something else or finish_task."


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """What one train of thought may take: ``steps``, ``tokens`` and ``seconds``; 0 is no limit.

    ``window``: characters of it that the model is shown at once.
    """

    steps: int = 50
    tokens: int = 0
    seconds: float = 0.0
    window: int = WINDOW


class Bounds:
    """Counts what one run does; every method raises ActionError with the reason where that is enough."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._began = time.monotonic()
        self._fruitless = 0
        self._repeats = 0
        self._last = ("", "")

    def require_room(self, steps: int, tokens: int) -> None:
        """Nothing while a step more may be taken."""
        caps = self._caps
        if caps.steps and steps >= caps.steps:
            raise ActionError(f"It was not finished after {steps} steps", "Raise max_steps, or ask for less")
        if caps.tokens and tokens >= caps.tokens:
            raise ActionError(
                f"It was not finished after {tokens:,} tokens", "Raise task_tokens, or ask for less"
            )
        if caps.seconds and time.monotonic() - self._began >= caps.seconds:
            raise ActionError(f"It was not finished after {caps.seconds:g} s")

    def count_fruitless(self, reason: str) -> None:
        """A step did nothing."""
        self._fruitless += 1
        if self._fruitless >= MAX_FRUITLESS:
            raise ActionError(
                f"The model did nothing that helps {MAX_FRUITLESS} times in a row; last: {reason}"[:1_500]
            )

    def count_call(self, call: Call) -> str:
        """An action is called; returns what the model is to hear of it, if anything."""
        self._fruitless = 0
        same = (call.name, call.arguments) == self._last
        self._repeats = self._repeats + 1 if same else 1
        self._last = (call.name, call.arguments)
        if self._repeats >= MAX_REPEATS:
            raise ActionError(
                f"The model called {call.name} {MAX_REPEATS} times in a row with the same parameters"
            )
        return f"\n{AGAIN}" if self._repeats > 1 else ""
