"""Frontier at work: its actions as tasks, against a local server that answers as arXiv and a feed do."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.frontier.__main__ import Frontier
from shared.contracts import AgentReport, DiscoveryResult, TaskStatus
from shared.profile import Profile
from tests.flow.discovery_site import NO_PAPERS, PAPERS, RSS, Site, site
from tests.flow.team import Team, open_team

__all__ = ["site"]

PROFILE = Profile(
    name="frontier",
    description="Discovers.",
    options={
        "interests": ["attention", "graph memory"],
        "papers_per_interest": 2,
        "arxiv_delay": 0.0,
        "arxiv_retries": 0,
    },
)


@pytest.fixture
async def team(tmp_path: Path, site: Site) -> AsyncIterator[Team]:
    sources = {
        "MAILROOM_ARXIV_URL": site.page("/api/query", PAPERS),
        "MAILROOM_FEEDS": f"{site.page('/rss', RSS)},{site.page('/gone', 'no', 410)}",
        "MAILROOM_HTTP_TIMEOUT": "2",
    }
    async with open_team(tmp_path, ["frontier"], **sources) as team:
        await team.join(Frontier, PROFILE)
        yield team


async def test_find_papers(team: Team, site: Site) -> None:
    result = await team.perform("frontier", "find_papers", topic="attention")
    assert result.status is TaskStatus.COMPLETED
    assert (
        "- Attention Is All You Need (Ashish Vaswani, Noam Shazeer) https://arxiv.org/abs/1706.03762v7"
        in result.output
    )
    assert result.evidence_refs == ("arxiv:1706.03762v7", "arxiv:cs/0112017v1")
    assert result.metadata["confidence"] == "medium"
    site.page("/api/query", NO_PAPERS)
    none = await team.perform("frontier", "find_papers", topic="attention", max_results=1)
    assert none.output == "arXiv has no paper on 'attention'."
    assert none.metadata == {"papers": [], "confidence": "low"}


async def test_news_tells_of_broken_feeds(team: Team) -> None:
    result = await team.perform("frontier", "monitor_ai_news", max_articles=1)
    assert [item["title"] for item in result.metadata["news_items"]] == ["A graph of everything remembered"]
    assert result.evidence_refs == ("https://news.example/graph?utm_source=rss",)
    assert "HTTP status 410" in result.metadata["problems"][0]
    assert "Not looked up: The feed http://127.0.0.1" in result.output


async def test_a_research_brief_is_saved_with_its_sources(team: Team) -> None:
    result = await team.perform("frontier", "research_brief", topic="attention")
    (path,) = result.output_paths
    assert Path(path).parent == team.config.outputs / result.task_id
    text = Path(path).read_text()
    assert text.startswith("# Research brief: attention\n")
    assert re.findall(r"^\[(\d)\]: <(.+)>$", text, re.MULTILINE) == [
        ("1", "https://arxiv.org/abs/1706.03762v7"),
        ("2", "https://arxiv.org/abs/cs/0112017v1"),
    ]
    report = AgentReport.from_dict(result.metadata["report"])
    assert report.report_type == "research_brief"
    assert report.output_paths == result.output_paths


async def test_the_daily_discovery_covers_the_interests(team: Team) -> None:
    result = await team.perform("frontier", "daily_discovery")
    discovery = DiscoveryResult.from_dict(result.metadata["discovery"])
    assert discovery.query == "attention, graph memory"
    assert len(discovery.papers) == 2  # the same two for both interests
    assert len(discovery.news_items) == 2
    assert discovery.citations == result.evidence_refs
    assert Path(discovery.output_path).read_text().count("## Papers: ") == 2
    assert len(result.metadata["problems"]) == 1


async def test_what_cannot_be_reached_is_said_in_one_sentence(team: Team, site: Site) -> None:
    site.page("/api/query", "down", 503)
    failed = await team.perform("frontier", "find_papers", topic="attention")
    assert failed.status is TaskStatus.FAILED
    assert re.fullmatch(
        r"arXiv at 127\.0\.0\.1:\d+ answered with HTTP status 503\. Try again later", failed.error_message
    )
    partly = await team.perform("frontier", "daily_discovery", topics=["one", "two"])
    assert partly.status is TaskStatus.COMPLETED
    assert partly.metadata["discovery"]["papers"] == []
    assert "Not looked up: one, two" in partly.metadata["problems"][0]
    site.page("/rss", "down", 500)
    nothing = await team.perform("frontier", "daily_discovery")
    assert nothing.status is TaskStatus.FAILED
    assert "\n" not in nothing.error_message
    no_news = await team.perform("frontier", "monitor_ai_news")
    assert no_news.status is TaskStatus.FAILED


async def test_a_topic_of_no_words_is_refused_before_anything_is_asked(team: Team, site: Site) -> None:
    result = await team.perform("frontier", "daily_discovery", topics=["graphs", "?"])
    assert "holds no word to search for" in result.error_message
    assert site.asked == []
