"""The trace of what is being handled, in the form of W3C Trace Context (https://www.w3.org/TR/trace-context/).

A handler continues the trace of its message. What it commits carries it on in the header ``traceparent``;
goals and tasks also carry it in themselves, because they outlive the process that works on them.
"""

import random
import re
from collections.abc import Mapping
from contextvars import ContextVar

HEADER = "traceparent"

_FORM = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_current: ContextVar[Mapping[str, str] | None] = ContextVar("trace", default=None)


def current_trace() -> str:
    """The ``traceparent`` of what is being handled; empty outside of a handler."""
    headers = _current.get()
    return headers[HEADER] if headers else ""


def trace_headers() -> Mapping[str, str] | None:
    """The same as the headers of a message; None outside of a handler."""
    return _current.get()


def continue_trace(parent: str) -> None:
    """Begin a span of the trace of ``parent``, or a new trace if ``parent`` is no valid ``traceparent``."""
    known = _FORM.fullmatch(parent) if parent else None
    trace_id = known[1] if known else f"{random.getrandbits(128):032x}"
    _current.set({HEADER: f"00-{trace_id}-{random.getrandbits(64):016x}-01"})
