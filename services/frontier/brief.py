"""Research briefs in Markdown, in which every citation leads to its source, and the report of a discovery."""

import re
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from services.frontier.relevance import ratings_of
from services.frontier.synthesis import NUMBER, depth_of, describe_support, judge_confidence
from shared.contracts import DiscoveryResult
from shared.skills.papers import abstract_url, cite_papers
from shared.tasks.actions import Outcome
from shared.text.display import count, shorten
from shared.text.prose import last_sentence_end
from shared.web.quoting import escape

CITED = re.compile(rf"\s*{NUMBER.pattern}")
MAX_ABSTRACT = 400  # The most characters of an abstract in a brief


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What a brief is made of.

    ``papers`` are by topic; ``problems`` say what could not be read; ``notes`` are other remarks;
    ``summary`` has the statements of a model with the numbers of their sources, as in ``number_sources``;
    ``texts`` are the full texts of papers by their arXiv ids; ``looked_up`` is when the oldest source was
    read, in seconds since the epoch.
    """

    papers: dict[str, list[dict[str, Any]]] = {}
    news: list[dict[str, Any]] = []
    problems: list[str] = []
    notes: list[str] = []
    summary: tuple[tuple[str, tuple[int, ...]], ...] = ()
    looked_up: float = msgspec.field(default_factory=time.time)
    texts: dict[str, str] = {}

    def confidence(self, topic: str) -> str:
        """low, medium or high, as ``judge_confidence``."""
        claims = [numbers for _, numbers in self.summary]
        return judge_confidence(topic, number_sources(self), self.texts, claims)

    def all_papers(self) -> list[dict[str, Any]]:
        """Every paper once."""
        return list({paper["arxiv_id"]: paper for found in self.papers.values() for paper in found}.values())


def number_sources(found: Findings) -> dict[int, dict[str, Any]]:
    """The papers and news by the number that cites them."""
    items = {item_url(item): item for item in (*found.all_papers(), *found.news)}
    return dict(enumerate(items.values(), start=1))


def item_url(item: Mapping[str, Any]) -> str:
    """Where a paper's abstract or an item of news can be read."""
    if "arxiv_id" in item:
        return abstract_url(item)
    return quote(item["link"], safe="%/:?#@!$&'()*+,;=~-._")


def compose_brief(title: str, found: Findings, topic: str = "") -> str:
    """A brief on the findings; what could not be read is listed.

    Each paper and item carries a number such as [1], which links to its address.
    """
    sources = number_sources(found)
    numbers = {item_url(item): number for number, item in sources.items()}
    lines = [f"# {escape(title)}", "", _format_counts(found, topic), ""]
    if found.summary:
        lines += ["## Summary (by a model, from the sources below)", "", *_format_summary(found, sources), ""]
    shown: set[str] = set()
    for interest, papers in found.papers.items():
        lines += [f"## Papers: {escape(interest)}", ""]
        lines += [line for paper in papers for line in _format_paper(paper, numbers, shown, found.texts)] or [
            "None found.",
            "",
        ]
        shown |= {item_url(paper) for paper in papers}
    if found.news:
        lines += ["## News", "", *(_format_news_item(item, numbers) for item in found.news), ""]
    for heading, sentences in (
        ("What could not be looked up", found.problems),
        ("Notes", found.notes),
    ):
        if sentences:
            lines += [f"## {heading}", "", *(f"- {escape(sentence)}" for sentence in sentences), ""]
    if sources:
        lines += ["## Sources", "", *(_format_source(number, item) for number, item in sources.items()), ""]
        lines += [f"[{number}]: <{item_url(item)}>" for number, item in sources.items()]
    return "\n".join(lines).rstrip() + "\n"


def _format_counts(found: Findings, topic: str) -> str:
    papers_count, news = len(found.all_papers()), len(found.news)
    parts = []
    if found.papers:
        parts.append(f"{count(papers_count, 'paper')} (confidence: {found.confidence(topic)})")
    if news:
        parts.append(count(news, "news item"))
    moment = datetime.fromtimestamp(found.looked_up, UTC)
    return f"{' and '.join(parts) or 'Nothing found'}, looked up {moment:%Y-%m-%d %H:%M} UTC."


def _format_summary(found: Findings, sources: Mapping[int, Mapping[str, Any]]) -> list[str]:
    # citations within the text were checked, and are repeated by the numbers after it
    return [
        f"- {escape(CITED.sub('', statement))} {''.join(f'[{number}]' for number in numbers)}"
        f" ({describe_support([sources[number] for number in numbers], found.texts)})"
        for statement, numbers in found.summary
    ]


def _format_paper(
    paper: dict[str, Any], numbers: Mapping[str, int], shown: Collection[str], texts: Mapping[str, str]
) -> list[str]:
    head = f"**{escape(paper['title'])}** [{numbers[abstract_url(paper)]}]"
    if item_url(paper) in shown:
        return [f"- {head}, listed above", ""]
    categories = escape(", ".join(paper["categories"]))
    byline = f"{escape(_format_authors(paper['authors']))}, {paper['published'][:10]}, {categories}"
    abstract = escape(shorten_sentences(paper["abstract"], MAX_ABSTRACT))
    rated = [f"  Relevance: {escape(rating.sentence)}  " for rating in ratings_of(paper)]
    read = [f"  Read: {depth_of(paper, texts)}  "] if texts else []
    return [f"- {head}  ", f"  By {byline}  ", *read, *rated, f"  Abstract: {abstract}", ""]


def _format_authors(authors: Sequence[str]) -> str:
    if not authors:
        return "Unnamed authors"
    return ", ".join(authors) if len(authors) <= 3 else f"{authors[0]} and {len(authors) - 1} others"


def _format_news_item(item: dict[str, Any], numbers: Mapping[str, int]) -> str:
    dated = f", {item['published'][:10]}" if item["published"] else ""
    also = f"; also {', '.join(item['also_from'])}" if item.get("also_from") else ""
    told = escape(item.get("told") or item["title"])
    return f"- {told} ({escape(item['source'] + also)}{dated}) [{numbers[item_url(item)]}]"


def _format_source(number: int, item: Mapping[str, Any]) -> str:
    if "arxiv_id" in item:
        label = (
            f"{escape(_format_authors(item['authors']))}: {escape(item['title'])}. arXiv:{item['arxiv_id']}"
        )
    else:
        label = f"{escape(item['source'])}: {escape(item['title'])}"
    return f"- [{number}] {label}, <{item_url(item)}>"


def shorten_sentences(text: str, limit: int) -> str:
    """The whole sentences of ``text`` within ``limit`` characters; if not one fits, a part of the first."""
    if len(text) <= limit:
        return text
    end = last_sentence_end(text, limit)
    return text[:end] if end else shorten(text, limit)


def discovery_outcome(
    findings: Findings, wanted: Sequence[str], path: Path, task_id: str, agent: str
) -> Outcome:
    """The outcome of a daily discovery written to ``path``; its DiscoveryResult in data key ``discovery``."""
    papers = findings.all_papers()
    result = DiscoveryResult(
        task_id=task_id,
        agent=agent,
        query=", ".join(wanted) or "news",
        papers=tuple(papers),
        news_items=tuple(findings.news),
        citations=cite_papers(papers) + tuple(item["link"] for item in findings.news),
        summary=f"{count(len(papers), 'paper')} on {count(len(wanted), 'topic')} and "
        f"{count(len(findings.news), 'news item')}",
        output_path=str(path),
    )
    problems = [f"Not looked up: {problem}" for problem in findings.problems]
    return Outcome(
        output="\n".join([f"{result.summary}, written up in {path}", *problems, *findings.notes]),
        data={
            "discovery": result.to_dict(),
            "problems": findings.problems,
            "notes": findings.notes,
            "confidence": findings.confidence(""),
        },
        evidence_refs=result.citations,
        output_paths=(str(path),),
    )
