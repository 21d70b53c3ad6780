"""Frontier: discovers papers and news, and writes research briefs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from services.frontier.brief import (
    Findings,
    compose_brief,
    discovery_outcome,
    find_unsourced,
    number_sources,
    synthesize,
)
from services.frontier.relevance import Rater, merge_interests, ratings_of, remembered_interests
from services.frontier.selection import (
    ReportedItems,
    Selector,
    all_items,
    item_key,
    store_discoveries,
    without_private,
)
from services.frontier.sources import (
    SourceAnswer,
    Sources,
    join_problems,
    parse_options,
    read_full_texts,
    tell_stories,
)
from shared import subjects
from shared.agent.base import Agent, Outbox
from shared.agent.process import run
from shared.bus import Bus
from shared.contracts import AgentReport, Task, generate_task_id
from shared.errors import ActionError, BusError, ModelError
from shared.operations.news import JUDGED
from shared.settings import Settings
from shared.skills.news import report_news
from shared.skills.papers import build_query, cite_papers, report_papers
from shared.skills.workspace import outputs_path, slug, write_output
from shared.tasks.actions import Outcome, register_action
from shared.tasks.profiles import Profile
from shared.text.display import count
from shared.text.prose import find_stems, find_terms

MAX_TOPICS = 20  # Topics of one discovery: at arXiv's pace they take a minute

TOPIC = {
    "topic": "What the papers are about, in a few words",
    "max_results": "How many papers at most, 1 to 100",
}


class Frontier(Agent):
    """Discovers papers on arXiv and news in feeds, and writes briefs with citations that resolve."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        super().__init__(profile, settings, bus)
        self.options = parse_options(profile.options)
        self.sources = Sources(settings, self.options)
        self.reported = ReportedItems(bus, profile.name)
        self.rater = Rater(self.context)
        self.selector = Selector(self.context, self.options, self.reported)

    async def on_task(self, task: Task) -> Outcome:
        """As any agent; papers and addresses that a model names without having found them are listed."""
        outcome = await super().on_task(task)
        unknown = [] if task.context.get("action") else find_unsourced(outcome.output, outcome.evidence_refs)
        if not unknown:
            return outcome
        output = f"{outcome.output}\n\nNamed, but not found in this task: {', '.join(unknown)}"
        return msgspec.structs.replace(outcome, output=output, data={**outcome.data, "unknown": unknown})

    @register_action("Find the most relevant papers on arXiv", TOPIC)
    async def find_papers(self, topic: str, max_results: int = 3) -> Outcome:
        """The papers in data key ``papers``, arXiv ids as evidence; none found is an answer, not an error."""
        return report_papers(topic, (await self._find_papers(topic, max_results)).items)

    @register_action(
        "Read the latest AI news from the configured feeds",
        {
            "max_articles": "How many items at most",
            "again": "Whether also what was reported before",
            "about": "Words that a story has; empty for any",
        },
    )
    async def monitor_ai_news(self, max_articles: int = 5, again: bool = False, about: str = "") -> Outcome:
        """Stories not reported before in data key ``news_items``, the most interesting first, each once.

        With ``again`` also those that were. Broken feeds are in ``problems``. Fails if all feeds are broken.
        """
        await self.context.progress(f"reads {len(self.context.settings.feeds)} feeds")
        news = await self.sources.news()
        if not news.items and news.problems:
            raise ActionError(
                join_problems(news.problems), "Check the network connection and the setting feeds"
            )
        wanted, _ = await self._interests(())
        words = find_terms(about).keys()
        items = [item for item in news.items if words <= find_stems(" ".join(map(str, item.values())))]
        chosen = await self.selector.stories(items, wanted, max(0, max_articles), again=again)
        stories, notes = await tell_stories(self.context.models, chosen)
        await self._mark_reported(all_items((), stories), exclusive=not again)
        none = "The feeds hold no news that was not reported before. Ask for all news to read it again."
        none = (none if items else f"The feeds hold nothing about {about}.") if news.items else ""
        return report_news(without_private(stories), (*news.problems, *notes), none)

    @register_action(
        "Rate a paper's relevance to the interests, out of 10, by embedding and, if there is one, a model",
        {
            "title": "The paper's title",
            "abstract": "Its abstract, or what is known of it",
            "interests": "What it is measured by; empty takes the interests of the profile and of memory",
        },
    )
    async def analyze_paper_relevance(
        self, title: str, abstract: str = "", interests: tuple[str, ...] = ()
    ) -> Outcome:
        """The ratings, each with its label, in data key ``relevance``; fails if there is none."""
        wanted, notes = await self._interests(interests)
        (paper,), problems = await self.rater.rate([{"title": title, "abstract": abstract}], wanted)
        ratings = ratings_of(paper)
        if not ratings:
            raise ActionError("; ".join(problems), "See whether memory runs with 'mailroom status'")
        lines = [f"Relevance of {title!r}:", *(f"- {rating.sentence}" for rating in ratings)]
        return Outcome(
            output="\n".join([*lines, *notes, *problems]),
            data={"relevance": msgspec.to_builtins(ratings), "problems": [*notes, *problems]},
        )

    @register_action(
        "Search for new papers on every interest and for news, and write a brief",
        {"topics": "What to look for; empty takes the interests of the profile and of memory"},
    )
    async def daily_discovery(self, topics: tuple[str, ...] = ()) -> Outcome:
        """A DiscoveryResult in data key ``discovery``, its brief on disk; fails if no source answers.

        Items reported before are left out; an item counts as reported when its brief is written.
        """
        wanted, notes = await self._interests(topics)
        await self.context.progress(f"looks for new papers on {len(wanted)} topics and for news")
        by_topic, problems = await self.sources.papers_by_topic(wanted)
        news = await self.sources.news()
        problems += news.problems
        if problems and not news.items and not any(found.items for found in by_topic.values()):
            cure = "Check the network connection and the settings arxiv_url and feeds"
            raise ActionError(join_problems(problems), cure)
        chosen, rated = await self.selector.papers(by_topic, wanted)
        shown = {item_key(paper) for found in chosen.values() for paper in found}
        others = [item for item in news.items if item_key(item) not in shown]
        found_stories = await self.selector.stories(others, wanted, self.options.news_items)
        papers, judged, unrated = await self.selector.rate_by_model(chosen, found_stories, wanted)
        stories, untold = await tell_stories(self.context.models, judged)
        at = min((news.at, *(found.at for found in by_topic.values())))
        findings = Findings(
            papers=papers,
            news=stories,
            problems=problems,
            notes=[*notes, *rated, *unrated, *untold],
            looked_up=at,
        )
        findings, path = await self._write_up("Daily discovery", findings, ", ".join(wanted) or "news")
        return discovery_outcome(findings, wanted, path, self.context.task.task_id, self.context.profile.name)

    @register_action("Write a research brief with sources on a topic", TOPIC)
    async def generate_research_brief(self, topic: str, max_results: int = 5) -> Outcome:
        """An AgentReport in data key ``report`` and the brief as Markdown on disk."""
        found = await self._find_papers(topic, max_results)
        papers, problems = await self.rater.rate(found.items, [topic])
        texts, unread = await read_full_texts(papers, self.options.full_texts, self.context.settings)
        notes = [*problems, *unread]
        findings = Findings(papers={topic: papers}, notes=notes, looked_up=found.at, texts=texts)
        findings, path = await self._write_up(f"Research brief: {topic}", findings, topic, exclusive=False)
        confidence = findings.confidence(topic)
        report = AgentReport(
            report_id=generate_task_id("report"),
            agent=self.context.profile.name,
            report_type="research_brief",
            summary=f"{count(len(papers), 'paper')} on {topic!r} (confidence: {confidence})",
            findings=tuple(f"{paper['title']} (arXiv:{paper['arxiv_id']})" for paper in papers),
            evidence_refs=cite_papers(papers),
            output_paths=(str(path),),
        )
        return Outcome(
            output="\n".join([f"{report.summary}, written up in {path}", *findings.notes]),
            data={
                "report": report.to_dict(),
                "papers": papers,
                "confidence": confidence,
                "notes": findings.notes,
            },
            evidence_refs=report.evidence_refs,
            output_paths=report.output_paths,
        )

    async def on_report(self, report: AgentReport) -> Outbox:
        """Keep what a person thinks of an item."""
        if report.sender == subjects.USER and report.report_type == JUDGED:
            await self.selector.feedback.accept(report)
        return ()

    async def _find_papers(self, topic: str, max_results: int) -> SourceAnswer:
        await self.context.progress(f"asks arXiv for papers on {topic[:100]!r}")
        return await self.sources.papers(topic, max_results)

    async def _interests(self, topics: Sequence[str]) -> tuple[tuple[str, ...], list[str]]:
        """``topics``, or those of the profile and of memory, and a note if memory did not answer."""
        if topics:
            if len(topics) > MAX_TOPICS:
                raise ActionError(f"{len(topics)} topics are too many", f"Name {MAX_TOPICS} at most")
            for topic in topics:
                build_query(topic)
            return tuple(topics), []
        try:
            remembered = await remembered_interests(self.context.memory, self.options.remembered_interests)
        except BusError as error:
            return self.options.interests, [f"Memory was not asked for interests: {error}"]
        return merge_interests(self.options.interests, remembered), []

    async def _write_up(
        self, title: str, findings: Findings, topic: str, *, exclusive: bool = True
    ) -> tuple[Findings, Path]:
        """Save the brief, add its items to memory, mark them as reported; problems become notes."""
        sources = number_sources(findings)
        notes = list(findings.notes)
        if sources and self.context.models.model.available:
            try:
                summary = await synthesize(self.context.models, topic, sources, findings.texts)
                findings = msgspec.structs.replace(findings, summary=summary)
            except ModelError as error:
                notes.append(f"The model wrote no summary: {error}")
        findings = msgspec.structs.replace(findings, notes=notes)
        path = outputs_path(self.context) / f"{slug(title, 60)}.md"
        await write_output(self.context, path, compose_brief(title, findings, topic), "the brief")
        items, me = without_private(list(sources.values())), self.context.profile.name
        if problem := await store_discoveries(self.context.memory, me, items, topic):
            findings = msgspec.structs.replace(findings, notes=[*notes, problem])
        reported = all_items(findings.all_papers(), findings.news)
        await self._mark_reported(reported, exclusive=exclusive)
        return msgspec.structs.replace(findings, news=without_private(findings.news)), path

    async def _mark_reported(self, items: Sequence[dict[str, Any]], *, exclusive: bool = True) -> None:
        if entries := await self.reported.entries(items, self.context.task, exclusive=exclusive):
            await self.context.current_task.progress(f"reports {len(items)} items", entries)


if __name__ == "__main__":
    run(Frontier, __file__)
