"""Records what happens within a task as spans, which the next step of the task carries along.

So what an agent did is in the log, at no further message. A step carries at most MAX_SPANS of them and
MAX_CHARACTERS of their texts; the rest is counted.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from shared.contracts.base import generate_iso_timestamp
from shared.contracts.task import MAX_INPUT, MAX_OUTPUT, Span, SpanKind
from shared.text.display import excerpt, sendable

MAX_SPANS = 40  # Spans of one step of a task; further ones become a single one that counts them
MAX_CHARACTERS = 30_000  # Characters of all inputs and outputs of one step; further spans have none


class OpenSpan(msgspec.Struct, kw_only=True):
    """A span that has not ended: its opener adds what came out, and may name it more exactly."""

    name: str
    input: str = ""
    output: str = ""
    failed: bool = False
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    instead_of: str = ""


class SpanRecorder:
    """The spans of one attempt at a task that no step carries yet."""

    def __init__(self) -> None:
        self._ended: list[Span] = []
        self._characters = 0
        self._last_number = 0

    def next_number(self) -> int:
        """The number of the next span."""
        self._last_number += 1
        return self._last_number

    def add(self, span: Span) -> None:
        """Add a span that ended; beyond MAX_SPANS it is only counted."""
        if len(self._ended) >= MAX_SPANS:
            last = self._ended[-1]
            # One span that counts both, and has their tokens and cost
            count = last.count + span.count
            self._ended[-1] = Span(
                number=last.number,
                parent=last.parent if last.parent == span.parent else 0,
                kind=SpanKind.MORE,
                name=f"{count} more",
                started_at=last.started_at,
                seconds=round(last.seconds + span.seconds, 4),
                failed=last.failed or span.failed,
                input_tokens=last.input_tokens + span.input_tokens,
                output_tokens=last.output_tokens + span.output_tokens,
                cost=last.cost + span.cost,
                count=count,
                cached_tokens=last.cached_tokens + span.cached_tokens,
            )
            return
        self._characters += len(span.input) + len(span.output)
        if self._characters > MAX_CHARACTERS:
            span = msgspec.structs.replace(span, input=span.input[:100], output="")
        self._ended.append(span)

    def recorded(self) -> tuple[Span, ...]:
        """Those spans; they stay."""
        return tuple(self._ended)

    def take(self) -> tuple[Span, ...]:
        """Those spans, which count as carried from now on."""
        taken = tuple(self._ended)
        self._ended, self._characters = [], 0
        return taken

    def put_back(self, taken: Sequence[Span]) -> None:
        """Keep spans after all whose step was not stored."""
        later = self.take()
        for span in (*taken, *later):
            self.add(span)


_recorder: ContextVar[SpanRecorder | None] = ContextVar("span_recorder", default=None)
_parent: ContextVar[int] = ContextVar("span_parent", default=0)
_ref: ContextVar[str] = ContextVar("span_ref", default="")


def record_spans_in(recorder: SpanRecorder | None) -> None:
    """Have the spans of the present context recorded by ``recorder``; None: not at all."""
    _recorder.set(recorder)


def recorded_spans() -> tuple[Span, ...]:
    """The spans recorded in the present context that no step carries yet."""
    recorder = _recorder.get()
    return recorder.recorded() if recorder else ()


@contextmanager
def referring_to(ref: str) -> Iterator[None]:
    """A block whose outermost spans have ``ref``."""
    token = _ref.set(ref)
    try:
        yield
    finally:
        _ref.reset(token)


@contextmanager
def span(kind: SpanKind, name: str, given: str = "") -> Iterator[OpenSpan]:
    """A block that is recorded as a span, with ``given`` as its input; outside of a task nothing is recorded.

    A block that raises is a span that failed, with the reason as its output.
    """
    opened = OpenSpan(name=name, input=given)
    recorder = _recorder.get()
    if recorder is None:
        yield opened
        return
    number, parent, ref = recorder.next_number(), _parent.get(), _ref.get()
    tokens = _parent.set(number), _ref.set("")
    started_at, begun = generate_iso_timestamp(), time.monotonic()
    try:
        yield opened
    except BaseException as error:
        opened.failed = True
        opened.output = opened.output or (
            "stopped" if isinstance(error, asyncio.CancelledError) else str(error) or type(error).__name__
        )
        raise
    finally:
        _parent.reset(tokens[0])
        _ref.reset(tokens[1])
        recorder.add(
            Span(
                number=number,
                parent=parent,
                kind=kind,
                name=sendable(opened.name)[:200].strip() or str(kind),
                started_at=started_at,
                seconds=round(time.monotonic() - begun, 4),
                failed=opened.failed,
                input=excerpt(opened.input, MAX_INPUT),
                output=excerpt(opened.output, MAX_OUTPUT),
                ref=ref,
                input_tokens=max(0, opened.input_tokens),
                output_tokens=max(0, opened.output_tokens),
                cost=opened.cost,
                cached_tokens=max(0, opened.cached_tokens),
                instead_of=sendable(opened.instead_of)[:200],
            )
        )
