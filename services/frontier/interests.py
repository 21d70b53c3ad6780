"""What the office is interested in: the topics of the profile, and those that memory holds."""

import re
from collections.abc import Iterable, Sequence

from shared.contracts import ListQuery, Node
from shared.memory import Memory
from shared.skills.papers import EMPTY_WORDS, TERM

KINDS = ("preference", "goal", "decision")
TAGS = frozenset(("interest", "interests", "research"))
"""A preference, goal or decision with one of these is an interest, whatever its words."""
STATED = re.compile(
    r"\b(?:interest(?:ed)? in|interests?:|curious about|keeps? up with|follows?|research(?:es|ing)"
    r"|likes? (?:papers|news|articles|reading) (?:about|on|of)"
    r"|wants? (?:to )?(?:know|read|hear|learn|see)\b[^.]{0,40}?\b(?:about|on|of))\s+(?P<topic>.+)",
    re.IGNORECASE,
)
"""How a preference says that it is an interest: "Ann is interested in graph memory"."""
LOOKED_AT = 1_000
"""Nodes that are looked at: one page of memory."""
WORDS = 6
"""Words of a topic: arXiv is asked for papers that hold all of them."""


async def remembered_interests(memory: Memory, most: int) -> tuple[str, ...]:
    """The topics of interest among what memory holds, the most important first, ``most`` at most.

    Raises BusError where memory cannot be asked.
    """
    page = await memory.nodes(ListQuery(kinds=KINDS, limit=LOOKED_AT))
    return choose_interests(page.nodes, most)


def choose_interests(nodes: Iterable[Node], most: int) -> tuple[str, ...]:
    """The topics that ``nodes`` state, each once, the most important first."""
    topics: dict[str, str] = {}
    for node in sorted(nodes, key=lambda node: (-node.importance, node.id)):
        if not node.valid_to and (topic := read_topic(node)):
            topics.setdefault(topic.casefold(), topic)
    return tuple(topics.values())[:most]


def read_topic(node: Node) -> str:
    """The topic a node states, in a few words; empty where it states none."""
    stated = STATED.search(node.title)
    if stated is None and not TAGS & {tag.casefold() for tag in node.tags}:
        return ""
    if stated is not None and node.kind != "preference" and not TAGS & {tag.casefold() for tag in node.tags}:
        return ""
    words = stated["topic"] if stated else node.title
    return shorten_topic(re.split(r"[.;:!?(\n]|, (?:and|but|not)\b", words, maxsplit=1)[0])


def shorten_topic(words: str) -> str:
    """``words`` up to WORDS of them that mean something; empty where none does."""
    taken, counted = [], 0
    for phrase, word in TERM.findall(words):
        counted += (phrase or word).casefold() not in EMPTY_WORDS
        if counted > WORDS:
            break
        taken.append(phrase or word)
    return " ".join(taken) if counted else ""


def merge_interests(profile: Sequence[str], remembered: Sequence[str]) -> tuple[str, ...]:
    """Those of the profile, then those of memory that it does not name."""
    return tuple({topic.casefold(): topic for topic in (*reversed(remembered), *reversed(profile))}.values())[
        ::-1
    ]
