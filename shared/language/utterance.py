"""A message of a person, read once: its words, what it does, whether it is a question."""

import re
from enum import Enum
from functools import cached_property, lru_cache

from shared.language.sayings import read_sayings
from shared.language.times.days import ordinal
from shared.language.times.time_parser import Phrases, choose
from shared.text.prose import split_sentences

ACT_WAYS = read_sayings(__file__, "speech_acts")
LETTER = ACT_WAYS["letter"]


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
    if ACT_WAYS["quoted"].search(text):
        return Act.QUOTED
    limited = ACT_WAYS["limited"].match(text[:2_000])
    if limited and not re.search(rf"(?i)\b{limited['verb']}\b", limited["head"]):
        text = limited["head"]
    acts = [find_sentence_act(sentence) for sentence in split_sentences(text[:2_000])]
    order = (Act.NEGATED, Act.REQUEST, Act.QUESTION, Act.HYPOTHETICAL, Act.STATEMENT)
    return next((act for act in order if act in acts), Act.STATEMENT)


def find_sentence_act(sentence: str) -> Act:
    """What one sentence does."""
    if confirm := ACT_WAYS["confirm"].search(sentence):
        act = find_sentence_act(sentence[: confirm.start()])
        return act if act in (Act.REQUEST, Act.NEGATED) else Act.QUESTION
    return next((act for way, act in _ACTS if ACT_WAYS[way].search(sentence)), Act.REQUEST)


WAYS = read_sayings(__file__, "utterance")
MAX_PART = 12  # The most words of a message that is read as a part of a sentence
REFERRING = 4  # The first words of a statement, of which one refers if it goes on from what was said


class Utterance:
    """A message: what is asked of it is found when it is first asked, and kept."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.bare = text.strip()
        self.length = len(text.split())  # in words
        self.asks = text.rstrip().endswith("?")

    @cached_property
    def spelled(self) -> str:
        """As it is spelled in full: of "whats on tmrw" it is "what's on tomorrow"."""
        return WAYS.rewrite("short_for", self.text)

    @cached_property
    def plain(self) -> str:
        """Spelled in full, in lower case, without the punctuation that has no meaning in a short message."""
        lower = self.spelled.lower().replace("’", "'").replace("a.m.", "am").replace("p.m.", "pm")
        return " ".join(re.sub(r"(?<!\d)[.,:;!?\"()]+|[.,;!?\"()]+(?!\d)", " ", lower).split())

    @cached_property
    def act(self) -> Act:
        """What it does: it asks, requests, tells, forbids, or quotes."""
        return find_act(self.spelled)

    @cached_property
    def times(self) -> Phrases:
        """The phrases in it that say when, and what it says besides."""
        return choose(self.plain)

    @cached_property
    def is_time(self) -> bool:
        """Whether it names times and nothing else."""
        if WAYS["times"].fullmatch(self.plain) and WAYS["time"].search(self.plain):
            return True
        # "in a fortnight", "half nine", "first thing on Monday"
        return bool(self.times.chosen) and not WAYS["beside_time"].sub(" ", self.times.rest).strip()

    @cached_property
    def clock(self) -> str:
        """The time of day that it names, as 17:00; empty if there is none."""
        if WAYS["noon"].search(self.plain):
            return "12:00"
        found = next(
            (each for each in WAYS["at"].finditer(self.plain) if each["minute"] or each["half"]), None
        )
        if not found or int(found["hour"]) > 24:
            return ""
        hour = int(found["hour"])
        if found["half"]:
            hour = hour % 12 + (12 if found["half"] == "pm" else 0)
        return f"{hour:02d}:{found['minute'] or '00'}"

    @cached_property
    def ordinal(self) -> int:
        """The first number by place, or in digits, that it names; 0 if there is none."""
        words = self.plain.split()
        return next((ordinal(word) for word in words if word.isdigit() or WAYS["nth"].fullmatch(word)), 0)

    @cached_property
    def is_part(self) -> bool:
        """Whether it is no sentence: "to pay the tuner, Monday", "the one in lab 2", "from May sorry"."""
        short = self.length <= MAX_PART
        return short and bool(WAYS["part"].match(self.text)) and not WAYS["asks"].search(self.text)

    @cached_property
    def has_pronoun(self) -> bool:
        """Whether a word of it stands for something that was named before."""
        return bool(WAYS["pronoun"].search(self.text))

    @cached_property
    def joins(self) -> bool:
        """Whether it begins as what goes on: "and", "but"."""
        return bool(WAYS["joins"].search(self.text))

    @cached_property
    def refers(self) -> bool:
        """Whether it goes on from what was said: "no, it's on the 5th", "and she left"."""
        begins = read_utterance(
            " ".join(self.text.split()[:REFERRING])
        )  # "Milo has to take his pill" names whose
        return begins.has_pronoun or begins.joins or bool(WAYS["denies"].match(self.text))


@lru_cache(1_024)
def read_utterance(text: str) -> Utterance:
    """The message ``text``; asked again, the same one."""
    return Utterance(text)


TYPE_WAYS = read_sayings(__file__, "sentence_type")


def is_question(sentence: str) -> bool:
    """Whether ``sentence`` asks for something: it begins as a question does, or ends with its mark."""
    return bool(TYPE_WAYS["question"].match(sentence.lower().strip())) or sentence.rstrip().endswith("?")


def is_statement(sentence: str) -> bool:
    """Whether ``sentence`` is a statement: it begins with its subject, and asks for nothing."""
    lower = sentence.lower().strip()
    return bool(TYPE_WAYS["statement"].match(lower)) and not TYPE_WAYS["wished"].search(lower)
