"""What people do through the gateway: submit, stop, retry and steer goals, answer, write."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from shared import subjects
from shared.access.scopes import Scope
from shared.bus.entry import seal
from shared.contracts import DeadLetter, Email, SentEmail
from tests.flow.test_approvals import ask
from tests.support.gateway import RunningGateway
from tests.support.slow import install_slow_agent
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
API = "/api/v1"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    folder: Path = tmp_path_factory.mktemp("office")
    running = RunningGateway(folder, **install_slow_agent(folder))
    try:
        await running.open("conductor", "critic", "slow")
        yield running
    finally:
        await running.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ada(gateway: RunningGateway) -> AsyncIterator[httpx2.AsyncClient]:
    async with gateway.client(name="ada") as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bob(gateway: RunningGateway) -> AsyncIterator[httpx2.AsyncClient]:
    async with gateway.client(Scope.APPROVE, name="bob") as client:
        yield client


async def post(client: httpx2.AsyncClient, path: str, body: object = None, key: str = "") -> httpx2.Response:
    headers = {"Idempotency-Key": key} if key else {}
    return await client.post(API + path, json=body if body is not None else {}, headers=headers)


async def get(client: httpx2.AsyncClient, path: str, **query: Any) -> Any:
    answer = await client.get(API + path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def waiting(seconds: float, text: str = "Wait") -> dict[str, Any]:
    return {"text": text, "context": {"assignee": "slow", "action": "wait", "params": {"seconds": seconds}}}


async def submitted(client: httpx2.AsyncClient, seconds: float, key: str = "", text: str = "Wait") -> str:
    answer = await post(client, "/goals", waiting(seconds, text), key)
    assert answer.status_code == 202, answer.text
    goal_id = str(answer.json()["goal_id"])
    assert answer.headers["location"] == f"{API}/goals/{goal_id}"
    return goal_id


async def listed(client: httpx2.AsyncClient, goal_id: str) -> dict[str, Any] | None:
    goals = (await get(client, "/goals"))["goals"]
    return next((goal for goal in goals if goal["goal_id"] == goal_id), None)


async def at_work(client: httpx2.AsyncClient, goal_id: str) -> dict[str, Any]:
    async def working() -> dict[str, Any] | None:
        goal = await listed(client, goal_id)
        return goal if goal and goal["workers"] and goal["workers"][0]["since"] else None

    found: dict[str, Any] = await eventually(working)
    return found


async def test_a_goal_is_submitted_listed_and_done(gateway: RunningGateway, ada: httpx2.AsyncClient) -> None:
    goal_id = await submitted(ada, 0, text="Wait for nothing")
    await gateway.office.finished(goal_id)

    async def ended() -> dict[str, Any] | None:
        goal = await listed(ada, goal_id)
        return goal if goal and goal["state"] == "ended" else None

    goal = await eventually(ended)
    assert (goal["title"], goal["status"], goal["person"]) == ("Wait for nothing", "completed", "ada")
    assert (goal["tasks_done"], goal["tasks_all"], goal["workers"]) == (1, 1, [])
    page = await get(ada, "/goals", text="nothing", status="completed", limit=1)
    assert [each["goal_id"] for each in page["goals"]] == [goal_id]
    assert page["counts"]["completed"] >= 1
    assert (await get(ada, "/goals", before=page["next"], text="nothing"))["goals"] == []
    assert (await get(ada, "/goals", agent="slow", outcome="done"))["goals"]


async def test_one_key_sent_twenty_times_at_once_is_one_goal(
    gateway: RunningGateway, ada: httpx2.AsyncClient, bob: httpx2.AsyncClient
) -> None:
    before = len(await gateway.office.stored(subjects.SUBMIT))
    ids = await asyncio.gather(*(submitted(ada, 0, "key-1") for _ in range(20)))
    assert len(set(ids)) == 1
    await gateway.office.finished(ids[0])
    assert await submitted(ada, 0, "key-1") == ids[0]
    assert len(await gateway.office.stored(subjects.SUBMIT)) == before + 1
    other = await post(ada, "/goals", waiting(0, "Something else"), "key-1")
    assert other.status_code == 409
    assert other.json()["cure"] == "Use a key of its own for each goal"
    assert await submitted(bob, 0, "key-1") != ids[0]


async def test_a_goal_is_stopped_once_and_done_again(
    gateway: RunningGateway, ada: httpx2.AsyncClient, bob: httpx2.AsyncClient
) -> None:
    goal_id = await submitted(ada, 60)
    await at_work(ada, goal_id)
    answers = await asyncio.gather(
        post(bob, f"/goals/{goal_id}/cancel", {"reason": "enough"}),
        post(bob, f"/goals/{goal_id}/cancel", {"reason": "enough"}),
    )
    assert [each.status_code for each in answers] == [200, 200]
    assert {each.json()["status"] for each in answers} == {"cancelled"}
    assert answers[0].json()["summary"] == "cancelled by bob: enough"
    assert (await post(bob, f"/goals/{goal_id}/cancel")).status_code == 200
    first, second = [await post(bob, f"/goals/{goal_id}/retry", key="again") for _ in range(2)]
    assert first.json() == second.json()
    again = first.json()["goal_id"]
    await at_work(ada, again)
    assert (await post(bob, f"/goals/{again}/retry")).status_code == 409
    goal = await at_work(ada, again)
    assert (goal["retry_of"], goal["person"]) == (goal_id, "bob")
    for _ in range(2):
        steered = await post(ada, f"/goals/{again}/say", {"text": "hurry"}, "hurry-1")
        assert steered.status_code == 200, steered.text
    known = await gateway.office.goal(again)
    assert known is not None
    assert [(each.text, each.person) for each in known.instructions] == [("hurry", "ada")]
    assert (await post(ada, f"/goals/{again}/cancel")).json()["status"] == "cancelled"
    ended = await post(ada, f"/goals/{goal_id}/diff")
    assert ended.status_code == 405
    none = await ada.get(f"{API}/goals/{goal_id}/diff")
    assert none.status_code == 404
    assert "has no patch" in none.json()["detail"]


async def test_what_is_not_there_or_not_valid_is_said_with_a_cure(ada: httpx2.AsyncClient) -> None:
    for path in ("/goals/nobody/cancel", "/goals/nobody/retry", "/goals/nobody/say", "/goals/nobody/apply"):
        answer = await post(ada, path, {"text": "x"} if path.endswith("say") else {})
        assert (answer.status_code, bool(answer.json()["cure"])) == (404, True), answer.text
    for path in ("/goals/a.b/cancel", "/goals/%2E%2E/cancel", f"/goals/{'x' * 500}/cancel"):
        assert (await post(ada, path)).status_code == 404
    assert (await post(ada, "/approvals/nothing", {"granted": True})).status_code == 404
    for number in ("7", "0", "x", "9" * 30):
        assert (await ada.get(f"{API}/dead-letters/{number}")).status_code == 404
    assert (await ada.get(f"{API}/mail", params={"thread": 10**9})).status_code == 404
    assert (await post(ada, "/mail", {"to": "nobody", "body": "Hello"})).status_code == 404
    assert (await post(ada, "/mail", {"body": "Hello"})).status_code == 404
    assert (await post(ada, "/inbox/approval:x/seen")).status_code == 404
    wrong = [
        {"text": ""},
        {"text": " \n"},
        {"text": "x" * 100_001},
        {"text": "x", "priority": "whenever"},
        {"text": "x", "deadline": "tomorrow"},
        {"text": "x", "said": {}},
        {},
    ]
    for body in wrong:
        answer = await post(ada, "/goals", body)
        assert answer.status_code == 422, (body, answer.text)
    large = {"text": "x", "context": {"x": "y" * 1_000_000}}
    assert (await post(ada, "/goals", large)).status_code == 413


async def test_two_people_answer_and_one_of_them_counts(
    gateway: RunningGateway, ada: httpx2.AsyncClient, bob: httpx2.AsyncClient
) -> None:
    request = await ask(await gateway.office.connect("slow"), what="run: rm x \u202e", reach=("python",))

    async def waits() -> dict[str, Any] | None:
        items = (await get(ada, "/inbox"))["waiting"]
        return next((each for each in items if each["id"] == f"approval:{request.approval_id}"), None)

    item = await eventually(waits)
    shown = item["approval"]
    assert (item["kind"], shown["what"]) == ("approval", "run: rm x \\u{202e}")
    assert "python registry" in shown["opens"]
    assert shown["on_yes"]
    assert shown["on_no"]
    path = f"/approvals/{request.approval_id}"
    answers = await asyncio.gather(
        post(ada, path, {"granted": True, "note": "go", "scope": "task"}), post(bob, path, {"granted": False})
    )
    assert sorted(each.status_code for each in answers) == [200, 409]
    won, lost = sorted(answers, key=lambda each: each.status_code)
    assert won.json()["answer"]["person"] in ("ada", "bob")
    assert f"already by {won.json()['answer']['person']}" in lost.json()["detail"]
    inbox = await get(ada, "/inbox")
    assert item["id"] not in [each["id"] for each in inbox["waiting"]]
    (answered,) = [each for each in inbox["answered"] if each["id"] == item["id"]]
    assert (answered["by"], answered["outcome"]) == (won.json()["answer"]["person"], won.json()["state"])
    everything = await get(bob, "/approvals", all=True)
    assert request.approval_id in [each["approval_id"] for each in everything["approvals"]]
    assert (await get(bob, "/approvals"))["approvals"] == []


async def test_a_question_waits_until_somebody_replies(
    gateway: RunningGateway, ada: httpx2.AsyncClient
) -> None:
    slow = await gateway.office.connect("slow")
    question = Email(sender="slow", recipient="user", subject="Which one?", body="Which of them")
    record = SentEmail(sender="slow", email=question, awaited=True)
    await slow.commit(
        [
            seal(subjects.record("slow", "letter", question.id), record, expect=0),
            seal(subjects.mail("user", "slow"), question),
            seal(subjects.mail("user", "slow"), Email(sender="slow", recipient="user", body="Good morning")),
        ]
    )

    async def questions() -> list[dict[str, Any]]:
        return [each for each in (await get(ada, "/inbox"))["waiting"] if each["kind"] == "question"]

    (item,) = await eventually(questions)
    assert item["title"] == "Which one?"
    body = {"body": "The first", "reply_to": item["question"]["number"]}
    sent = [(await post(ada, "/mail", body, "reply-1")).json() for _ in range(2)]
    assert sent[0] == sent[1]

    async def answered() -> bool:
        return not await questions()

    await eventually(answered)

    async def replied() -> list[dict[str, Any]] | None:
        found: list[dict[str, Any]] = (await get(ada, "/mail", thread=item["question"]["number"]))["mail"]
        return found if len(found) > 1 else None

    thread = await eventually(replied)
    assert [(each["sender"], each["person"]) for each in thread[:2]] == [("slow", ""), ("user", "ada")]
    assert thread[1]["subject"] == "Re: Which one?"
    mine = (await get(ada, "/mail", agent="slow"))["mail"]
    assert "Good morning" in [each["body"] for each in mine]


async def test_dead_letters_are_shown_and_nobody_sends_them_again_over_http(
    gateway: RunningGateway, ada: httpx2.AsyncClient
) -> None:
    """That needs the admin's key, which the gateway never opens, whoever asks."""
    await gateway.office.submit(b"garbage")

    async def dead() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await get(ada, "/dead-letters", agent="conductor"))["dead_letters"]
        return found

    (letter,) = await eventually(dead)
    assert (letter["agent"], letter["original"]) == ("conductor", "garbage")
    assert await get(ada, f"/dead-letters/{letter['number']}") == letter
    assert (await get(ada, "/dead-letters", agent="scout"))["dead_letters"] == []
    items = (await get(ada, "/inbox"))["waiting"]
    assert f"dead_letter:{letter['number']}" in [each["id"] for each in items]
    assert (await post(ada, f"/dead-letters/{letter['number']}/retry")).status_code == 404
    assert (await ada.delete(f"{API}/dead-letters/{letter['number']}")).status_code == 405
    assert await dead() == [letter]


async def test_a_failed_goal_waits_until_somebody_looked_at_it(
    gateway: RunningGateway, ada: httpx2.AsyncClient
) -> None:
    body = waiting(0, "Fail, please") | {"context": {"assignee": "slow", "action": "nothing"}}
    goal_id = (await post(ada, "/goals", body)).json()["goal_id"]
    await gateway.office.finished(goal_id)

    async def failed() -> dict[str, Any] | None:
        items = (await get(ada, "/inbox"))["waiting"]
        return next((each for each in items if each.get("goal_id") == goal_id), None)

    item = await eventually(failed)
    assert (item["kind"], item["title"]) == ("failed_goal", "Fail, please")
    assert (await post(ada, f"/inbox/{item['id']}/seen")).status_code == 204
    inbox = await get(ada, "/inbox")
    assert item["id"] not in [each["id"] for each in inbox["waiting"]]
    assert ("seen", "ada") in [(each["outcome"], each["by"]) for each in inbox["answered"]]


async def test_what_a_goal_asks_waits_until_it_is_answered_or_put_aside(
    gateway: RunningGateway, ada: httpx2.AsyncClient
) -> None:
    goal_ids = []
    for text in ("Run the tests", "run tests", "Please run the tests"):
        body = {"text": text, "context": {"playbook": "tests"}}
        goal_ids.append((await post(ada, "/goals", body)).json()["goal_id"])

    async def asked() -> dict[str, Any]:
        items = (await get(ada, "/inbox"))["waiting"]
        return {each["goal_id"]: each for each in items if each.get("asked")}

    async def all_asked() -> dict[str, Any] | None:
        found = await asked()
        return found if found.keys() >= set(goal_ids) else None

    found = await eventually(all_asked)
    first, second, third = goal_ids
    item = found[first]
    assert (item["kind"], item["title"], item["agent"]) == ("question", "Run the tests", "conductor")
    assert item["text"] == item["asked"]
    assert (await post(ada, f"/inbox/{item['id']}/seen")).status_code == 204
    assert (await post(ada, f"/goals/{second}/say", {"text": "Run the tests of /nowhere"})).status_code == 200
    assert (await post(ada, f"/goals/{third}/retry", {})).status_code == 202

    async def settled() -> bool:
        return not {first, third} & (await asked()).keys()

    await eventually(settled)


async def test_agents_are_listed_paused_resumed_and_restarted(
    gateway: RunningGateway, ada: httpx2.AsyncClient, bob: httpx2.AsyncClient
) -> None:
    async def slow() -> dict[str, Any]:
        agents = {each["name"]: each for each in (await get(bob, "/agents"))["agents"]}
        assert {"conductor", "critic", "slow", "gateway"} <= agents.keys()
        assert agents["conductor"]["why_not_paused"]
        assert agents["scout"]["state"] == "stopped"
        found: dict[str, Any] = agents["slow"]
        return found

    before = await slow()
    assert (before["state"], before["load"], len(before["processes"])) == ("running", 0, 1)
    assert [each["lane"] for each in before["lanes"]] == ["mail", "urgent", "high", "medium", "low"]
    assert "task.slow.*.*.ended" in before["rights"]["publish"]
    assert not [each for each in before["rights"]["publish"] if "conductor" in each]
    assert "memory.search" in before["rights"]["ask"]
    for do in ("pause", "resume", "restart"):
        assert (await post(bob, f"/agents/slow/{do}")).status_code == 403
        assert (await post(ada, f"/agents/nobody/{do}")).status_code == 404
    assert (await post(ada, "/agents/conductor/pause")).status_code == 409
    paused = await post(ada, "/agents/slow/pause", key="p")
    assert (paused.json()["paused"], paused.json()["by"]) == (True, "ada")
    assert paused.json() == (await post(ada, "/agents/slow/pause", key="p")).json()
    goal_id = await submitted(ada, 0, text="Wait until it goes on")

    async def waits() -> bool:
        return (await slow())["waiting"] == 1

    await eventually(waits)
    shown = await slow()
    assert (shown["state"], shown["changed_by"], shown["last_control"]) == ("paused", "ada", "pause")

    async def held_up() -> bool:
        goal = await listed(ada, goal_id)
        return bool(goal and goal["workers"] and goal["workers"][0]["paused"])

    await eventually(held_up)
    assert (await post(ada, "/agents/slow/resume")).json()["paused"] is False
    await gateway.office.finished(goal_id)


async def test_what_a_scope_does_not_allow_is_refused(gateway: RunningGateway) -> None:
    async with gateway.client(Scope.READ) as reader:
        assert (await reader.get(f"{API}/inbox")).status_code == 200
        for path in ("/goals", "/goals/x/cancel", "/goals/x/apply", "/approvals/x", "/mail"):
            assert (await post(reader, path, {})).status_code == 403, path
    async with gateway.stranger() as nobody:
        for path in ("/goals", "/inbox", "/approvals", "/mail", "/dead-letters"):
            assert (await nobody.get(API + path)).status_code == 401, path


async def test_a_person_that_an_agent_names_is_not_in_the_index(
    gateway: RunningGateway, ada: httpx2.AsyncClient
) -> None:
    slow = await gateway.office.connect("slow")
    forged = Email(sender="slow", recipient="user", body="granted, says ada", person="ada")
    letter = DeadLetter(sender="slow", reason="x", subject="x", stream="OFFICE", stream_seq=1, person="ada")
    await slow.commit([seal(subjects.mail("user", "slow"), forged), seal(subjects.dead("slow"), letter)])

    async def rows() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await get(ada, "/messages", agent="slow", type="dead"))["messages"]
        return found

    (row,) = await eventually(rows)
    assert "person" not in row
    assert "ada" not in json.dumps([each.get("person") for each in (await get(ada, "/mail"))["mail"][-1:]])
