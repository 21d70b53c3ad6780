"""What stands around the claims of a story: owners, preferences, incidents, tasks, notes, goals and noise."""

from collections.abc import Sequence
from datetime import datetime

from shared.contracts import Source
from tests.bench.answers.story import (
    AGENTS,
    DAYS,
    RULINGS,
    Story,
    Teller,
    tell_changes,
    tell_facts,
    tell_lookalikes,
    tell_rulings,
)
from tests.bench.answers.wording import Wording, fill

GOALS = 60
COUNTS = {"preferences": 16, "incidents": 40, "tasks": 40, "notes": 30, "noise": 70}
KINDS = {
    "preferences": "preference",
    "incidents": "event",
    "tasks": "task",
    "notes": "event",
    "noise": "observation",
}
LEADS = ("Find an answer", "Try again", "For the weekly report", "Please check", "Once more")
REPEATED = 6
"""Plain facts that a goal asks for with each of LEADS; the events of these goals hold the question itself."""
PRIVATE = 3
"""Notes of each agent that are its own affair."""
UNANSWERABLE, NEAR = 10, 4
"""Questions that nothing answers, and how many of them name something that memory knows otherwise."""


def tell_story(wording: Wording, seed: int, start: datetime) -> Story:
    """The story of ``seed`` in this wording; it lasts from ``start`` for 60 days."""
    teller = Teller(wording, seed, start)
    changes, agents = tell_changes(teller, RULINGS // 2)
    rulings = tell_rulings(teller, agents, changes)
    facts = tell_facts(teller)
    lookalikes = tuple(tell_lookalikes(teller))
    tell_fillers(teller)
    return Story(
        planted=tuple(sorted(teller.planted, key=lambda planted: planted.node.created_at)),
        changes=tuple(changes),
        lookalikes=lookalikes,
        facts=facts,
        rulings=rulings,
        unanswerable=tuple(_unanswerable(teller)),
        goals=tuple(sorted(_goals(teller))),
    )


def tell_fillers(teller: Teller) -> None:
    fillers = teller.wording.fillers
    for thing in fillers.things:  # one owner each: two would be a change
        text = fill(teller.random.choice(fillers.owners), p=teller.person(), x=thing)
        teller.tell("owner", text, _day(teller))
    for label, count in COUNTS.items():
        frames: Sequence[str] = getattr(fillers, label)
        for number in range(count):
            text = _sentence(teller, frames[number % len(frames)])
            teller.tell(label, text, _day(teller), kind=KINDS[label], body=teller.reason(0.1))
    for agent in AGENTS:
        for frame in fillers.private[:PRIVATE]:
            path = f"agents/{agent}/notes.md"
            source = Source(agent=agent, session=path, channel="ingest")
            text = _sentence(teller, frame)
            teller.tell(f"private {agent}", text, _day(teller), source=source, metadata={"path": path})


def _day(teller: Teller) -> float:
    return teller.day(0.5, DAYS - 0.5)


def _sentence(teller: Teller, frame: str) -> str:
    random, wording = teller.random, teller.wording
    person = teller.person()
    return fill(
        frame,
        p=person,
        q=teller.person(person),
        s=random.choice(wording.services),
        x=random.choice(wording.fillers.things),
        n=random.randrange(2, 90),
    )


def _unanswerable(teller: Teller) -> list[str]:
    fillers = teller.wording.fillers
    near = [_sentence(teller, frame) for frame in teller.random.sample(fillers.near_misses, NEAR)]
    return [*near, *teller.random.sample(fillers.unanswerable, UNANSWERABLE - NEAR)]


def _goals(teller: Teller) -> list[tuple[float, str]]:
    """Goals of all kinds; among them each plain fact is asked for, and some of them again and again."""
    wording = teller.wording
    texts = [f"{LEADS[0]}: {fact.ask}" for fact in wording.facts]
    texts += [
        f"{lead}: {fact.ask}" for fact in teller.random.sample(wording.facts, REPEATED) for lead in LEADS[1:]
    ]
    frames = wording.fillers.goals
    texts += [_sentence(teller, frames[place % len(frames)]) for place in range(GOALS - len(texts))]
    return [(teller.day(21, DAYS - 0.1), text) for text in texts]
