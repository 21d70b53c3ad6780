"""The kind of a passage: by its form, by cue words in English and German, and by its likeness to examples.

The cues are in ``kinds.toml``, the examples in ``kind_examples.txt``: a kind and a sentence in each line.
"""

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

CLEAR = 2.5
"""The score from which one kind is clear, if it leads by LEAD; else the examples have a say."""
LEAD = 1.0
HEADED = 2.95
"""What the nearest heading that names a kind counts: clear if nothing else speaks, and below a strong cue."""
DATED = 0.6
"""What it counts for an event that the passage stands under a date."""
PRIOR = 0.9
"""What the kind counts that a passage has if nothing speaks for another."""
LIKENESS = 6.0
"""What it counts that a passage is like the examples of a kind: 1 for these, 0 for the others."""
RIDGE = 1.0
"""How much smaller weights are preferred to a closer fit. Of .3 to 4, and LIKENESS of 3 to 8, on sentences of
public notes that are not among the examples, these were among the best; 2 and 5 gave 5 % fewer."""

MAX_READ = 600
"""The characters in which cues are looked for: what comes later says little about the kind."""

OPEN = 4.0
"""What it counts for a task that a passage is a question: it is open, and states nothing."""

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


@cache
def list_examples() -> tuple[tuple[str, str], ...]:
    """The examples, each with its kind."""
    lines = Path(__file__).with_name("kind_examples.txt").read_text("utf-8").splitlines()
    return tuple((kind, text) for kind, _, text in (line.partition("|") for line in lines))


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


class Likeness:
    """How like a text is to the examples of each kind: a linear fit by ridge regression to their vectors.

    Each kind has the same weight, however many examples it has.
    """

    def __init__(self, examples: NDArray[np.float32]) -> None:
        """``examples`` are the unit vectors of ``list_examples``."""
        kinds = np.array([ORDER.index(kind) for kind, _ in list_examples()])
        self._mean = examples.mean(axis=0)
        centred = (examples - self._mean).astype(np.float64)
        wanted = np.eye(len(ORDER))[kinds]
        weighted = centred.T / np.bincount(kinds)[kinds] * len(kinds) / len(ORDER)
        ridge = RIDGE * np.eye(centred.shape[1])
        self._weights = np.linalg.solve(weighted @ centred + ridge, weighted @ (wanted - wanted.mean(axis=0)))

    def add(self, scores: Scores, vector: NDArray[np.float32]) -> Scores:
        """The scores with what the likeness of a text adds; ``vector`` is its unit vector."""
        like = dict(zip(ORDER, ((vector - self._mean) @ self._weights).tolist(), strict=True))
        return {kind: score + LIKENESS * like.get(kind, 0.0) for kind, score in scores.items()}
