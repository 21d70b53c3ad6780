"""Questions about made-up stores and the sentences that memory reads for each: what weights are fitted to."""

import tomllib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import msgspec

from services.nexus.answers.evidence import READ, Evidence, find_later, read_evidence
from services.nexus.answers.memory_answer import may_be_shown
from shared import subjects
from shared.contracts import Hit, MemoryWrite, Node
from shared.memory import Memory
from shared.text.prose import find_terms
from tests.bench.answers.figures import choose_questions
from tests.bench.answers.ground import Ground, each, open_ground
from tests.bench.answers.others import Team
from tests.bench.answers.story import DAYS, Story
from tests.bench.answers.surroundings import tell_story
from tests.bench.answers.wording import Wording, fill

HERE = Path(__file__).parent
WORK, OTHERS = HERE / "work.toml", HERE / "others.toml"
TEAMS = (
    OTHERS,
    *sorted((HERE / "near_misses").glob("*.toml")),
    *sorted((HERE / "paraphrases").glob("*.toml")),
)
"""Small stores of teams; of the first one only the half that may be worked with."""
TOLD = (WORK, *sorted((HERE.parent / "claims" / "stores").glob("*.toml")))
"""Wordings of stores that are told by a seed."""
SEED, GOALS, CHANGES, CROSSED = 1, 10, 20, 14
"""Of a told store: its seed, its goals, questions about changes, and about what is told of others."""
WRITTEN, AT_ONCE = 100, 4


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A question with the ids of what answers it: of a ``fact`` or a ``change``; none if it is ``unknown``,
    or asks of a subject what is told of another one (``crossed``).
    """

    kind: str
    question: str
    gold: frozenset[str] = frozenset()


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A question about a store with the sentences that were read for it."""

    store: str
    item: Item
    evidence: tuple[Evidence, ...]


async def read_store(path: Path) -> list[Sample]:
    """Build the store of a file in a real memory daemon, and read for each of its questions."""
    async with open_ground() as ground:
        items = await (_fill_told(ground, path) if path in TOLD else _fill_teams(ground, path))
        evidence = await each(lambda item: _read(ground.memory, item.question), items, AT_ONCE)
    return [
        Sample(store=path.stem, item=item, evidence=tuple(found))
        for item, found in zip(items, evidence, strict=True)
    ]


async def _read(memory: Memory, question: str) -> list[Evidence]:
    """What ``mailroom ask`` reads for a question."""
    hits = await memory.search(question, limit=READ, history=True)
    later = {find_later(hit) for hit in hits} - {hit.node.id for hit in hits} - {""}
    more = await memory.get(*sorted(later)) if later else []
    found = [*hits, *(Hit(node=node, score=0.0) for node in more)]
    terms = find_terms(question)
    return await read_evidence(memory, question, [hit for hit in found if may_be_shown(hit.node, terms)])


async def _fill_teams(ground: Ground, path: Path) -> list[Item]:
    teams = msgspec.convert(tomllib.loads(path.read_text("utf-8")), dict[str, Team])
    half = slice(0, None, 2) if path == OTHERS else slice(None)
    notes = [Node(title=note, kind="event") for team in teams.values() for note in team.notes]
    facts = [(Node(title=says), ask) for team in teams.values() for says, ask in team.facts]
    await ground.memory.add(*(node for node, _ in facts), *notes, insist=True)
    unknown = [ask for team in teams.values() for ask in team.unknown[half]]
    return [
        *(Item(kind="fact", question=ask, gold=frozenset({node.id})) for node, ask in facts[half]),
        *(Item(kind="unknown", question=ask) for ask in unknown),
    ]


async def _fill_told(ground: Ground, path: Path) -> list[Item]:
    wording = read_told(path)
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(days=DAYS)
    story = tell_story(wording, SEED, start)
    nodes = [planted.node for planted in story.planted]
    for first in range(0, len(nodes), WRITTEN):
        span = tuple(nodes[first : first + WRITTEN])
        await ground.memory.write(MemoryWrite(sender=subjects.USER, nodes=span, insist=True))
    for number, (day, text) in enumerate(story.goals[:GOALS]):
        await ground.end_goal(number, text, (start + timedelta(days=day)).isoformat())
    return [*_ask_story(story), *_cross(wording)]


def read_told(path: Path) -> Wording:
    """The wording of a store; one of bench-claims has only what differs from work.toml."""
    told = tomllib.loads(WORK.read_text("utf-8")) | tomllib.loads(path.read_text("utf-8"))
    return msgspec.convert(told, Wording)


def _ask_story(story: Story) -> Iterator[Item]:
    changes = choose_questions(story, count=10 * CHANGES)
    for fact, question in story.facts:
        yield Item(kind="fact", question=question, gold=frozenset({fact}))
    for change in Random(SEED).sample(changes, min(CHANGES, len(changes))):
        yield Item(kind="change", question=change.question, gold=frozenset(change.ids))
    for question in story.unanswerable:
        yield Item(kind="unknown", question=question)


def _cross(wording: Wording) -> Sequence[Item]:
    """Questions that ask of a subject what is only told of others."""
    random = Random(SEED)
    found: dict[str, None] = {}
    while len(found) < CROSSED:
        one, other = random.sample(wording.topics, 2)
        subject = random.choice(other.subjects)
        if one.attribute != other.attribute and subject not in one.subjects:
            found[fill(random.choice(one.asks), s=subject)] = None
    return [Item(kind="crossed", question=question) for question in found]
