"""Old events that are alike become one; what was kept long enough is retired; wrong dates are refused."""

from datetime import UTC, datetime

import pytest

from services.memory.linking.consolidation import SUMMARY, consolidate, expire, shape
from services.memory.writes.gate import find_wrong_date
from shared.contracts import Edge, Node, Relation
from tests.support.memory import DAY, NOW, World, direction, edge, node

KINDS = (
    "Backup of the ledger took {} seconds",
    "Deploy of build {} to staging went well",
    "Goal goal-{}a7f: the weekly report was written",
    "The queue had {} letters at noon",
)
"""Titles of what recurs; five of each, with another noun, make 20 kinds."""
NOUNS = ("alpha", "beta", "gamma", "delta", "omega")


def event(number: int, title: str, age: float, **fields: object) -> Node:
    return node(f"e{number:03}", "event", title=title, age=age * DAY, embedding=direction(1), **fields)


def three_hundred() -> list[Node]:
    titles = [f"{noun} {kind}" for kind in KINDS for noun in NOUNS]
    return [event(n, titles[n % 20].format(n), age=8 + n / 20, agent="scout") for n in range(300)]


def settle(world: World, moment: float = NOW) -> int:
    """Consolidate until nothing is left to do; returns how many writes that took."""
    writes = 0
    while write := consolidate(world.view, moment):
        world.write(*write.nodes, edges=write.edges, retire=write.retire)
        writes += 1
        assert writes < 100
    return writes


def live(world: World) -> list[Node]:
    return sorted(world.view.nodes(world.view.select(kinds=("event",))), key=lambda each: each.id)


def test_three_hundred_events_of_twenty_kinds_become_twenty() -> None:
    events = three_hundred()
    world = World(*events)
    assert settle(world) == 20
    ones = live(world)
    assert len(ones) == 20
    assert {one.metadata["count"] for one in ones} == {15}
    assert {one.source.agent for one in ones} == {"scout"}
    assert min(one.metadata["first"] for one in ones) == min(each.created_at for each in events)
    assert max(one.metadata["last"] for one in ones) == max(each.created_at for each in events)
    assert all(one.title.endswith(" (15 times)") for one in ones)
    assert settle(world) == 0
    again = World(*reversed(events))
    settle(again)
    assert [(one.id, one.title, one.metadata) for one in live(again)] == [
        (one.id, one.title, one.metadata) for one in ones
    ]


def test_what_comes_later_joins_the_one_there_is() -> None:
    world = World(*(event(n, f"Backup {n} of the ledger was made", age=20 - n) for n in range(5)))
    settle(world)
    (before,) = live(world)
    world.write(event(9, "Backup 9 of the ledger was made", age=9))
    settle(world)
    (after,) = live(world)
    assert (after.id, after.metadata["count"]) == (before.id, 6)
    assert after.metadata["first"] == before.metadata["first"]
    assert after.metadata["last"] > before.metadata["last"]


def test_what_is_new_rare_important_of_another_or_disputed_stays() -> None:
    alike = "Backup {} of the ledger was made"
    events = [event(n, alike.format(n), age=20) for n in range(4)]
    events += [event(n, alike.format(n), age=1) for n in range(10, 15)]
    events += [event(n, alike.format(n), age=20, importance=0.8) for n in range(20, 25)]
    events += [event(n, alike.format(n), age=20, agent="critic") for n in range(30, 34)]
    events += [event(n, f"Mayor number {n}", age=20) for n in range(40, 46)][:4]
    events += [event(n, "2026-01-02 12:00", age=20) for n in range(50, 56)]
    disputed = event(60, alike.format(60), age=20)
    world = World(*events, disputed, edges=[edge("e000", "e060", Relation.CONTRADICTS)])
    assert settle(world) == 0


def test_the_edges_of_the_many_lead_to_the_one() -> None:
    events = [event(n, f"Backup {n} of the ledger was made", age=20) for n in range(5)]
    fact = node("ledger", title="The ledger is kept in Delft", embedding=direction(0, 1))
    edges = [Edge(from_id=each.id, to_id="ledger", weight=0.3 + n / 10) for n, each in enumerate(events)]
    world = World(*events, fact, edges=[*edges, edge("e000", "e001", "led_to")])
    settle(world)
    (moved,) = world.view.graph.edges_of("ledger")
    assert moved.from_id.startswith(SUMMARY)
    assert moved.weight == pytest.approx(0.7)


def test_days_and_numbers_make_no_difference() -> None:
    assert shape("Stand-up on Monday, 3 May 2026") == shape("stand-up on  Friday, 14 May 2025")
    assert shape("Backup of alpha") != shape("Backup of beta")
    assert shape("7 of 9") == ""


def test_what_was_kept_long_enough_is_retired() -> None:
    world = World(
        event(1, "The bell was rung", age=100),
        event(2, "The bell was rung again", age=80),
        node("fact", title="The bell is of bronze", age=1_000 * DAY, embedding=direction(0, 1)),
    )
    assert expire(world.view, NOW, {}) is None
    write = expire(world.view, NOW, {"event": 90, "episodic": 30})
    assert write is not None
    assert write.retire == ("e001",)
    world.write(retire=write.retire)
    assert expire(world.view, NOW, {"event": 90, "episodic": 30}) is None


@pytest.mark.parametrize(
    ("created_at", "reason"),
    [
        ("1899-12-31T23:59:59+00:00", "before 1900"),
        ("0001-01-01T00:00:00+00:00", "before 1900"),
        ("1900-01-01", ""),
        ("", ""),
        ("2026-11-23T12:00:00Z", ""),
        ("2026-11-24T11:59:00", ""),
        ("2026-11-24T12:01:00+00:00", "in the future"),
        ("9999-12-31T23:59:59-12:00", "in the future"),
    ],
)
def test_a_date_that_cannot_be_is_refused(created_at: str, reason: str) -> None:
    now = datetime(2026, 11, 23, 12, tzinfo=UTC).timestamp()
    found = find_wrong_date(created_at, now)
    assert reason in found
    assert bool(found) is bool(reason)


def test_the_title_of_many_leaves_open_what_differs() -> None:
    def backups(*numbers: int) -> list[Node]:
        return [event(n, f"Backup {n} of db-{n} took {n} min on host four", age=9 + n) for n in numbers]

    world = World()
    for number, more in ((5, backups(1, 2, 3, 4, 5)), (7, backups(6, 7))):
        world.write(*more)
        settle(world)
        assert [one.title for one in live(world)] == [
            f"Backup … of … took … min on host four ({number} times)"
        ]
