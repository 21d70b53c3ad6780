"""What kind of thing a text is, by the words in it; whole words, so that the latest is no test."""

import re
from collections.abc import Sequence

from shared.contracts.memory import KINDS

HEADINGS = {
    "decision": "decision decisions decided adr adrs",
    "goal": "goal goals objective objectives target targets aim aims",
    "preference": "preference preferences prefers likes dislikes",
    "pattern": "pattern patterns lesson lessons rule rules convention conventions",
    "event": "event events timeline incident incidents changelog",
    "observation": "observation observations noticed observed",
    "fact": "fact facts",
}
"""Words of headings; the nearest heading decides, whatever the text under it says."""

WORDS = {
    "decision": "decided chose picked",
    "goal": "goal goals target targets aim aims",
    "preference": "prefers prefer likes hates",
    "pattern": "pattern patterns lesson lessons always",
    "event": "happened deployed merged",
    "observation": "noticed observed saw\\s+that",
}
"""Words of texts; the first kind that has one of its words there is it."""

REACH = 500
"""The characters that one word speaks for: that a long text mentions a target once makes it no goal."""

IMPORTANCE = {
    "decision": 0.65,
    "goal": 0.6,
    "preference": 0.6,
    "pattern": 0.6,
    "fact": 0.5,
    "event": 0.45,
    "observation": 0.4,
}
"""What a kind is worth to begin with: below .7, which is for what somebody marked as important."""

DEFAULT_IMPORTANCE = 0.5


def _any_of(words: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(words.split(' '))})\b", re.IGNORECASE)


_IN_HEADING = {kind: _any_of(words) for kind, words in HEADINGS.items()}
_IN_TEXT = {kind: _any_of(words) for kind, words in WORDS.items()}


def classify(text: str, headings: Sequence[str] = (), default: str = "fact") -> str:
    """The kind of ``text`` under ``headings`` (outermost first); ``default`` where no word tells."""
    for heading in reversed(headings):
        for kind, pattern in _IN_HEADING.items():
            if pattern.search(heading):
                return kind
    counts = ((kind, len(pattern.findall(text))) for kind, pattern in _IN_TEXT.items())
    return next((kind for kind, count in counts if count * REACH >= max(1, len(text.strip()))), default)


def known_kind(value: object) -> str:
    """The kind that ``value`` names, else ""; "Decision" and "decisions" are "decision"."""
    text = value.strip().lower() if isinstance(value, str) else ""
    return next((kind for kind in (text, text.removesuffix("s")) if kind in KINDS), "")


def weigh(kind: str) -> float:
    """The importance that a text of ``kind`` starts with."""
    return IMPORTANCE.get(kind, DEFAULT_IMPORTANCE)
