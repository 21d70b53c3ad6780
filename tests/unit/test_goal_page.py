"""The page of one goal from the index, among many messages of others."""

import time
from pathlib import Path

import pytest

from services.gateway.api.goal_page import SHOWN_TYPES
from services.gateway.index.reader import read_pieces, read_sent
from services.gateway.index.rows import Indexed, Position, goal_record, make_row
from services.gateway.index.store import Store
from services.gateway.waterfall import build_waterfall
from shared.queries.pieces import make_piece
from shared.subjects import OFFICE
from tests.support.course import Course, goal_of, span

OTHERS = 150
"""Other goals, of 61 messages each."""


def course_of(goal_id: str, steps: int) -> Course:
    course = Course(OFFICE, goal_id)
    for task in ("a", "b", "c"):
        name = f"{goal_id}-{task}"
        course.submit(name, 0)
        course.step(name, "claimed", 0.1)
        for step in range(steps):
            course.step(name, "noted", step, spans=tuple(span(3 * step + n, step, 0.5) for n in (1, 2, 3)))
        course.end(name, steps + 1)
    course.record(goal_of(*(f"{goal_id}-{task}" for task in "abc"), goal_id=goal_id), steps + 1)
    return course


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An index with many goals."""
    made, seq = Store(tmp_path / "index.db"), 0
    for number in range(OTHERS):
        indexed = []
        for stored in course_of(f"goal_{number}", 17).messages:
            seq += 1
            moved = stored._replace(seq=seq)
            row = make_row(moved, Position(seq, 0))
            indexed.append(Indexed(row, row.text, goal_record(moved), None, make_piece(moved)))
        made.add(indexed)
    return made


def test_a_goals_page_takes_little_among_many(store: Store) -> None:
    taken = []
    for number in range(0, OTHERS, 3):
        begun = time.process_time()
        goal = store.goal(f"goal_{number}")
        pieces, last = read_pieces(store, f"goal_{number}")
        rows = build_waterfall(pieces, goal)
        messages, total = read_sent(store, f"goal_{number}", SHOWN_TYPES, 400)
        taken.append(time.process_time() - begun)
        assert goal is not None
        assert (len(pieces), len(messages), total) == (61 - 0, 6, 6)
        assert len(rows) == 1 + 3 * (1 + 1 + 17 * 3)
        assert {row.task_id for row in rows} == {"", *(f"goal_{number}-{task}" for task in "abc")}
        assert last > 0
    assert sorted(taken)[len(taken) // 2] < 0.02
    store.close()


def test_messages_beyond_the_page_are_counted(store: Store) -> None:
    messages, total = read_sent(store, "goal_1", SHOWN_TYPES, 4)
    assert (len(messages), total) == (4, 6)
    assert read_pieces(store, "nothing") == ([], 0)
    store.close()
