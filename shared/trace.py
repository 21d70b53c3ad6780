"""The trace of what is being handled, in the form of W3C Trace Context (https://www.w3.org/TR/trace-context/).

A handler continues the trace of its message. What it commits carries it on in the header ``traceparent``;
goals and tasks also carry it in themselves, because they outlive the process that works on them.
"""

import hashlib
import random
import re
from collections.abc import Mapping
from contextvars import ContextVar

HEADER = "traceparent"
SAMPLED = "01"  # The flags of a trace that begins here

_FORM = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})(?P<trace>[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)
"""A ``traceparent``; only versions after 00, which is the one there is, may go on behind the flags."""
_current: ContextVar[Mapping[str, str] | None] = ContextVar("trace", default=None)


def current_trace() -> str:
    """The ``traceparent`` of what is being handled; empty outside of a handler."""
    headers = _current.get()
    return headers[HEADER] if headers else ""


def trace_headers() -> Mapping[str, str] | None:
    """The same as the headers of a message; None outside of a handler."""
    return _current.get()


def headers_of(traceparent: str) -> Mapping[str, str] | None:
    """The headers of a message of what is being handled, or else of the trace of ``traceparent``."""
    return _current.get() or ({HEADER: traceparent} if trace_id(traceparent) else None)


def trace_id(traceparent: str) -> str:
    """The 32 hexadecimal digits of the trace; empty if ``traceparent`` is not valid."""
    found = _read(traceparent)
    return found["trace"] if found else ""


def continue_trace(parent: str, origin: str = "") -> None:
    """Begin a span of the trace of ``parent``, or a new trace if ``parent`` is no valid ``traceparent``.

    The id of a new trace follows from ``origin``, the place of what is handled in the log: a process that
    handles it again, because the first was killed, continues the same trace. Without it the id is random.
    """
    known = _read(parent)
    trace = known["trace"] if known else _new_id(origin)
    flags = known["flags"] if known else SAMPLED
    _current.set({HEADER: f"00-{trace}-{random.getrandbits(64) or 1:016x}-{flags}"})


def join_trace(parent: str) -> None:
    """Go on in the trace of ``parent``, if that is another one than the present: what follows belongs there.

    If ``parent`` is not valid, nothing changes.
    """
    if (wanted := trace_id(parent)) and wanted != trace_id(current_trace()):
        continue_trace(parent)


def _read(traceparent: str) -> re.Match[str] | None:
    found = _FORM.fullmatch(traceparent) if traceparent else None
    return None if found and found["more"] and traceparent.startswith("00") else found


def _new_id(origin: str) -> str:
    if origin:
        return hashlib.sha256(origin.encode()).hexdigest()[:32]
    return f"{random.getrandbits(128) or 1:032x}"
