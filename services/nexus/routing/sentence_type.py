"""Whether a sentence is a question or a statement, as memory's answers tell them apart."""

import re

_GREETING = r"^(?:(?:so|and|but|well|hey|hello|hi|ok|okay)\b[,!\s]*)?"
_SUBJECT = r"(?:i|we|you|he|she|it|they|there|any|anyone|anybody|someone|somebody)\b"
_AUXILIARY = r"(?:is|are|am|was|were|does|did|do|has|had|have|should|shall|may|might)\b"

_PREPOSITION = (
    r"(?:on|in|at|to|as|by|of|for|from|with|after|before|under|since|until|till|into|about|through)"
)

_QUESTION = re.compile(
    rf"{_GREETING}(?:(?:{_PREPOSITION}\s+)?(?:who|whose|whom|what|which|when|where|why|how)(?:['’]?(?:s|re|d|ll))?\b"
    rf"(?!\s+(?:about\s+you|don['’]?t\s+you))|{_AUXILIARY}\s+{_SUBJECT}|{_AUXILIARY}.*\?\s*$"
    r"|(?:can|could|must|will|would)\s+(?:i|he|she|it|they|there|the(?!\s+team\b)|an?|this|that|these|our|my)\b.*\?\s*$)"
)
_STATEMENT = re.compile(
    r"^(?:i|we|he|she|it|they|there|the|an?|this|that|these|those|our|my|his|her|their|its|some|many|most|all|both)\b"
    r"|^\w+ing\s+(?:\w+\s+){0,2}?(?:is|are|was|were)\b"
)
_WISHED = re.compile(
    r"\?\s*$|\b(?:please|kindly|could|can|would|will\s+you|should|must|shall|needs?\s+to|have\s+to|want|need|like\s+to"
    r"|take\s+care)\b"
)


def is_question(sentence: str) -> bool:
    """Whether ``sentence`` asks for something: it begins as a question does, or ends with its mark."""
    return bool(_QUESTION.match(sentence.lower().strip())) or sentence.rstrip().endswith("?")


def is_statement(sentence: str) -> bool:
    """Whether ``sentence`` is a statement: it begins with its subject, and asks for nothing."""
    lower = sentence.lower().strip()
    return bool(_STATEMENT.match(lower)) and not _WISHED.search(lower)
