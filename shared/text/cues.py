"""What a question asks about by its words: the past, or what the office did."""

import re

_PAST = re.compile(
    r"\bused\s+to\b(?!\s+\w+ing\b)|\b(?:previous(?:ly)?|former(?:ly)?|originally|at\s+first|back\s+then|in\s+the\s+past"
    r"|history\s+of|no\s+longer|the\s+old|any\s*more)\b"
    r"|\bbefore\s*(?:that|then|now|the\s+change|it\s+changed|[?.!]*\s*$)"
    r"|\b(?:did|was|were|had)\b.{1,200}?\bbefore\b"
    r"|\b(?:what|who|whom|whose|which|when|where|how)\s+(?:[\w'’-]+\s+){0,4}?(?:was|were)\b(?!\s+(?:[\w'’-]+\s+){0,4}?"
    r"(?:\w{2,}ed|said|found|done|made|built|written|drawn|taken|chosen|set|sent|told|given|born|wrong)\b)",
    re.IGNORECASE,
)
"""Words that ask for the past. "What was decided" is left out: it asks for what holds."""


def asks_past(text: str) -> bool:
    """Whether ``text`` asks for what held once: "what was", "before", "used to", "previously"."""
    return bool(_PAST.search(text))


_AGENTS = r"(?:conductor|engineer|scout|critic|cortex|frontier|nexus)"
_WORK = re.compile(
    rf"\b(?:goals?|tasks?|check-?\s?ups?|episodes?|overnight|happened|worked\s+on|{_AGENTS}"
    r"|what\s+(?:did|has|have)\s+(?:you|the\s+(?:office|team|agents?)))\b",
    re.IGNORECASE,
)


def asks_about_work(text: str) -> bool:
    """Whether ``text`` asks what the office did: about goals, tasks, check-ups, or one of its agents."""
    return bool(_WORK.search(text))
