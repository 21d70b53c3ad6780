"""Messages that no agent of ours writes: the index takes each as a row, and goes on."""

from pathlib import Path

import pytest

from services.gateway.index.index import LogIndex
from services.gateway.index.rows import Position
from services.gateway.index.store import Filter, Store
from shared import subjects
from shared.bus import Bus, Stored

DEEP = b"[" * 100_000 + b"]" * 100_000
BODIES = {
    "nested without end": DEEP,
    "nested in an unknown field": b'{"x": ' + DEEP + b"}",
    "nested in known fields": b'{"text": "x", "context": {"a": '
    + DEEP
    + b'}, "metadata": {"usage": '
    + DEEP
    + b"}}",
    "nested to the limit": b'{"text": "x", "context": {"a": ' + b"[" * 900 + b"]" * 900 + b"}}",
    "half a character": rb'{"text": "\ud800", "goal_id": "\udfff", "task_id": "\ud800", "sender": "\ud800"}',
    "no UTF-8": b'{"text": "\xff\xfe", "goal_id": "\xff", "metadata": {"usage": "\xff"}, "id": "\xff"}',
    "numbers without end": b'{"attempt": 99999999999999999999, "metadata": {"usage": {"cost": 1e999}}}',
    "numbers just too large": b'{"attempt": 9223372036854775808, "metadata": {"usage": {"output_tokens": '
    b'-9223372036854775809}}, "spans":[{"kind": "model", "name": "x", "input_tokens": 9223372036854775808}]}',
    "a NUL": rb'{"text": "a\u0000b", "goal_id": "\u0000"}',
    "wrong types": b'{"usage": 1, "metadata": {"usage": [1], "context": {"scores": ["x", null, -1e308]}}}',
    "nothing": b"",
    "null": b"null",
}
SUBJECTS = (
    *(
        subjects.task("a", "b", "t1", step)
        for step in (subjects.NEW["MEDIUM"], subjects.CLAIMED, subjects.ENDED)
    ),
    subjects.mail(subjects.NEXUS, subjects.USER),
    subjects.mail(subjects.USER, subjects.NEXUS),
    subjects.goal("g1"),
    subjects.event("a", "command_judged"),
    subjects.event("a", "x"),
    subjects.approval_asked("a", "x"),
    subjects.approval_answered("a", "x"),
    subjects.SUBMIT,
    subjects.dead("a"),
)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_the_index_takes_whatever_an_agent_writes(tmp_path: Path, body: bytes) -> None:
    store = Store(tmp_path / "index.db")
    index = LogIndex(Bus.__new__(Bus), store)  # what is taken is given; nothing is read
    messages = [
        Stored(subjects.OFFICE, subject, number, body, {}, "2026-01-02T03:04:05Z")
        for number, subject in enumerate(SUBJECTS, 1)
    ]
    index._take(messages)
    assert index.position == Position(len(SUBJECTS), 0)
    rows = store.messages(Filter(), after=Position(), limit=100)
    assert [row.subject for row in rows] == list(SUBJECTS)


@pytest.mark.parametrize(
    "text", ["9223372036854775808-0", "0-9223372036854775808", "1" * 30 + "-1", "1-²", "-1--1"]
)
def test_a_position_that_no_log_reaches_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no position"):
        Position.parse(text)
