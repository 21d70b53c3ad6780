"""The tables of the gateway's index: positions, pages, filters, search, goals."""

import sqlite3
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.gateway.index.rows import Indexed, Position, goal_record, make_row, words_of
from services.gateway.index.store import Filter, Store
from shared import subjects
from shared.bus import Stored
from shared.contracts import Email, Goal, OfficeState, StateChanged, TaskStatus

NOW = "2026-01-02T03:04:05.000000+00:00"


def letter(seq: int, sender: str, recipient: str, text: str, stream: str = subjects.AUDIT) -> Stored:
    email = Email(sender=sender, recipient=recipient, subject=text, body=f"{text}, at length")
    return Stored(stream, subjects.mail(recipient, sender), seq, email.to_json(), {}, NOW)


def goal(seq: int, goal_id: str, status: TaskStatus, text: str = "Read it") -> Stored:
    record = Goal(goal_id=goal_id, text=text, requester="user", status=status, submitted_at=NOW)
    changed = StateChanged(sender="conductor", goal_id=goal_id, state=OfficeState.EXECUTING, goal=record)
    return Stored(subjects.AUDIT, subjects.goal(goal_id), seq, changed.to_json(), {}, NOW)


def fill(store: Store, messages: list[Stored]) -> None:
    position, rows = store.position(), []
    for stored in messages:
        position = position.after(stored)
        row = make_row(stored, position)
        rows.append(Indexed(row, words_of(stored, row), goal_record(stored)))
    store.add(rows)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "index.db")


def texts(store: Store, wanted: Filter, **page: object) -> list[str]:
    return [row.text for row in store.messages(wanted, **page)]  # type: ignore[arg-type]


def test_pages_lead_through_everything_in_both_directions(store: Store) -> None:
    streams = [subjects.AUDIT, subjects.AUDIT_MEMORY]
    places = dict.fromkeys(streams, 0)
    messages = []
    for number in range(40):
        stream = streams[number % 3 == 0]
        places[stream] += 1
        messages.append(letter(places[stream], "user", "nexus", f"letter {number}", stream))
    fill(store, messages)
    everything = [row.position for row in store.messages(Filter(), after=Position(), limit=100)]
    assert len(everything) == 40
    for step in (1, 7, 40):
        forward, after = [], Position()
        while page := store.messages(Filter(), after=after, limit=step):
            forward += [row.position for row in page]
            after = Position.parse(page[-1].position)
        assert forward == everything
        backward = [row.position for row in store.messages(Filter(), limit=step)]
        while page := store.messages(Filter(), before=Position.parse(backward[-1]), limit=step):
            backward += [row.position for row in page]
        assert backward == everything[::-1]


def test_a_position_of_an_index_that_was_ordered_differently_repeats_nothing(
    store: Store, tmp_path: Path
) -> None:
    office = [letter(seq, "user", "nexus", f"o{seq}") for seq in (1, 2, 3)]
    memory = [letter(seq, "user", "nexus", f"m{seq}", subjects.AUDIT_MEMORY) for seq in (1, 2, 3)]
    fill(store, [office[0], memory[0], office[1], memory[1], office[2], memory[2]])
    again = Store(tmp_path / "again.db")
    fill(again, [*memory, *office])
    for row in store.messages(Filter(), after=Position(), limit=10):
        after = Position.parse(row.position)
        following = again.messages(Filter(), after=after, limit=10)
        assert {(each.stream, each.seq) for each in following} == {
            (each.stream, each.seq)
            for each in (*office, *memory)
            if not after.includes(each.stream, each.seq)
        }


def test_filters(store: Store) -> None:
    fill(
        store,
        [
            letter(1, "user", "nexus", "apples"),
            letter(2, "nexus", "user", "pears"),
            letter(3, "scout", "critic", "apples and pears"),
            goal(4, "g1", TaskStatus.IN_PROGRESS),
        ],
    )
    assert texts(store, Filter(agent="nexus"))[::-1] == texts(store, Filter(agent="user"))[::-1]
    assert len(texts(store, Filter(agent="nexus"))) == 2
    assert len(texts(store, Filter(agent="nobody"))) == 0
    assert len(texts(store, Filter(text="appl"))) == 2
    assert len(texts(store, Filter(text="pears apples"))) == 1
    assert len(texts(store, Filter(text="apples", agent="scout"))) == 1
    assert len(texts(store, Filter(text="at length"))) == 3
    assert len(texts(store, Filter(goal="g1"))) == 1
    assert len(texts(store, Filter(subject="mail.*.user"))) == 1
    assert len(texts(store, Filter(subject="mail."))) == 3
    assert len(texts(store, Filter(subject="state.>"))) == 1
    assert len(texts(store, Filter(type="goal"))) == 1
    assert len(texts(store, Filter(text="\"'); DROP TABLE messages; --*"))) == 0
    assert len(texts(store, Filter(subject="[a-z]"))) == 0


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=40), st.text(max_size=20))
def test_no_text_of_a_filter_is_taken_for_a_question(store: Store, text: str, subject: str) -> None:
    if not store.count:
        fill(store, [letter(1, "user", "nexus", "apples")])
    wanted = Filter(text=text, subject=subject)
    assert len(store.messages(wanted)) <= 1
    wanted.matches(store.messages(Filter())[0])
    store.goals(text=text)


def test_a_goal_keeps_its_place_when_it_changes(store: Store) -> None:
    fill(store, [goal(1, "g1", TaskStatus.IN_PROGRESS), goal(2, "g2", TaskStatus.IN_PROGRESS, "Write it")])
    fill(store, [goal(3, "g1", TaskStatus.COMPLETED)])
    assert [each.goal_id for _, each in store.goals()] == ["g2", "g1"]
    assert [each.goal_id for _, each in store.goals(statuses=["completed"])] == ["g1"]
    assert [each.goal_id for _, each in store.goals(text="write")] == ["g2"]
    first = store.goals(limit=1)
    assert [each.goal_id for _, each in store.goals(before=first[0][0])] == ["g1"]
    assert store.count_goals() == {"completed": 1, "in_progress": 1}


def test_an_index_of_another_version_or_a_damaged_one_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    store = Store(path)
    fill(store, [letter(1, "user", "nexus", "apples")])
    store.close()
    assert Store(path).count == 1
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 999")
    assert Store(path).count == 0
    path.write_bytes(b"this is no database, but as long as one might be" * 100)
    assert Store(path).position() == Position()


@pytest.mark.parametrize("text", ["", "1", "1-", "-1", "1-2-3", "a-b", "1-2 ", "9" * 50 + "-1", "１-1"])
def test_what_is_no_position(text: str) -> None:
    with pytest.raises(ValueError, match="no position"):
        Position.parse(text)
