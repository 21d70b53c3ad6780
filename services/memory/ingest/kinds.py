"""The kind of a passage: by its form, by cue words in English and German, and by the nearest examples.

The cues and examples are in ``kinds.toml``.
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
"""The score from which one kind is clear, if it leads by LEAD; else the nearest examples have a say."""
LEAD = 1.0
HEADED = 2.0
"""What the nearest heading that names a kind counts."""
DATED = 0.6
"""What it counts for an event that the passage stands under a date."""
PRIOR = 0.9
"""What the kind counts that a passage has if nothing speaks for another."""
NEARNESS = 12.0
"""What a cosine counts that is higher by 1 than the mean of the kinds: .05 to .1 are usual."""

MAX_READ = 600
"""The characters in which cues are looked for: what comes later says little about the kind."""

ORDER = ("decision", "task", "preference", "goal", "pattern", "observation", "event", "fact")
"""Of equal scores the first kind wins."""

_VERSION = re.compile(r"\[?v?\d+\.\d+")
_ASIDE = re.compile(r"`[^`]*`|\"[^\"\n]*\"|https?://\S+|!?\[\[|\]\]|(?<!\w)#[\w/-]+|[*_]{2}")

Scores = dict[str, float]


class _Cues(msgspec.Struct, frozen=True):
    headings: re.Pattern[str]
    cues: tuple[tuple[float, re.Pattern[str]], ...]
    examples: tuple[str, ...]


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
            examples=tuple(rules[kind]["examples"]),
        )
        for kind in ORDER
    }


def list_examples() -> list[str]:
    """All example sentences, kind by kind in ORDER."""
    return [sentence for kind in ORDER for sentence in _load()[kind].examples]


def find_headed_kind(headings: Sequence[str]) -> str:
    """The kind that the nearest heading names, outermost first given; "" if none does."""
    for heading in reversed(headings):
        if _VERSION.match(heading):  # of a changelog
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


def add_nearness(scores: Scores, vector: NDArray[np.float32], examples: NDArray[np.float32]) -> Scores:
    """The scores with what the nearest example of each kind adds; ``examples`` are the unit vectors of
    ``list_examples``.
    """
    cosines = examples @ vector
    nearest, begin = Scores(), 0
    for kind in ORDER:
        end = begin + len(_load()[kind].examples)
        nearest[kind] = float(cosines[begin:end].max())
        begin = end
    mean = sum(nearest.values()) / len(nearest)
    return {kind: score + NEARNESS * (nearest.get(kind, mean) - mean) for kind, score in scores.items()}
