"""What a person's goals may use, and how many there may be; and who answers what agents ask."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import httpx2
import msgspec
import pytest
import pytest_asyncio

from shared import subjects
from shared.access.scopes import Scope
from shared.bus.entry import seal
from shared.contracts import ApprovalRequest, Goal, GoalBudget, StateChanged, TaskStatus, generate_id
from shared.reasoning.entries import Amount, Share
from tests.support.access import Tokens
from tests.support.gateway import RunningGateway
from tests.support.waiting import eventually

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]

USERS = """\
ada = { role = "member" }
bob = { role = "approver" }
eve = { role = "admin" }
"""
ASKED = {
    "text": "Look",
    "context": {"playbook": "none"},
}  # There is none: it ends at once


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    made = RunningGateway(
        tmp_path_factory.mktemp("people"),
        MAILROOM_APPROVALS="reach=member,high=admin",
        MAILROOM_SECOND_PERSON="true",
    )
    try:
        await made.open(subjects.CONDUCTOR)
        yield made
    finally:
        await made.close()


@pytest_asyncio.fixture(loop_scope="module")
async def clients(running: RunningGateway):
    """A client for each token: its name counts as a person's."""
    made: dict[str, httpx2.AsyncClient] = {}

    def of(name: str, scope: Scope = Scope.SUBMIT) -> httpx2.AsyncClient:
        if name not in made:
            tokens = Tokens(running.config)
            if name in {each.name for each in tokens.list()}:
                tokens.revoke(name)
            made[name] = running.client(scope, name)
        return made[name]

    yield of
    for client in made.values():
        await client.aclose()


async def limit(client: httpx2.AsyncClient, person: str, **limits: float) -> None:
    answer = await client.post(f"/api/v1/limits/{person}", json=limits)
    assert answer.status_code == 204, answer.text


async def submit(client: httpx2.AsyncClient, goal_id: str = "", **more: object) -> httpx2.Response:
    body = ASKED | {"goal_id": goal_id or f"goal_{generate_id()}"} | more
    return await client.post("/api/v1/goals", json=body)


class TestQuota:
    async def test_one_more_than_a_day_s_goals_is_refused_with_what_is_left(
        self, running: RunningGateway, clients
    ) -> None:
        ada, bob, admin = clients("ada1"), clients("bob1"), clients("eve1", Scope.ADMIN)
        assert (await ada.post("/api/v1/limits/ada1", json={})).status_code == 403
        assert (await admin.post("/api/v1/limits/nobody", json={})).status_code == 404
        await limit(admin, "ada1", day_goals=2)
        for number in range(2):
            assert (await submit(ada, f"goal_a{number}")).status_code == 202
            await running.office.finished(f"goal_a{number}")
        refused = await submit(ada, "goal_a2")
        assert refused.status_code == 429
        assert "ada1 has reached a limit: 2 of 2 goals today" in refused.json()["detail"]
        assert (await submit(ada, "goal_a1")).status_code == 202  # that one was submitted
        assert (await submit(bob)).status_code == 202
        shown = (await admin.get("/api/v1/limits")).json()["people"]
        assert [(each["person"], each["goals"], each["day_goals"]) for each in shown] == [("ada1", 2, 2)]
        status = await asyncio.to_thread(running.office.server.mailroom, "status")
        assert "people  ada1: 2 of 2 goals today" in status.stdout
        await limit(admin, "ada1")
        assert (await submit(ada)).status_code == 202

    async def test_a_flood_past_the_gateway_begins_no_more_and_stops_nobody_else(
        self, running: RunningGateway, clients
    ) -> None:
        admin = clients("eve2", Scope.ADMIN)
        clients("flood")
        await limit(admin, "flood", day_goals=3)
        submissions = [{**ASKED, "goal_id": f"goal_f{number}", "person": "flood"} for number in range(20)]
        submissions.append({**ASKED, "goal_id": "goal_other", "person": "carol"})
        await asyncio.gather(*(running.office.submit(each) for each in submissions))
        assert "reached a limit" not in (await running.office.finished("goal_other")).reason
        ended = [await running.office.finished(f"goal_f{number}") for number in range(20)]
        begun = [goal for goal in ended if "has reached a limit" not in goal.reason]
        assert len(begun) == 3

    async def test_goals_that_have_ended_do_not_count_as_open(self, running: RunningGateway, clients) -> None:
        admin, ada = clients("eve3", Scope.ADMIN), clients("ada3")
        await limit(admin, "ada3", open_goals=1)
        for number in range(3):
            assert (await submit(ada, f"goal_o{number}")).status_code == 202
            await running.office.finished(f"goal_o{number}")
        await keep_open(running, "goal_o2", "ada3")
        refused = await submit(ada)
        assert refused.status_code == 429
        assert "1 of 1 goals open" in refused.json()["detail"]

    async def test_those_of_everyone_count_for_who_has_none(self, running: RunningGateway, clients) -> None:
        admin, dan = clients("eve4", Scope.ADMIN), clients("dan")
        await limit(admin, "everyone", day_goals=1)
        try:
            assert (await submit(dan, "goal_e0")).status_code == 202
            await running.office.finished("goal_e0")
            assert (await submit(dan)).status_code == 429
            assert (await submit(clients("fay"))).status_code == 202
        finally:
            await limit(admin, "everyone")
        assert (await submit(dan)).status_code == 202

    async def test_what_the_desk_starts_for_a_person_counts_and_what_an_agent_wants_does_not(
        self, running: RunningGateway, clients
    ) -> None:
        admin = clients("eve8", Scope.ADMIN)
        clients("gil")
        await limit(admin, "gil", day_goals=1)
        for sender, requester in ((subjects.NEXUS, subjects.USER), (subjects.CORTEX, subjects.CORTEX)):
            bus = await running.office.connect(sender)
            for number in range(2):
                goal = {**ASKED, "goal_id": f"goal_{sender}{number}", "person": "gil", "requester": requester}
                await bus.store(subjects.SUBMIT, msgspec.json.encode(goal))
        ended = {
            f"{sender}{number}": await running.office.finished(f"goal_{sender}{number}")
            for sender in (subjects.NEXUS, subjects.CORTEX)
            for number in range(2)
        }
        assert "reached a limit" in ended["nexus1"].reason + ended["nexus0"].reason
        assert [ended[name].person for name in ("nexus0", "cortex0", "cortex1")] == ["gil", "", ""]
        assert not any("reached a limit" in ended[name].reason for name in ("cortex0", "cortex1"))


async def keep_open(running: RunningGateway, goal_id: str, person: str) -> None:
    """Record a goal as one that goes on."""
    bus = await running.office.connect(subjects.CONDUCTOR)
    try:
        stored = await bus.last(subjects.OFFICE, subjects.goal(goal_id))
        assert stored
        change = StateChanged.from_json(stored.data)
        assert change.goal
        goal = msgspec.structs.replace(change.goal, status=TaskStatus.IN_PROGRESS, ended_at="")
        again = msgspec.structs.replace(change, id=generate_id(), goal=goal)
        await bus.commit([seal(subjects.goal(goal_id), again, expect=stored.seq)])
    finally:
        await bus.close()


class TestBudget:
    async def test_a_spent_day_is_refused_and_goals_carry_their_own_person_s_budget(
        self, running: RunningGateway, clients
    ) -> None:
        admin, ada, bob = clients("eve5", Scope.ADMIN), clients("ada5"), clients("bob5")
        await limit(admin, "ada5", day_tokens=1_000, day_cost=2)
        forged = {"tokens": 50, "person": "bob5", "day_tokens": 9, "goal_id": "goal_of_bob"}
        assert (await submit(ada, "goal_b0", budget=forged)).status_code in (202, 422)
        await running.office.submit({**ASKED, "goal_id": "goal_b1", "person": "ada5", "budget": forged})
        goal = await running.office.finished("goal_b1")
        assert goal.budget == GoalBudget(
            goal_id="goal_b1", tokens=50, person="ada5", day_tokens=1_000, day_cost=2
        )
        await spend(running, "ada5", 1_001)
        refused = await submit(ada)
        assert refused.status_code == 429
        assert "1,001 of 1,000 tokens today, $0.00 of $2.00 today" in refused.json()["detail"]
        assert (await submit(bob, "goal_b2")).status_code == 202
        assert (await running.office.finished("goal_b2")).budget is None


async def spend(running: RunningGateway, person: str, tokens: int) -> None:
    """An agent used so much for the goals of a person."""
    bus = await running.office.connect("engineer")
    try:
        name = f"person-{person}-{datetime.now(UTC):%Y-%m-%d}"
        share = msgspec.json.encode(Share(used=Amount(tokens=tokens)))
        await bus.store(subjects.share(name, "engineer", "x"), share)
    finally:
        await bus.close()


class TestApprovals:
    async def ask(self, running: RunningGateway, goal_id: str, rule: str) -> str:
        """The id of a request that an agent makes for a goal."""
        approval_id = generate_id().replace("-", "")
        request = ApprovalRequest(
            sender="engineer",
            recipient="user",
            goal_id=goal_id,
            approval_id=approval_id,
            what="git push",
            rule=rule,
            expires_at=(datetime.now(UTC) + timedelta(hours=1)).isoformat(),
        )
        bus = await running.office.connect("engineer")
        try:
            await bus.commit([seal(subjects.approval_asked("engineer", approval_id), request)])
        finally:
            await bus.close()
        return approval_id

    async def goal(self, running: RunningGateway, person: str) -> Goal:
        goal_id = f"goal_{generate_id()}"
        await running.office.submit({**ASKED, "goal_id": goal_id, "person": person})
        await running.office.finished(goal_id)
        await keep_open(running, goal_id, person)
        found = await running.office.goal(goal_id)
        assert found
        return found

    async def answer(self, client: httpx2.AsyncClient, approval_id: str, *, granted: bool = True) -> int:
        answer = await client.post(f"/api/v1/approvals/{approval_id}", json={"granted": granted})
        return answer.status_code

    async def test_the_role_follows_from_the_rule_and_the_risk(
        self, running: RunningGateway, clients
    ) -> None:
        member, approver = clients("ada6"), clients("bob6", Scope.APPROVE)
        admin = clients("eve6", Scope.ADMIN)
        goal = await self.goal(running, "somebody")
        high = await self.ask(running, goal.goal_id, "destroy.tree")
        assert await self.answer(member, high) == await self.answer(approver, high) == 403
        assert await self.answer(admin, high) == 200
        usual = await self.ask(running, goal.goal_id, "write.outside")
        assert await self.answer(member, usual) == 403
        assert await self.answer(approver, usual) == 200
        easy = await self.ask(running, goal.goal_id, "reach.host")
        assert await self.answer(clients("carl", Scope.READ), easy) == 403
        assert await self.answer(member, easy) == 200

    async def test_nobody_grants_what_their_own_goal_asks_for(self, running: RunningGateway, clients) -> None:
        bob, eve = clients("bob7", Scope.APPROVE), clients("eve7", Scope.ADMIN)
        goal = await self.goal(running, "bob7")
        request = await self.ask(running, goal.goal_id, "write.outside")

        async def is_refused() -> bool:
            answer = await bob.post(f"/api/v1/approvals/{request}", json={"granted": True})
            return answer.status_code == 403 and "their own goal" in answer.json()["detail"]

        await eventually(is_refused)
        assert await self.answer(eve, request) == 200
        other = await self.ask(running, goal.goal_id, "write.elsewhere")
        assert await self.answer(bob, other, granted=False) == 200
        assert json.loads((await eve.get(f"/api/v1/approvals?all=true&goal={goal.goal_id}")).text)
