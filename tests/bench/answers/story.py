"""A team's 60 days as memories: claims that change, and what stands around them; a seed decides it all."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from uuid import UUID

import msgspec

from shared import subjects
from shared.contracts import Node, Source
from tests.bench.answers.wording import PlainFact, Topic, Wording, fill

DAYS = 60
AGENTS = ("engineer", "scout", "critic", "conductor")
"""The agents whose briefings are read."""
RULINGS = 20
CHAINS = 4
"""Claims in the same form that change twice."""
IMPORTANT = 0.75
CHAT_BEFORE, REASON = 0.2, 0.25
"""The shares of first statements that stand in a chat, and of statements with a reason behind them."""


class Planted(msgspec.Struct, frozen=True, kw_only=True):
    """A memory and what it is for: ``label``; ``key`` names the claim that it is a state of."""

    node: Node
    label: str
    key: str = ""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A claim's states, the oldest first, and how the last one is put.

    ``way`` is same, paraphrase, number or ended; ``question`` asks for what holds now.
    """

    key: str
    way: str
    ids: tuple[str, ...]
    value: str
    question: str
    marked: bool = False


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """Everything planted in the order of its time, and what may be asked of it.

    ``rulings`` are the decisions that hold, by agent; ``goals`` are texts of goals with the day of each.
    """

    planted: tuple[Planted, ...]
    changes: tuple[Change, ...]
    lookalikes: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str], ...]
    rulings: dict[str, tuple[str, ...]]
    unanswerable: tuple[str, ...]
    goals: tuple[tuple[float, str], ...]


class Teller:
    """Makes the memories of one story, from ``start`` on."""

    def __init__(self, wording: Wording, seed: int, start: datetime) -> None:
        self.wording, self.random, self._start = wording, Random(seed), start
        self.planted: list[Planted] = []

    def tell(
        self, label: str, text: str, day: float, *, key: str = "", body: str = "", **fields: object
    ) -> str:
        """Plant a memory; returns its id."""
        node = Node(
            **{
                "id": str(UUID(int=self.random.getrandbits(128), version=4)),
                "title": text,
                "body": body,
                "source": Source(agent=subjects.USER, channel="command line"),
                "created_at": self.moment(day).isoformat(),
                **fields,
            }  # type: ignore[arg-type]
        )
        self.planted.append(Planted(node=node, label=label, key=key))
        return node.id

    def moment(self, day: float) -> datetime:
        """The instant so many days after the start."""
        return self._start + timedelta(days=day)

    def day(self, first: float, last: float) -> float:
        """Some instant between two days."""
        return self.random.uniform(first, last)

    def person(self, *without: str) -> str:
        """Somebody who is none of ``without``."""
        return self.random.choice([name for name in self.wording.people if name not in without])

    def reason(self, share: float = REASON) -> str:
        """A body that gives a reason, for this share of all; otherwise empty."""
        if self.random.random() >= share:
            return ""
        return fill(self.random.choice(self.wording.reasons), p=self.person())

    def as_chat(self, text: str, *without: str) -> str:
        """The text as a message in a conversation, or as an entry of a list."""
        frame = self.random.choice(self.wording.fillers.chat)
        clock = f"{self.random.randrange(8, 18)}:{self.random.randrange(60):02}"
        return frame.format(text=text, first=self.person(*without).partition(" ")[0], clock=clock)


def tell_changes(teller: Teller, ruled: int) -> tuple[list[Change], dict[str, str]]:
    """Plant every claim of every topic with its change; also the agents of ``ruled`` that are decisions."""
    random, changes, chains = teller.random, [], 0
    agents: dict[str, str] = {}
    for number, topic in enumerate(teller.wording.topics):
        names = random.sample(topic.subjects, len(topic.subjects))
        for subject, way in zip(names, _ways(topic, number), strict=True):
            chained = way == "same" and chains < CHAINS
            chains += chained
            key = f"{topic.attribute} of {subject}"
            fields: dict[str, object] = {"kind": topic.kind}
            if topic.kind == "decision" and way != "ended" and len(agents) < ruled and number % 2 == 0:
                agents[key] = AGENTS[len(agents) % len(AGENTS)]
                fields |= {"tags": (agents[key],), "importance": IMPORTANT}
            changes.append(_tell_change(teller, topic, subject, way, 3 if chained else 2, key, fields))
    return changes, agents


def _ways(topic: Topic, number: int) -> tuple[str, ...]:
    if topic.number:
        return ("number",) * len(topic.subjects)
    return ("same", "paraphrase", "ended", ("same", "paraphrase")[number % 2])


def _tell_change(
    teller: Teller, topic: Topic, subject: str, way: str, states: int, key: str, fields: dict[str, object]
) -> Change:
    random = teller.random
    known = teller.wording.people if topic.values == "people" else topic.values
    values = random.sample(list(known), states)
    frame = random.choice(topic.says)
    ids = []
    for place, value in enumerate(values):
        last = place == states - 1
        before = values[place - 1] if place else ""
        told = frame if not last else _last_frame(random, topic, frame, way)
        text = fill(told, s=subject, v=value, o=before)
        others = tuple(name for name in (value, before) if name)
        plain = told == frame
        if plain and random.random() < (0.5 if last else CHAT_BEFORE):
            text = teller.as_chat(text, *others)
        first, end = (2 + 26 * place, 22 + 18 * place) if states == 3 else (2 + 28 * place, 26 + 31 * place)
        day = teller.day(first, min(end, DAYS - 2))
        ids.append(teller.tell("claim", text, day, key=key, body=teller.reason(), **fields))
    marked = way != "ended" and told in topic.moves
    question = fill(random.choice(topic.asks), s=subject)
    return Change(key=key, way=way, ids=tuple(ids), value=values[-1], question=question, marked=marked)


def _last_frame(random: Random, topic: Topic, frame: str, way: str) -> str:
    """How the new state is put: paraphrases mostly with a mark of change, numbers in either form."""
    if way == "ended":
        return random.choice(topic.ends)
    if way == "paraphrase" and random.random() < 0.25:
        return random.choice([other for other in topic.says if other != frame])
    if way == "paraphrase" or (way == "number" and random.random() < 0.5):
        return random.choice(topic.moves)
    return frame


def tell_rulings(teller: Teller, agents: dict[str, str], changes: list[Change]) -> dict[str, tuple[str, ...]]:
    """Plant the decisions that never change; all that hold, by the agent that they are tagged with."""
    held: dict[str, list[str]] = {agent: [] for agent in AGENTS}
    for change in changes:
        if change.key in agents:
            held[agents[change.key]].append(change.ids[-1])
    missing = RULINGS - sum(map(len, held.values()))
    for text in teller.random.sample(teller.wording.fillers.rulings, missing):
        agent = min(AGENTS, key=lambda name: len(held[name]))
        day = teller.day(3, 50)
        fields = {"kind": "decision", "tags": (agent,), "importance": IMPORTANT}
        held[agent].append(teller.tell("ruling", text, day, body=teller.reason(1.0), **fields))
    return {agent: tuple(ids) for agent, ids in held.items()}


def tell_facts(teller: Teller) -> tuple[tuple[str, str], ...]:
    """Plant the plain facts; the id of each and the question for it."""

    def plant(fact: PlainFact) -> str:
        return teller.tell("fact", fact.says, teller.day(1, 20))

    return tuple((plant(fact), fact.ask) for fact in teller.wording.facts)


def tell_lookalikes(teller: Teller) -> Iterator[tuple[str, str]]:
    """Plant the pairs that hold side by side."""
    for one, other in teller.wording.lookalikes.pairs:
        first = teller.tell("lookalike", one, teller.day(1, 28))
        text = teller.as_chat(other) if teller.random.random() < CHAT_BEFORE else other
        yield first, teller.tell("lookalike", text, teller.day(30, 57))
