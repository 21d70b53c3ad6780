"""The tables of the gateway's index: positions, pages, filters, search, goals."""

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.gateway.index.index import PAGE, RECENT, LogIndex
from services.gateway.index.reader import find_messages
from services.gateway.index.rows import Indexed, Position, goal_record, make_row, words_of
from services.gateway.index.store import Filter, Store
from services.gateway.problems import Failure
from shared import subjects
from shared.bus import Bus, Stored
from shared.contracts import Email, Goal, OfficeState, StateChanged, TaskStatus
from shared.views.timeline import MessageRow

NOW = "2026-01-02T03:04:05.000000+00:00"


def letter(seq: int, sender: str, recipient: str, text: str, stream: str = subjects.OFFICE) -> Stored:
    email = Email(sender=sender, recipient=recipient, subject=text, body=f"{text}, at length")
    return Stored(stream, subjects.mail(recipient, sender), seq, email.to_json(), {}, NOW)


def goal(seq: int, goal_id: str, status: TaskStatus, text: str = "Read it") -> Stored:
    record = Goal(goal_id=goal_id, text=text, requester="user", status=status, submitted_at=NOW)
    changed = StateChanged(sender="conductor", goal_id=goal_id, state=OfficeState.EXECUTING, goal=record)
    return Stored(subjects.OFFICE, subjects.goal(goal_id), seq, changed.to_json(), {}, NOW)


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
    streams = [subjects.OFFICE, subjects.MEMORY]
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
    memory = [letter(seq, "user", "nexus", f"m{seq}", subjects.MEMORY) for seq in (1, 2, 3)]
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


def test_messages_that_find_no_space_leave_the_index_as_it_was(store: Store) -> None:
    fill(store, [letter(1, "user", "nexus", "apples")])
    pages = store.query("PRAGMA page_count")[0][0]
    store.query(f"PRAGMA max_page_count = {pages}")
    many = [letter(seq, "user", "nexus", f"pears {seq} {'word' * 90}") for seq in range(2, 200)]
    with pytest.raises(sqlite3.OperationalError, match="full"):
        fill(store, many)
    assert (store.count, store.position()) == (1, Position(1, 0))
    store.query("PRAGMA max_page_count = 1073741823")
    fill(store, many)
    assert store.count == 199
    assert len(texts(store, Filter(text="apples"))) == 1


def index_of(store: Store) -> LogIndex:
    return LogIndex(cast(Bus, None), store)


def test_a_damaged_index_is_made_anew_while_it_runs(store: Store) -> None:
    index = index_of(store)
    index._take([letter(1, "user", "nexus", "apples")])
    index._note_problem(sqlite3.OperationalError("disk I/O error"))
    assert (index.position, index.problem, store.count) == (Position(1, 0), "disk I/O error", 1)
    index._note_problem(sqlite3.DatabaseError("database disk image is malformed"))
    assert (index.position, store.count) == (Position(), 0)
    index._take([letter(1, "user", "nexus", "apples")])
    assert store.count == 1


async def follow(index: LogIndex, after: Position, wanted: Filter, seen: list[int]) -> None:
    async for batch in index.events(after, wanted):
        assert len(batch) <= PAGE
        seen += [each.row.seq for each in batch]


async def test_followers_at_any_place_get_the_same(store: Store) -> None:
    index = index_of(store)
    numbers = list(range(1, RECENT + 1_501))
    messages = [letter(seq, "user", "nexus", f"letter {seq}") for seq in numbers]
    begins = (0, 1, 700, RECENT, len(messages) - 3)
    seen: dict[int, list[int]] = {begin: [] for begin in begins}
    index._take(messages[:500])
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(follow(index, Position(begin, 0), Filter(), seen[begin])) for begin in begins
        ]
        for begin in range(500, len(messages), 300):
            index.behind = RECENT + 1 if begin == 2_000 else 0  # this part is indexed and not kept
            index._take(messages[begin : begin + 300])
            await asyncio.sleep(0)
        while any(len(seen[begin]) < len(numbers) - begin for begin in begins):
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
    for begin in begins:
        assert seen[begin] == numbers[begin:]


async def test_a_follower_who_wants_nothing_lets_others_work(store: Store) -> None:
    index = index_of(store)
    index.behind = RECENT + 1
    index._take([letter(seq, "user", "nexus", f"letter {seq}") for seq in range(1, 5_001)])
    seen: list[int] = []
    following = asyncio.create_task(follow(index, Position(), Filter(text="nothing has it"), seen))
    turns = 0
    while not following.done() and turns < 8:
        await asyncio.sleep(0)
        turns += 1
    following.cancel()
    assert turns == 8
    assert seen == []


async def test_a_search_that_takes_too_long_is_given_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(store, [letter(seq, "user", "nexus", f"apples {seq}") for seq in range(1, 3_001)])
    assert len(await find_messages(store, Filter(text="apples"))) == 100
    monkeypatch.setattr("services.gateway.index.reader.LONGEST", -1)
    with pytest.raises(Failure, match="given up"):
        await find_messages(store, Filter(subject="state.>"))


@pytest.mark.parametrize(
    ("wanted", "used"),
    [
        (Filter(agent="user"), "by_sender"),
        (Filter(agent="user", type="goal"), "by_type"),
        (Filter(goal="g1"), "by_goal"),
        (Filter(task="t1", agent="user"), "by_task"),
        (Filter(text="apples", agent="user"), "VIRTUAL TABLE"),
    ],
)
def test_pages_are_found_by_the_index_that_leaves_the_fewest(store: Store, wanted: Filter, used: str) -> None:
    plan: list[str] = []
    ask = store._rows

    def explain(sql: str, values: Sequence[Any]) -> list[MessageRow]:
        plan.extend(row[3] for row in store.query(f"EXPLAIN QUERY PLAN {sql}", values))
        return ask(sql, values)

    store._rows = explain  # type: ignore[method-assign]
    store.messages(wanted)
    assert any(used in step for step in plan), plan
    sql = "SELECT number FROM messages WHERE recipient = 'user' AND type = 'email' ORDER BY number DESC"
    assert "emails_by_recipient" in str(store.query(f"EXPLAIN QUERY PLAN {sql}"))
