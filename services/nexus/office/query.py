"""What a message asks of the office, read once: which things, of whom, when, in which state, and how told."""

import re
from collections.abc import Collection
from datetime import datetime
from enum import Enum

import msgspec

from shared.language.sayings import read_sayings
from shared.language.times.days import ordinal
from shared.language.times.spans import Period, find_past
from shared.language.times.time_phrases import NUMBERS
from shared.language.utterance import Act, Utterance, find_sentence_act
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
_VAGUE = ("work", "overview", "waiting")
_NAMED = re.compile(r"(?i)\b(?:agents|colleagues)\b")


class OfficeQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A message as a query: ``kind`` is None if no word of it says what is asked for.

    ``terms`` are the words, by their stems, of what it is about; ``agents`` those it names and ``without``
    those it leaves out. ``most`` is how many are wanted, 0 all; ``place`` which one from the newest, 0 none.
    """

    kind: Kind | None
    terms: dict[str, str]
    period: Period | None = None
    agents: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    states: frozenset[str] = frozenset()
    shows: frozenset[str] = frozenset()
    most: int = 0
    place: int = 0
    only_asks: bool = False
    is_name: bool = False
    """Whether it is a mere name of something, and no sentence."""
    is_vague: bool = False
    """Whether its words mean ``kind`` only if the message is like no other."""


def read_query(said: Utterance, now: datetime, names: Collection[str]) -> OfficeQuery:
    """The query of a message at ``now``; ``names`` are those of the agents."""
    text = re.sub(r"(?i)\bcheck-?\s?(?:up|over)s?\b", "checkup", said.spelled[:MAX_READ])
    period = find_past(text, now)
    rest = text[: period.start] + " " + text[period.stop :] if period else text
    states = frozenset(name for name in STATE_NAMES if STATE_WAYS[name].search(rest))
    shows = frozenset(name for name in SHOW_NAMES if SHOW_WAYS[name].search(rest))
    if KIND_WAYS["finding"].search(text):
        shows |= {"finding"}
    if "failed" in states and SHOW_WAYS["tests"].search(text):
        shows |= {"tests"}
    agents, without = _find_agents(rest, names, states)
    noun, kind = next(((noun, kind) for noun, kind in _NOUNS if KIND_WAYS[noun].search(text)), ("", None))
    if kind is None and ({"just", "tests"} & shows or (period and "failed" in states)):
        kind = Kind.GOAL
    named = bool(agents) and kind in (None, Kind.OVERVIEW)
    kind = _narrow(Kind.AGENT if named else kind, states, agents, is_over=period is not None)
    states = states - {"running"} if period else states
    most, number = _read_most(rest, shows)
    terms = _find_terms(_drop_asides(rest), states, {*names, *(f"{each}s" for each in names), number})
    if kind in (Kind.SPENDING, Kind.PLANNED):
        terms = {stem: word for stem, word in terms.items() if not KIND_WAYS[noun].fullmatch(word)}
    shows = shows if terms else shows - {"price"}  # "what did the night cost?"
    if terms and (named or kind is Kind.SPENDING):
        # "what did scout say about the prices?"; "what does the sensor cost?" asks of no budget
        is_told = KIND_WAYS["letter"].search(text)  # "it was in a letter"
        costs = KIND_WAYS["spending"].finditer(rest) if kind is Kind.SPENDING and not is_told else ()
        terms |= find_terms(" ".join(found[0] for found in costs))
        kind = Kind.LETTER if is_told else None
    return OfficeQuery(
        kind=kind,
        terms=terms,
        period=period,
        agents=agents,
        without=without,
        states=states,
        shows=shows,
        most=most,
        place=_read_place(rest),
        only_asks=_only_asks(said),
        is_name=said.act is not Act.QUESTION and not SHOW_WAYS["asks"].match(said.text),
        is_vague=named or noun in _VAGUE or (noun == "agent" and not _NAMED.search(text)),
    )


def _find_agents(
    rest: str, names: Collection[str], states: frozenset[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The agents that are named, and those of them that are left out."""
    lower, left_out = rest.lower(), SHOW_WAYS["without"].search(rest)
    found = [
        name for name in names if re.search(rf"(?<![/\w.-]){re.escape(name)}(?:['’]?s)?(?![\w/])", lower)
    ]
    found = [each for each in found if each not in ALSO_WORDS or {"up", "down"} & states or "agent" in lower]
    without = tuple(each for each in found if left_out and each in left_out["rest"].lower())
    return tuple(each for each in found if each not in without), without


def _narrow(
    kind: Kind | None, states: frozenset[str], agents: Collection[str], *, is_over: bool
) -> Kind | None:
    """What is meant by the noun of a message with its states: of an agent in the past what it did."""
    if kind is Kind.LETTER and "failed" in states and agents:
        return Kind.DEAD
    past = {"done", "failed", "cancelled"} if agents else {"done", "failed"}
    return Kind.GOAL if kind is Kind.AGENT and (is_over or past & states) else kind


def _read_most(rest: str, shows: frozenset[str]) -> tuple[int, str]:
    """How many of the newest or oldest are wanted, 0 all, and the word that says it."""
    if not {"newest", "oldest"} & shows:
        return 0, ""
    if number := SHOW_WAYS["number"].search(rest):
        word = number["number"].lower()
        return int(word) if word.isdigit() else int(NUMBERS[word]), word
    return 5 if SHOW_WAYS["many"].search(rest) else 1, ""


def _read_place(rest: str) -> int:
    """Which one from the newest is meant: 2 for "the last but one", 0 for none by its place."""
    found = [*SHOW_WAYS["place"].finditer(rest)]
    nth = next((ordinal(each["nth"].lower()) for each in found if each["nth"]), 1)
    return nth + sum(not each["nth"] for each in found) if found else 0


def _drop_asides(rest: str) -> str:
    """What asks, without the clauses that only tell: "what is done, I have to report upwards".

    One that is referred to by the next is kept: "somebody wrote about the sensors, can you find that?".
    """
    clauses = re.split(r"\s*[,;–—]\s+", rest)
    asking = [
        each
        for at, each in enumerate(clauses)
        if find_sentence_act(each) is not Act.STATEMENT
        or (at + 1 < len(clauses) and SHOW_WAYS["refers"].search(clauses[at + 1]))
    ]
    if any(find_sentence_act(each) is Act.QUESTION for each in asking):
        asking = [each for each in asking if not SHOW_WAYS["aside"].match(each)] or asking
    return ", ".join(asking or clauses)


def _find_terms(rest: str, states: Collection[str], known: Collection[str]) -> dict[str, str]:
    """The words of what a message is about: none of the office, of ``states``, and no ``known`` ones."""
    stated = find_terms(" ".join(found[0] for name in states for found in STATE_WAYS[name].finditer(rest)))
    return {
        stem: word
        for stem, word in find_terms(SHOW_WAYS["place"].sub(" ", rest)).items()
        if stem not in COMMON and stem not in stated and word.lower() not in known
    }


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
SHOW_NAMES = (
    "count",
    "tally",
    "newest",
    "oldest",
    "why",
    "next",
    "comes",
    "habit",
    "ended",
    "jobs",
    "just",
    "of_thing",
    "price",
    "shown_after",
)


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
