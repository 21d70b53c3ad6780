"""Which changes end a kept briefing: all that could show in it, and no others."""

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.memory.briefing import cache
from services.memory.briefing.access import MAX_LISTS, Readings
from services.memory.briefing.cache import Briefings
from services.memory.briefing.composing import compose
from services.memory.graph import decay
from services.memory.writes.change import Change
from shared.contracts import Briefing, Edge, Node, Relation
from tests.unit.memory_world import DAY, NOW, World, direction, edge, ids, node, stamp

TTL = 300.0
AGENTS = ("scout", "critic", "writer", "nobody")


def office() -> World:
    """Two agents with nodes, one without, and a little of everything."""
    return World(
        node("scout", "agent", title="Scout"),
        node("critic", "agent", title="Critic"),
        node("scout-2", "agent", title="Second"),
        node("work", "decision", agent="scout", embedding=direction(1)),
        node("draft", "decision", agent="writer", embedding=direction(0, 1)),
        node("pref", "preference"),
        node("lesson", "pattern"),
        node("theirs", "pattern"),
        node("seen", "observation"),
        node("ada", "person"),
        node("near", "fact"),
        node("far", "fact"),
        node("old", "fact"),
        node("loose", "fact", embedding=direction(0, 0, 1)),
        edges=[
            edge("scout-2", "scout", "instance_of"),
            edge("pref", "scout"),
            edge("theirs", "critic"),
            edge("seen", "lesson", "instance_of"),
            edge("scout", "ada", "depends_on", 0.6, provenance={"by": "similarity"}),
            edge("near", "ada", "related_to"),
            edge("loose", "old", "related_to"),
        ],
    )


def keep(world: World, moment: float = NOW) -> Briefings:
    briefings = Briefings(TTL)
    for agent in AGENTS:
        briefings.prepare(world.view, agent, moment)
    return briefings


def gone(world: World, briefings: Briefings, change: Change) -> set[str]:
    told = set(briefings.changed(world.view, change))
    assert told == {agent for agent in AGENTS if briefings.cached(agent, False, NOW) is None}
    return told


ALL = set(AGENTS)


@pytest.mark.parametrize(
    ("new", "told"),
    [
        (node("x", "fact", agent="stranger"), set()),
        (node("x", "goal", importance=0.29), set()),
        (node("x", "goal", valid_to=stamp(NOW - 1)), set()),
        (node("x", "goal", metadata={"status": "done"}), set()),
        (node("x", "observation"), set()),
        (node("x", "person"), set()),
        (node("x", "agent", title="Editor"), set()),
        (node("x", "event", agent="critic", importance=0.1), set()),
        (node("x", "fact", embedding=direction(0, 0, 0, 1)), set()),
        (node("x", "event", agent="stranger"), {"nobody"}),
        (node("x", "decision", agent="stranger"), ALL),
        (node("x", "event", agent="critic"), {"critic", "nobody"}),
        (node("x", "observation", agent="scout"), {"scout"}),
        (node("x", "fact", tags=("scout",)), set()),
        (node("x", "event", tags=("scout",)), {"scout", "nobody"}),
        (node("x", "fact", tags=("scout", "review")), {"scout", "nobody"}),
        (node("x", "fact", embedding=direction(1, 0.1)), {"scout"}),
        (node("x", "goal"), ALL),
        (node("x", "pattern"), ALL),
        (node("x", "preference"), ALL),
        (node("x", "agent", title="Writer"), {"writer"}),
        (node("x", "robot", title="Nobody"), {"nobody"}),
    ],
)
def test_a_new_node_ends_the_briefings_that_it_shows_in(new: Node, told: set[str]) -> None:
    world = office()
    briefings = keep(world)
    before = {agent: ids(compose(world.view, agent, NOW)) for agent in AGENTS}
    change = world.write(new)
    assert gone(world, briefings, change) == told
    for agent in AGENTS:
        shows = ids(compose(world.view, agent, NOW)) != before[agent]
        assert agent in told or not shows


@pytest.mark.parametrize(
    ("write", "told"),
    [
        ({"edges": [edge("far", "old", "related_to")]}, set()),
        ({"edges": [edge("far", "scout", "related_to", 0.19)]}, set()),
        ({"edges": [edge("far", "old", "contradicts")]}, {"nobody"}),
        ({"edges": [edge("far", "scout", "related_to")]}, {"scout"}),
        ({"edges": [edge("far", "scout")]}, {"scout"}),
        ({"edges": [edge("near", "old", "contradicts")]}, {"scout", "nobody"}),
        ({"edges": [edge("far", "work", "led_to")]}, {"scout"}),
        ({"edges": [edge("loose", "work", "led_to")]}, {"scout"}),
        ({"edges": [edge("lesson", "critic")]}, ALL),
        ({"edges": [edge("far", "pref", "supersedes")]}, {"scout", "nobody"}),
        ({"edges": [edge("far", "old", "supersedes")]}, set()),
        ({"unlink": [("pref", "scout", "applies_to")]}, ALL),
        ({"unlink": [("theirs", "critic", "applies_to")]}, ALL),
        ({"unlink": [("scout-2", "scout", "instance_of")]}, {"scout"}),
        ({"unlink": [("seen", "lesson", "instance_of")]}, ALL),
        ({"unlink": [("loose", "old", "related_to")]}, set()),
        ({"retire": ["loose"]}, set()),
        ({"retire": ["pref"]}, {"scout", "nobody"}),
        ({"retire": ["theirs"]}, {"critic", "nobody"}),
        ({"retire": ["ada"]}, {"scout"}),
        ({"nodes": [node("critic", "person", title="Colleague")]}, {"critic", "scout", "writer", "nobody"}),
        ({"accessed": {"pref": 3, "scout": 1}}, set()),
    ],
)
def test_a_write_ends_the_briefings_that_it_shows_in(write: dict[str, Any], told: set[str]) -> None:
    world, write = office(), dict(write)
    briefings = keep(world)
    before = {agent: ids(compose(world.view, agent, NOW)) for agent in AGENTS}
    found = gone(world, briefings, world.write(*write.pop("nodes", ()), **write))
    shows = {agent for agent in AGENTS if ids(compose(world.view, agent, NOW)) != before[agent]}
    assert shows <= found == told


def test_what_was_shown_ends_it_by_whatever_changes() -> None:
    for changes in (
        {"title": "Another title"},
        {"importance": 0.1},
        {"valid_to": stamp(NOW + 9)},
        {"body": "More"},
    ):
        world = office()
        briefings = keep(world)
        assert "scout" in gone(
            world, briefings, world.write(node("work", "decision", agent="scout", **changes))
        )


def test_what_ranks_below_all_that_is_shown_ends_nothing() -> None:
    world = office()
    world.write(*(node(f"g{number}", "goal", importance=0.6 + number / 100) for number in range(20)))
    briefings = keep(world)
    assert gone(world, briefings, world.write(node("low", "goal", importance=0.6))) == set()
    assert gone(world, briefings, world.write(node("high", "goal", importance=0.75))) == ALL


def test_reinforcement_ends_nothing_and_another_weight_does() -> None:
    world = office()
    moment = NOW + 40 * DAY
    briefings = keep(world, moment)
    old = world.view.graph.edge("scout", "ada", "depends_on")
    assert old is not None
    stronger = decay.reinforce(old, 0.5, moment)
    assert stronger is not None
    assert briefings.changed(world.view, world.write(edges=[stronger], at=moment)) == []
    heavier = edge("scout", "ada", "depends_on", 0.9, provenance={"by": "similarity"})
    assert briefings.changed(world.view, world.write(edges=[heavier], at=moment)) == ["scout"]


def test_steps_are_followed_from_change_to_change() -> None:
    """Nothing shows while the chain grows; at its end hangs what does."""
    world = office()
    low = [node(f"low{number}", "fact", importance=0.1) for number in range(2)]
    briefings = keep(world)
    assert gone(world, briefings, world.write(*low, edges=[edge("work", "low0", "led_to")])) == set()
    assert (
        gone(world, briefings, world.write(node("alike", "fact", embedding=direction(0.66, 0, 0.751))))
        == set()
    )
    assert gone(world, briefings, world.write(edges=[edge("low0", "alike", "led_to")])) == {"scout"}
    assert "alike" in ids(compose(world.view, "scout", NOW))["Active Context"]


def test_a_briefing_is_kept_until_its_time_ends() -> None:
    world = office()
    briefings = Briefings(TTL)
    assert briefings.cached("scout", False, NOW) is None
    made = briefings.make(world.view, "scout", False, NOW)
    assert briefings.cached("scout", False, NOW + TTL - 1) is made
    assert briefings.cached("scout", True, NOW) is None
    short = briefings.make(world.view, "scout", True, NOW + 1)
    assert (short.version, short.moment) == (1, NOW)
    assert len(Briefing.from_json(short.data).text) < len(Briefing.from_json(made.data).text)
    assert briefings.cached("scout", False, NOW + TTL) is None
    assert briefings.make(world.view, "scout", False, NOW + TTL).moment == NOW + TTL


def test_a_briefing_ends_when_what_it_shows_does() -> None:
    world = office()
    world.write(node("brief", "goal", valid_to=stamp(NOW + 60)))
    briefings = keep(world)
    assert briefings.cached("scout", False, NOW + 59) is not None
    assert briefings.cached("scout", False, NOW + 60) is None


def test_the_kept_briefing_is_the_composed_one() -> None:
    world = office()
    ready = Briefings(TTL).make(world.view, "scout", False, NOW)
    kept, made = Briefing.from_json(ready.data), compose(world.view, "scout", NOW)
    assert msgspec.structs.replace(kept, id=made.id) == made


def test_stale_are_those_that_are_missing_or_about_to_end() -> None:
    world = office()
    briefings = keep(world)
    assert briefings.stale([*AGENTS, "new"], NOW) == ["new"]
    assert briefings.stale(AGENTS, NOW + TTL * 0.91) == list(AGENTS)
    briefings.changed(world.view, world.write(node("x", "observation", agent="scout")))
    assert briefings.stale(AGENTS, NOW) == ["scout"]


def test_a_change_that_a_briefing_has_seen_does_not_end_it() -> None:
    world = office()
    change = world.write(node("x", "goal"))
    briefings = keep(world)
    assert briefings.changed(world.view, change) == []


def test_briefings_of_too_many_names_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MAX_AGENTS", 3)
    world, briefings = office(), Briefings(TTL)
    for name in ("a", "b", "c", "d"):
        briefings.make(world.view, name, False, NOW)
    assert [name for name in "abcd" if briefings.cached(name, False, NOW)] == ["b", "c", "d"]


KINDS = st.sampled_from(
    ["fact", "decision", "event", "goal", "preference", "pattern", "observation", "person", "agent"]
)
NAMES = st.sampled_from(
    [f"n{number}" for number in range(8)] + ["scout", "critic", "work", "pref", "lesson", "ada"]
)
NODES = st.builds(
    lambda node_id, kind, vector, age, **fields: node(
        node_id, kind, age=age, embedding=direction(*vector), **fields
    ),
    st.sampled_from([f"n{number}" for number in range(8)]),
    KINDS,
    st.sampled_from([(1.0, 0.2), (0.0, 1.0), (0.5, 0.5), (0.0, 0.0, 1.0)]),
    st.sampled_from([0, 3600, 3 * DAY, 60 * DAY]),
    importance=st.sampled_from([0.1, 0.35, 0.5, 0.9]),
    agent=st.sampled_from(["scout", "critic", "writer", "other"]),
    tags=st.sampled_from([(), (), (), ("scout",), ("review",), ("global",), ("done",)]),
    valid_to=st.sampled_from(["", "", "", stamp(NOW - 5), stamp(NOW + 10 * DAY)]),
)
EDGES = st.builds(
    lambda start, end, relation, weight, by: (start, end, relation, weight, by),
    NAMES,
    NAMES,
    st.sampled_from(list(Relation)),
    st.sampled_from([0.1, 0.3, 0.9]),
    st.sampled_from(["manual", "similarity"]),
)
WRITES = st.one_of(
    st.fixed_dictionaries({"nodes": st.lists(NODES, min_size=1, max_size=2)}),
    st.fixed_dictionaries({"edges": st.lists(EDGES, min_size=1, max_size=2)}),
    st.fixed_dictionaries(
        {"nodes": st.lists(NODES, max_size=2), "edges": st.lists(EDGES, min_size=1, max_size=3)}
    ),
    st.fixed_dictionaries({"retire": st.lists(NAMES, min_size=1, max_size=1)}),
    st.fixed_dictionaries({"unlink": st.integers(0, 40)}),
    st.fixed_dictionaries({"accessed": st.dictionaries(NAMES, st.integers(1, 3), min_size=1, max_size=3)}),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(WRITES, min_size=1, max_size=12), st.integers(0, 8))
def test_whenever_what_is_shown_differs_the_briefing_was_let_go(
    writes: list[dict[str, Any]], first: int
) -> None:
    world = office()
    for write in writes[:first]:
        attempt(world, write)
    briefings = keep(world)
    for write in writes[first:]:
        before = {agent: ids(compose(world.view, agent, NOW)) for agent in AGENTS}
        change = attempt(world, write)
        if change is None:
            continue
        told = briefings.changed(world.view, change)
        for agent in AGENTS:
            if ids(compose(world.view, agent, NOW)) != before[agent]:
                assert agent in told or briefings.cached(agent, False, NOW) is None, (agent, write)
            if agent in told:
                briefings.prepare(world.view, agent, NOW)


def attempt(world: World, write: dict[str, Any]) -> Change | None:
    """Apply a drawn write as far as it means something; None where it is refused."""
    nodes = {one.id: one for one in write.get("nodes", ())}
    there = [name for name in itertools.chain(nodes, world.view.select()) if name]
    edges: dict[tuple[str, str, str], Edge] = {}
    for start, end, relation, weight, by in write.get("edges", ()):
        if start != end and start in there and end in there:
            edges[start, end, relation] = edge(start, end, relation, weight, provenance={"by": by})
    unlink = []
    if "unlink" in write:
        drawn = sorted(
            {
                (e.from_id, e.to_id, e.relation.value)
                for name in there
                for e in world.view.graph.edges_of(name)
            }
        )
        unlink = drawn[write["unlink"] % len(drawn) :][:1] if drawn else []
    gone_ = [name for name in write.get("retire", ()) if name in there]
    accessed = {name: count for name, count in write.get("accessed", {}).items() if name in there}
    if not (nodes or edges or unlink or gone_ or accessed):
        return None
    try:
        return world.write(
            *nodes.values(), edges=edges.values(), unlink=unlink, retire=gone_, accessed=accessed
        )
    except ValueError:
        return None


def test_readings_become_one_write_of_accesses_and_stronger_edges() -> None:
    world = office()
    moment = NOW + 40 * DAY
    briefings = Briefings(TTL)
    briefings.prepare(world.view, "scout", moment)
    assert briefings.readings.take(world.view, moment) is None
    for _ in range(3):
        assert briefings.cached("scout", False, moment)
    briefings.make(world.view, "scout", True, moment)
    write = briefings.readings.take(world.view, moment)
    assert write is not None
    shown = {name for names in ids(compose(world.view, "scout", moment)).values() for name in names}
    assert write.sender == "memory"
    assert write.accessed == dict.fromkeys(shown, 4)
    (stronger,) = write.edges
    assert (stronger.from_id, stronger.to_id, stronger.touched_at) == ("scout", "ada", stamp(moment))
    kept = 0.6 * 2.718281828 ** (-0.01 * 40 * 0.6)
    assert stronger.weight == pytest.approx(kept + 0.1 * (1 - kept))
    assert briefings.readings.take(world.view, moment) is None
    assert briefings.changed(world.view, world.apply(write, moment)) == []
    assert briefings.cached("scout", False, moment) is not None


def test_what_was_retired_meanwhile_is_not_counted() -> None:
    world = office()
    readings = Readings()
    readings.count(("pref", "ada", "scout"))
    world.write(retire=["pref"])
    write = readings.take(world.view, NOW)
    assert write is not None
    assert write.accessed == {"ada": 1, "scout": 1}


def test_readings_are_bounded() -> None:
    world = office()
    readings = Readings()
    for number in range(MAX_LISTS + 10):
        readings.count((f"x{number}",))
    readings.count(("scout",))
    assert readings.take(world.view, NOW) is None
