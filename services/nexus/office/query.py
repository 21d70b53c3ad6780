"""What a message asks of the office, read once: which things, of whom, when, in which state, and how told."""

import re
from collections.abc import Collection
from datetime import datetime
from enum import Enum

import msgspec

from shared.language.sayings import read_sayings
from shared.language.times.days import Period, find_past
from shared.language.times.time_phrases import NUMBERS
from shared.language.utterance import Act, Utterance
from shared.text.prose import find_terms

KIND_WAYS = read_sayings(__file__, "kinds")
STATE_WAYS = read_sayings(__file__, "states")
SHOW_WAYS = read_sayings(__file__, "shows")
COMMON = find_terms(" ".join(read_sayings(__file__, "common").words("words"))).keys()
MAX_READ = 600  # Characters of a message that are read
ALSO_WORDS = frozenset({"memory", "nexus", "gateway"})
"""Names of agents that mean something else, unless it is asked whether they are at work."""


class Kind(Enum):
    """What there is in the office."""

    LETTER = "letter"
    GOAL = "goal"
    AGENT = "agent"
    DEAD = "dead letter"
    APPROVAL = "request for approval"
    WAITING = "waiting"
    PLANNED = "planned"
    SPENDING = "spending"
    OVERVIEW = "overview"


HINTS = {
    "mail": Kind.LETTER,
    "goals": Kind.GOAL,
    "waiting": Kind.WAITING,
    "approve": Kind.WAITING,
    "queue": Kind.PLANNED,
    "schedule": Kind.PLANNED,
    "night_job": Kind.PLANNED,
    "spending": Kind.SPENDING,
}
"""What a message asks for that says it in no word, by the tool that it is most like."""
TOOLS = {
    Kind.LETTER: "mail",
    Kind.GOAL: "goals",
    Kind.AGENT: "goals",
    Kind.OVERVIEW: "goals",
    Kind.DEAD: "waiting",
    Kind.APPROVAL: "waiting",
    Kind.WAITING: "waiting",
    Kind.PLANNED: "queue",
    Kind.SPENDING: "spending",
}
"""The tool that tells of each."""
_NOUNS = (
    ("dead", Kind.DEAD),
    ("approval", Kind.APPROVAL),
    ("spending", Kind.SPENDING),
    ("finding", Kind.GOAL),
    ("letter", Kind.LETTER),
    ("waiting", Kind.WAITING),
    ("planned", Kind.PLANNED),
    ("goal", Kind.GOAL),
    ("agent", Kind.AGENT),
    ("overview", Kind.OVERVIEW),
    ("work", Kind.GOAL),
)
_NEWS = ("running", "up", "down", "idle")


class OfficeQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A message as a query: ``kind`` is None if no word of it says what is asked for.

    ``terms`` are the words, by their stems, of what it is about; ``agents`` those it names and ``without``
    those it leaves out. ``most`` is how many are wanted, 0 all.
    """

    kind: Kind | None
    terms: dict[str, str]
    period: Period | None = None
    agents: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    states: frozenset[str] = frozenset()
    shows: frozenset[str] = frozenset()
    most: int = 0
    only_asks: bool = False
    is_name: bool = False
    """Whether it is a mere name of something, and no sentence."""
    is_vague: bool = False
    """Whether its words mean ``kind`` only if the message is like no other."""


def read_query(said: Utterance, now: datetime, names: Collection[str]) -> OfficeQuery:
    """The query of a message at ``now``; ``names`` are those of the agents."""
    text = re.sub(r"(?i)\bcheck-?\s?(?:up|over)s?\b", "checkup", said.text[:MAX_READ])
    period = find_past(text, now)
    rest = text[: period.start] + " " + text[period.stop :] if period else text
    states = frozenset(name for name in STATE_NAMES if STATE_WAYS[name].search(rest))
    shows = frozenset(name for name in SHOW_NAMES if SHOW_WAYS[name].search(rest))
    left_out = SHOW_WAYS["without"].search(rest)
    lower = rest.lower()
    found = [
        name for name in names if re.search(rf"(?<![/\w.-]){re.escape(name)}(?:['’]?s)?(?![\w/])", lower)
    ]
    found = [each for each in found if each not in ALSO_WORDS or {"up", "down"} & states or "agent" in lower]
    without = [each for each in found if left_out and each in left_out["rest"].lower()]
    agents = [each for each in found if each not in without]
    noun, kind = next(
        ((noun, kind) for noun, kind in _NOUNS if KIND_WAYS[noun].search(said.text[:MAX_READ])), ("", None)
    )
    if kind is Kind.LETTER and {"failed"} & states and agents:
        kind = Kind.DEAD
    states = states - {"running"} if period else states
    if named := bool(agents) and kind in (None, Kind.OVERVIEW):
        kind = Kind.GOAL if period or {"done", "failed", "cancelled"} & states else Kind.AGENT
    elif kind is Kind.AGENT and (period or {"done", "failed"} & states):
        kind = Kind.GOAL
    terms = {stem: word for stem, word in find_terms(rest).items() if stem not in COMMON}
    stated = find_terms(" ".join(found[0] for name in states for found in STATE_WAYS[name].finditer(rest)))
    terms = {
        stem: word
        for stem, word in terms.items()
        if stem not in stated and word.lower() not in (*names, *(f"{each}s" for each in names))
    }
    number = SHOW_WAYS["number"].search(rest)
    most = 0
    if {"newest", "oldest"} & shows:
        many = re.search(r"(?i)\b(?:letters|mails|emails|messages|goals|tasks|runs|reports|results)\b", rest)
        most = _read_number(number["number"]) if number else 5 if many else 1
        terms = {
            stem: word
            for stem, word in terms.items()
            if not number or word.lower() != number["number"].lower()
        }
    if named and terms:
        kind = None  # "what did scout say about the prices?"
    if kind is Kind.SPENDING and terms:
        kind = None  # "what does the sensor cost?" asks of no budget
        terms |= find_terms(" ".join(found[0] for found in KIND_WAYS["spending"].finditer(rest)))
    return OfficeQuery(
        kind=kind,
        terms=terms,
        period=period,
        agents=tuple(agents),
        without=tuple(without),
        states=states,
        shows=shows | ({"finding"} if KIND_WAYS["finding"].search(text) else set()),
        most=most,
        only_asks=_only_asks(said),
        is_name=said.act is not Act.QUESTION and not SHOW_WAYS["asks"].match(said.text),
        is_vague=named or noun in ("work", "overview", "agent", "waiting"),
    )


STATE_NAMES = (
    "failed",
    "cancelled",
    "running",
    "done",
    "findings",
    "unanswered",
    "paused",
    "down",
    "up",
    "idle",
    "stuck",
)
SHOW_NAMES = ("count", "tally", "newest", "oldest", "why", "next", "comes", "ended", "jobs", "shown_after")


def _read_number(text: str) -> int:
    return int(text) if text.isdigit() else int(NUMBERS[text.lower()])


def _only_asks(said: Utterance) -> bool:
    """Whether a message asks to be told something, and orders, tells and forbids nothing."""
    text = said.text
    if said.act in (Act.NEGATED, Act.QUOTED, Act.HYPOTHETICAL) or SHOW_WAYS["asks_else"].search(text):
        return False
    if SHOW_WAYS["shown_after"].search(text):
        return True
    return not SHOW_WAYS["orders"].match(text) and (
        said.act is Act.QUESTION
        or (said.act is not Act.STATEMENT and bool(SHOW_WAYS["asks"].match(text)))
        or _is_name(said)
    )


def _is_name(said: Utterance) -> bool:
    """Whether a message is a mere name of something: "dead letters", "the goal about the kiln"."""
    if said.act is Act.STATEMENT and (not said.is_part or SHOW_WAYS["verb"].search(said.text)):
        return False
    first = SHOW_WAYS["courtesy"].sub("", said.text, count=1).split(maxsplit=1)
    begins = bool(first) and find_terms(first[0]).keys() <= COMMON
    return (bool(SHOW_WAYS["names"].match(said.text)) or begins) and not SHOW_WAYS["orders_within"].search(
        said.text
    )
