"""What one agent leaves by the thousands hides nothing of others, and lists are pages that come at once."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from shared import subjects
from shared.bus.records import submission_entry
from shared.contracts import ApprovalRequest, DeadLetter, Email, Task, TaskStatus
from shared.messaging.approval_requests import MAX_OPEN_OF_TASK
from shared.queries.records import last_sequence
from tests.support.gateway import RunningGateway
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]

FLOOD = 4_000
AT_ONCE = 8.0
"""Seconds that a request may take, and a command more than one that does nothing: a page takes a tenth."""
ASKING = '''"""An agent for tests: asks people again and again."""
import asyncio
from shared.agent.base import Agent
from shared.agent.process import run
from shared.tasks.actions import Outcome, register_action


class Asking(Agent):
    """Asks."""

    @register_action("Ask, and wait for no answer", {"times": "how often"})
    async def ask(self, times: int) -> Outcome:
        """How often it was done."""
        for number in range(times):
            try:
                async with asyncio.timeout(0.2):
                    await self.context.approvals.require(f"May I? {number}")
            except TimeoutError:
                pass
        return Outcome(output=f"{times} times")


if __name__ == "__main__":
    run(Asking, __file__)
'''


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    folder: Path = tmp_path_factory.mktemp("office")
    home = folder / "agents" / "asking"
    home.mkdir(parents=True)
    (home / "profile.yaml").write_text("name: asking\ndescription: Asks.\n")
    (home / "__main__.py").write_text(ASKING)
    running = RunningGateway(folder, MAILROOM_AGENTS_DIR=str(folder / "agents"), PYTHONPATH=str(Path.cwd()))
    try:
        await running.open("asking")
        for agent, number in (("critic", 3), ("engineer", FLOOD)):
            await leave(running, agent, number)
        yield running
    finally:
        await running.close()


async def leave(gateway: RunningGateway, agent: str, number: int) -> None:
    """Have ``agent`` leave so many requests, dead letters and mails, as any client with its key may."""
    user = gateway.office.user
    stored = await last_sequence(user, subjects.OFFICE) + 3 * number
    expires = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    async with gateway.office.server.raw_client(agent) as client:
        for n in range(number):
            request = ApprovalRequest(
                sender=agent,
                recipient="user",
                approval_id=f"{agent}-{n:05}",
                task_id="t",
                what=f"rm -r build{n}",
                expires_at=expires,
            )
            letter = DeadLetter(
                sender=agent,
                reason=f"no {n}",
                subject="s",
                stream="OFFICE",
                stream_seq=1,
                deliveries=1,
                original="",
            )
            mail = Email(sender=agent, recipient="user", subject=f"Subject {n}", body="Is it so?")
            await client.publish(subjects.approval_asked(agent, request.approval_id), request.to_json())
            await client.publish(subjects.dead(agent), letter.to_json())
            await client.publish(subjects.mail("user", agent), mail.to_json())
            if n % 500 == 0:
                await client.flush()
        await client.flush()

    async def is_stored() -> bool:
        return await last_sequence(user, subjects.OFFICE) >= stored

    await eventually(is_stored, 60)


async def listed(gateway: RunningGateway, *arguments: str) -> str:
    begun = time.monotonic()
    await asyncio.to_thread(gateway.office.server.mailroom, "--version")
    between = time.monotonic()
    done = await asyncio.to_thread(gateway.office.server.mailroom, *arguments)
    assert time.monotonic() - between < 2 * (between - begun) + AT_ONCE, arguments
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) < 300
    return done.stdout


async def test_commands_list_pages(gateway: RunningGateway) -> None:
    approvals = await listed(gateway, "approvals", "list")
    assert all(f"critic-0000{n} " in approvals for n in range(3))
    assert f"rm -r build{FLOOD - 1}" in approvals
    assert f"and {FLOOD - 27:,} more of engineer" in approvals
    few = msgspec.json.decode(await listed(gateway, "approvals", "list", "--limit", "4", "--json"))
    assert Counter(each["sender"] for each in few) == {"engineer": 2, "critic": 2}
    only = await listed(gateway, "approvals", "list", "--agent", "critic")
    assert "engineer" not in only
    granted = await listed(gateway, "approvals", "grant", "engineer-00017")
    assert "engineer may rm -r build17" in granted
    dead = await listed(gateway, "dead", "list")
    assert dead.count(" critic ") == 3
    assert f"and {FLOOD - 27:,} more of engineer" in dead
    mail = await listed(gateway, "mail", "list")
    assert f"Subject {FLOOD - 1}" in mail
    assert f"{FLOOD - 30:,} of engineer" in mail
    assert "3 of critic" in mail
    await listed(gateway, "status")


async def test_the_api_gives_pages(gateway: RunningGateway) -> None:
    async with gateway.client() as client:

        async def get(path: str) -> dict[str, Any]:
            begun = time.monotonic()
            answer = await client.get(f"/api/v1/{path}")
            assert time.monotonic() - begun < AT_ONCE, path
            assert answer.status_code == 200, answer.text
            found: dict[str, Any] = answer.json()
            return found

        async def is_indexed() -> bool:
            answer = await client.get("/api/v1/dead-letters")  # while it indexes, it may be too busy
            return answer.status_code == 200 and answer.json()["total"] == FLOOD + 3

        await eventually(is_indexed, 60)
        page = await get("approvals?limit=10")
        assert Counter(each["agent"] for each in page["approvals"]) == {"engineer": 7, "critic": 3}
        assert page["more"]["engineer"] >= FLOOD - 8
        assert "critic" not in page["more"]
        inbox = await get("inbox")
        kinds = Counter((each["kind"], each["agent"]) for each in inbox["waiting"])
        assert (kinds["approval", "critic"], kinds["dead_letter", "critic"]) == (3, 3)
        assert len(inbox["waiting"]) < 700


async def test_a_task_that_asks_without_end_is_refused(gateway: RunningGateway) -> None:
    context = {"action": "ask", "params": {"times": 50}}
    task = Task(task_id="a1", assignee="asking", requester="user", text="Ask", context=context)
    await gateway.office.user.commit([submission_entry(task)])
    result = await gateway.office.result("asking", "a1")
    assert result.status is TaskStatus.FAILED
    assert f"{MAX_OPEN_OF_TASK} requests wait for a person already" in result.error_message
    assert "mailroom approvals list" in result.error_message
    stored = await gateway.office.stored(subjects.approval_asked("asking", "*"))
    assert len(stored) == MAX_OPEN_OF_TASK
