"""Whether a sentence is a question or a statement, as memory's answers tell them apart."""

from shared.language.sayings import read_sayings

WAYS = read_sayings(__file__, "sentence_type")


def is_question(sentence: str) -> bool:
    """Whether ``sentence`` asks for something: it begins as a question does, or ends with its mark."""
    return bool(WAYS["question"].match(sentence.lower().strip())) or sentence.rstrip().endswith("?")


def is_statement(sentence: str) -> bool:
    """Whether ``sentence`` is a statement: it begins with its subject, and asks for nothing."""
    lower = sentence.lower().strip()
    return bool(WAYS["statement"].match(lower)) and not WAYS["wished"].search(lower)
