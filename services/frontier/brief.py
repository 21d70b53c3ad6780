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
from services.frontier.synthesis import NUMBER
from shared.contracts import DiscoveryResult
from shared.skills.papers import abstract_url, cite_papers, judge_confidence
from shared.tasks.actions import Outcome
from shared.web.quoting import escape

CITED = re.compile(rf"\s*{NUMBER.pattern}")
EXCERPT = 400
"""The longest excerpt of an abstract, in characters."""


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What a brief is made of.

    ``papers`` stand by topic; ``problems`` say what could not be looked up, ``notes`` what else there is to
    say; ``summary`` are the statements of a model with the numbers of their sources, as ``number_sources``
    gives them; ``looked_up`` is when the oldest of it was read, in seconds since the epoch.
    """

    papers: dict[str, list[dict[str, Any]]] = {}
    news: list[dict[str, Any]] = []
    problems: list[str] = []
    notes: list[str] = []
    summary: tuple[tuple[str, tuple[int, ...]], ...] = ()
    looked_up: float = msgspec.field(default_factory=time.time)

    def all_papers(self) -> list[dict[str, Any]]:
        """Every paper once."""
        return list({paper["arxiv_id"]: paper for found in self.papers.values() for paper in found}.values())


def number_sources(found: Findings) -> dict[int, dict[str, Any]]:
    """The papers and news by the number that cites them."""
    items = {address_of(item): item for item in (*found.all_papers(), *found.news)}
    return dict(enumerate(items.values(), start=1))


def address_of(item: Mapping[str, Any]) -> str:
    """Where a paper's abstract or an item of news can be read."""
    if "arxiv_id" in item:
        return abstract_url(item)
    return quote(item["link"], safe="%/:?#@!$&'()*+,;=~-._")


def compose_brief(title: str, found: Findings) -> str:
    """A brief on what was found; what could not be looked up is listed as such.

    Each paper and item carries a number such as [1], the same wherever it stands, that links to its address.
    """
    sources = number_sources(found)
    numbers = {address_of(item): number for number, item in sources.items()}
    lines = [f"# {escape(title)}", "", _opening(found), ""]
    if found.summary:
        lines += ["## Summary (by a model, from the sources below)", "", *_tell_summary(found.summary), ""]
    told: set[str] = set()
    for topic, papers in found.papers.items():
        lines += [f"## Papers: {escape(topic)}", ""]
        lines += [line for paper in papers for line in _tell_paper(paper, numbers, told)] or [
            "None found.",
            "",
        ]
        told |= {address_of(paper) for paper in papers}
    if found.news:
        lines += ["## News", "", *(_tell_item(item, numbers) for item in found.news), ""]
    for heading, sentences in (
        ("What could not be looked up", found.problems),
        ("Notes", found.notes),
    ):
        if sentences:
            lines += [f"## {heading}", "", *(f"- {escape(sentence)}" for sentence in sentences), ""]
    if sources:
        lines += ["## Sources", "", *(_tell_source(number, item) for number, item in sources.items()), ""]
        lines += [f"[{number}]: <{address_of(item)}>" for number, item in sources.items()]
    return "\n".join(lines).rstrip() + "\n"


def save_brief(text: str, folder: Path, name: str) -> Path:
    """Write ``text`` as Markdown beneath ``folder``, which is made; the file's name is made from ``name``."""
    folder.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "brief"
    path = folder / f"{slug}.md"
    draft = path.with_suffix(".md.part")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
    return path


def tell_count(count: int, what: str) -> str:
    """``1 paper``, ``2 papers``."""
    return f"{count} {what}{'s' * (count != 1)}"


def _opening(found: Findings) -> str:
    count, news = len(found.all_papers()), len(found.news)
    parts = []
    if found.papers:
        parts.append(f"{tell_count(count, 'paper')} (confidence: {judge_confidence(count)})")
    if news:
        parts.append(tell_count(news, "news item"))
    moment = datetime.fromtimestamp(found.looked_up, UTC)
    return f"{' and '.join(parts) or 'Nothing found'}, looked up {moment:%Y-%m-%d %H:%M} UTC."


def _tell_summary(summary: Sequence[tuple[str, tuple[int, ...]]]) -> list[str]:
    # what cites within the text was checked, and is said again by the numbers behind it
    return [
        f"- {escape(CITED.sub('', statement))} {''.join(f'[{number}]' for number in numbers)}"
        for statement, numbers in summary
    ]


def _tell_paper(paper: dict[str, Any], numbers: Mapping[str, int], told: Collection[str]) -> list[str]:
    head = f"**{escape(paper['title'])}** [{numbers[abstract_url(paper)]}]"
    if address_of(paper) in told:
        return [f"- {head}, told above", ""]
    categories = escape(", ".join(paper["categories"]))
    byline = f"{escape(_name_authors(paper['authors']))}, {paper['published'][:10]}, {categories}"
    abstract = escape(cut_sentences(paper["abstract"], EXCERPT))
    rated = [f"  Relevance: {escape(rating.sentence)}  " for rating in ratings_of(paper)]
    return [f"- {head}  ", f"  By {byline}  ", *rated, f"  Abstract: {abstract}", ""]


def _name_authors(authors: Sequence[str]) -> str:
    if not authors:
        return "Unnamed authors"
    return ", ".join(authors) if len(authors) <= 3 else f"{authors[0]} and {len(authors) - 1} others"


def _tell_item(item: dict[str, Any], numbers: Mapping[str, int]) -> str:
    dated = f", {item['published'][:10]}" if item["published"] else ""
    return f"- {escape(item['title'])} ({escape(item['source'])}{dated}) [{numbers[address_of(item)]}]"


def _tell_source(number: int, item: Mapping[str, Any]) -> str:
    if "arxiv_id" in item:
        told = f"{escape(_name_authors(item['authors']))}: {escape(item['title'])}. arXiv:{item['arxiv_id']}"
    else:
        told = f"{escape(item['source'])}: {escape(item['title'])}"
    return f"- [{number}] {told}, <{address_of(item)}>"


def cut_sentences(text: str, limit: int) -> str:
    """As many whole sentences of ``text`` as ``limit`` characters hold; at least a cut-off first one."""
    if len(text) <= limit:
        return text
    ends = [match.end() for match in re.finditer(r"[.!?](?=\s)", text[: limit + 1])]
    return text[: ends[-1]] if ends else text[: limit - 1].rsplit(" ", 1)[0] + "…"


def report_discovery(
    findings: Findings, wanted: Sequence[str], path: Path, task_id: str, agent: str
) -> Outcome:
    """What a daily discovery found, written up at ``path``: its DiscoveryResult in data key ``discovery``."""
    papers = findings.all_papers()
    result = DiscoveryResult(
        task_id=task_id,
        agent=agent,
        query=", ".join(wanted) or "news",
        papers=tuple(papers),
        news_items=tuple(findings.news),
        citations=cite_papers(papers) + tuple(item["link"] for item in findings.news),
        summary=f"{tell_count(len(papers), 'paper')} on {tell_count(len(wanted), 'topic')} and "
        f"{tell_count(len(findings.news), 'news item')}",
        output_path=str(path),
    )
    told = [f"Not looked up: {problem}" for problem in findings.problems]
    return Outcome(
        output="\n".join([f"{result.summary}, written up in {path}", *told, *findings.notes]),
        data={
            "discovery": result.to_dict(),
            "problems": findings.problems,
            "notes": findings.notes,
            "confidence": judge_confidence(len(papers)),
        },
        evidence_refs=result.citations,
        output_paths=(str(path),),
    )
