"""What was archived as people see it: goals, mail and the index, with the bundle there and away."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from shared import subjects
from shared.access.scopes import Scope
from shared.bus.entry import seal
from shared.contracts import Email, TaskStatus
from tests.bus.test_archive import archive, handled, record_goal, run_task, seal_all, task
from tests.bus.test_seals import fill, quick  # noqa: F401  # a fixture
from tests.support.access import Tokens
from tests.support.gateway import RunningGateway
from tests.support.waiting import eventually

GOAL = "g1"
LETTERS = 4


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    running = RunningGateway(tmp_path)
    try:
        await running.open()
        yield running
    finally:
        await running.close()


@pytest.fixture
async def bundle(gateway: RunningGateway, tmp_path: Path) -> Path:
    """The bundle with a goal, and letters to a person of which the last stays on the server."""
    server, folder = gateway.office.server, tmp_path / "archive"
    folder.mkdir()
    await record_goal(server, GOAL, TaskStatus.PENDING, TaskStatus.IN_PROGRESS)
    await run_task(server, task(f"{GOAL}-1", GOAL))
    await record_goal(server, GOAL, TaskStatus.COMPLETED)
    engineer = await server.connect("engineer")
    for number in range(LETTERS):
        letter = Email(sender="engineer", recipient="user", body=f"letter {number}")
        await engineer.commit([seal(subjects.mail("user", "engineer"), letter)])
    await fill(server, 40)
    await handled(server)
    await seal_all(server)

    async def has_page() -> bool:
        async with gateway.client() as client:
            page = await client.get(f"/api/v1/goals/{GOAL}")
        return page.status_code == 200 and page.json()["archived"] == []

    await eventually(has_page, 20)
    (order,) = await archive(server, folder)
    return folder / order.bundle


async def test_a_goal_names_the_bundle_in_which_its_messages_lie(
    gateway: RunningGateway, bundle: Path, tmp_path: Path
) -> None:
    async def read_part() -> dict[str, object]:
        async with gateway.client() as client:
            (part,) = (await client.get(f"/api/v1/goals/{GOAL}")).json()["archived"]
        return dict(part)

    async def is_known() -> bool:
        async with gateway.client() as client:
            return bool((await client.get(f"/api/v1/goals/{GOAL}")).json()["archived"])

    await eventually(is_known, 20)  # the gateway has indexed the order

    async def show() -> tuple[str, str]:
        done = await asyncio.to_thread(gateway.office.server.mailroom, "show", GOAL)
        return done.stdout, done.stderr

    part = await read_part()
    assert (part["bundle"], part["folder"], part["is_here"]) == (bundle.name, str(bundle.parent), True)
    told, where = await show()
    assert "in_progress" in told  # a step that is in the bundle alone
    assert where.split() == f"Shown: also read from the bundle {bundle.name} in {bundle.parent}".split()
    bundle.rename(tmp_path / bundle.name)
    assert (await read_part())["is_here"] is False
    told, where = await show()
    assert "in_progress" not in told
    wanted = (
        f"Not shown: what lies in the bundle {bundle.name}, which is not in {bundle.parent}: put it there"
    )
    assert where.split() == wanted.split()


async def test_mail_is_listed_from_its_bundle_or_it_is_said_where_it_is(
    gateway: RunningGateway, bundle: Path, tmp_path: Path
) -> None:
    async def read() -> tuple[list[str], list[str]]:
        async with gateway.client() as client:
            found = (await client.get("/api/v1/mail?agent=engineer")).json()
        return [each["body"] for each in found["mail"]], [each["bundle"] for each in found["away"]]

    bundle.rename(tmp_path / bundle.name)
    assert await read() == ([f"letter {LETTERS - 1}"], [bundle.name])
    done = await asyncio.to_thread(gateway.office.server.mailroom, "mail", "list")
    assert f"is in the archive ({bundle.parent})" in " ".join(done.stdout.split())
    (tmp_path / bundle.name).rename(bundle)
    assert await read() == ([f"letter {number}" for number in range(LETTERS)], [])


async def test_an_index_that_was_made_without_a_bundle_takes_it_in_when_it_is_back(
    gateway: RunningGateway, bundle: Path, tmp_path: Path
) -> None:
    token = Tokens(gateway.config).add("reader", Scope.READ)

    async def count() -> int:
        headers, params = {"Authorization": f"Bearer {token}"}, {"subject": "mail.", "limit": 500}
        async with httpx2.AsyncClient(base_url=gateway.url, headers=headers) as client:
            answer = await client.get("/api/v1/messages", params=params)
            if answer.status_code == 503:  # it has just started
                return -1
            return len(answer.json()["messages"])

    before = await count()
    assert before == LETTERS + 40
    gateway.office.kill("gateway")
    for path in gateway.config.gateway.glob("index.db*"):
        path.unlink()
    shutil.move(bundle, tmp_path / bundle.name)
    gateway.office.start("gateway")
    await gateway.office.ready("gateway")

    async def has(number: int) -> bool:
        return await count() == number

    await eventually(lambda: has(2), 20)
    shutil.move(tmp_path / bundle.name, bundle)
    await eventually(lambda: has(before), 30)
