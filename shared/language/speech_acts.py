"""What a message does: it asks, requests, tells, or forbids. Effects follow only from requests."""

import re
from enum import Enum

from shared.language.sayings import read_sayings
from shared.text.prose import split_sentences

WAYS = read_sayings(__file__, "speech_acts")
LETTER = WAYS["letter"]


class Act(Enum):
    """What a message does."""

    REQUEST = "request"
    QUESTION = "question"
    STATEMENT = "statement"
    NEGATED = "negated"
    HYPOTHETICAL = "hypothetical"
    QUOTED = "quoted"


_ACTS = (
    ("negated", Act.NEGATED),
    ("not_later", Act.NEGATED),
    ("polite", Act.REQUEST),
    ("order", Act.REQUEST),
    ("have_done", Act.REQUEST),
    ("tag", Act.REQUEST),
    ("hypothetical", Act.HYPOTHETICAL),
    ("beside", Act.REQUEST),
    ("question", Act.QUESTION),
    ("wish", Act.REQUEST),
    ("orders_after", Act.REQUEST),
    ("asked", Act.QUESTION),
    ("noted", Act.STATEMENT),
    ("asks_after", Act.QUESTION),
    ("statement", Act.STATEMENT),
)
"""What a sentence does that says a thing in one of these ways; the first one counts."""


def find_act(text: str) -> Act:
    """What ``text`` does, by the form of its sentences: a request in any of them counts, unless one forbids.

    A sentence that no rule knows is a request if it begins with neither its subject nor a question word.
    """
    if letter := LETTER.match(text):
        text = letter[0]
    if WAYS["quoted"].search(text):
        return Act.QUOTED
    limited = WAYS["limited"].match(text[:2_000])
    if limited and not re.search(rf"(?i)\b{limited['verb']}\b", limited["head"]):
        text = limited["head"]
    acts = [find_sentence_act(sentence) for sentence in split_sentences(text[:2_000])]
    order = (Act.NEGATED, Act.REQUEST, Act.QUESTION, Act.HYPOTHETICAL, Act.STATEMENT)
    return next((act for act in order if act in acts), Act.STATEMENT)


def find_sentence_act(sentence: str) -> Act:
    """What one sentence does."""
    if confirm := WAYS["confirm"].search(sentence):
        act = find_sentence_act(sentence[: confirm.start()])
        return act if act in (Act.REQUEST, Act.NEGATED) else Act.QUESTION
    return next((act for way, act in _ACTS if WAYS[way].search(sentence)), Act.REQUEST)
