"""The limits that end an agent loop which does not finish by itself."""

import time

import msgspec

from shared.errors import ActionError
from shared.reasoning.conversation import WINDOW, Call

MAX_FRUITLESS = 5
"""Consecutive steps that ran no action: none was called, it is unknown, or its parameters are invalid."""
MAX_REPEATS = 5
"""Consecutive calls of one action with the same parameters that end a loop."""
AGAIN = "This is the same call as before. If it does not get you further, do something else or finish_task."


class Caps(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one agent loop: ``steps``, ``tokens`` and ``seconds``; 0 is no limit.

    ``window``: characters of the conversation that are sent to the model at once.
    """

    steps: int = 50
    tokens: int = 0
    seconds: float = 0.0
    window: int = WINDOW


class Limits:
    """Counts what one loop does against its caps; every method raises ActionError if a limit is reached."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._began = time.monotonic()
        self._fruitless = 0
        self._repeats = 0
        self._last = ("", "")

    def require_step(self, steps: int, tokens: int) -> None:
        """Raise ActionError unless another step may follow ``steps`` and ``tokens``."""
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
        """Count a step that ran no action."""
        self._fruitless += 1
        if self._fruitless >= MAX_FRUITLESS:
            raise ActionError(
                f"The model did nothing that helps {MAX_FRUITLESS} times in a row; last: {reason}"[:1_500]
            )

    def count_call(self, call: Call) -> str:
        """Count a call; returns a notice for the model if it repeats the call before, else ""."""
        self._fruitless = 0
        same = (call.name, call.arguments) == self._last
        self._repeats = self._repeats + 1 if same else 1
        self._last = (call.name, call.arguments)
        if self._repeats >= MAX_REPEATS:
            raise ActionError(
                f"The model called {call.name} {MAX_REPEATS} times in a row with the same parameters"
            )
        return f"\n{AGAIN}" if self._repeats > 1 else ""
