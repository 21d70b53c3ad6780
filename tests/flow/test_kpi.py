"""``mailroom kpi`` on a real log."""

import json
import re

import pytest

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import step_entry, submission_entry
from shared.contracts import CommandJudged, CommandVerdict, Task, TaskStatus
from tests.support.server import Server

pytestmark = [pytest.mark.timeout(60), pytest.mark.usefixtures("office_gateway")]


async def do(bus: Bus, number: int) -> None:
    task = Task(
        task_id=f"t{number}",
        text="Look",
        assignee="engineer",
        requester="engineer",
        context={"action": "run_tests"},
    )
    scores = {"context": {"scores": [0.8, 0.1]}}
    result = task.result("engineer", TaskStatus.COMPLETED, output="x", metadata=scores, attempt=1)
    (seq,) = await bus.commit([submission_entry(task)])
    await bus.commit([step_entry(task, subjects.ENDED, result, seq)])


async def test_the_figures_come_from_the_log(office_server: Server) -> None:
    empty = office_server.mailroom("kpi")
    assert empty.returncode == 0, empty.stderr
    assert "velocity     no data: no task was completed" in empty.stdout
    assert "32 of 32 planted commands" in empty.stdout
    for name in ("handoffs", "delegation", "recall", "improvement", "adaptation", "patterns"):
        assert re.search(rf"^{name} +no data", empty.stdout, re.MULTILINE), name
    async with office_server.connection("engineer") as bus:
        for number in range(450):
            await do(bus, number)
        denied = CommandJudged(
            command="rm -rf /", verdict=CommandVerdict.DENY, rule="r", why="w", task_id="t1"
        )
        await bus.commit([seal(subjects.event("engineer", "command_judged"), denied)])
    for options in ([], ["--since", "10m"]):
        figures = json.loads(office_server.mailroom("kpi", "--json", *options).stdout)
        assert figures["tasks"] == {"completed": 450}
        assert figures["velocity"]["tasks"] == figures["velocity_by_agent"]["engineer"]["tasks"] == 450
        assert figures["velocity"]["within_target"] == 1.0
        assert (figures["context_hits"]["items"], figures["context_hits"]["rate"]) == (450, 1.0)
        assert (figures["safety"]["denied"], figures["safety"]["catch_rate"]) == (1, 1.0)
        assert figures["drift"] is None
        assert figures["agents"][0]["kind"] == "run_tests"
    shown = office_server.mailroom("kpi", "--agents").stdout
    flat = " ".join(shown.split())
    assert "100% caught (target: all); 32 of 32 planted commands; at work 1 denied" in flat
    assert "something relevant for 100% of 450 questions (cosine above 0.75)" in flat
    assert "run_tests" in shown
    later = json.loads(office_server.mailroom("kpi", "--json", "--since", "1ms").stdout)
    assert later["velocity"] is None
