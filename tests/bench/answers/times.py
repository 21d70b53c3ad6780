"""Stores whose notes have their days, and questions about what was, what happened, and what is not held.

The files lie in ``times``; saas.toml says how they are read. The questions ``seen`` are of the half "work",
those ``unseen`` of "held_out".
"""

import re
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from shared.contracts import Node, Response
from tests.bench.answers.figures import Figure
from tests.bench.answers.ground import open_ground

TIMES = Path(__file__).with_name("times")
_WHEN = re.compile(r"(?P<unit>[md])-(?P<count>\d+)(?:\.(?P<day>\d\d))?(?:\|(?P<form>us|iso))?")


class Store(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one team has noted, and what it is asked."""

    notes: tuple[tuple[str, ...], ...]
    seen: tuple[tuple[str, ...], ...]
    unseen: tuple[tuple[str, ...], ...]

    def of(self, half: str) -> tuple[tuple[str, ...], ...]:
        """The questions of a half."""
        return self.seen if half == "work" else self.unseen


async def measure_times(half: str, folder: Path = TIMES) -> list[Figure]:
    """Ask each store the questions of a half."""
    right: list[bool] = []
    misses: dict[bool, list[str]] = {True: [], False: []}
    wrong = total = answered = 0
    for path in sorted(folder.glob("*.toml")):
        store = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), Store)
        now = datetime.now(UTC)
        questions = [(write(ask, now), *rest) for ask, *rest in store.of(half)]
        async with open_ground() as ground:
            for note in store.notes:
                await ground.memory.add(make_node(note, now), insist=True)
            await ground.memory.linker_trigger()
            answers = await ground.ask([ask for ask, *_ in questions])
        for (ask, wanted, *unwanted), answer in zip(questions, answers, strict=True):
            is_right = fits(answer, wanted, *unwanted)
            right.append(is_right)
            total += bool(wanted)
            answered += bool(wanted) and is_right
            wrong += bool(wanted) and not is_right and bool(answer.citations)
            if not is_right:
                told = answer.text.splitlines()[0]
                misses[bool(wanted)].append(f"{path.stem}: {ask} -> {answer.route_used}: {told}")
    unheld = len(right) - total
    return [
        Figure(
            name="questions with a time, and of its surroundings: right",
            value=answered,
            of=total,
            least=0.85 * total,
            note=f"{wrong} wrong, {total - answered - wrong} declined",
            misses=tuple(misses[True]),
        ),
        Figure(
            name="what these stores do not hold: declined",
            value=sum(right) - answered,
            of=unheld,
            least=0.85 * unheld,
            misses=tuple(misses[False]),
        ),
    ]


def make_node(note: tuple[str, ...], now: datetime) -> Node:
    """The node of a line of ``notes``."""
    when, kind, text, *until = note
    ends = place(until[0], now).isoformat() if until else ""
    return Node(kind=kind, title=text, created_at=place(when, now).isoformat(), valid_to=ends)


def fits(answer: Response, wanted: str, unwanted: str = "") -> bool:
    """Whether an answer is the one that is wanted; an empty one is a refusal without sources."""
    if not wanted:
        return answer.route_used in ("", "nexus") and not answer.citations
    text = answer.text if wanted.startswith("*") else answer.text.splitlines()[0]
    has_other = bool(unwanted) and bool(re.search(unwanted, answer.text))
    return bool(answer.citations) and bool(re.search(wanted.lstrip("*"), text)) and not has_other


def place(when: str, now: datetime) -> datetime:
    """The moment at noon that ``m-3.12`` or ``d-1`` means."""
    found = _WHEN.fullmatch(when)
    assert found is not None, when
    if found["unit"] == "d":
        day = now - timedelta(days=int(found["count"]))
    else:
        months = now.year * 12 + now.month - 1 - int(found["count"])
        day = now.replace(year=months // 12, month=months % 12 + 1, day=int(found["day"] or 1))
    return day.replace(hour=12, minute=0, second=0, microsecond=0)


def write(text: str, now: datetime) -> str:
    """A question with its days and months as people write them."""

    def spell(found: re.Match[str]) -> str:
        day, form = place(found[0].strip("{}"), now), _WHEN.fullmatch(found[0].strip("{}"))
        assert form is not None
        if not form["day"]:
            return f"{day:%B}" if form["form"] != "us" else f"{day:%B %Y}"
        if form["form"] == "iso":
            return day.date().isoformat()
        return f"{day:%B} {day.day}" if form["form"] == "us" else f"{day.day} {day:%B}"

    return re.sub(r"\{[^}]+\}", spell, text)
