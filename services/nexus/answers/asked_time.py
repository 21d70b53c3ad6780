"""The time that a question asks about, and whether a memory is of that time."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from shared.clock import parse_timestamp
from shared.contracts import Hit, Node
from shared.language.times.spans import LONGEST_DAY, NamedSpan, Period, Span, find_past, find_spans
from shared.text.prose import find_names, find_stems, find_terms, stem_term

HAPPENED = frozenset({"event", "episodic", "task", "agent"})
"""Kinds that say what happened on their day, where others say what holds from then on: a later one of these
does not replace an earlier one."""
_COURTESY = re.compile(
    r"(?i)^\W*(?:(?:do|can|could|would)\s+(?:you|we|i)\s+(?:know|remember|recall|tell\s+(?:me|us))|tell\s+me)\b"
)
_AUXILIARY = re.compile(
    r"(?i)\b(?:(?P<present>is|are|am|do|does|has|have|will|shall|can|may|must|should)|was|were|did|had|could|would|happened)(?:n['’]t)?\b"
)
"""The first of these says whether a question is about now or later, or about the past."""
_BEHIND = re.compile(r"(?i)\b(?:yesterday|ago|last|past|previous|previously)\b")  # A day that has been
_POINTS = re.compile(
    r"(?i)(?:\b(?:back|in|on|at|of|during|from|around|the|end|start|beginning|early|late|middle)[\s,]+)+$"
)
_BEFORE = re.compile(r"(?i)\b(?:before|prior\s+to)\s+(?:the\s+)?$")
_SINCE = re.compile(r"(?i)\b(?:since|from|as\s+of|starting(?:\s+(?:in|on))?|effective)\s+(?:the\s+)?$")
_UNTIL = re.compile(r"(?i)\b(?:until|till|up\s+to|through)\s+(?:the\s+)?(?:end\s+of\s+)?$")
GENERAL = frozenset(
    map(
        stem_term,
        "happen happened occur occurred go going went wrong take took place event events new news anything "
        "something everything break broke broken miss missed incident incidents fail failed up".split(),
    )
)
"""Words of a question that asks for all that happened."""
TELLING = frozenset({*HAPPENED, "decision", "observation"})  # Kinds of what is of its own day
DECIDED = frozenset(map(stem_term, ("decide", "agree")))
_OPENS = re.compile(
    r"(?i)^\W*(?:(?:and|so|tell\s+me|do\s+you\s+know|in|on|at|back)\b[\s,]+)*(?:what|any|anything|something|did|(?:is|was|were)\s+there)\b"
)


class AskedTime(msgspec.Struct, frozen=True, kw_only=True):
    """The time that a question asks about, the question without it, and its terms but GENERAL and DECIDED."""

    span: Span
    named: str
    question: str
    terms: frozenset[str]
    names: frozenset[str]
    decided: bool = False

    @property
    def wants_all(self) -> bool:
        """Whether it asks for all that happened then, or all that a named person did."""
        return bool(_OPENS.match(self.question)) and self.terms <= self.names

    def list_from(self, hits: Sequence[Hit]) -> list[Hit]:
        """What happened then of ``hits``, the earliest first: what has all its terms, or half of them if it
        does not want all.
        """
        found = [hit for hit in hits if happened_in(hit.node, self.span) and self._is_about(hit.node)]
        return sorted(found, key=lambda hit: hit.node.created_at)

    def _is_about(self, node: Node) -> bool:
        shared = len(self.terms & find_stems(f"{node.title} {node.body}"))
        return shared == len(self.terms) if self.wants_all else 0 < len(self.terms) <= 2 * shared


def read_asked_time(question: str, now: datetime) -> AskedTime | None:
    """The past time that a question asks about; None if it names none, or asks about now."""
    found = find_past(question, now, alone=True)
    if found is None:
        return None
    head, named = question[: found.start], question[found.start : found.stop]
    verb = _AUXILIARY.search(_COURTESY.sub("", _cut(question, found)))
    if verb and verb["present"] and not _BEHIND.search(named):
        return None
    span = Span(found.since.timestamp(), found.until.timestamp())
    span = Span(float("-inf"), span.start) if _BEFORE.search(head) else span
    rest = _COURTESY.sub("", _cut(question, found)).strip()
    terms = frozenset(find_terms(rest)) - GENERAL
    return AskedTime(
        span=span,
        named=named,
        question=rest,
        terms=terms - DECIDED,
        names=terms & {stem_term(name) for name in find_names(f"x {rest}")},
        decided=bool(terms & DECIDED),
    )


def _cut(question: str, found: Period) -> str:
    """The question without the time, and the words that point at it."""
    head = _BEFORE.sub("", _UNTIL.sub("", _SINCE.sub("", question[: found.start])))
    return (
        " ".join(f"{_POINTS.sub('', head)} {question[found.stop :]}".split()).lstrip(" ,").replace(" ?", "?")
    )


def happened_in(node: Node, span: Span) -> bool:
    """Whether what a node tells happened then: on a day that it names, or else, if it tells of what happened,
    on its own.
    """
    named = [each.span for each in _find_named(node)]
    # What is of a month is of none of its days.
    longest = max(LONGEST_DAY, span.end - span.start)
    if any(each.overlaps(span) and each.end - each.start <= longest for each in named):
        return True
    created = _day_of(node)
    before = any(each.end <= created.start for each in named)
    return node.kind in TELLING and created.overlaps(span) and not before


def held_in(node: Node, span: Span) -> bool:
    """Whether what a node says held then: from its day, or one that it names, until it ended."""
    if node.kind in HAPPENED:
        return happened_in(node, span)
    text, start, end = f"{node.title}\n{node.body}", _moment(node.valid_from or node.created_at), float("inf")
    end = _moment(node.valid_to) if node.valid_to else end
    for named in _find_named(node):
        head = text[: named.begin]
        if _SINCE.search(head):
            start = named.span.start
        elif _UNTIL.search(head):
            end = min(end, named.span.end)
            start = min(start, named.span.start)
        elif named.span.end <= _day_of(node).start and named.span.overlaps(span):
            return True
    return start < span.end and end > span.start


def _find_named(node: Node) -> list[NamedSpan]:
    """The times that a node names, seen from its own day: a day or month without a year is the nearest."""
    moment = _moment(node.created_at)
    created = datetime.fromtimestamp(moment, UTC)
    years = (created.year - 1, created.year, created.year + 1)
    nearest: dict[int, NamedSpan] = {}
    for each in find_spans(f"{node.title}\n{node.body}"[:2_000], moment, years):
        known = nearest.get(each.begin, each)
        nearest[each.begin] = min(known, each, key=lambda one: abs(one.span.start - moment))
    return [*nearest.values()]


def _day_of(node: Node) -> Span:
    moment = _moment(node.created_at)
    return Span(moment - moment % 86_400, moment - moment % 86_400 + 86_400)


def _moment(stamp: str) -> float:
    return parse_timestamp(stamp).timestamp() if stamp else 0.0
