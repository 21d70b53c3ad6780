"""Stores of teams that write no software, and what is asked of them: others.toml, in two halves."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from shared.contracts import Node, Response
from tests.bench.answers.figures import Figure
from tests.bench.answers.ground import open_ground


class Team(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a team has noted, a question for each fact, and questions that nothing of it answers."""

    facts: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    unknown: tuple[str, ...]


OTHERS = Path(__file__).with_name("others.toml")


async def measure_others(path: Path, every: slice) -> list[Figure]:
    """Ask ``every`` one of the questions in ``path`` of a store that holds what all its teams have noted."""
    teams = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), dict[str, Team])
    notes = [note for team in teams.values() for note in team.notes]
    facts = [Node(title=says) for team in teams.values() for says, _ in team.facts]
    questions = [ask for team in teams.values() for _, ask in team.facts]
    unknown = [ask for team in teams.values() for ask in team.unknown[every]]
    async with open_ground() as ground:
        await ground.memory.add(*facts, *(Node(title=note, kind="event") for note in notes), insist=True)
        asked = list(zip(facts, questions, strict=True))[every]
        answers = await ground.ask([question for _, question in asked])
        declined = await ground.ask(unknown)
    return [_answered(asked, answers), _declined(unknown, declined)]


def _answered(asked: Sequence[tuple[Node, str]], answers: Sequence[Response]) -> Figure:
    missed = [
        f"{question} -> {answer.text.splitlines()[0]}"
        for (node, question), answer in zip(asked, answers, strict=True)
        if answer.citations[:1] != (node.id,)
    ]
    count = len(asked)
    return Figure(
        name="other teams: facts in the first quotation of ask",
        value=count - len(missed),
        of=count,
        least=0.9 * count,
        misses=tuple(missed),
    )


def _declined(unknown: Sequence[str], answers: Sequence[Response]) -> Figure:
    told = [
        f"{question} -> {answer.text.splitlines()[0]}"
        for question, answer in zip(unknown, answers, strict=True)
        if answer.citations
    ]
    count = len(unknown)
    return Figure(
        name="other teams: what is not known declined", value=count - len(told), of=count, misses=tuple(told)
    )
