"""Whether a sentence that a model wrote is supported by the texts that it cites."""

import re

from shared.text.words import find_terms

_FACTS = re.compile(r"\d[\d.,]*|\b[A-Z][\w-]*[A-Z0-9][\w-]*\b")
"""What a sentence must have from its sources: numbers, and names such as GPT-5."""
LEAST_SHARED = 0.5
"""The least share of a sentence's words that its sources must have."""


def is_supported(sentence: str, known: str) -> bool:
    """Whether ``known``, all that it cites, has its numbers and names, and half of its words."""
    if any(fact.rstrip(".,") not in known for fact in _FACTS.findall(sentence)):
        return False
    said, held = find_terms(sentence).keys(), find_terms(known).keys()
    return bool(said) and len(said & held) >= LEAST_SHARED * len(said)
