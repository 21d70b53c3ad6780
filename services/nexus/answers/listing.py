"""Questions for all that memory has about a person, a thing or a month, and not for one sentence."""

import re
from collections.abc import Sequence
from datetime import date

import msgspec

from shared.contracts import Hit
from shared.text.prose import find_stems, find_terms

_MONTHS = "january february march april may june july august september october november december".split()
_TOPIC = re.compile(
    r"\W*(?:what\s+(?:else\s+)?(?:should|must|do|can|does|did)\s+(?:i|we|you|memory)\s+(?:need\s+to\s+|have\s+to\s+)?"
    r"(?:know|have|remember|hold|keep)\s+(?:about|of|on)|what\s+is\s+known\s+(?:about|of)"
    r"|what\s+did\s+we\s+(?:decide|agree)\s+(?:about|on|for)|what\s+(?:was|has\s+been)\s+(?:decided|agreed)\s+(?:about|on|for))"
    r"\s+(?P<topic>[^?]{2,80}?)\W*",
    re.IGNORECASE,
)
_MONTH = re.compile(
    rf"\W*what\s+(?:(?:was|were|has\s+been|did\s+we)\s+(?:all\s+)?(?P<decided>decide|agree)d?|(?:all\s+)?happened)"
    rf"\s+(?:back\s+|all\s+)?in\s+(?P<month>{'|'.join(_MONTHS)})(?:\s+(?P<year>\d{{4}}))?\W*",
    re.IGNORECASE,
)
MOST = 100  # Hits among which those of a month are looked for


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """What is searched for, in which kinds (in all, if none); what is kept has all ``terms`` and is of
    ``month``, as 2026-10, if there is one.
    """

    text: str
    kinds: tuple[str, ...] = ()
    terms: frozenset[str] = frozenset()
    month: str = ""

    def keep(self, hits: Sequence[Hit]) -> list[Hit]:
        """The hits that belong to it: those of a month in their order, others as they come."""
        kept = [hit for hit in hits if self._has(hit)]
        return sorted(kept, key=lambda hit: hit.node.created_at) if self.month else kept

    def _has(self, hit: Hit) -> bool:
        said = find_stems(f"{hit.node.title} {hit.node.body} {' '.join(hit.node.tags)}")
        return self.terms <= said and hit.node.created_at.startswith(self.month)


def read_listed(question: str, today: date) -> Listed | None:
    """What a question wants listed; None if it asks for one thing. A month without a year is the last one
    that has begun.
    """
    if asked := _MONTH.fullmatch(question):
        month = _MONTHS.index(asked["month"].lower()) + 1
        year = int(asked["year"] or today.year - (month > today.month))
        kinds = ("decision",) if asked["decided"] else ("event", "episodic")
        return Listed(text=question, kinds=kinds, month=f"{year}-{month:02}")
    if (asked := _TOPIC.fullmatch(question)) and (terms := find_terms(asked["topic"])):
        decided = re.search(r"(?i)\b(?:decide|agree)", question[: asked.start("topic")])
        return Listed(text=asked["topic"], kinds=("decision",) if decided else (), terms=frozenset(terms))
    return None
