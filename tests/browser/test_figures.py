"""The figures: targets, courses, what is counted, and "no data" where there is none."""

import re

from playwright.async_api import expect

from shared import subjects
from shared.bus.entry import seal
from shared.bus.records import step_entry, submission_entry
from shared.contracts import CommandJudged, CommandVerdict, Task, TaskStatus, generate_id
from tests.browser.pages import Desk, require_good_looks
from tests.support.gateway import RunningGateway


async def work(office: RunningGateway) -> None:
    """Tasks of an agent that is not at work here, with memories of little relevance and a denied command."""
    bus = await office.office.connect("frontier")
    for score in (0.9, 0.2, 0.3):
        task = Task(
            task_id=generate_id(),
            text="Look",
            assignee="frontier",
            requester="frontier",
            context={"action": "brief"},
        )
        facts = {"context": {"scores": [score]}}
        result = task.result("frontier", TaskStatus.COMPLETED, output="x", metadata=facts, attempt=1)
        (seq,) = await bus.commit([submission_entry(task)])
        await bus.commit([step_entry(task, subjects.ENDED, result, seq)])
    judged = CommandJudged(command="rm -rf /", verdict=CommandVerdict.DENY, rule="r", why="w")
    await bus.commit([seal(subjects.event("frontier", "command_judged"), judged)])
    await bus.close()


async def test_each_figure_has_its_target_its_course_and_what_is_counted(
    desk: Desk, office: RunningGateway
) -> None:
    await work(office)
    page = await desk.open("/figures")
    velocity = page.get_by_role("article", name="Median time of a task")
    # Tasks of other tests may have taken longer.
    await expect(velocity).to_contain_text(re.compile("(met|missed): at most 30 s"))
    await expect(velocity).to_contain_text("Seconds from submitted to completed")
    await expect(velocity.get_by_role("img")).to_be_visible()
    context = page.get_by_role("article", name="Relevance of memories")
    await expect(context).to_contain_text(re.compile("(met|missed): above 0.75"))
    drift = page.get_by_role("article", name="Import rules broken")
    await expect(drift).to_contain_text("no data")
    await expect(drift).to_contain_text("target: 0")
    await expect(drift).to_contain_text("No repository with import rules was inspected")
    await expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("target"))
    await expect(page.get_by_role("row").filter(has_text="brief")).to_contain_text("100%")
    await page.keyboard.press("u")
    await expect(velocity).to_contain_text("completed")


async def test_what_is_wrong_with_the_installation_has_its_cure(desk: Desk) -> None:
    page = await desk.open("/figures")
    agents = page.locator(".checks li").filter(has_text="not running")
    await expect(agents).to_contain_text("cortex")
    await expect(agents).to_contain_text("Fix:")


async def test_it_looks_good(desk: Desk, axe: None, office: RunningGateway) -> None:
    await work(office)
    page = await desk.open("/figures")
    await expect(page.locator(".checks li").first).to_be_visible()
    await require_good_looks(page, "figures")
