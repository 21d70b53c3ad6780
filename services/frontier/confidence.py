"""How sure a brief is: by the agreement of independent sources and how much of each was read."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from shared.text.phrases import count
from shared.text.words import find_terms

DEPTHS = {"full text": 1.0, "abstract": 0.5, "title": 0.2}
"""How much a source counts by what was read of it."""
HIGH, MEDIUM = 2.0, 0.9
"""The least support of high and medium confidence: two full texts of different authors; two abstracts of
different authors, or one full text."""
LEAST_ABOUT = 0.5
"""The least share of a topic's words that a source must have to count for it."""


def depth_of(item: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """What was read of a source: its full text, its abstract or summary, or its title alone."""
    if texts.get(str(item.get("arxiv_id", ""))):
        return "full text"
    return "abstract" if str(item.get("abstract") or item.get("summary") or "").strip() else "title"


def independent_groups(items: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """The sources by who made them: papers that share an author are one, and so is news of one host."""
    groups: list[tuple[set[str], list[Mapping[str, Any]]]] = []
    for item in items:
        makers, members = _makers(item), [item]
        apart = []
        for names, others in groups:
            if names & makers:
                makers |= names
                members = [*others, *members]
            else:
                apart.append((names, others))
        groups = [*apart, (makers, members)]
    return [members for _, members in groups]


def _makers(item: Mapping[str, Any]) -> set[str]:
    authors = {f"author {' '.join(str(each).casefold().split())}" for each in item.get("authors") or ()}
    if authors:
        return authors
    host = (urlsplit(str(item.get("link") or "")).hostname or "").removeprefix("www.")
    return {f"host {host}" if host else f"item {item.get('arxiv_id') or item.get('title')}"}


def support_of(items: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> float:
    """How well the sources support what they say together: the best read one of each group counts."""
    return sum(max(DEPTHS[depth_of(item, texts)] for item in group) for group in independent_groups(items))


def judge_confidence(
    topic: str,
    sources: Mapping[int, Mapping[str, Any]],
    texts: Mapping[str, str],
    claims: Iterable[Sequence[int]] = (),
) -> str:
    """low, medium or high: by what supports each of a model's ``claims``, the numbers of their sources.

    Without claims, by the sources that are about the ``topic``.
    """
    cited = [[sources[number] for number in numbers if number in sources] for numbers in claims]
    if cited:
        # most of what is said has to be supported so well
        ordered = sorted(support_of(items, texts) for items in cited)
        return _level(ordered[(len(ordered) - 1) // 2])
    return _level(support_of([each for each in sources.values() if is_about(each, topic, texts)], texts))


def _level(support: float) -> str:
    return "high" if support >= HIGH else "medium" if support >= MEDIUM else "low"


def is_about(item: Mapping[str, Any], topic: str, texts: Mapping[str, str]) -> bool:
    """Whether a source has half of a topic's words; any source is about a topic of no words."""
    wanted = find_terms(topic).keys()
    said = f"{item.get('title', '')} {item.get('abstract') or item.get('summary') or ''}"
    held = find_terms(f"{said} {texts.get(str(item.get('arxiv_id', '')), '')}").keys()
    return len(wanted & held) >= LEAST_ABOUT * len(wanted)


def describe_support(items: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> str:
    """What supports a statement: ``2 independent sources, full text``."""
    groups = independent_groups(items)
    deepest = max((depth_of(item, texts) for item in items), key=DEPTHS.__getitem__, default="title")
    return f"{count(len(groups), 'independent source')}, {deepest}"
