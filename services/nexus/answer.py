"""Answers from memory: what was remembered, quoted, with the node that says so."""

import re
import shlex
from collections.abc import Mapping, Sequence

import msgspec

from services.nexus.context import cut, is_asked_for, rank_hits, state, stems_of
from services.nexus.mood import is_statement
from services.nexus.wording import find_stems, find_terms, split_sentences, stem
from shared.contracts import ContextPacket, Hit, Node, Response

LIKE = 0.144
"""From this likeness on (memory's ``why["vector"]``) a hit is quoted whatever its words. Over 426 notes the
nearest had up to .14 for questions on something else, and mostly more for those the notes bear on."""

HELD = 0.5
"""Below that likeness a hit must hold this share of the question's telling words and score at least LEAST.
With these three, 59 of 60 questions the notes bear on found something to quote, and 1 of 60 others."""

LEAST = 0.1
"""A hit that scores less is not worth mentioning."""

DATED = re.compile(r" \(\d{4}-\d\d-\d\d\)$")
MOST_QUOTES = 5
QUOTE = 500
"""The longest quotation, in characters."""


TOLD = re.compile(r"\W*(?:please\s+)?(?:remember|note|keep\s+in\s+mind)\s+(?:that\b|:)\s*", re.IGNORECASE)
"""How a message begins that wants something to be kept."""
NAME = re.compile(r"(?<=[a-z0-9,;'’] )[A-Z]\w+")
"""A word that is written large though it begins no sentence."""


class _Finding(msgspec.Struct, frozen=True):
    node: Node
    relevance: float
    near: bool


def answer(question: str, packet: ContextPacket, hits: Sequence[Hit], problem: str = "") -> Response:
    """An answer made of remembered statements alone, the nearest first, each with its citation.

    What is more important counts as nearer, by at most a quarter either way.

    ``confidence`` is the relevance of the nearest, lowered by up to half by the share of the question's
    telling words that nothing quoted covers; 0 where nothing is near enough (see LIKE and HELD), which the
    text then says, along with what can be done. ``problem`` is why a model that there is was not asked; the
    answer ends with it. A question with names is answered only by what holds one.
    """
    terms = find_terms(question)
    names = frozenset(stem(name) for name in NAME.findall(question))
    findings = [_judge(hit, terms, names) for hit in rank_hits(hits) if is_asked_for(hit.node, terms)]
    findings = _latest(findings)
    findings.sort(key=lambda finding: -finding.relevance * (0.75 + 0.5 * finding.node.importance))
    near = [finding for finding in findings if finding.near][:MOST_QUOTES]
    if not near:
        return Response(text=_regret(question, findings, problem), context_used=packet, confidence=0.0)
    covered = frozenset[str]().union(*(stems_of(finding.node) for finding in near))
    missing = [word for stem, word in terms.items() if stem not in covered]
    share = 1 - len(missing) / len(terms) if terms else 1.0
    return Response(
        text="\n".join([_tell(near, terms, missing), *(["", _memory_only(problem)] if problem else [])]),
        citations=tuple(finding.node.id for finding in near),
        context_used=packet,
        confidence=round(near[0].relevance * (0.5 + 0.5 * share), 3),
    )


def _latest(findings: Sequence[_Finding]) -> list[_Finding]:
    """Of what was remembered again under the same title, such as each check-up of a project, the latest."""
    latest: dict[tuple[str, str], _Finding] = {}
    for finding in sorted(findings, key=lambda finding: finding.node.created_at):
        latest[finding.node.kind, DATED.sub("", finding.node.title)] = finding
    return list(latest.values())


def _judge(hit: Hit, terms: Mapping[str, str], names: frozenset[str]) -> _Finding:
    stems = stems_of(hit.node)
    held = len(terms.keys() & stems) / len(terms) if terms else 0.0
    like = hit.why.get("vector", hit.score) >= LIKE or (held >= HELD and hit.score >= LEAST)
    relevance = min(1.0, max(hit.score, 0.0) + held / 2)
    return _Finding(hit.node, relevance, near=like and (not names or bool(names & stems)))


def _tell(near: Sequence[_Finding], terms: Mapping[str, str], missing: Sequence[str]) -> str:
    quotes = [f"[{place}] {excerpt(finding.node, terms)}" for place, finding in enumerate(near, start=1)]
    sources = [f"[{place}] {_describe(finding.node)}" for place, finding in enumerate(near, start=1)]
    gap = [f"Memory says nothing about: {', '.join(missing)}.", ""] if missing else []
    return "\n".join(["From memory:", "", *quotes, "", *gap, "Sources:", *sources])


def excerpt(node: Node, terms: Mapping[str, str]) -> str:
    """The sentences of ``node`` that hold most of ``terms``, in QUOTE characters; all of a short node."""
    whole = state(node)
    if len(whole) <= QUOTE:
        return whole
    title = " ".join(node.title.split())
    sentences = split_sentences(node.body)
    worth = {place: len(terms.keys() & find_stems(sentence)) for place, sentence in enumerate(sentences)}
    chosen: list[int] = []
    room = QUOTE - len(title) - 2
    for place in sorted(worth, key=lambda place: (-worth[place], place)):
        if len(sentences[place]) + 3 <= room and (worth[place] or not chosen):
            chosen.append(place)
            room -= len(sentences[place]) + 3
    quoted = " … ".join(" ".join(sentences[place].split()) for place in sorted(chosen))
    return f"{title}: {quoted}" if quoted else cut(whole, QUOTE)


def _describe(node: Node) -> str:
    by = f" by {node.source.agent}" if node.source.agent else ""
    return f"{node.kind} of {(node.updated_at or node.created_at)[:10]}{by}, memory node {node.id}"


def _memory_only(problem: str) -> str:
    return f"I looked into memory only, for the model could not be asked: {problem}"


def _regret(question: str, findings: Sequence[_Finding], problem: str) -> str:
    lines = ["Memory holds nothing that answers this."]
    if findings and findings[0].relevance >= LEAST:
        nearest = findings[0].node
        title = cut(" ".join(nearest.title.split()), 100)
        lines.append(f"The nearest it holds is {title!r} (memory node {nearest.id}).")
    if problem:
        return "\n".join([*lines, _memory_only(problem)])
    if is_statement(question) or TOLD.match(question):
        told = shlex.quote(cut(" ".join(TOLD.sub("", question).split()), 200))
        lines.append(f"I kept nothing of it. To have it remembered: mailroom memory add {told}")
        return "\n".join(lines)
    lines.append(
        "Without a model I answer from memory only. Ask with other words, or have it found out: "
        f"mailroom submit {shlex.quote(cut(' '.join(question.split()), 200))}"
    )
    return "\n".join(lines)
