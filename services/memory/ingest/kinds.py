"""The kinds of a file's pieces: by form, by cue words, by the embedding or by the model that is set.

The cues are in ``kinds.toml``. Where rules are not clear, the model that is set chooses, if it is to; else
likeness to examples has a say, by the classifier ``kinds``.
"""

import asyncio
import re
import tomllib
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from services.memory.classifier import ModelLabels
from services.memory.ingest.pieces import SEPARATOR, Document, Piece
from shared.reasoning.model import ModelSession
from shared.text.display import excerpt

if TYPE_CHECKING:
    from services.memory.storage.tables import Vectors

CLEAR = 2.5  # The score from which one kind is clear, if it leads by LEAD; else the examples have a say
LEAD = 1.0
HEADED = 2.95
"""What the nearest heading that names a kind counts: clear if nothing else speaks, and below a strong cue."""
DATED = 0.6  # What it counts for an event that the passage stands under a date
PRIOR = 0.9  # What the kind counts that a passage has if nothing speaks for another
LIKENESS = 6.0  # What it counts that a passage is like the examples of a kind: 1 for these, 0 for the others

MAX_READ = 600  # The characters in which cues are looked for: what comes later says little about the kind

OPEN = 4.0  # What it counts for a task that a passage is a question: it is open, and states nothing

ORDER = ("decision", "task", "preference", "goal", "pattern", "observation", "event", "fact")
"""Of equal scores the first kind wins."""

_QUESTION = re.compile(
    r"(?i)^\W*(?:\d+[.)]\s+)?(?:who|whom|whose|what|which|when|where|why|how|should|shall|do|does|did|is|are|can"
    r"|could|may|will|would|have|has|wer|was|wann|wo|warum|wie|welche\w*|sollen|soll|haben|ist|sind)\b"
    r"[^.!?]*\?\W*$"
)
_VERSION = re.compile(
    r"(?i)\W*(?:(?:version|release|v)\s*\d+(?:\.\d+)*\b"
    r"|\d+(?:\.\d+)+[\w.+-]*\W*(?:$|[-–—:(]|\d|released|unreleased|yanked))|\W*unreleased\b"
)
"""The heading of a version in a changelog; "3.2 Installation" is a chapter."""
_ASIDE = re.compile(r"`[^`]*`|\"[^\"\n]*\"|https?://\S+|!?\[\[|\]\]|(?<!\w)#[\w/-]+|[*_]{2}")

Scores = dict[str, float]


class _Cues(msgspec.Struct, frozen=True):
    headings: re.Pattern[str]
    cues: tuple[tuple[float, re.Pattern[str]], ...]


@cache
def _load() -> dict[str, _Cues]:
    rules: dict[str, Any] = tomllib.loads(Path(__file__).with_name("kinds.toml").read_text("utf-8"))
    words = {name.upper(): "|".join(listed.split()) for name, listed in rules["words"].items()}
    names = re.compile(rf"\b(?:{'|'.join(words)})\b")

    def compile_cue(cue: str) -> re.Pattern[str]:
        return re.compile(names.sub(lambda match: f"(?:{words[match[0]]})", cue), re.IGNORECASE)

    return {
        kind: _Cues(
            headings=compile_cue(rf"\b(?:{'|'.join(rules[kind]['headings'].split())})\b"),
            cues=tuple((weight, compile_cue(cue)) for weight, cue in rules[kind]["cues"]),
        )
        for kind in ORDER
    }


def is_version(heading: str) -> bool:
    """Whether a heading names a version, as those of a changelog do."""
    return _VERSION.match(heading) is not None


def find_headed_kind(headings: Sequence[str]) -> str:
    """The kind that the nearest heading names, outermost first given; "" if none does."""
    for heading in reversed(headings):
        if is_version(heading):
            return "event"
        for kind in ORDER:
            if _load()[kind].headings.search(heading):
                return kind
    return ""


def score_kinds(
    text: str, headings: Sequence[str] = (), *, dated: bool = False, default: str = "fact"
) -> Scores:
    """What speaks for each kind of a passage: its cues, its nearest heading, and whether it is dated.

    ``default`` is the kind if nothing does.
    """
    clean = _ASIDE.sub(" ", text[:MAX_READ]).strip()
    scores = {kind: sum(weight for weight, cue in _load()[kind].cues if cue.search(clean)) for kind in ORDER}
    scores[default] = scores.get(default, 0.0) + PRIOR
    scores["event"] += DATED * dated
    scores["task"] += OPEN * (default != "episodic" and bool(_QUESTION.match(clean)))
    if headed := find_headed_kind(headings):
        scores[headed] += HEADED
    return scores


def choose_kind(scores: Scores) -> str:
    """The kind with the highest score."""
    return max(scores, key=lambda kind: (scores[kind], -ORDER.index(kind) if kind in ORDER else -len(ORDER)))


def is_clear(scores: Scores) -> bool:
    """Whether one kind is clear without comparing meanings."""
    second, first = sorted(scores.values())[-2:]
    return first >= CLEAR and first - second >= LEAD


MAX_PIECES = 40  # The pieces of one call: small models lose count of longer lists
MAX_CHARACTERS = 600  # What a call has of one piece: what comes later says little about its kind

KINDS = Literal["decision", "task", "preference", "goal", "pattern", "observation", "event", "fact"]

_ORDER = """You sort texts of a team's notes into kinds. The kinds:
decision: what was settled, who is in charge of something from now on, what is given up
task: what a person has to do once
preference: what a person likes, wants or wants to have done differently
goal: what is to be reached, with or without a day
pattern: a rule of the house, advice, what is always or never done
observation: what was noticed about how things go, a tendency
event: what happened once
fact: what is so, also times of day, numbers, and who owns what
Answer with the kind of each text as its label, by its number."""


class ModelKinds:
    """Asks the small model for kinds, within the budgets of memory."""

    def __init__(self, models: ModelSession) -> None:
        self._labels = ModelLabels(models, _ORDER, KINDS, MAX_PIECES)

    @property
    def chosen(self) -> int:
        """The pieces whose kind the model chose since the start."""
        return self._labels.chosen

    async def find(self, pieces: Sequence[Piece]) -> list[str]:
        """The kind of each piece; "" where the model gave none."""
        return await self._labels.find(
            [excerpt(SEPARATOR.join([*piece.heading, piece.body]), MAX_CHARACTERS) for piece in pieces]
        )


ALONE = 0.5
"""By how much a kind must be likelier than the default if only its likeness to examples speaks for it."""

OF_THE_OFFICE = frozenset({"preference", "goal", "pattern"})
"""What agents are briefed with as the wishes and rules of the people they work for. What people write
to each other is none of that by rules: of 663 messages between two friends 155 were, as "I love spending time
with friends"."""

_PROMISE = re.compile(r"(?i)\b(?:i|we)(?:['’]ll|\s+will|\s+shall)\b")
"""What decides nothing among people: "I'll let you know"."""

Classify = Callable[[Sequence[str], "Vectors"], Awaitable["Vectors"]]


def score_piece(piece: Piece) -> Scores:
    """What speaks for each kind of a piece that does not state its kind, by rules alone."""
    text = piece.prose or piece.body
    text = _PROMISE.sub(" ", text) if piece.said else text
    scores = score_kinds(text, piece.heading, dated=bool(piece.date), default=piece.default_kind)
    if not piece.said:
        return scores
    unlikely = OF_THE_OFFICE if is_clear(scores) else {*OF_THE_OFFICE, "decision"}
    return {kind: score for kind, score in scores.items() if kind not in unlikely}


def _score_all(pieces: Sequence[Piece]) -> list[Scores]:
    return [Scores() if piece.kind else score_piece(piece) for piece in pieces]


def lean(told: Scores, found: Scores, default: str) -> Scores:
    """The scores that likeness ``found``, if it is sure enough of a kind for which nothing was ``told``."""
    kind = choose_kind(found)
    unsure = not told.get(kind, 0.0) and found[kind] - found.get(default, 0.0) < ALONE
    return {**found, default: found[kind] + 1} if unsure else found


class KindChooser:
    """Gives pieces their kinds: by rules and, if it is set, by ``model`` before they are stored; what both
    leave unclear is compared to the examples once it has its vector, by ``settle``.

    ``classify`` scores texts with their vectors by the classifier ``kinds``, a column for each of ORDER.
    """

    def __init__(self, classify: Classify, model: ModelKinds | None = None) -> None:
        self._classify = classify
        self._model = model

    async def choose(self, document: Document) -> Document:
        """The document with the kind of every piece that is clear; the others keep none."""
        scores = await asyncio.to_thread(_score_all, document.pieces)
        unclear = [place for place, found in enumerate(scores) if found and not is_clear(found)]
        found_by_model = (
            await self._model.find([document.pieces[place] for place in unclear]) if self._model else []
        )
        kinds = {place: kind for place, kind in zip(unclear, found_by_model, strict=False) if kind}
        open_places = set(unclear) - kinds.keys()
        pieces = tuple(
            piece
            if place in open_places
            else msgspec.structs.replace(piece, kind=piece.kind or kinds.get(place) or choose_kind(found))
            for place, (piece, found) in enumerate(zip(document.pieces, scores, strict=True))
        )
        return msgspec.structs.replace(document, pieces=pieces)

    async def settle(self, pieces: Sequence[Piece], texts: Sequence[str], vectors: "Vectors") -> list[str]:
        """The kinds of pieces that are unclear; ``texts`` and ``vectors`` are those of their nodes."""
        if not pieces:
            return []
        likeness = await self._classify(texts, vectors)
        return await asyncio.to_thread(_lean_all, pieces, likeness.tolist())


def _lean_all(pieces: Sequence[Piece], likeness: Sequence[Sequence[float]]) -> list[str]:
    kinds = []
    for piece, row in zip(pieces, likeness, strict=True):
        scores, like = score_piece(piece), dict(zip(ORDER, row, strict=True))
        found = {kind: score + LIKENESS * like.get(kind, 0.0) for kind, score in scores.items()}
        kinds.append(choose_kind(lean(scores, found, piece.default_kind)))
    return kinds
