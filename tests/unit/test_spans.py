"""Spans: what is recorded of what happens within a task, and how little at most."""

import asyncio

import pytest

from shared.contracts import SpanKind
from shared.spans import (
    MAX_CHARACTERS,
    MAX_SPANS,
    SpanRecorder,
    record_spans_in,
    recorded_spans,
    referring_to,
    span,
)


@pytest.fixture
def recorder():
    made = SpanRecorder()
    record_spans_in(made)
    return made


def test_spans_within_spans_name_their_parent_and_only_the_outer_one_refers(recorder):
    with referring_to("loop:3"), span(SpanKind.ACTION, "run", '{"a": 1}') as outer:
        with span(SpanKind.COMMAND, "ls", "ls -l") as inner:
            inner.output = "nothing"
        outer.output = "done"
    command, action = recorder.take()
    assert (action.number, action.parent, action.ref, action.output) == (1, 0, "loop:3", "done")
    assert (command.number, command.parent, command.ref, command.input) == (2, 1, "", "ls -l")
    assert action.seconds >= command.seconds >= 0
    assert recorder.take() == ()


def test_a_span_that_raises_failed_for_the_reason_raised(recorder):
    with pytest.raises(ValueError, match="no such file"), span(SpanKind.ACTION, "read"):
        raise ValueError("no such file")
    with pytest.raises(asyncio.CancelledError), span(SpanKind.COMMAND, "sleep"):
        raise asyncio.CancelledError
    assert [(each.failed, each.output) for each in recorder.take()] == [
        (True, "no such file"),
        (True, "stopped"),
    ]


def test_thousands_of_spans_become_few_and_their_tokens_still_count(recorder):
    for _ in range(3_000):
        with span(SpanKind.MODEL, "model", "x" * 5_000) as call:
            call.output, call.input_tokens, call.output_tokens, call.cost = "y" * 5_000, 10, 2, 0.5
    taken = recorder.take()
    assert len(taken) == MAX_SPANS
    assert sum(each.count for each in taken) == 3_000
    assert sum(each.input_tokens for each in taken) == 30_000
    assert sum(each.cost for each in taken) == 1_500
    assert taken[-1].kind is SpanKind.MORE
    assert sum(len(each.input) + len(each.output) for each in taken) <= MAX_CHARACTERS + MAX_SPANS * 100


def test_what_a_step_could_not_carry_stays_in_order(recorder):
    for name in "abc":
        with span(SpanKind.ACTION, name):
            pass
    taken = recorder.take()
    with span(SpanKind.ACTION, "d"):
        pass
    recorder.put_back(taken)
    assert [each.name for each in recorded_spans()] == ["a", "b", "c", "d"]


def test_hostile_texts_can_be_sent(recorder):
    with span(SpanKind.COMMAND, "\ud800\x1b[2J", "a\ud800b\x00"):
        pass
    with span(SpanKind.ACTION, "   "):
        pass
    command, blank = recorder.take()
    assert command.from_json(command.to_json()) == command
    assert blank.name == "action"


async def test_concurrent_spans_do_not_take_each_other_for_parents(recorder):
    async def work(name: str) -> None:
        with span(SpanKind.ACTION, name):
            await asyncio.sleep(0.01)
            with span(SpanKind.COMMAND, f"{name} command"):
                await asyncio.sleep(0.01)

    with span(SpanKind.ACTION, "all"):
        await asyncio.gather(work("a"), work("b"))
    found = {each.name: each for each in recorder.take()}
    assert found["a command"].parent == found["a"].number
    assert found["b command"].parent == found["b"].number
    assert found["a"].parent == found["b"].parent == found["all"].number


def test_outside_of_a_task_nothing_is_recorded():
    record_spans_in(None)
    with span(SpanKind.ACTION, "alone") as opened:
        opened.output = "x"
    assert recorded_spans() == ()
