"""One goal over HTTP: its page, its tasks, its report, and what its evidence names."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from shared.subjects import CONDUCTOR, CRITIC, MEMORY_DAEMON
from tests.support.gateway import RunningGateway
from tests.support.waiting import eventually

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    """A gateway and the agents of a check-up, which has been made of a small project."""
    shop = tmp_path / "shop"
    shop.mkdir()
    (shop / "README.md").write_text(f"# Shop\n\n{HOSTILE}\n")
    (shop / "secret.py").write_text("hidden = 1\n")
    (shop / "test_shop.py").write_text("def test_ok():\n    pass\n\n\ndef test_wrong():\n    assert 3 == 4\n")
    running = RunningGateway(tmp_path)
    try:
        await running.open(CONDUCTOR, CRITIC, MEMORY_DAEMON, "engineer", "scout")
        await running.office.submit({"text": f"Check up on the repository at {shop}", "goal_id": "g1"})
        await running.office.finished("g1", 60)
        yield running
    finally:
        await running.close()


async def read_page(client: httpx2.AsyncClient) -> dict:
    async def whole() -> dict | None:
        answer = await client.get("/api/v1/goals/g1")
        return answer.json() if answer.status_code == 200 and answer.json()["state"] == "ended" else None

    return await eventually(whole, 20)


async def test_a_goals_page_has_all_of_it_and_its_evidence_opens(gateway: RunningGateway) -> None:
    async with gateway.client() as client:
        page = await read_page(client)
        assert page["outcome"] == "done_with_findings"
        assert page["text"].startswith("Check up on")
        assert [task["name"] for task in page["tasks"]][:2] == ["reading", "tests"]
        (run,) = page["tests"]
        assert (run["passed"], run["failed"]) == (1, 1)
        kinds = {row["kind"] for row in page["rows"]}
        assert {"task", "command", "conductor"} <= kinds
        by_id = {row["id"]: row for row in page["rows"]}
        assert all(row.get("parent", "") in ("", *by_id) for row in page["rows"])
        assert page["rows_total"] == len(page["rows"])
        sent = [(each["sender"], each["recipient"]) for each in page["messages"]]
        assert sent[0] == ("user", "conductor")
        assert set(page["lanes"]) == {name for pair in sent for name in pair}
        assert page["lanes"][0] == "user"

        async def at_one_position() -> bool:
            again = (await client.get("/api/v1/goals/g1")).json()
            messages = (await client.get("/api/v1/messages?limit=1")).json()
            return bool(again["position"] == messages["position"])

        await eventually(at_one_position)  # memory may still have something to say

        tests_id = next(task["task_id"] for task in page["tasks"] if task["name"] == "tests")
        task = (await client.get(f"/api/v1/tasks/{tests_id}")).json()
        assert task["details"]["result"]["outcome"] == "done_with_findings"
        assert any("test_wrong" in row.get("output", "") for row in task["details"]["rows"])
        assert not task["truncated"]

        report = await client.get("/api/v1/goals/g1/report")
        assert report.text.startswith("# Check-up of shop")
        opened = await client.get(f"/api/v1/goals/g1/evidence/{run['failures'][0]['source']}")
        assert "> 6      assert 3 == 4" in opened.text
        log = await client.get(f"/api/v1/goals/g1/evidence/{run['log_path']}")
        assert "test_wrong" in log.text
        for each in (report, opened, log):
            assert each.headers["content-type"].startswith("text/plain")
            assert each.headers["x-content-type-options"] == "nosniff"


REFUSED = (
    "secret.py",
    "test_shop.py:99999",
    "../../../etc/passwd",
    "/etc/passwd",
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e/%2e%2e/etc/passwd",
    "test_shop.py%00.txt",
    "https://example.org/",
    "x" * 5_000,
)
MISSING = ("/api/v1/goals/nope", "/api/v1/goals/nope/report", "/api/v1/tasks/nope")
GUARDED = ("/api/v1/goals/g1", "/api/v1/tasks/x", "/api/v1/goals/g1/report", "/api/v1/goals/g1/evidence/x")


async def test_what_the_results_do_not_name_is_not_opened(gateway: RunningGateway) -> None:
    async with gateway.client() as client:
        await read_page(client)
        for ref in REFUSED:
            answer = await client.get(f"/api/v1/goals/g1/evidence/{ref}")
            assert answer.status_code in (400, 404), (ref, answer.text)
            assert "root:" not in answer.text
        for path in MISSING:
            assert (await client.get(path)).status_code == 404
    async with gateway.stranger() as stranger:
        for path in GUARDED:
            assert (await stranger.get(path)).status_code == 401
