"""Research briefs: Markdown in which every citation leads to its source."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from services.frontier.papers import abstract_url

FEW_PAPERS = 3
"""Fewer papers than this give medium confidence, none low, more high."""

EXCERPT = 400
"""The longest excerpt of an abstract, in characters."""


def compose_brief(
    title: str,
    papers: Mapping[str, Sequence[dict[str, Any]]],
    news: Sequence[dict[str, Any]] = (),
    problems: Sequence[str] = (),
) -> str:
    """A brief on ``papers`` by topic and on ``news``; what could not be looked up is listed as such.

    Each paper and item carries a number such as [1], the same wherever it stands, that links to its address.
    """
    numbers = _number(papers, news)
    lines = [f"# {escape(title)}", "", _opening(papers, news), ""]
    for topic, found in papers.items():
        lines += [f"## Papers: {escape(topic)}", ""]
        lines += [line for paper in found for line in _tell_paper(paper, numbers)] or ["None found.", ""]
    if news:
        lines += ["## News", "", *(_tell_item(item, numbers) for item in news), ""]
    if problems:
        lines += ["## What could not be looked up", "", *(f"- {escape(problem)}" for problem in problems), ""]
    if numbers:
        lines += ["## Sources", "", *_list_sources(papers, news, numbers), ""]
        lines += [f"[{number}]: <{address}>" for address, number in numbers.items()]
    return "\n".join(lines).rstrip() + "\n"


def judge_confidence(papers: int) -> str:
    """How far ``papers`` found carry: low without any, medium below three, else high."""
    if not papers:
        return "low"
    return "medium" if papers < FEW_PAPERS else "high"


def save_brief(text: str, folder: Path, name: str) -> Path:
    """Write ``text`` as Markdown beneath ``folder``, which is made; the file's name is made from ``name``."""
    folder.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "brief"
    path = folder / f"{slug}.md"
    draft = path.with_suffix(".md.part")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
    return path


def escape(text: str) -> str:
    """``text`` from outside as plain Markdown text on one line: it makes no links, headings or HTML."""
    return re.sub(r"([\\`*_\[\]<>#|])", r"\\\1", " ".join(text.split()))


def _number(papers: Mapping[str, Sequence[dict[str, Any]]], news: Sequence[dict[str, Any]]) -> dict[str, int]:
    addresses = [abstract_url(paper) for found in papers.values() for paper in found]
    addresses += [_address(item) for item in news]
    return {address: number for number, address in enumerate(dict.fromkeys(addresses), start=1)}


def _address(item: dict[str, Any]) -> str:
    return quote(item["link"], safe="%/:?#@!$&'()*+,;=~-._")


def _opening(papers: Mapping[str, Sequence[dict[str, Any]]], news: Sequence[dict[str, Any]]) -> str:
    count = len({paper["arxiv_id"] for found in papers.values() for paper in found})
    parts = [f"{count} paper{'s' * (count != 1)} (confidence: {judge_confidence(count)})"] if papers else []
    if news:
        parts.append(f"{len(news)} news item{'s' * (len(news) != 1)}")
    return f"{' and '.join(parts) or 'Nothing found'}, looked up {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."


def _tell_paper(paper: dict[str, Any], numbers: Mapping[str, int]) -> list[str]:
    head = f"**{escape(paper['title'])}** [{numbers[abstract_url(paper)]}]"
    categories = escape(", ".join(paper["categories"]))
    byline = f"{escape(_name_authors(paper['authors']))}, {paper['published'][:10]}, {categories}"
    abstract = escape(cut_sentences(paper["abstract"], EXCERPT))
    return [f"- {head}  ", f"  By {byline}  ", f"  Abstract: {abstract}", ""]


def _name_authors(authors: Sequence[str]) -> str:
    if not authors:
        return "Unnamed authors"
    return ", ".join(authors) if len(authors) <= 3 else f"{authors[0]} and {len(authors) - 1} others"


def _tell_item(item: dict[str, Any], numbers: Mapping[str, int]) -> str:
    dated = f", {item['published'][:10]}" if item["published"] else ""
    return f"- {escape(item['title'])} ({escape(item['source'])}{dated}) [{numbers[_address(item)]}]"


def _list_sources(
    papers: Mapping[str, Sequence[dict[str, Any]]], news: Sequence[dict[str, Any]], numbers: Mapping[str, int]
) -> list[str]:
    told = {}
    for paper in (paper for found in papers.values() for paper in found):
        authors = escape(_name_authors(paper["authors"]))
        told[abstract_url(paper)] = f"{authors}: {escape(paper['title'])}. arXiv:{paper['arxiv_id']}"
    for item in news:
        told[_address(item)] = f"{escape(item['source'])}: {escape(item['title'])}"
    return [f"- [{numbers[address]}] {text}, <{address}>" for address, text in told.items()]


def cut_sentences(text: str, limit: int) -> str:
    """As many whole sentences of ``text`` as ``limit`` characters hold; at least a cut-off first one."""
    if len(text) <= limit:
        return text
    ends = [match.end() for match in re.finditer(r"[.!?](?=\s)", text[: limit + 1])]
    return text[: ends[-1]] if ends else text[: limit - 1].rsplit(" ", 1)[0] + "…"
