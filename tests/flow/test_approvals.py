"""``mailroom approvals``: a person's word, on the bus."""

import asyncio
import json
import subprocess
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.contracts import (
    ApprovalAnswer,
    ApprovalRequest,
    Goal,
    OfficeState,
    StateChanged,
    TaskStatus,
    generate_id,
)
from tests.support.server import Server

pytestmark = pytest.mark.usefixtures("office_gateway")


async def run(office: Server, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(office.mailroom, "approvals", *arguments)


async def listed(office: Server, *arguments: str) -> dict[str, dict[str, Any]]:
    found = json.loads((await run(office, "list", "--json", *arguments)).stdout)
    return {one["approval_id"]: one for one in found}


async def ask(
    bus: Bus,
    approval_id: str = "",
    *,
    what: str = "run: x",
    rule: str = "network",
    seconds: float = 60.0,
    goal_id: str = "goal_1",
    reach: tuple[str, ...] = (),
) -> ApprovalRequest:
    request = ApprovalRequest(
        sender=bus.name,
        recipient=subjects.USER,
        goal_id=goal_id,
        approval_id=approval_id or generate_id(),
        what=what,
        rule=rule,
        why="It sends data out.",
        reach=reach,
        expires_at=(datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(),
    )
    await bus.commit([seal(subjects.approval_asked(bus.name, request.approval_id), request, expect=0)])
    return request


async def answered(bus: Bus, request: ApprovalRequest) -> ApprovalAnswer | None:
    stored = await bus.last(subjects.OFFICE, subjects.approval_answered(request.sender, request.approval_id))
    return ApprovalAnswer.from_json(stored.data) if stored else None


async def test_what_waits_is_listed_with_all_of_what_it_would_do(office_server: Server) -> None:
    what = "run in the workspace: echo a\nrm -rf b \x1b[2K\u202e harmless" + " and more" * 50
    async with office_server.connection("engineer") as engineer:
        request = await ask(engineer, what=what)
        shown = (await run(office_server, "list")).stdout
        data = (await listed(office_server))[request.approval_id]
    assert request.approval_id[:12] in shown
    assert "waiting  engineer" in shown
    assert "network: It sends data out." in shown
    line = " ".join(shown.split())
    assert line.count("and more") == 50
    assert r"rm -rf b \u{1b}[2K\u{202e} harmless" in line
    assert "\x1b" not in shown
    assert (data["state"], data["agent"], data["what"]) == ("waiting", "engineer", what)


async def test_a_grant_and_a_refusal_reach_the_agent(office_server: Server) -> None:
    async with office_server.connection("engineer") as engineer:
        one, two = await ask(engineer), await ask(engineer)
        granted = await run(office_server, "grant", one.approval_id, "--note", "go on")
        refused = await run(office_server, "refuse", two.approval_id, "--json")
        yes, no = await answered(engineer, one), await answered(engineer, two)
    assert granted.returncode == 0, granted.stderr
    assert f"{one.approval_id[:12]} granted: engineer may run: x" in granted.stdout
    assert json.loads(refused.stdout)["state"] == "refused"
    assert yes is not None
    assert (yes.granted, yes.note, yes.sender, yes.goal_id, yes.cause) == (
        True,
        "go on",
        "user",
        "goal_1",
        one.id,
    )
    assert no is not None
    assert not no.granted
    everything = await listed(office_server, "--all")
    assert everything[one.approval_id]["state"] == "granted"
    assert everything[one.approval_id]["note"] == "go on"
    assert not {one.approval_id, two.approval_id} & set(await listed(office_server))


async def test_a_grant_says_how_far_its_reach_goes(office_server: Server) -> None:
    async with office_server.connection("engineer") as engineer:
        known = await ask(engineer, reach=("python", "host:git.example.org"))
        unknown = await ask(engineer, reach=("network",))
        plain = await ask(engineer)
        shown = " ".join((await run(office_server, "list")).stdout.split())
        granted = await run(office_server, "grant", known.approval_id, "--for", "goal", "--json")
        unnamed = await run(office_server, "grant", unknown.approval_id, "--for", "task")
        named = await run(office_server, "grant", unknown.approval_id, "--host", "a.b", "--host", "*.c.d:81")
        needless = await run(office_server, "grant", plain.approval_id, "--for", "goal")
        first, second = await answered(engineer, known), await answered(engineer, unknown)
        third = await answered(engineer, plain)
    assert "Opens the python registry (pypi.org, files.pythonhosted.org), git.example.org" in shown
    assert f"mailroom approvals grant {unknown.approval_id[:12]} --for command|task|goal --host NAME" in shown
    assert json.loads(granted.stdout)["scope"] == "goal"
    assert first is not None
    assert (first.scope, first.hosts) == ("goal", ())
    assert unnamed.returncode == 1
    assert "is not known beforehand" in unnamed.stderr
    assert named.returncode == 0, named.stderr
    assert second is not None
    assert (second.scope, second.hosts) == ("command", ("a.b", "*.c.d:81"))
    assert "asks for no network" in needless.stderr
    assert third is None


async def test_what_a_goal_asked_that_has_ended_waits_no_more(office_server: Server) -> None:
    async with (
        office_server.connection("engineer") as engineer,
        office_server.connection("conductor") as conductor,
    ):
        request = await ask(engineer, goal_id="goal_over")
        goal = Goal(
            goal_id="goal_over",
            text="x",
            requester="user",
            status=TaskStatus.CANCELLED,
            submitted_at=request.created_at,
        )
        record = StateChanged(sender="conductor", goal_id="goal_over", state=OfficeState.IDLE, goal=goal)
        await conductor.commit([seal(subjects.goal("goal_over"), record)])
    assert request.approval_id not in await listed(office_server)
    assert (await listed(office_server, "--all"))[request.approval_id]["state"] == "over"
    granted = await run(office_server, "grant", request.approval_id)
    assert "Its goal has ended" in granted.stderr


async def test_an_answer_is_given_once_and_in_time(office_server: Server) -> None:
    async with office_server.connection("engineer") as engineer, office_server.connection() as user:
        done, late, dull = await ask(engineer), await ask(engineer, seconds=-1), await ask(engineer)
        await run(office_server, "refuse", done.approval_id)
        again = await run(office_server, "grant", done.approval_id)
        expired = await run(office_server, "grant", late.approval_id)
        # What a person publishes by hand and gets wrong is no answer, and keeps nobody from giving one.
        await user.store(subjects.approval_answered("engineer", dull.approval_id), b"yes!")
        mended = await run(office_server, "grant", dull.approval_id)
        answer = await answered(engineer, dull)
    assert "has been refused already" in again.stderr
    assert "has expired, which refused it. Submit the goal again" in expired.stderr
    assert (again.returncode, expired.returncode, mended.returncode) == (1, 1, 0)
    assert answer is not None
    assert answer.granted


async def test_ids_may_be_cut_short_while_they_are_the_only_ones(office_server: Server) -> None:
    async with office_server.connection("engineer") as engineer, office_server.connection("cortex") as cortex:
        one, _ = await ask(engineer, "abc1"), await ask(cortex, "abc2")
        unclear = await run(office_server, "grant", "abc")
        clear = await run(office_server, "grant", "abc1")
        missing = await run(office_server, "grant", "zzz")
        empty = await run(office_server, "grant", "")
        rows = json.loads((await run(office_server, "list", "--json")).stdout)
        refused = await run(
            office_server, "refuse", next(r["id"] for r in rows if r["approval_id"] == "abc2")
        )
        answer = await answered(engineer, one)
    assert "2 requests begin with 'abc': abc1, abc2" in unclear.stderr
    assert (clear.returncode, refused.returncode) == (0, 0)
    assert answer is not None
    assert "There is no request 'zzz'" in missing.stderr
    assert (unclear.returncode, missing.returncode, empty.returncode) == (1, 1, 1)
    assert all("Traceback" not in each.stderr for each in (unclear, missing, empty))


async def test_a_hand_written_answer_counts(office_server: Server) -> None:
    async with office_server.connection("engineer") as engineer, office_server.connection() as user:
        request = await ask(engineer)
        subject = subjects.approval_answered("engineer", request.approval_id)
        digest = (await listed(office_server))[request.approval_id]["digest"]
        body = {"type": "approval_answer.v1", "approval_id": request.approval_id, "granted": True}
        await user.store(subject, json.dumps(body).encode())
        assert (await listed(office_server))[request.approval_id]["state"] == "waiting", "of no text"
        body["digest"] = digest
        await user.store(subject, json.dumps(body).encode())
    assert (await listed(office_server, "--all"))[request.approval_id]["state"] == "granted"


async def test_nothing_to_list_is_said(fresh_office_server: Server) -> None:
    await asyncio.to_thread(fresh_office_server.start_gateway)
    assert (await run(fresh_office_server, "list")).stdout == "Nothing waits for approval.\n"
    assert (await run(fresh_office_server, "list", "--all")).stdout == "There are no requests yet.\n"
    assert json.loads((await run(fresh_office_server, "list", "--json")).stdout) == []
