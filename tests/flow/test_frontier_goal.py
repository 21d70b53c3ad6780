"""A research brief from recorded answers, by real processes: as a goal, and with a kill -9 in the middle."""

import threading
from pathlib import Path

import pytest

from shared.bus.records import submission_entry
from shared.contracts import Task, TaskResult, TaskStatus, generate_task_id
from tests.flow.discovery_pages import PAPERS, RSS
from tests.support.http import Request, Site
from tests.support.office import Office
from tests.support.waiting import eventually


def sources(site: Site) -> dict[str, str]:
    return {
        "MAILROOM_ARXIV_URL": site.page("/api/query", PAPERS),
        "MAILROOM_FEEDS": site.page("/rss", RSS),
        "MAILROOM_HTTP_TIMEOUT": "10",
    }


async def hand_out(office: Office, action: str, **params: object) -> Task:
    task = Task(
        task_id=generate_task_id(),
        text=action,
        assignee="frontier",
        requester="user",
        context={"action": action, "params": params},
    )
    await office.user.commit([submission_entry(task)])
    return task


async def result(office: Office, task: Task) -> TaskResult:
    return await office.result("frontier", task.task_id)


async def test_a_research_goal_ends_in_a_brief_with_its_sources(tmp_path: Path, site: Site) -> None:
    office = Office(tmp_path, **sources(site))
    try:
        await office.open(["conductor", "memory", "frontier", "critic"])
        await office.submit({"goal_id": "g1", "text": "Write a research brief on attention"})
        goal = await office.finished("g1")
        assert goal.status is TaskStatus.COMPLETED, goal
        briefs = list(office.config.outputs.glob("g1/research-brief-*.md"))
        assert len(briefs) == 1
        assert "[1]: <https://arxiv.org/abs/1706.03762v7>" in briefs[0].read_text()
        assert "of 10 by embedding" in briefs[0].read_text()
    finally:
        await office.close()


@pytest.mark.parametrize("moment", ["looking up", "after it was written"])
async def test_killed_in_the_middle_it_reports_everything_once(
    tmp_path: Path, site: Site, moment: str
) -> None:
    office = Office(tmp_path, **sources(site))
    stuck, going_on = threading.Event(), threading.Event()
    quick = site.pages["/api/query"]

    def slow(request: Request) -> None:
        stuck.set()
        going_on.wait(10)
        request.respond(*quick)

    if moment == "looking up":
        site.pages["/api/query"] = slow
    try:
        await office.open(["frontier"])
        task = await hand_out(office, "daily_discovery", topics=["attention"])
        if moment == "looking up":
            await eventually(stuck.is_set)
            site.pages["/api/query"] = quick
        else:
            await eventually(lambda: list(office.config.outputs.glob("*/daily-discovery.md")))
        office.kill("frontier")
        going_on.set()
        office.start("frontier")
        first = await result(office, task)
        assert first.status is TaskStatus.COMPLETED, first.error_message
        assert len(first.metadata["discovery"]["papers"]) == 2
        assert len(first.metadata["discovery"]["news_items"]) == 2
        again = await result(office, await hand_out(office, "daily_discovery", topics=["attention"]))
        assert again.metadata["discovery"]["papers"] == []
        assert again.metadata["discovery"]["news_items"] == []
    finally:
        going_on.set()
        await office.close()


async def test_an_office_of_two_frontiers_shares_what_was_reported(tmp_path: Path, site: Site) -> None:
    office = Office(tmp_path, **sources(site))
    try:
        await office.open(["frontier"])
        office.start("frontier", "2")
        await office.ready("frontier", "2")
        tasks = [await hand_out(office, "monitor_ai_news", max_articles=10) for _ in range(4)]
        results = [await result(office, task) for task in tasks]
        titles = [item["title"] for one in results for item in one.metadata["news_items"]]
        assert sorted(titles) == ["A graph of everything remembered", "An older thing"]
    finally:
        await office.close()
