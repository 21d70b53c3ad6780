"""The briefing cache: a kept briefing is served until memory changes or its time ends, and is counted."""

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.memory.briefing import service
from services.memory.briefing.service import (
    MAX_LISTS,
    AccessCounts,
    BriefingCache,
    CachedBriefing,
    compose,
    draft,
)
from services.memory.writes.change import Change
from shared.contracts import Briefing, BriefQuery, Edge, Relation
from tests.support.memory import DAY, NOW, World, direction, edge, ids, node, stamp

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


def make(
    world: World, cache: BriefingCache, agent: str, moment: float = NOW, *, compact: bool = False
) -> CachedBriefing:
    query = BriefQuery(agent=agent, compact=compact)
    return cache.make(query, moment, lambda: draft(world.view, agent, moment))


def get(cache: BriefingCache, agent: str, compact: bool, moment: float) -> CachedBriefing | None:
    return cache.get(BriefQuery(agent=agent, compact=compact), moment)


def keep(world: World, moment: float = NOW) -> BriefingCache:
    cache = BriefingCache(TTL)
    for agent in AGENTS:
        make(world, cache, agent, moment)
    return cache


def kept(cache: BriefingCache, moment: float = NOW) -> set[str]:
    return {agent for agent in AGENTS if get(cache, agent, False, moment) is not None}


def test_a_write_ends_the_briefings() -> None:
    for changes in (
        {"nodes": [node("x", "goal")]},
        {"nodes": [node("work", "decision", agent="scout", title="Another title")]},
        {"edges": [edge("far", "scout")]},
        {"unlink": [("pref", "scout", "applies_to")]},
        {"retire": ["pref"]},
    ):
        world = office()
        cache = keep(world)
        cache.apply(world.write(*changes.pop("nodes", ()), **changes))  # type: ignore[arg-type]
        assert kept(cache) == set()
        assert make(world, cache, "scout").version == world.view.version
        assert kept(cache) == {"scout"}


def test_access_counts_end_nothing() -> None:
    world = office()
    cache = keep(world)
    cache.apply(world.write(accessed={"pref": 3, "scout": 1}))
    assert kept(cache) == set(AGENTS)
    cache.apply(world.write(node("x", "fact")))
    cache.apply(world.write(accessed={"pref": 3, "scout": 1}))
    assert kept(cache) == set()


def test_another_weight_ends_a_briefing() -> None:
    world = office()
    cache = keep(world)
    cache.apply(world.write(edges=[edge("scout", "ada", "depends_on", 0.9, provenance={"by": "similarity"})]))
    assert kept(cache) == set()


def test_a_briefing_is_kept_until_its_time_ends() -> None:
    world = office()
    cache = BriefingCache(TTL)
    assert get(cache, "scout", False, NOW) is None
    made = make(world, cache, "scout")
    assert get(cache, "scout", False, NOW + TTL - 1) is made
    assert get(cache, "scout", True, NOW) is None
    short = make(world, cache, "scout", NOW + 1, compact=True)
    assert (short.version, short.moment) == (1, NOW)
    assert len(Briefing.from_json(short.data).text) < len(Briefing.from_json(made.data).text)
    assert get(cache, "scout", False, NOW + TTL) is None
    assert make(world, cache, "scout", NOW + TTL).moment == NOW + TTL


def test_a_briefing_ends_when_what_it_shows_does() -> None:
    world = office()
    world.write(node("brief", "goal", valid_to=stamp(NOW + 60)))
    cache = keep(world)
    assert get(cache, "scout", False, NOW + 59) is not None
    assert get(cache, "scout", False, NOW + 60) is None


def test_the_kept_briefing_is_the_composed_one() -> None:
    world = office()
    found = Briefing.from_json(make(world, BriefingCache(TTL), "scout").data)
    made = compose(world.view, "scout", NOW)
    assert msgspec.structs.replace(found, id=made.id) == made


def test_stale_are_those_that_are_missing_or_about_to_end() -> None:
    world = office()
    cache = keep(world)
    assert cache.find_stale([*AGENTS, "new"], NOW) == ["new"]
    assert cache.find_stale(AGENTS, NOW + TTL * 0.91) == list(AGENTS)
    cache.apply(world.write(node("x", "observation", agent="scout")))
    make(world, cache, "critic")
    assert cache.find_stale(AGENTS, NOW) == ["scout", "writer", "nobody"]


def test_a_change_that_a_briefing_has_seen_does_not_end_it() -> None:
    world = office()
    change = world.write(node("x", "goal"))
    cache = keep(world)
    cache.apply(change)
    assert kept(cache) == set(AGENTS)


def test_briefings_of_too_many_names_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MAX_AGENTS", 3)
    world, cache = office(), BriefingCache(TTL)
    for name in ("a", "b", "c", "d"):
        make(world, cache, name)
    assert [name for name in "abcd" if get(cache, name, False, NOW)] == ["b", "c", "d"]


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


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(WRITES, min_size=1, max_size=12), st.integers(0, 8))
def test_what_is_served_is_what_memory_says(writes: list[dict[str, Any]], first: int) -> None:
    world = office()
    for write in writes[:first]:
        attempt(world, write)
    cache = keep(world)
    for write in writes[first:]:
        change = attempt(world, write)
        if change is None:
            continue
        cache.apply(change)
        for agent in AGENTS:
            served = get(cache, agent, False, NOW) or make(world, cache, agent)
            assert ids(Briefing.from_json(served.data)) == ids(compose(world.view, agent, NOW)), (
                agent,
                write,
            )


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


def test_accesses_become_one_write_that_ends_no_briefing() -> None:
    world = office()
    moment = NOW + 40 * DAY
    cache = BriefingCache(TTL)
    make(world, cache, "scout", moment)
    assert cache.accesses.take(world.view, moment) is None
    for _ in range(4):
        assert get(cache, "scout", False, moment)
    write = cache.accesses.take(world.view, moment)
    assert write is not None
    shown = {name for names in ids(compose(world.view, "scout", moment)).values() for name in names}
    assert write.sender == "memory"
    assert write.accessed == dict.fromkeys(shown, 4)
    (stronger,) = write.edges
    assert (stronger.from_id, stronger.to_id, stronger.touched_at) == ("scout", "ada", stamp(moment))
    weight = 0.6 * 2.718281828 ** (-0.01 * 40 * 0.6)
    assert stronger.weight == pytest.approx(weight + 0.1 * (1 - weight))
    assert cache.accesses.take(world.view, moment) is None
    cache.apply(world.apply(write, moment))
    assert get(cache, "scout", False, moment) is not None


def test_what_was_retired_meanwhile_is_not_counted() -> None:
    world = office()
    accesses = AccessCounts()
    accesses.count(("pref", "ada", "scout"))
    world.write(retire=["pref"])
    write = accesses.take(world.view, NOW)
    assert write is not None
    assert write.accessed == {"ada": 1, "scout": 1}


def test_access_counts_are_bounded() -> None:
    world = office()
    accesses = AccessCounts()
    for number in range(MAX_LISTS + 10):
        accesses.count((f"x{number}",))
    accesses.count(("scout",))
    assert accesses.take(world.view, NOW) is None
