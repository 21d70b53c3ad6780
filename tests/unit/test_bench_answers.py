"""The made-up store of ``make bench-answers``: what it is made of, and how it is judged."""

from collections import Counter
from datetime import UTC, datetime

import msgspec
import pytest

from shared.contracts import Edge, Node, Relation, Response
from tests.bench.answers.figures import (
    answer_figures,
    choose_questions,
    decline_figures,
    supersession_figures,
)
from tests.bench.answers.held import Held
from tests.bench.answers.story import Change, Story
from tests.bench.answers.surroundings import GOALS, tell_story
from tests.bench.answers.wording import HALVES, path_of, read_wording

START = datetime(2026, 9, 1, tzinfo=UTC)


def tell(half: str = "work", seed: int = 1) -> Story:
    return tell_story(read_wording(path_of(half)), seed, START)


def pairs_of(changes: tuple[Change, ...]) -> list[tuple[str, str]]:
    return [(new, old) for change in changes for old, new in zip(change.ids, change.ids[1:], strict=False)]


def held_of(story: Story, pairs: list[tuple[str, str]]) -> Held:
    """What a memory would hold that recognised exactly these pairs of a later and an earlier node."""
    ended = {old for _, old in pairs}
    nodes = {
        one.node.id: msgspec.structs.replace(
            one.node, valid_to=START.isoformat() if one.node.id in ended else ""
        )
        for one in story.planted
    }
    edges = [Edge(from_id=new, to_id=old, relation=Relation.SUPERSEDES) for new, old in pairs]
    return Held(story, nodes, edges)


def value(figures: list, name: str) -> float:
    (found,) = [figure.value for figure in figures if figure.name.startswith(name)]
    return found


@pytest.mark.parametrize("half", HALVES)
def test_a_story_has_what_is_measured(half: str) -> None:
    story = tell(half)
    ways = Counter(change.way for change in story.changes)
    assert min(ways["same"], ways["paraphrase"]) >= 20
    assert min(ways["number"], ways["ended"]) >= 10
    assert 480 <= len(story.planted) + len(story.goals) <= 600
    assert len(story.goals) == GOALS
    assert len(story.facts) == len(story.lookalikes) == 20
    assert len(story.unanswerable) == 10
    assert sum(map(len, story.rulings.values())) == 20
    assert len(choose_questions(story)) == 40
    assert len({one.node.id for one in story.planted}) == len(story.planted)


def test_the_halves_share_no_sentence_and_no_subject() -> None:
    work, held_out = map(read_wording, map(path_of, HALVES))
    assert len(set(work.frames)) >= 60
    assert len(set(held_out.frames)) >= 60
    assert not set(work.frames) & set(held_out.frames)
    assert not set(work.people) & set(held_out.people)
    subjects = [{subject for topic in half.topics for subject in topic.subjects} for half in (work, held_out)]
    assert not subjects[0] & subjects[1]


def test_a_seed_tells_the_same_story_again_and_another_seed_another() -> None:
    assert tell(seed=3) == tell(seed=3)
    assert {one.node.title for one in tell(seed=3).planted} != {
        one.node.title for one in tell(seed=4).planted
    }


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("seed", range(5))
def test_states_of_a_claim_follow_in_time_and_no_slot_stays_open(half: str, seed: int) -> None:
    story = tell(half, seed)
    dates = {one.node.id: one.node.created_at for one in story.planted}
    for change in story.changes:
        moments = [dates[state] for state in change.ids]
        assert moments == sorted(moments)
        assert len(set(moments)) == len(moments)
    texts = [one.node.title + one.node.body for one in story.planted]
    texts += [
        *story.unanswerable,
        *(change.question for change in story.changes),
        *(t for _, t in story.goals),
    ]
    assert not [text for text in texts if "{" in text or "}" in text]


def test_a_memory_that_recognises_all_is_judged_so() -> None:
    story = tell()
    figures = supersession_figures(held_of(story, pairs_of(story.changes)), ())
    assert all(figure.value == 100 for figure in figures if "recognised" in figure.name)
    assert all(figure.met is not False for figure in figures)


def test_a_memory_that_recognises_nothing_is_wrong_in_nothing() -> None:
    figures = supersession_figures(held_of(tell(), []), ())
    assert value(figures, "supersessions recognised, same form") == 0
    assert value(figures, "wrong supersessions") == 0


def test_replacing_a_lookalike_or_a_later_state_is_wrong() -> None:
    story = tell()
    first, second = story.lookalikes[0]
    good = pairs_of(story.changes[:1])
    backwards = [(old, new) for new, old in pairs_of(story.changes[1:2])]
    figures = supersession_figures(held_of(story, [*good, (second, first), *backwards]), ())
    assert value(figures, "look-alikes") == 19
    assert value(figures, "wrong supersessions") == pytest.approx(
        100 * (1 + len(backwards)) / (len(good) + 1 + len(backwards)), abs=0.1
    )


def test_only_a_first_citation_of_what_holds_counts() -> None:
    story = tell()
    asked = choose_questions(story)[:3]
    held = held_of(story, pairs_of(story.changes))
    new, old = asked[0].ids[-1], asked[1].ids[0]
    answers = [
        Response(sender="nexus", text=f"[1] {asked[0].value}", citations=(new,)),
        Response(sender="nexus", text=f"[1] {asked[1].value}", citations=(old, asked[1].ids[-1])),
        Response(sender="nexus", text="I started a goal", route_used="frontier"),
    ]
    figures = answer_figures(held, asked, answers, [[], [], []])
    assert value(figures, "first quotation of ask is current") == 1
    assert value(figures, "first quotation of ask is outdated") == 1
    assert value(figures, "questions that were passed on") == 1


def test_a_hint_at_the_nearest_memory_is_no_plain_refusal() -> None:
    story = tell()
    held = held_of(story, [])
    plain = "Memory holds nothing that answers this."
    title = next(node.title for node in held.nodes.values() if len(node.title) > 20)
    texts = [plain, f"{plain} The nearest it holds is {title!r}.", "I do not know."]
    answers = [Response(sender="nexus", text=text) for text in texts]
    short = msgspec.structs.replace(story, unanswerable=story.unanswerable[:3])
    figures = decline_figures(Held(short, held.nodes, []), answers)
    assert value(figures, "unanswerable questions declined") == 1


def test_a_node_that_is_retired_does_not_hold() -> None:
    story = tell()
    last = story.changes[0].ids[-1]
    held = held_of(story, pairs_of(story.changes))
    nodes: dict[str, Node] = dict(held.nodes)
    nodes[last] = msgspec.structs.replace(nodes[last], retired_version=9)
    edges = [Edge(from_id=n, to_id=o, relation=Relation.SUPERSEDES) for n, o in held.replaced]
    assert not Held(story, nodes, edges).recognised(story.changes[0])
