"""The front desk, reminders, the schedule and the three agents over HTTP, in an office that runs."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from shared import subjects
from shared.access.scopes import Scope
from shared.bus.entry import seal
from shared.contracts import Node, Question, TaskPlan, TaskResult
from shared.memory import Memory
from tests.support.gateway import RunningGateway

DESK = "/api/v1/desk/sessions"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[RunningGateway]:
    gateway = RunningGateway(tmp_path, MAILROOM_LINKER_INTERVAL="3600", MAILROOM_TIME_ZONE="Europe/Zurich")
    try:
        await gateway.open("memory", "nexus", "cortex", "conductor")
        await Memory(gateway.office.user).add(
            Node(id="deploys", kind="decision", title="Deploys happen on Tuesdays at noon"), insist=True
        )
        yield gateway
    finally:
        await gateway.close()


async def stream(
    client: httpx2.AsyncClient, path: str, body: dict[str, Any], key: str
) -> list[tuple[str, Any]]:
    """The events of an answer that is streamed."""
    headers = {"Accept": "text/event-stream", "Idempotency-Key": key}
    found = []
    async with client.stream("POST", path, json=body, headers=headers) as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            elif line.startswith("data: "):
                found.append((kind, json.loads(line.removeprefix("data: "))))
    return found


async def test_a_conversation(gateway: RunningGateway) -> None:
    async with gateway.client(name="ana") as client:
        path = f"{DESK}/s1/messages"
        events = await stream(client, path, {"text": "When do we deploy?"}, "k1")
        assert [kind for kind, _ in events] == ["accepted", "answer"]
        turn = events[-1][1]
        assert "Tuesdays" in turn["answer"]["text"]
        assert turn["answer"]["citations"] == ["deploys"]
        assert (turn["id"], turn["person"], turn["state"]) == ("k1", "ana", "answered")

        again = await client.post(
            path, json={"text": "When do we deploy?"}, headers={"Idempotency-Key": "k1"}
        )
        assert again.json()["answer"]["id"] == turn["answer"]["id"]
        other = await client.post(path, json={"text": "What else?"}, headers={"Idempotency-Key": "k1"})
        assert other.status_code == 409

        events = await stream(client, path, {"text": "what are my reminders?"}, "k2")
        steps = [content["step"] for kind, content in events if kind == "note"]
        assert steps[0] == "asked"
        assert steps[-1] == "ended"
        assert "no open reminders" in events[-1][1]["answer"]["text"]

        session = (await client.get(f"{DESK}/s1")).json()
        assert [each["text"] for each in session["turns"]] == ["When do we deploy?", "what are my reminders?"]
        listed = (await client.get(DESK)).json()["sessions"]
        assert [(each["session_id"], each["questions"], each["title"]) for each in listed] == [
            ("s1", 2, "When do we deploy?")
        ]
        assert "no open reminders" in listed[0]["last_answer"]
        one = await client.get(f"{DESK}/s1/messages/k2")
        assert one.json()["state"] == "answered"
        for missing in ("nobody", "s1/messages/k9", "s2/messages/k1", "%3Cb%3E"):
            assert (await client.get(f"{DESK}/{missing}")).status_code == 404
        assert (await client.post(path, json={"text": "  "})).status_code == 422


async def test_work_becomes_a_goal_and_an_answer_outlives_the_gateway(gateway: RunningGateway) -> None:
    async with gateway.client() as client:
        text = "Check up on the repository at /tmp/nothing-here"
        answer = await client.post(f"{DESK}/work/messages", json={"text": text})
        assert answer.status_code == 200
        goal_id = answer.json()["answer"]["goal_id"]
        assert goal_id.startswith("goal_")
        stopped = await client.post(f"{DESK}/work/messages/{answer.json()['id']}/stop", json={})
        assert stopped.status_code == 200
        assert (await gateway.office.finished(goal_id)).status.final
        gateway.office.kill("nexus")
        later = await client.post(
            f"{DESK}/work/messages?wait=0.5",
            json={"text": "When do we deploy?"},
            headers={"Idempotency-Key": "q"},
        )
        assert later.status_code == 202
        assert later.headers["location"] == f"{DESK}/work/messages/q"
    gateway.office.kill("gateway")
    gateway.office.start("gateway")
    gateway.office.start("nexus")
    await gateway.office.ready("gateway")
    async with gateway.client() as client:
        found = await client.get(f"{DESK}/work/messages/q?wait=20")
        assert "Tuesdays" in found.json()["answer"]["text"]
        assert len((await client.get(f"{DESK}/work")).json()["turns"]) == 2


async def test_a_conversation_is_its_persons(gateway: RunningGateway) -> None:
    question = Question(sender="user", recipient="nexus", text="hello", user_session_id="terminal")
    await gateway.office.user.commit([seal(subjects.mail("nexus", "user"), question)])
    async with (
        gateway.client(Scope.SUBMIT, "ana") as ana,
        gateway.client(Scope.SUBMIT, "bob") as bob,
        gateway.client(Scope.ADMIN, "ada") as admin,
    ):
        hello = {"text": "hello"}
        assert (await ana.post(f"{DESK}/hers/messages", json=hello)).status_code == 200
        message = (await ana.get(f"{DESK}/hers")).json()["turns"][0]["id"]
        for path in ("hers", f"hers/messages/{message}", "terminal"):
            assert (await bob.get(f"{DESK}/{path}")).status_code == 404
        for path in ("hers/messages", f"hers/messages/{message}/stop", "terminal/messages"):
            assert (await bob.post(f"{DESK}/{path}", json=hello)).status_code == 404
        assert (await bob.get(DESK)).json()["sessions"] == []
        assert [each["session_id"] for each in (await ana.get(DESK)).json()["sessions"]] == ["hers"]
        assert len((await admin.get(DESK)).json()["sessions"]) == 2
        assert (await admin.get(f"{DESK}/hers")).status_code == 200
        assert (await admin.post(f"{DESK}/hers/messages", json=hello)).status_code == 403
        assert (await admin.post(f"{DESK}/terminal/messages", json=hello)).status_code == 200


async def test_what_is_asked_back_is_in_the_answer_and_an_answer_can_be_stopped(
    gateway: RunningGateway,
) -> None:
    async with gateway.client() as client:
        path = f"{DESK}/s1/messages"
        await client.post(path, json={"text": "Remind me tomorrow at 9:00 to water the palms"})
        asked = (await client.post(path, json={"text": "what about the figs?"})).json()["answer"]
        assert [each["label"] for each in asked["asks"]["choices"]] == ["Yes", "No"]
        done = (await client.post(path, json={"text": "yes"})).json()["answer"]
        assert done["understood"] == "Remind me tomorrow at 9:00 to water the figs"
        gateway.office.kill("nexus")
        headers = {"Idempotency-Key": "q-stop"}
        await client.post(f"{path}?wait=0.2", json={"text": "what is 2 plus 2?"}, headers=headers)
        stopping = asyncio.create_task(client.post(f"{path}/q-stop/stop", json={}))
        gateway.office.start("nexus")
        assert (await stopping).status_code == 200
        turn = (await client.get(f"{path}/q-stop?wait=20")).json()
        assert turn["state"] == "answered"
        assert (await client.post(f"{path}/q-none/stop", json={})).status_code == 404


async def test_reminders_and_the_schedule(gateway: RunningGateway) -> None:
    async with gateway.client(Scope.READ, "looker") as reader:
        refused = await reader.post("/api/v1/timetable", json={"text": "call Ana tomorrow at 9:00"})
        assert refused.status_code == 403
    async with gateway.client() as client:
        made = await client.post("/api/v1/timetable", json={"text": "call Ana tomorrow at 9:00"})
        assert made.status_code == 201, made.text
        reminder = made.json()["item"]
        assert reminder["text"] == "call Ana"
        unclear = await client.post("/api/v1/timetable", json={"text": "call Ana"})
        assert unclear.status_code == 422
        assert unclear.json()["detail"]
        listed = (await client.get("/api/v1/timetable?what=mail")).json()["items"]
        assert [each["id"] for each in listed] == [reminder["id"]]
        night = gateway.config.state_dir / "job_queue" / "tonight"
        await asyncio.to_thread(night.mkdir, parents=True, exist_ok=True)
        at = (datetime.now(UTC) + timedelta(days=3)).isoformat()
        job = {"id": "job-1", "task": "<b>frontier.daily_discovery</b>", "priority": "high", "run_at": at}
        (night / "job-1.json").write_text(json.dumps(job))
        (night / "broken.json").write_text("{")
        timetable = (await client.get("/api/v1/timetable")).json()
        assert {"briefing", "mail", "job"} <= {each["what"] for each in timetable["items"]}
        times = [datetime.fromisoformat(each["at"]) for each in timetable["items"]]
        assert times == sorted(times)
        assert all(time > datetime.now(UTC) - timedelta(minutes=1) for time in times)
        assert timetable["night"]["jobs"][0]["id"] in ("job-1", "broken")
        path = f"/api/v1/timetable/{reminder['id']}"
        moved = await client.post(f"{path}/snooze", json={"until": "in 3 days at 10:00"})
        assert moved.status_code in (200, 422)
        assert (await client.delete(path)).json()["item"]["status"] == "cancelled"
        assert (await client.delete(path)).status_code == 200
        assert (await client.delete("/api/v1/timetable/rnothing")).status_code == 404
        assert (await client.delete("/api/v1/timetable/call%20Ana")).status_code == 404
        assert (await client.get("/api/v1/timetable?what=mail")).json()["items"] == []
        (over,) = (await client.get("/api/v1/timetable?what=mail&everything=true")).json()["items"]
        assert over["status"] == "cancelled"


async def test_goals_on_a_schedule_and_jobs_of_the_night(gateway: RunningGateway) -> None:
    async with gateway.client(Scope.READ, "looker") as reader:
        job = {"what": "job", "text": "Look"}
        wanted = {"what": "goal", "text": "Look at /srv/shop", "when": "every weekday at 7"}
        assert (await reader.post("/api/v1/timetable", json=wanted)).status_code == 403
        assert (
            await reader.post("/api/v1/timetable", json={"what": "job", "text": "Look"})
        ).status_code == 403
    async with gateway.client() as client:
        made = await client.post("/api/v1/timetable", json=wanted)
        assert made.status_code == 201, made.text
        schedule = made.json()["item"]
        assert (schedule["text"], schedule["every"]) == ("Look at /srv/shop", "every weekday at 07:00")
        assert len(schedule["next_runs"]) == 3
        unclear = await client.post("/api/v1/timetable", json={**wanted, "when": "now and then"})
        assert unclear.status_code == 422
        assert "every night at 2" in unclear.json()["detail"] + str(unclear.json())
        path = f"/api/v1/timetable/{schedule['id']}"
        assert "is paused" in (await client.post(f"{path}/pause")).json()["text"]
        assert (await client.get("/api/v1/timetable?what=goal")).json()["items"][0]["status"] == "paused"
        assert "goes on" in (await client.post(f"{path}/resume")).json()["text"]
        begun = (await client.post(f"{path}/run")).json()
        assert begun["goal_id"] in begun["text"]
        (planned,) = (await client.get("/api/v1/timetable?what=goal")).json()["items"]
        assert (planned["status"], planned["runs"]) == ("waiting", 1)
        assert (await client.post(f"{path}/snooze", json={})).status_code == 422
        assert "is removed" in (await client.delete(path)).json()["text"]
        assert (await client.delete(path)).status_code == 404
        at = (datetime.now(UTC) + timedelta(days=3)).replace(microsecond=0).isoformat()
        job = (
            await client.post("/api/v1/timetable", json={"what": "job", "text": "Look", "when": at})
        ).json()
        assert job["text"].startswith(f"Queued as {job['id']}: Look. It waits until ")
        queued = (await client.get("/api/v1/timetable")).json()["night"]["jobs"]
        assert job["id"] in [each["id"] for each in queued if each["state"] == "waiting"]
        assert "is cancelled" in (await client.delete(f"/api/v1/timetable/{job['id']}")).json()["text"]
        assert (await client.delete(f"/api/v1/timetable/{job['id']}")).status_code == 422
        assert (await client.post("/api/v1/timetable/all%20of%20them/run")).status_code == 404


async def test_three_agents_answer_with_their_contracts(gateway: RunningGateway) -> None:
    async with gateway.client() as client:
        request = {
            "task_id": "nexus_20260102_1",
            "created_at": "2026-01-02T14:30:22",
            "requester": "dashboard",
            "task_description": "When do we deploy?",
            "priority": "high",
            "context": {},
            "evidence_refs": [],
        }
        answer = (await client.post("/api/nexus", json=request)).json()
        assert answer["type"] == "response.v1"
        assert answer["citations"] == ["deploys"]
        assert (await client.get("/api/nexus/nexus_20260102_1")).json()["id"] == answer["id"]

        steps = 'nexus.ask text="When do we deploy?"; nexus.ask text="${1}"'
        plan = await client.post("/api/cortex/plan", json={"task": steps})
        assert len(TaskPlan.from_json(plan.content).steps) == 2
        done = await client.post("/api/cortex", json={**request, "task_id": "c1", "task_description": steps})
        result = TaskResult.from_json(done.content)
        assert (result.task_id, result.status) == ("c1", "completed")
        assert TaskResult.from_json((await client.get("/api/cortex/c1")).content).id == result.id

        shown = {**request, "task_id": "c2", "task_description": steps, "evidence_refs": ["no-such-memory"]}
        result = TaskResult.from_json((await client.post("/api/cortex", json=shown)).content)
        assert list(result.metadata["unopened"]) == ["no-such-memory"]
        refused = await client.post("/api/nexus", json={**shown, "task_id": "n2"})
        assert refused.status_code == 422
        assert "takes no evidence_refs" in refused.text
        assert (await client.post("/api/cortex", json={"task": "x", "evidence_ref": []})).status_code == 422

        later = await client.post("/api/frontier?wait=0.2", json={"task": "graph memory", "task_id": "f1"})
        assert later.status_code == 202
        assert later.headers["location"] == "/api/frontier/f1"
        assert (await client.get("/api/frontier/f1")).status_code == 202
        for path in ("/api/nexus/nothing", "/api/cortex/nothing", "/api/frontier/nothing"):
            assert (await client.get(path)).status_code == 404
        assert (await client.post("/api/nexus", json={})).status_code == 422
        assert (await client.post("/api/cortex", json={"task": "x", "priority": "soon"})).status_code == 422
    async with gateway.stranger() as stranger:
        assert (await stranger.post("/api/nexus", json=request)).status_code == 401


async def test_a_follow_up_is_answered_in_the_light_of_what_was_said(tmp_path: Path) -> None:
    script = tmp_path / "script.yaml"
    asked = {"match": "When do we deploy", "replies": [{"json": {"text": "On Tuesdays [deploys]."}}]}
    asked["replies"].append({"json": {"text": "The team decided it [deploys]."}})
    choice = {"match": "Say who of the office", "replies": [{"json": {"route": "nexus"}}]}
    told = {"match": "Who feeds the gulls", "replies": [{"text": "The cook does. At noon."}]}
    script.write_text(json.dumps([choice, told, asked]))
    gateway = RunningGateway(tmp_path / "office", MAILROOM_BRAIN=f"scripted:{script}")
    try:
        await gateway.open("memory", "nexus")
        node = Node(id="deploys", kind="decision", title="Deploys happen on Tuesdays at noon")
        await Memory(gateway.office.user).add(node, insist=True)
        async with gateway.client() as client:
            path = f"{DESK}/s1/messages"
            first = await client.post(path, json={"text": "When do we deploy?"})
            assert first.json()["answer"]["text"] == "On Tuesdays [deploys]."
            second = await client.post(path, json={"text": "And who decided that?"})
            assert second.json()["answer"]["text"] == "The team decided it [deploys]."
            events = await stream(client, f"{DESK}/s2/messages", {"text": "Who feeds the gulls?"}, "gulls")
            words = [content["text"].strip() for kind, content in events if kind == "words"]
            assert words == ["The cook does.", "At noon."]
            assert events[-1][1]["answer"]["text"].startswith("The cook does. At noon.")
            again = await stream(client, f"{DESK}/s2/messages", {"text": "Who feeds the gulls?"}, "gulls")
            assert [event for event in again if event[0] == "words"] == [
                event for event in events if event[0] == "words"
            ]
    finally:
        await gateway.close()
