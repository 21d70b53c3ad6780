"""Each rule of the linker on both sides of its threshold, with the cosine given."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.memory.ingest.pieces import hash_text
from services.memory.linking.rules import (
    are_duplicates,
    choose_survivor,
    is_generic,
    link_by_tags,
    link_decision_to_event,
    link_in_time,
    link_instance,
    link_similar,
    merge_nodes,
    move_edges,
)
from services.memory.linking.supersession import (
    ASKED,
    SURE,
    SURELY,
    end_validity,
    find_contradiction,
    find_supersession,
    weigh,
)
from shared.contracts import Edge, Node, Relation, Source
from tests.support.memory import NOW, at, note

JUST_UNDER = 1e-6


def test_similarity_links_from_075_on() -> None:
    newer, older = note("b", "Newer"), note("a", "Older")
    edge = link_similar(newer, older, 0.75)
    assert edge is not None
    assert (edge.from_id, edge.to_id, edge.relation, edge.weight) == ("b", "a", Relation.RELATED_TO, 0.75)
    assert edge.provenance == {"by": "similarity", "score": 0.75}
    assert link_similar(newer, older, 0.75 - JUST_UNDER) is None


def test_a_node_with_more_than_30_neighbours_is_generic() -> None:
    assert not is_generic(30)
    assert is_generic(31)


def test_a_contradiction_is_flagged_from_080_on() -> None:
    newer, older = note("b", "We never deploy on Fridays"), note("a", "We deploy on Fridays")
    edge = find_contradiction(newer, older, 0.8, NOW)
    assert edge is not None
    assert (edge.from_id, edge.to_id, edge.relation, edge.weight) == ("b", "a", Relation.CONTRADICTS, 0.8)
    assert edge.provenance == {"by": "contradiction", "score": 0.8}
    assert find_contradiction(newer, older, 0.8 - JUST_UNDER, NOW) is None


def test_a_contradiction_needs_exactly_one_negated_side() -> None:
    yes, no, never = (
        note(*pair) for pair in (("a", "We ship it"), ("b", "We don't ship it"), ("c", "We never ship it"))
    )
    assert find_contradiction(no, yes, 0.9, NOW)
    assert find_contradiction(never, no, 0.9, NOW) is None
    assert find_contradiction(note("d", "Nothing is shipped"), yes, 0.9, NOW) is None


@pytest.mark.parametrize("kind", ["episodic", "event", "task", "agent", "turn", "message"])
def test_what_took_place_contradicts_nothing(kind: str) -> None:
    newer, older = note("b", "We never deploy on Fridays", kind=kind), note("a", "We deploy on Fridays")
    assert find_contradiction(newer, older, 0.99, NOW) is None


def test_what_goals_taught_contradicts_nothing() -> None:
    for agent, disputed in (("conductor", False), ("user", True)):
        source = Source(agent=agent)
        newer = note("b", "We never deploy on Fridays", kind="pattern", source=source)
        older = note("a", "We deploy on Fridays", kind="pattern", source=source)
        assert (find_contradiction(newer, older, 0.99, NOW) is not None) is disputed


def test_what_cannot_be_decided_is_asked_about() -> None:
    newer, older = note("b", "Deploys are on Thursdays", 1), note("a", "Staging deploys happen on Tuesdays")
    edge = find_contradiction(newer, older, 0.6, NOW, ASKED)
    assert edge is not None
    assert edge.provenance == {"by": "contradiction", "rule": "undecided", "score": 0.6}
    assert find_contradiction(newer, older, 0.6, NOW, ASKED - JUST_UNDER) is None
    assert find_contradiction(older, newer, 0.6, NOW, ASKED) is None
    assert find_supersession(newer, older, 0.6, NOW, SURE - JUST_UNDER) is None


def test_what_no_longer_holds_contradicts_nothing() -> None:
    newer = note("b", "We never deploy on Fridays")
    ended = note("a", "We deploy on Fridays", valid_to=at(60))
    assert find_contradiction(newer, ended, 0.9, NOW) is None
    still = note("a", "We deploy on Fridays", valid_to=at(60 * 24 * 365))
    assert find_contradiction(newer, still, 0.9, NOW)


SAME = ("The broker listens on port 4222", "The port of the broker is 4222")


def test_a_rule_of_a_file_takes_the_place_of_a_fact_and_what_the_office_learned_does_not() -> None:
    older, newer = note("a", "Hotfixes need one approval"), note("b", "Hotfixes need two", 5, kind="pattern")
    assert find_supersession(newer, older, 0.8, NOW, SURE)
    learned = msgspec.structs.replace(newer, source=Source(agent="conductor", channel="goal"))
    assert find_supersession(learned, older, 0.8, NOW, SURE) is None


def test_what_everybody_knows_ends_an_own_note_of_an_agent_only_if_it_is_very_sure() -> None:
    older, newer = note("a", "Flags live in a file"), note("b", "Flags live in Unleash", 5)
    folder = Source(agent="scout", session="agents/scout/notes.md", channel="ingest")
    own = msgspec.structs.replace(older, source=folder)
    assert find_supersession(newer, older, 0.8, NOW, SURE)
    assert find_supersession(newer, own, 0.8, NOW, SURELY)
    assert find_supersession(newer, own, 0.8, NOW, SURE) is None
    asked = find_contradiction(newer, own, 0.8, NOW, SURE)
    assert asked is not None
    assert asked.provenance["rule"] == "undecided"
    later = msgspec.structs.replace(newer, source=folder)
    assert find_supersession(later, own, 0.8, NOW, SURE)


def test_duplicates_are_one_from_092_on() -> None:
    one, other = note("a", SAME[0]), note("b", SAME[1])
    assert are_duplicates(one, other, 0.92)
    assert not are_duplicates(one, other, 0.92 - JUST_UNDER)


@pytest.mark.parametrize(
    "title",
    [
        "The port of the broker is 4333",
        "The port of the broker is not 4222",
        "The port of the broker in Rome is 4333",
        "The host of the broker is 4222",
        "The port of the broker is no longer 4222",
    ],
)
def test_what_differs_in_what_matters_is_no_duplicate(title: str) -> None:
    assert not are_duplicates(note("a", SAME[1]), note("b", title), 0.999)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Every change needs one approval", "Every change needs two approvals"),
        ("Backups are kept for a week on one disk", "Backups are kept for a week on two disks"),
        ("The shop opens at nine", "The shop opens at ten"),
        ("Lab samples are collected twice a day", "Lab samples are collected three times a day"),
    ],
)
def test_amounts_are_never_merged_away(one: str, other: str) -> None:
    assert not are_duplicates(note("a", one), note("b", other), 0.999)
    assert not are_duplicates(note("a", other), note("b", one), 0.999)


def test_duplicates_are_of_one_kind_and_were_never_replaced() -> None:
    assert not are_duplicates(note("a", SAME[0]), note("b", SAME[0], kind="observation"), 1.0)
    assert not are_duplicates(note("a", SAME[0], valid_to=at(5)), note("b", SAME[0]), 1.0)


@pytest.mark.parametrize("kind", ["episodic", "event", "task", "turn"])
def test_two_events_are_two_unless_they_are_the_same_one(kind: str) -> None:
    def said(node_id: str, minutes: float = 0, session: str = "s1") -> Node:
        return note(node_id, "Yes, let us do that", minutes, kind=kind, session=session, agent="scout")

    assert are_duplicates(said("a"), said("b"), 1.0)
    assert not are_duplicates(said("a"), said("b", minutes=1), 1.0)
    assert not are_duplicates(said("a"), said("b", session="s2"), 1.0)
    assert not are_duplicates(said("a", session=""), said("b", session=""), 1.0)


@pytest.mark.parametrize(
    ("degrees", "importances", "stays"),
    [
        ((0, 0), (0.5, 0.5), "a"),  # the older one
        ((2, 5), (0.5, 0.5), "b"),  # more than twice the edges
        ((2, 4), (0.5, 0.5), "a"),
        ((1, 1), (0.5, 0.81), "b"),  # more important by more than .3
        ((1, 1), (0.5, 0.8), "a"),
        ((0, 5), (1.0, 0.0), "b"),  # edges come before importance
    ],
)
def test_the_richer_one_stays(degrees: tuple[int, int], importances: tuple[float, float], stays: str) -> None:
    one = note("a", SAME[0], importance=importances[0], created_version=1)
    other = note("b", SAME[0], importance=importances[1], created_version=2)
    assert choose_survivor(one, other, degrees)[0].id == stays
    assert choose_survivor(other, one, degrees[::-1])[0].id == stays


def test_a_merged_node_has_what_both_had() -> None:
    stays = note("a", SAME[1], tags=("net", "x"), metadata={"k": 1, "flag": "generic"}, importance=0.2)
    goes = note(
        "b",
        f"{SAME[1]} in the rack",
        tags=("y", "net"),
        metadata={"k": 2, "m": 3, "merged_from": ["c"]},
        importance=0.6,
    )
    merged = merge_nodes(stays, goes)
    assert (merged.id, merged.title) == ("a", goes.title)
    assert merged.tags == ("net", "x", "y")
    assert merged.metadata == {"k": 1, "m": 3, "merged_from": ["b", "c"]}
    assert merged.importance == 0.6
    assert merged.created_at == stays.created_at
    assert merge_nodes(goes, stays).title == goes.title


def test_a_merged_node_has_at_most_32_tags() -> None:
    one = note("a", SAME[0], tags=tuple(f"a{n}" for n in range(30)))
    other = note("b", SAME[0], tags=tuple(f"b{n}" for n in range(30)))
    assert len(merge_nodes(one, other).tags) == 32


def test_edges_move_as_they_are_and_none_to_itself() -> None:
    to_other = Edge(from_id="b", to_id="c", weight=0.4, touched_at=at(3), relation=Relation.LED_TO)
    from_other = Edge(from_id="d", to_id="b", weight=0.6)
    between = Edge(from_id="b", to_id="a")
    moved = move_edges([to_other, from_other, between], goes="b", stays="a")
    assert [(e.from_id, e.to_id, e.relation.value, e.weight) for e in moved] == [
        ("a", "c", "led_to", 0.4),
        ("d", "a", "related_to", 0.6),
    ]
    assert moved[0].touched_at == at(3)
    assert moved[0].provenance == {"by": "manual", "moved_from": "b"}


def find_chance(newer: Node, older: Node, cosine: float) -> float:
    (found,) = weigh([(newer, older, cosine)], [], NOW)
    return found.chance


def superseding(newer: Node, older: Node, cosine: float, *, by_title: bool = False) -> str:
    chance = find_chance(newer, older, cosine)
    edge = find_supersession(newer, older, cosine, NOW, 0.0 if by_title else chance)
    if edge is None:
        return ""
    assert (edge.from_id, edge.to_id, edge.relation) == (newer.id, older.id, Relation.SUPERSEDES)
    assert edge.provenance["by"] == "supersession"
    return str(edge.provenance["rule"])


def test_a_new_value_supersedes_from_05_on() -> None:
    newer, older = note("b", "The port of the broker is 4333", 1), note("a", "The port of the broker is 4222")
    assert superseding(newer, older, 0.5) == "likely"
    assert superseding(newer, older, 0.5 - JUST_UNDER) == ""


def test_only_the_newer_supersedes() -> None:
    titles = ("The port of the broker is 4333", "The port of the broker is 4222")
    assert superseding(note("b", titles[0], 0), note("a", titles[1], 0), 0.9) == ""
    since = {"valid_from": at(-60)}  # was said later, but holds since earlier
    assert superseding(note("b", titles[0], 5, **since), note("a", titles[1], 0), 0.9) == ""


def test_only_what_holds_until_something_else_does_is_superseded() -> None:
    def port(number: int, minutes: float, **fields: Any) -> Node:
        return note(f"n{number}", f"The port of the broker is {number}", minutes, **fields)

    for kind in ("fact", "preference", "decision", "goal", "pattern"):
        assert superseding(port(2, 1, kind=kind), port(1, 0, kind=kind), 0.9) == "likely"
    for kind in ("event", "episodic", "task", "observation", "agent"):
        assert superseding(port(2, 1, kind=kind), port(1, 0, kind=kind), 0.9) == ""
    assert superseding(port(2, 1, kind="decision"), port(1, 0), 0.9) == "likely"
    assert superseding(port(2, 1, kind="event"), port(1, 0), 0.9) == ""
    assert superseding(port(2, 1), port(1, 0, valid_to=at(1)), 0.9) == ""


def test_an_agents_own_note_ends_its_own_notes_alone() -> None:
    def own(agent: str, title: str, minutes: float, **fields: Any) -> Node:
        source = Source(agent=agent, session=f"agents/{agent}/notes.md", channel="ingest")
        return note(f"{agent}{minutes}", title, minutes, source=source, **fields)

    said = "The port of the broker is {}"
    older, shared = own("scout", said.format(1), 0), note("shared", said.format(1), 0)
    assert superseding(own("scout", said.format(2), 1), older, 0.9) == "likely"
    assert superseding(own("critic", said.format(2), 1), older, 0.9) == ""
    assert superseding(own("critic", said.format(2), 1), shared, 0.9) == ""
    assert superseding(own("critic", said.format(2), 1, tags=("global",)), shared, 0.9) == "likely"
    assert superseding(note("new", said.format(2), 1), older, 0.9) == "likely"
    assert not are_duplicates(own("critic", said.format(1), 1), older, 0.99)
    assert are_duplicates(own("scout", said.format(1), 1), older, 0.99)


def policy(node_id: str, title: str, body: str, minutes: float, **fields: Any) -> Node:
    return note(node_id, title, minutes, body=body, **fields)


LONG = "alpha beta gamma delta epsilon zeta eta theta iota"


@pytest.mark.parametrize(
    ("titles", "cosine", "rule"),
    [
        (("Deployment policy", "Deployment policy"), 0.85, "title"),
        (("Deployment policy", "Deployment policy"), 0.85 - JUST_UNDER, ""),
        ((LONG, f"{LONG} kappa"), 0.9, "title"),  # nine of ten words
        ((LONG, f"{LONG} kappa lambda"), 0.9, ""),  # nine of eleven
        (("Deployment policy 2025", "Deployment policy 2026"), 0.9, ""),
        (("Deployment", "Deployment"), 0.9, ""),  # one word is no subject
    ],
)
def test_the_same_title_supersedes(titles: tuple[str, str], cosine: float, rule: str) -> None:
    older = policy("a", titles[0], "Releases go out by hand, on any day of the week", 0)
    newer = policy("b", titles[1], "A robot ships what was merged before noon", 1)
    assert superseding(newer, older, cosine, by_title=True) == rule


def test_headings_of_one_session_or_of_two_files_supersede_nothing() -> None:
    title, bodies = "Open questions", ("Who pays for it in the end", "Where shall the meeting take place")
    for one, other in (
        ({"session": "s"}, {"session": "s"}),
        ({"metadata": {"path": "a.md"}}, {"metadata": {"path": "b.md"}}),
    ):
        older, newer = policy("a", title, bodies[0], 0, **one), policy("b", title, bodies[1], 1, **other)
        assert superseding(newer, older, 0.9) == ""


def test_what_is_superseded_ends_when_the_other_begins() -> None:
    older = note("a", "The port is 4222")
    assert end_validity(older, note("b", "The port is 4333", 7)).valid_to == at(7)
    assert end_validity(older, note("b", "The port is 4333", 7, valid_from=at(9))).valid_to == at(9)
    assert end_validity(older, note("b", "The port is 4333", 7)).updated_at == older.created_at


def test_one_agent_within_30_minutes_is_related_by_04() -> None:
    newer, older = note("b", "Newer", agent="scout"), note("a", "Older", agent="scout")
    edge = link_in_time(newer, older, 1800)
    assert edge is not None
    assert (edge.weight, edge.provenance) == (0.4, {"by": "structural", "rule": "time"})
    assert link_in_time(newer, older, 1800.1) is None
    assert link_in_time(newer, note("a", "Older", agent="critic"), 1) is None
    assert link_in_time(note("b", "Newer"), note("a", "Older"), 1) is None


def test_one_session_is_related_by_03() -> None:
    newer, older = note("b", "Newer", session="s"), note("a", "Older", session="s")
    edge = link_in_time(newer, older, 1e6)
    assert edge is not None
    assert (edge.weight, edge.provenance) == (0.3, {"by": "structural", "rule": "session"})
    assert link_in_time(newer, note("a", "Older", session="t"), 1) is None


@pytest.mark.parametrize(
    ("shared", "weight"), [(1, None), (2, 0.5), (3, 0.55), (4, 0.6), (12, 1.0), (20, 1.0)]
)
def test_shared_tags_relate_from_two_on(shared: int, weight: float | None) -> None:
    tags = tuple(f"t{n}" for n in range(shared))
    edge = link_by_tags(note("b", "Newer", tags=(*tags, "x")), note("a", "Older", tags=("y", *tags)))
    assert (edge.weight if edge else None) == weight


def test_a_decision_led_to_an_event_of_its_session() -> None:
    decision, event = (
        note("a", "Go", kind="decision", session="s"),
        note("b", "Gone", kind="event", session="s"),
    )
    edge = link_decision_to_event(decision, event, 0)
    assert edge is not None
    assert (edge.from_id, edge.relation, edge.weight) == ("a", Relation.LED_TO, 0.6)
    assert link_decision_to_event(decision, event, -1) is None
    assert link_decision_to_event(event, decision, 1) is None
    assert link_decision_to_event(decision, note("b", "Gone", kind="event", session="t"), 1) is None


@pytest.mark.parametrize(("event", "led"), [("Lunch was good", False), ("The app crashed on the demo", True)])
def test_of_a_file_a_decision_led_to_what_names_the_same(event: str, led: bool) -> None:
    decision, happened = (
        note(name, title, kind=kind, session="s", metadata={"file": "/notes/may.md"})
        for name, title, kind in (("a", "The app is built with Flutter", "decision"), ("b", event, "event"))
    )
    assert bool(link_decision_to_event(decision, happened, 5)) is led


def test_an_observation_is_an_instance_of_a_pattern_from_07_on() -> None:
    observation, pattern = (
        note("a", "It timed out", kind="observation"),
        note("b", "It times out", kind="pattern"),
    )
    edge = link_instance(observation, pattern, 0.7)
    assert edge is not None
    assert (edge.from_id, edge.relation, edge.weight) == ("a", Relation.INSTANCE_OF, 0.7)
    assert link_instance(observation, pattern, 0.7 - JUST_UNDER) is None
    assert link_instance(pattern, observation, 0.9) is None


@given(
    st.floats(-1, 1), st.sampled_from(["fact", "event"]), st.text(min_size=1, max_size=40).filter(str.strip)
)
def test_no_rule_links_what_is_far_apart_or_breaks_on_odd_texts(cosine: float, kind: str, title: str) -> None:
    newer, older = note("b", title, 1, kind=kind), note("a", "The port is 4222", kind=kind)
    edges = [
        link_similar(newer, older, cosine),
        find_contradiction(newer, older, cosine, NOW, 1.0),
        find_supersession(newer, older, cosine, NOW, 1.0),
    ]
    assert cosine >= 0.5 or not any(edges)
    if are_duplicates(newer, older, cosine):
        assert cosine >= 0.92


def test_records_beside_each_other_in_a_file_do_not_replace_each_other() -> None:
    def record(name: str, minutes: float, *, file: str = "vacation.yaml") -> Node:
        body = f"who: {name}\nfrom: 2027-02-08"
        title = f"vacation › {name}"
        return note(name, title, minutes, kind="fact", body=body, metadata={"file": file})

    anna, kofi = record("Anna", 0), record("Kofi", 1e-6)
    assert superseding(kofi, anna, 0.99) == ""
    assert superseding(record("Kofi", 5), anna, 0.99)  # as later files do
    assert superseding(record("Kofi", 1e-6, file="other.yaml"), anna, 0.99)


def passage(file: str, text: str, seconds: float, **fields: Any) -> Node:
    """A passage of a file that was saved so many seconds after the others."""
    source = Source(session=file, channel="ingest")
    return note(hash_text(file, text), text, seconds / 60, source=source, metadata={"file": file}, **fields)


@pytest.mark.parametrize("file", ["a.md", "b.md"])
def test_passages_saved_at_once_are_asked_about_and_do_not_end_each_other(file: str) -> None:
    older, newer = passage("a.md", "The port is 4222", 0), passage(file, "The port is 4333", 0.001)
    chance = find_chance(newer, older, 0.9)
    assert find_supersession(newer, older, 0.9, NOW, chance) is None
    assert find_contradiction(newer, older, 0.9, NOW, chance) is not None


def test_of_passages_saved_at_once_what_tells_a_change_ends_the_other() -> None:
    older = passage("a.md", "The port is 4222", 0)
    moved = passage("a.md", "The port is no longer 4222, it is 4333 now", 0.001)
    chance = find_chance(moved, older, 0.9)
    assert find_supersession(moved, older, 0.9, NOW, chance) is not None


def test_passages_of_files_that_were_saved_later_or_bear_dates_end_others() -> None:
    older, later = passage("a.md", "The port is 4222", 0), passage("b.md", "The port is 4333", 120)
    dated = passage("a.md", "The port is 4333", 0, valid_from=at(1))
    for newer in (later, dated):
        chance = find_chance(newer, older, 0.9)
        assert find_supersession(newer, older, 0.9, NOW, chance) is not None


def test_what_manuals_explain_at_length_is_not_held_against_other_passages() -> None:
    told = "Frozen classes are slower, because every attribute is set by object.__setattr__ when one is made"
    older = passage("a.md", f"{told}, which is the case for all of them and was measured twice", 0)
    newer = passage("b.md", f"{told}, which is no longer the case for any of them", 86_400)
    assert find_chance(newer, older, 0.9) == 0
    assert find_contradiction(newer, older, 0.9, NOW) is None
    short = (
        passage("a.md", "Values are case-insensitive", 0),
        passage("a.md", "No value deactivates the flag", 1),
    )
    assert find_contradiction(short[1], short[0], 0.85, NOW) is None
    denied = passage("a.md", "Values are not case-insensitive", 1)
    assert find_contradiction(denied, short[0], 0.85, NOW) is not None
