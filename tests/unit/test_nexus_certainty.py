"""Whether the best sentence is told: the signs that it is judged by, and their steps."""

from typing import cast

import pytest

from services.memory.classifier import open_classifier
from services.nexus.answers.answer_type import lacks_amount
from services.nexus.answers.choice import choose
from services.nexus.answers.evidence import Evidence
from services.nexus.answers.weighing import (
    LEAST_NAMED,
    LIGHTEST,
    LIKELY,
    UNLIKELY,
    Asked,
    find_attribute,
    has_other_modifier,
    has_twin,
    is_told,
    is_untouched,
    measure_certainty,
)
from shared.contracts import Hit, Node, Source
from shared.contracts.base import amended
from shared.memory import Memory
from tests.support.classifying import MEMORY, ClassifyingMemory


def read(title: str, *, channel: str = "", angle: float = 1.0, mark: float = 1.0) -> Evidence:
    vector = (angle, 1 - angle)
    node = Node(
        id=title.split(maxsplit=1)[0], title=title, kind="fact", source=Source(agent="user", channel=channel)
    )
    return Evidence(hit=Hit(node=node, score=0.5), sentence=title, mark=mark, vector=vector)


@pytest.mark.parametrize(
    ("question", "attribute"),
    [
        ("What colour is the door?", "colour"),
        ("In which room do we meet?", "room"),
        ("What is the time-out of the query editor?", "time-out"),
        ("How many nodes does the cluster have?", "nodes"),
        ("Who owns the lineage viewer?", ""),
        ("What is it?", ""),
    ],
)
def test_what_a_question_asks_for_by_a_noun_is_found(question: str, attribute: str) -> None:
    assert find_attribute(question) == attribute


def test_another_thing_in_the_same_place_is_noticed() -> None:
    asked = "When are the summer tyres changed?"
    assert has_other_modifier(asked, "The winter tyres are changed in May.")
    assert not has_other_modifier(asked, "The summer tyres are changed in May.")
    assert has_twin("Who reviews proposals?", "Ada reviews invoices.")
    assert not has_twin("Who reviews proposals?", "Ada reviews proposals.")


def test_what_says_the_same_and_what_the_office_noted_is_no_rival() -> None:
    asked = Asked("Who owns the shop?", frozenset(), {"own": 1.0, "shop": 1.0})
    best, former = read("Ada owns the shop."), read("Bob owns the shop.", mark=0.9)
    noted = read("It was asked who owns the shop.", channel="goal", angle=0.0, mark=9.0)
    other = read("The shop is red.", angle=0.0, mark=-4.0)
    support = {
        best.hit.node.id: 2.0,
        former.hit.node.id: 1.9,
        noted.hit.node.id: 1.8,
        other.hit.node.id: -3.0,
    }
    signs = measure_certainty(asked, best, [best, former, noted, other], support)
    assert signs["margin"] == 5.0
    assert signs["mark average"] == -1.5
    assert measure_certainty(asked, best, [best], support)["margin"] > 9  # nothing else was read


class CertainMemory(ClassifyingMemory):
    """Memory that is as certain of everything."""

    def __init__(self, odds: float) -> None:
        super().__init__()
        self._odds = odds

    async def classify(self, *_: object, **__: object) -> list[dict[str, float]]:
        return [{"log_odds": self._odds}]


async def test_what_is_too_uncertain_or_too_light_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_told(UNLIKELY, weight=-1.0, least=-1.2)
    assert not is_told(UNLIKELY - 0.1, weight=-1.0, least=-1.2)
    assert is_told(LIKELY, weight=LIGHTEST, least=-1.2)
    assert not is_told(LIKELY - 0.1, weight=LIGHTEST, least=-1.2)
    assert not is_told(9.0, weight=LIGHTEST - 0.1, least=-1.2)
    sentence = read("Ada owns the shop.", mark=9.0)
    for start, told in ((9.0, (sentence,)), (-9.0, ())):
        memory = cast(Memory, CertainMemory(start))
        for weight in (LEAST_NAMED, LIGHTEST):
            monkeypatch.setattr("services.nexus.answers.choice.weigh", lambda *_, weight=weight: weight)
            assert (await choose("Who owns the shop?", [sentence], memory)).answers == told


async def test_the_classifier_knows_the_signs_that_are_measured() -> None:
    asked = Asked("Who owns the shop?", frozenset(), {"own": 1.0})
    best = read("Ada owns the shop.")
    signs = measure_certainty(asked, best, [best], {best.hit.node.id: 1.0})
    assert set(open_classifier("certainty").description.features) <= signs.keys()
    high, low = await MEMORY.classify(
        "certainty",
        features=[{**signs, "support": 6.0, "mark": 8.0}, {**signs, "support": -4.0, "mark": -8.0}],
    )
    assert high["log_odds"] > low["log_odds"]


@pytest.mark.parametrize(
    ("question", "text", "near", "untouched"),
    [
        ("Who repairs the centrifuge?", "The centrifuge has to be balanced.", {"who": 0.56}, True),
        ("who insures the minibus?", "The minibus failed its inspection.", {"who": 0.61}, True),
        ("Who sponsors the club?", "The sponsor of the club is the savings bank.", {"who": 0.84}, False),
        ("Who drinks coffee here?", "The wardrobe ladies drink coffee here.", {"who": 0.73}, False),
        ("Who owns the shop?", "It belongs to Ada.", {"who": 0.3}, False),
        ("Which channel do alerts go to?", "Alerts go to #ops-night.", {"channel": 0.5}, False),
        ("What colour are the lockers?", "The lockers are grey.", {"colour": 0.8}, False),
        ("At what hour do the welders start?", "The welders begin at seven.", {"hour": 0.5}, False),
        ("Where do we meet?", "At the lake.", {"where": 0.4}, False),
        ("How old is the van?", "The van must not be parked at gate 2.", {"old": 0.45}, True),
        ("How heavy is the fog machine?", "The fog machine needs an hour.", {"heavy": 0.46}, True),
        ("How long is the track?", "The track is closed on Wednesdays.", {"long": 0.5}, True),
        ("How soon are refunds paid?", "Refunds are paid in seven days.", {"soon": 0.75}, False),
        ("How heavy may a cat be?", "The cage takes cats up to 12 kg.", {"heavy": 0.73}, False),
    ],
)
def test_a_sentence_that_does_not_touch_what_is_asked_for_is_no_answer(
    question: str, text: str, near: dict[str, float], untouched: bool
) -> None:
    opening = near.get("who", 0.7)
    assert is_untouched(question, amended(read(text), words=near, opening=opening)) is untouched


@pytest.mark.parametrize(
    ("question", "text", "lacks"),
    [
        ("How many welders do we have?", "Welders work from six to two.", True),
        ("How many welders do we have?", "We have twelve welders.", False),
        ("How many welders do we have?", "Welders: 12, apprentices: 3.", False),
        ("How many people fit into the chamber stage?", "The chamber stage seats eighty people.", False),
        ("How many boats are stored?", "Winter storage is full: 61 boats.", False),
        ("How many towels do we have?", "Towels go to Sauber & Co.", True),
        ("How old is the van?", "The van is parked outside.", True),
    ],
)
def test_a_number_counts_what_stands_behind_it(question: str, text: str, lacks: bool) -> None:
    assert lacks_amount(question, text) is lacks
