"""Research briefs in Markdown: a model's summary checked against its sources, citations that lead there."""

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote as quote_address

import msgspec

from services.frontier.relevance import ratings_of, summary_of
from services.frontier.sources import host_of
from shared.contracts import DiscoveryResult
from shared.llm.protocol import Message
from shared.reasoning.model import ModelSession
from shared.skills.papers import abstract_url, cite_papers
from shared.tasks.actions import Outcome
from shared.text.display import count, shorten
from shared.text.prose import find_terms, last_sentence_end
from shared.web.quoting import clean, escape, quote

NUMBER = re.compile(r"\[(\d+(?:\s*[,;–-]\s*\d+)*)\]")
ADDRESS = re.compile(r"https?://\S+|\barxiv:\s*\S+|\b\d{4}\.\d{4,5}(?:v\d+)?\b", re.IGNORECASE)
MAX_READ = 8_000  # Characters of a paper's text that a model reads
MAX_STATEMENTS = 12  # Statements of a summary


class Claim(msgspec.Struct, kw_only=True):
    """One statement, and the numbers of the sources it rests on."""

    statement: str
    sources: list[int]


class Synthesis(msgspec.Struct, kw_only=True):
    """What the sources say, taken together."""

    claims: list[Claim]


async def synthesize(
    models: ModelSession,
    topic: str,
    sources: Mapping[int, Mapping[str, Any]],
    texts: Mapping[str, str] | None = None,
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Statements about ``topic`` with the numbers of the ``sources`` they rest on.

    ``texts`` are the full texts of papers by their arXiv ids; of other sources the model reads the abstract.
    A statement that cites what is not among them, or nothing, is sent back to the model; raises ModelError
    if it insists.
    """
    listed = []
    for number, item in sources.items():
        whole = clean((texts or {}).get(str(item.get("arxiv_id", "")), ""), MAX_READ)
        read = f"\nIts text: {whole}" if whole else ""
        listed.append(f"{number}. {item['title']}\n{clean(summary_of(item), 1_500)}{read}\n")
    asked = (
        f"Summarise what these sources say about {topic!r} in at most {MAX_STATEMENTS} statements of a "
        "sentence each. "
        "Give with each the numbers of the sources it rests on, and put no number or address of a source "
        "into the statement that is not among them. Say only what they say.\n\n"
    )
    message = Message(role="user", text=asked + quote("the sources", "\n".join(listed), "web"))
    answer = await models.ask_model_for(
        [message], Synthesis, lambda synthesis: check_citations(synthesis, sources)
    )
    return tuple(
        (clean(claim.statement, 600), tuple(dict.fromkeys(claim.sources))) for claim in answer.claims
    )


def check_citations(synthesis: Synthesis, sources: Mapping[int, Mapping[str, Any]]) -> str | None:
    """What is wrong with the citations, as the model is told; None if each is a source."""
    if not 1 <= len(synthesis.claims) <= MAX_STATEMENTS:
        return f"Give 1 to {MAX_STATEMENTS} claims"
    # The ids and addresses under which the sources may be named
    known = {str(item["arxiv_id"]).casefold() for item in sources.values() if "arxiv_id" in item}
    known |= {
        (abstract_url(item) if "arxiv_id" in item else str(item["link"])).casefold()
        for item in sources.values()
    }
    for claim in synthesis.claims:
        groups = NUMBER.findall(claim.statement)
        written = [int(number) for group in groups for number in re.findall(r"\d+", group)]
        wrong = [number for number in (*claim.sources, *written) if number not in sources]
        if wrong or not claim.sources:
            have = f"cites {wrong}" if wrong else "cites nothing"
            return f"{claim.statement[:80]!r} {have}; the sources are {', '.join(map(str, sources))}"
        for address in ADDRESS.findall(claim.statement):
            plain = _without_prefix(address).rstrip(".,;)")
            if not plain or not any(plain in one for one in known):
                return f"{claim.statement[:80]!r} names {address!r}, which is none of the sources"
    return None


def find_unsourced(text: str, evidence: Sequence[str]) -> list[str]:
    """The papers and addresses that ``text`` names and that are not among ``evidence``, each once."""
    known = {reference.casefold() for reference in evidence}
    known |= {f"https://arxiv.org/abs/{one.partition(':')[2]}" for one in known if one.startswith("arxiv:")}
    named = dict.fromkeys(address.rstrip(".,;:)]>") for address in ADDRESS.findall(text))
    return [address for address in named if not any(_without_prefix(address) in one for one in known)]


def _without_prefix(address: str) -> str:
    return re.sub(r"^arxiv:\s*", "", address.casefold())


# --- how sure it is ---------------------------------------------------------------------------------

DEPTHS = {"full text": 1.0, "abstract": 0.5, "title": 0.2}  # How much a source counts by what was read of it
HIGH, MEDIUM = 2.0, 0.9
"""The least support of high and medium confidence: two full texts of different authors; two abstracts of
different authors, or one full text."""
LEAST_ABOUT = 0.5  # The least share of a topic's words that a source must have to count for it


def depth_of(item: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """What was read of a source: its full text, its abstract or summary, or its title alone."""
    if texts.get(str(item.get("arxiv_id", ""))):
        return "full text"
    return "abstract" if summary_of(item).strip() else "title"


def independent_groups(items: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """The sources by who made them: papers that share an author are one, and so is news of one host."""
    groups: list[tuple[set[str], list[Mapping[str, Any]]]] = []
    for item in items:
        members = [item]
        makers = {f"author {' '.join(str(each).casefold().split())}" for each in item.get("authors") or ()}
        if not makers:
            host = host_of(str(item.get("link") or ""))
            makers = {f"host {host}" if host else f"item {item.get('arxiv_id') or item.get('title')}"}
        apart = []
        for names, others in groups:
            if names & makers:
                makers |= names
                members = [*others, *members]
            else:
                apart.append((names, others))
        groups = [*apart, (makers, members)]
    return [members for _, members in groups]


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
    said = f"{item.get('title', '')} {summary_of(item)}"
    held = find_terms(f"{said} {texts.get(str(item.get('arxiv_id', '')), '')}").keys()
    return len(wanted & held) >= LEAST_ABOUT * len(wanted)


def describe_support(items: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> str:
    """What supports a statement: ``2 independent sources, full text``."""
    groups = independent_groups(items)
    deepest = max((depth_of(item, texts) for item in items), key=DEPTHS.__getitem__, default="title")
    return f"{count(len(groups), 'independent source')}, {deepest}"


# --- the brief --------------------------------------------------------------------------------------

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
    return quote_address(item["link"], safe="%/:?#@!$&'()*+,;=~-._")


def compose_brief(title: str, found: Findings, topic: str = "") -> str:
    """A brief on the findings; what could not be read is listed.

    Each paper and item carries a number such as [1], which links to its address.
    """
    sources = number_sources(found)
    numbers = {item_url(item): number for number, item in sources.items()}
    parts = []
    if found.papers:
        parts.append(f"{count(len(found.all_papers()), 'paper')} (confidence: {found.confidence(topic)})")
    if found.news:
        parts.append(count(len(found.news), "news item"))
    moment = datetime.fromtimestamp(found.looked_up, UTC)
    counts = f"{' and '.join(parts) or 'Nothing found'}, looked up {moment:%Y-%m-%d %H:%M} UTC."
    lines = [f"# {escape(title)}", "", counts, ""]
    if found.summary:
        lines += ["## Summary (by a model, from the sources below)", ""]
        # citations within the text were checked, and are repeated by the numbers after it
        for statement, cited in found.summary:
            support = describe_support([sources[number] for number in cited], found.texts)
            marks = "".join(f"[{number}]" for number in cited)
            lines.append(f"- {escape(CITED.sub('', statement))} {marks} ({support})")
        lines.append("")
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
    paper = "arxiv_id" in item
    by, where = (
        (_format_authors(item["authors"]), f". arXiv:{item['arxiv_id']}") if paper else (item["source"], "")
    )
    return f"- [{number}] {escape(by)}: {escape(item['title'])}{where}, <{item_url(item)}>"


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
