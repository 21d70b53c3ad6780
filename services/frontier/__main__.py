"""Frontier: discovers papers and news, and writes research briefs."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from services.frontier.brief import compose_brief, judge_confidence, save_brief
from services.frontier.news import read_news
from services.frontier.options import read_options
from services.frontier.papers import abstract_url, build_query, find_papers
from shared.actions import Outcome, register_action
from shared.agent import BaseAgent
from shared.bus import Bus
from shared.contracts import AgentReport, DiscoveryResult, generate_task_id
from shared.errors import ActionError
from shared.process import run
from shared.profile import Profile
from shared.settings import Settings


class Frontier(BaseAgent):
    """Discovers papers on arXiv and news in feeds, and writes briefs with citations that resolve."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        super().__init__(profile, settings, bus)
        self.options = read_options(profile.options)

    @register_action(
        "Find the most relevant papers on arXiv",
        {
            "topic": "What the papers are about, in a few words",
            "max_results": "How many papers at most, 1 to 100",
        },
    )
    async def find_papers(self, topic: str, max_results: int = 3) -> Outcome:
        """The papers in data key ``papers``, arXiv ids as evidence; none found is an answer, not an error."""
        papers = await self._look_up(topic, max_results)
        told = [
            f"- {paper['title']} ({', '.join(paper['authors'][:3])}) {abstract_url(paper)}"
            for paper in papers
        ]
        head = f"{len(papers)} papers on {topic!r}:" if papers else f"arXiv has no paper on {topic!r}."
        return Outcome(
            output="\n".join([head, *told]),
            data={"papers": papers, "confidence": judge_confidence(len(papers))},
            evidence_refs=_cite(papers),
        )

    @register_action(
        "Read the latest AI news from the configured feeds", {"max_articles": "How many items at most"}
    )
    async def monitor_ai_news(self, max_articles: int = 5) -> Outcome:
        """Items in data key ``news_items``, broken feeds in ``problems``; fails where all are broken."""
        items, problems = await self._read_feeds(max_articles)
        if not items and problems:
            raise ActionError("; ".join(problems), "Check the network connection and the setting feeds")
        told = [f"- {item['title']} ({item['source']}) {item['link']}" for item in items]
        lines = [f"{len(items)} news items:" if items else "The feeds hold no news.", *told, *_warn(problems)]
        return Outcome(
            output="\n".join(lines),
            data={"news_items": items, "problems": problems},
            evidence_refs=tuple(item["link"] for item in items),
        )

    @register_action(
        "Look for new papers on every interest and for news, and write them up",
        {"topics": "What to look for; empty takes the interests of the profile"},
    )
    async def daily_discovery(self, topics: tuple[str, ...] = ()) -> Outcome:
        """A DiscoveryResult in data key ``discovery``, its brief on disk; fails where no source answers."""
        wanted = topics or self.options.interests
        for topic in wanted:
            build_query(topic)
        found, problems = await self._look_up_all(wanted)
        items, broken = await self._read_feeds(self.options.news_items)
        problems += broken
        if problems and not items and not any(found.values()):
            raise ActionError(
                "; ".join(problems), "Check the network connection and the settings arxiv_url and feeds"
            )
        path = await self._save("Daily discovery", found, items, problems)
        papers = list({paper["arxiv_id"]: paper for group in found.values() for paper in group}.values())
        result = DiscoveryResult(
            task_id=self.job.task.task_id,
            agent=self.profile.name,
            query=", ".join(wanted) or "news",
            papers=tuple(papers),
            news_items=tuple(items),
            citations=_cite(papers) + tuple(item["link"] for item in items),
            summary=f"{len(papers)} papers on {len(wanted)} topics and {len(items)} news items",
            output_path=str(path),
        )
        return Outcome(
            output="\n".join([f"{result.summary}, written up in {path}", *_warn(problems)]),
            data={
                "discovery": result.to_dict(),
                "problems": problems,
                "confidence": judge_confidence(len(papers)),
            },
            evidence_refs=result.citations,
            output_paths=(str(path),),
        )

    @register_action(
        "Write a research brief with sources on a topic",
        {
            "topic": "What the brief is about, in a few words",
            "max_results": "How many papers at most, 1 to 100",
        },
    )
    async def research_brief(self, topic: str, max_results: int = 5) -> Outcome:
        """An AgentReport in data key ``report`` and the brief as Markdown on disk."""
        papers = await self._look_up(topic, max_results)
        path = await self._save(f"Research brief: {topic}", {topic: papers}, [], [])
        confidence = judge_confidence(len(papers))
        report = AgentReport(
            report_id=generate_task_id("report"),
            agent=self.profile.name,
            report_type="research_brief",
            summary=f"{len(papers)} papers on {topic!r} (confidence: {confidence})",
            findings=tuple(f"{paper['title']} (arXiv:{paper['arxiv_id']})" for paper in papers),
            evidence_refs=_cite(papers),
            output_paths=(str(path),),
        )
        return Outcome(
            output=f"{report.summary}, written up in {path}",
            data={"report": report.to_dict(), "papers": papers, "confidence": confidence},
            evidence_refs=report.evidence_refs,
            output_paths=report.output_paths,
        )

    async def _look_up(self, topic: str, max_results: int) -> list[dict[str, Any]]:
        await self.progress(f"asks arXiv for papers on {topic!r}")
        return await asyncio.to_thread(
            find_papers,
            topic,
            max_results,
            base_url=self.settings.arxiv_url,
            timeout=self.settings.http_timeout,
            delay=self.options.arxiv_delay,
            retries=self.options.arxiv_retries,
        )

    async def _look_up_all(self, topics: Sequence[str]) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
        """Papers by topic; after the first failure the other topics are named, not tried one by one."""
        limit = self.options.papers_per_interest
        found: dict[str, list[dict[str, Any]]] = {}
        for position, topic in enumerate(topics):
            try:
                found[topic] = await self._look_up(topic, limit)
            except ActionError as error:
                return found, [f"{error} Not looked up: {', '.join(topics[position:])}"]
        return found, []

    async def _read_feeds(self, max_items: int) -> tuple[list[dict[str, Any]], list[str]]:
        await self.progress(f"reads {len(self.settings.feeds)} feeds")
        news = await read_news(self.settings.feeds, max_items, timeout=self.settings.http_timeout)
        return list(news.items), list(news.problems)

    async def _save(
        self,
        title: str,
        papers: dict[str, list[dict[str, Any]]],
        news: list[dict[str, Any]],
        problems: list[str],
    ) -> Path:
        task = self.job.task
        folder = self.settings.outputs / (task.parent_goal_id or task.goal_id or task.task_id)
        text = compose_brief(title, papers, news, problems)
        async with self.effect(f"write the brief {title!r} into {folder}", repeatable=True):
            return await asyncio.to_thread(save_brief, text, folder, title)


def _cite(papers: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(f"arxiv:{paper['arxiv_id']}" for paper in papers)


def _warn(problems: Sequence[str]) -> list[str]:
    return [f"Not looked up: {problem}" for problem in problems]


if __name__ == "__main__":
    run(Frontier, __file__)
