"""Ana and Ben in one office: what Ana tells the desk, is reminded of and writes is no business of Ben's."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import httpx2
import nats.errors
import pytest
import pytest_asyncio
from nats.aio.client import Client
from nats.aio.msg import Msg

from services.gateway.api import TABLE
from shared import subjects
from shared.access.scopes import Scope
from shared.bus.connecting import ensure_keys
from shared.contracts import Question
from tests.support.access import Tokens, create_link
from tests.support.channels import SECRET as SIGNED
from tests.support.channels import WebStub
from tests.support.gateway import RunningGateway
from tests.support.mcp_hosts import connect
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

DESK = "/api/v1/desk/sessions"
SECRET = "gaillardia"
USERS = """ana = { role = "member" }
ben = { role = "admin" }
"""
STREAMED = ("/api/v1/events", "/progress")


class People:
    """The office, and a client of each of the two: what Ana did is in ``ids``."""

    def __init__(
        self, gateway: RunningGateway, ana: httpx2.AsyncClient, ben: httpx2.AsyncClient, chat: WebStub
    ) -> None:
        self.gateway, self.ana, self.ben, self.chat = gateway, ana, ben, chat
        self.ids: dict[str, str] = {}
        self.heard = ""
        """What Ben was told live while Ana was at it."""


async def say(client: httpx2.AsyncClient, session: str, text: str) -> dict[str, Any]:
    """The turn of a message to the desk, answered."""
    answer = await client.post(f"{DESK}/{session}/messages", json={"text": text}, timeout=60)
    assert answer.status_code < 300, answer.text
    turn: dict[str, Any] = answer.json()
    while turn["state"] == "waiting":
        turn = (await client.get(f"{DESK}/{session}/messages/{turn['id']}")).json()
        await asyncio.sleep(0.1)
    return turn


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def office(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[People]:
    gateway = RunningGateway(tmp_path_factory.mktemp("office"), MAILROOM_LINKER_INTERVAL="3600")
    gateway.config.gateway.mkdir(parents=True, exist_ok=True)
    (gateway.config.gateway / "users.toml").write_text(USERS)
    ensure_keys(gateway.config.keys, ["user-ana", "user-ben"])
    secret = gateway.config.state_dir / "secret"
    secret.write_text(SIGNED)
    secret.chmod(0o600)
    stack = ExitStack()
    web, chat = stack.enter_context(WebStub()), stack.enter_context(WebStub())
    channels = [
        f'[deliver.{name}]\ntype = "webhook"\nurl = "{web.root}/hook"\nsecret_file = "{secret}"\n{whose}\n'
        for name, whose in (("anas", 'person = "ana"'), ("bens", 'person = "ben"'), ("all", ""))
    ]
    (gateway.config.state_dir / "mailroom.toml").write_text("\n".join(channels))
    (gateway.config.gateway / "hooks.toml").write_text(
        f'[out.chat]\non = ["mail"]\nurl = "{chat.root}/hook"\nsecret = "{SIGNED}"\n'
    )
    try:
        await gateway.open("memory", "nexus", "conductor", "scout")
        tokens = Tokens(gateway.config)
        secrets = [tokens.add(f"of-{name}", Scope.ADMIN, person=name) for name in ("ana", "ben")]
        ana, ben = (
            httpx2.AsyncClient(
                base_url=gateway.url, headers={"Authorization": f"Bearer {secret}"}, timeout=30
            )
            for secret in secrets
        )
        async with ana, ben:
            people = People(gateway, ana, ben, chat)
            listening = asyncio.create_task(listen(people))
            await tell(people)
            await asyncio.sleep(0.5)
            listening.cancel()
            yield people
    finally:
        await gateway.close()
        stack.close()


async def listen(people: People) -> None:
    async with people.ben.stream("GET", "/api/v1/events", timeout=None) as answer:
        async for line in answer.aiter_lines():
            people.heard += line


async def tell(people: People) -> None:
    """What Ana does."""
    ana, ids = people.ana, people.ids
    ids["told"] = (await say(ana, "anas", f"remember that my locker has a {SECRET} in it"))["id"]
    ids["asked"] = (await say(ana, "anas", "what does my locker have in it?"))["id"]
    turn = await say(ana, "anas", f"remind me in 40 days to water the {SECRET}")
    ids["due"] = re.search(r"reminder (r\w+)", turn["answer"]["text"])[1]  # type: ignore[index]
    soon = {"text": "Set", "params": {"text": f"smell the {SECRET}", "when": "in 1 second"}}
    done = await ana.post("/api/v1/actions/set_reminder", json=soon, timeout=60)
    assert done.json()["status"] == "completed", done.text
    letter = {"to": "scout", "subject": f"The {SECRET}", "body": f"What is a {SECRET}?"}
    written = (await ana.post("/api/v1/mail", json=letter)).json()
    ids["letter"], ids["letter_number"] = written["id"], str(written["number"])

    async def is_reminded() -> bool:
        mail = (await ana.get("/api/v1/mail")).json()["mail"]
        found = [each for each in mail if each["sender"] == "nexus" and SECRET in each["body"]]
        if found:
            ids.update(mail_number=str(found[0]["number"]), mail=found[0]["id"])
        return bool(found)

    await eventually(is_reminded, 60)
    nodes = (await ana.get("/api/v1/memory/search", params={"q": "my locker"})).json()["hits"]
    ids["node"] = next(hit["node"]["id"] for hit in nodes if SECRET in hit["node"]["title"])


async def test_ana_sees_what_is_hers(office: People) -> None:
    turn = (await office.ana.get(f"{DESK}/anas/messages/{office.ids['told']}")).json()
    assert "for you alone" in turn["answer"]["text"]
    asked = (await office.ana.get(f"{DESK}/anas/messages/{office.ids['asked']}")).json()
    assert SECRET in asked["answer"]["text"]
    items = (await office.ana.get("/api/v1/timetable", params={"everything": "true"})).json()["items"]
    assert sum(SECRET in each["text"] for each in items) == 2
    assert [each["title"] for each in (await office.ana.get(DESK)).json()["sessions"]]
    assert SECRET in (await office.ana.get("/api/v1/export")).text


async def test_a_reminder_is_told_on_the_channels_of_its_person_alone(office: People) -> None:
    told: dict[str, list[bytes]] = {}

    async def is_told() -> bool:
        subject = subjects.record(subjects.GATEWAY, subjects.DELIVERY, "*")
        for _, _, data in await office.gateway.office.stored(subject):
            told.setdefault(json.loads(data)["channel"], []).append(data)
        return "anas" in told

    await eventually(is_told, 60)
    assert SECRET.encode() in b"".join(told["anas"])
    assert SECRET.encode() not in b"".join(told.get("bens", []) + told.get("all", []))
    assert SECRET not in repr(office.chat.hooks)


def paths_of(path: str, ids: dict[str, str], seqs: range) -> list[str]:
    """The addresses of a route with each of Ana's ids in the place of its parameters."""
    if "{stream}" in path:
        filled = [re.sub(r"{stream[^}]*}", stream, path) for stream in ("OFFICE", "MEMORY")]
        return [re.sub(r"{[^}]+}", str(seq), each) for each in filled for seq in seqs]
    if path.startswith(DESK):
        path = path.replace("{id}", "anas", 1)
    if "{" not in path:
        return [path]
    return [re.sub(r"{[^}]+}", value, path) for value in {*ids.values(), "anas"}]


async def test_ben_sees_none_of_it_at_any_address(office: People) -> None:
    last = (await office.ana.get("/api/v1/session")).json()["position"]
    seqs = range(1, int(last.partition("-")[0]) + 1)
    asked, limit = [], asyncio.Semaphore(8)
    for endpoint in TABLE:
        if endpoint.method != "GET" or endpoint.path.endswith(STREAMED):
            continue
        for path in paths_of(endpoint.path, office.ids, seqs):
            whole = "{" in endpoint.path
            asked += [
                path + query
                for query in ("", "?q=locker", "?everything=true", "?text=locker")[: 1 if whole else 4]
            ]

    async def ask(path: str) -> tuple[int, str]:
        async with limit:
            answer = await office.ben.get(path)
            return answer.status_code, f"{path}: {answer.text[:300]}" if SECRET in answer.text else ""

    answers = await asyncio.gather(*map(ask, asked))
    shown = [told for _, told in answers if told]
    assert not shown, "\n".join(shown[:10])
    assert sum(status == 200 for status, _ in answers) > 60
    assert SECRET not in office.heard
    assert '"recipient":"nexus"' not in office.heard


async def test_ben_finds_none_of_it_by_asking(office: People) -> None:
    asked = (
        "what does the locker have in it?",
        "what are the reminders?",
        "list all reminders",
        "which mails are there about the locker?",
        "cancel all reminders",
        "undo that",
    )
    said = (say(office.ben, f"bens-{number}", text) for number, text in enumerate(asked))
    assert SECRET not in json.dumps(await asyncio.gather(*said))
    refused = await office.ben.post(f"{DESK}/anas/messages", json={"text": "and what did I say before?"})
    assert SECRET not in refused.text
    items = (await office.ana.get("/api/v1/timetable")).json()["items"]
    assert any(each["id"] == office.ids["due"] for each in items)
    gone = await office.ben.delete(f"/api/v1/timetable/{office.ids['due']}")
    assert gone.status_code in (404, 422)
    body = {"text": "List", "params": {"everything": True}}
    listed = await office.ben.post("/api/v1/actions/list_reminders", json=body, timeout=60)
    assert SECRET not in listed.text


async def test_ben_asks_memory_in_vain_and_changes_nothing_of_anas(office: People) -> None:
    node = office.ids["node"]
    queries = {
        "search": {"text": "locker"},
        "get": {"ids": [node]},
        "list": {"limit": 1000, "retired": True},
        "edges": {"node": node},
        "traverse": {"start": [node]},
    }
    for verb, query in queries.items():
        answer = await office.ben.post(f"/api/v1/memory/{verb}", json=query)
        assert SECRET not in answer.text, verb
    mine = {"title": "Ben says that the locker is empty now", "id": node}
    for change in (
        {"nodes": [mine], "insist": True},
        {"retire": [node]},
        {"nodes": [{**mine, "id": "bens", "source": {"channel": "private:ana"}}], "insist": True},
    ):
        answer = (await office.ben.post("/api/v1/memory/write", json=change)).json()
        assert answer.get("error") or answer.get("ids") == ["bens"], answer
    kept = (await office.ana.post("/api/v1/memory/get", json={"ids": [node, "bens"]})).json()
    assert [SECRET in each["title"] for each in kept] == [True]


async def test_what_is_for_the_team_is_the_teams(office: People) -> None:
    turn = await say(office.ana, "anas", "remember for the team that the kiln is fired on Fridays")
    assert "for the team" in turn["answer"]["text"]
    found = await say(office.ben, "bens", "when is the kiln fired?")
    assert "Friday" in found["answer"]["text"]
    # What is hers alone, given to the team and taken back
    node = {"id": "shelf", "title": "The upper shelf of the store room belongs to Ana"}
    for audience, seen in (("", False), ("team", True), ("me", False)):
        change = {"nodes": [node], "audience": audience}
        assert not (await office.ana.post("/api/v1/memory/write", json=change)).json()["error"]
        answer = await office.ben.post("/api/v1/memory/get", json={"ids": ["shelf"]})
        assert ("upper shelf" in answer.text) is seen
    hers = {"nodes": [{"id": "shelf", "title": "It is Ben's"}], "audience": "me", "insist": True}
    assert (await office.ben.post("/api/v1/memory/write", json=hers)).json()["error"]


async def test_a_goal_is_the_teams(office: People) -> None:
    made = await office.ana.post("/api/v1/goals", json={"text": "Say hello to the office"})
    goal_id = made.json()["goal_id"]

    async def is_over() -> bool:
        return bool((await office.ben.get(f"/api/v1/goals/{goal_id}")).json().get("ended_at"))

    await eventually(is_over, 60)
    for client in (office.ana, office.ben):
        assert goal_id in (await client.get("/api/v1/goals")).text
    assert (await office.ben.get(f"/api/v1/goals/{goal_id}")).json()["person"] == "ana"


async def test_a_persons_token_and_link_are_that_persons(office: People) -> None:
    for client, name in ((office.ana, "ana"), (office.ben, "ben")):
        assert (await client.get("/api/v1/session")).json()["person"] == name
    assert (await office.ana.get("/api/v1/session")).json()["scopes"] == ["read", "submit"]  # her role
    config, headers = office.gateway.config, {"Origin": office.gateway.url, "Sec-Fetch-Site": "same-origin"}
    async with httpx2.AsyncClient(base_url=office.gateway.url, headers=headers) as browser:
        code = create_link(config, "ben").partition("#")[2]
        (await browser.post("/api/v1/session", json={"link": code})).raise_for_status()
        assert SECRET not in (await browser.get("/api/v1/messages")).text
    script = Tokens(config).add("nightly", Scope.ADMIN)
    answer = await office.ben.get("/api/v1/export", headers={"Authorization": f"Bearer {script}"})
    assert SECRET not in answer.text  # a script is nobody in particular


async def test_an_agent_reads_and_hides_nothing_by_an_audience_of_its_own(office: People) -> None:
    """Engineer says that its question to the desk is Ana's, and for her alone."""
    bus = await office.gateway.office.connect("engineer")
    question = Question(
        sender="engineer",
        recipient="nexus",
        text="what does my locker have in it?",
        person="ana",
        audience="ana",
    )
    await bus.store(subjects.mail("nexus", "engineer"), question.to_json())
    answers: list[bytes] = []

    async def is_answered() -> bool:
        answers[:] = [data for _, _, data in await office.gateway.office.stored("mail.engineer.nexus")]
        return any(json.loads(data).get("cause") == question.id for data in answers)

    await eventually(is_answered, 60)
    assert SECRET.encode() not in b"".join(answers)
    listed = (await office.ben.get("/api/v1/messages", params={"subject": "mail.nexus.engineer"})).json()
    assert len(listed["messages"]) == 1


async def test_a_host_of_mcp_sees_what_its_person_sees(office: People) -> None:
    tokens, node = Tokens(office.gateway.config), office.ids["node"]
    for name, sees in (("ana", True), ("ben", False)):
        token = tokens.add(f"mcp-{name}", Scope.ADMIN, person=name)
        async with connect(office.gateway, token, "auto") as host:
            answers = [
                await host.call_tool(tool, arguments)
                for tool, arguments in (
                    ("search_memory", {"text": "locker"}),
                    ("read_memory", {"id": node}),
                    ("reminders", {}),
                    ("tail", {}),
                    ("ask", {"text": "what does my locker have in it?"}),
                )
            ]
            told = [SECRET in repr(answer) for answer in answers]
            assert told == [sees] * len(answers) if sees else not any(told), (name, told)


async def ask_api(client: Client, method: str, path: str, body: object = None) -> tuple[int, str]:
    asked = json.dumps({"method": method, "path": path, "body": body}).encode()
    answer = json.loads((await client.request("gateway.api", asked, timeout=30)).data)
    return answer["status"], answer["body"]


async def test_a_persons_key_asks_as_that_person_and_does_nothing_else(office: People) -> None:
    async with AsyncExitStack() as stack:
        opened = office.gateway.office.server.raw_client
        clients = {name: await stack.enter_async_context(opened(f"user-{name}")) for name in ("ana", "ben")}
        status, body = await ask_api(clients["ana"], "GET", "/api/v1/mail")
        assert (status, SECRET in body) == (200, True)
        status, body = await ask_api(clients["ben"], "GET", "/api/v1/mail")
        assert (status, SECRET in body) == (200, False)
        status, body = await ask_api(clients["ben"], "POST", "/api/v1/goals", {"text": "Say hello again"})
        goal_id = json.loads(body)["goal_id"]
        assert json.loads((await office.ana.get(f"/api/v1/goals/{goal_id}")).text)["person"] == "ben"
        # Ana is a member: she may not what administrators may.
        status, body = await ask_api(clients["ana"], "POST", "/api/v1/memory/reindex")
        assert status == 403
        for path in ("/api/v1/session", "/api/v1/tokens", "/healthz", "/api/v1/events"):
            answer = await clients["ben"].request(
                "gateway.api", json.dumps({"path": path}).encode(), timeout=9
            )
            assert answer.headers["Nats-Service-Error-Code"] == "400"
        question = Question(sender="user", recipient="nexus", text="what is in my locker?", person="ana")
        forged = {
            "mail.nexus.user": question.to_json(),
            "tasks.submit": b'{"text": "x", "person": "ana"}',
            "gateway.api.user-ana": b'{"path": "/api/v1/mail"}',
            "memory.search": b'{"text": "locker"}',
            "memory.write.user": b"{}",
            "$JS.API.DIRECT.GET.OFFICE": b'{"last_by_subj": "mail.user.nexus"}',
        }
        for subject, payload in forged.items():
            with pytest.raises((nats.errors.NoRespondersError, nats.errors.TimeoutError)):
                await clients["ben"].request(subject, payload, timeout=0.5)
        heard: list[Msg] = []

        async def hear(message: Msg) -> None:
            heard.append(message)

        for subject in ("audit.>", "mail.>", "gateway.api.*", ">"):
            await clients["ben"].subscribe(subject, cb=hear)
        await say(office.ana, "anas", "good morning")
        assert heard == []
        assert await office.gateway.office.stored("mail.nexus.user-ben") == []


async def test_at_the_desk_one_says_for_whom_what_was_just_kept_is(office: People) -> None:
    told = await say(office.ana, "clock", "remember that the glaze recipe lies behind the clock")
    (node,) = told["answer"]["citations"]
    for words, seen in (
        ("share that with the team", True),
        ("actually, keep that to myself", False),
        ("share it", True),
    ):
        said = await say(office.ana, "clock", words)
        assert said["answer"]["citations"] == [node], said["answer"]["text"]
        answer = await office.ben.post("/api/v1/memory/get", json={"ids": [node]})
        assert ("behind the clock" in answer.text) is seen, said["answer"]["text"]
    assert (
        "behind the clock"
        in (await say(office.ben, "bens-clock", "where does the glaze recipe lie?"))["answer"]["text"]
    )
    refused = await say(office.ben, "bens-clock", "keep that to myself")
    assert "not yours to take from the team" in refused["answer"]["text"]
    (kept,) = (await office.ana.post("/api/v1/memory/get", json={"ids": [node]})).json()
    assert kept["metadata"]["person"] == "ana"
    assert "Which memory?" in (await say(office.ana, "new", "share that with the team"))["answer"]["text"]


async def test_ones_own_is_forgotten_without_the_role_admin_where_nobody_else_has_it(office: People) -> None:
    ana, ben = office.ana, office.ben

    async def keep(client: httpx2.AsyncClient, node_id: str, title: str, audience: str) -> str:
        change = {"nodes": [{"id": node_id, "title": title}], "audience": audience, "insist": True}
        assert not (await client.post("/api/v1/memory/write", json=change)).json()["error"]
        return f"/api/v1/memory/nodes/{node_id}/forgetting"

    told = await say(ana, "diary", "remember that the diary of the winter is under the third stair")
    (node,) = told["answer"]["citations"]
    path = f"/api/v1/memory/nodes/{node}/forgetting"
    assert (await ben.get(path)).status_code == 404
    plan = (await ana.get(path)).json()
    assert [each["id"] for each in plan["nodes"]] == [node]
    assert (await ana.post(path, json={"nodes": [node]})).status_code == 202
    assert "third stair" not in (await ana.get("/api/v1/memory/search", params={"q": "diary"})).text
    # A text that the team has, that Ben alone has, or that stands in a letter of the office
    await keep(ana, "of-team", "The anchor of the barge was painted green in April", "team")
    await keep(ben, "of-ben", "The rudder of the barge was painted blue in May", "me")
    letter = {"to": "scout", "subject": "Paint", "body": "The mast of the barge was painted red in June"}
    assert (await ben.post("/api/v1/mail", json=letter)).is_success
    for number, title in enumerate(
        (
            "anchor of the barge was painted green in April",
            "rudder of the barge was painted blue in May",
            "mast of the barge was painted red in June",
        )
    ):
        copy = await keep(ana, f"copy-{number}", f"The {title}", "me")
        for refused in (await ana.get(copy), await ana.post(copy, json={"nodes": [f"copy-{number}"]})):
            assert (refused.status_code, "stands elsewhere too" in refused.text) == (403, True), refused.text
    assert (await ana.get("/api/v1/memory/nodes/of-team/forgetting")).status_code == 403
    assert "painted blue" in (await ben.post("/api/v1/memory/get", json={"ids": ["of-ben"]})).text


async def test_a_briefing_of_anas_has_what_is_hers_and_bens_has_not(office: People) -> None:
    asked = {"text": "Brief me", "params": {"kind": "morning"}}
    for client, sees in ((office.ana, True), (office.ben, False), (office.ana, True)):
        done = await client.post("/api/v1/actions/tell_briefing", json=asked, timeout=120)
        assert done.json()["status"] == "completed", done.text
        shown = await client.get("/api/v1/briefings/today")
        assert (SECRET in done.text) is (SECRET in shown.text) is sees
        assert (
            len(shown.json()["briefings"])
            == len((await client.get("/api/v1/briefings")).json()["briefings"])
            == 1
        )
    files = [each.read_text() for each in office.gateway.config.inbox.rglob("*.md")]
    assert not any(SECRET in each for each in files)


async def test_a_schedule_of_anas_starts_goals_of_hers(office: People) -> None:
    wanted = {"what": "goal", "text": "Say hello to the office", "when": "every day at 8:00"}
    made = await office.ana.post("/api/v1/timetable", json=wanted, timeout=60)
    plan = made.json()
    begun = await office.ana.post(f"/api/v1/timetable/{plan['id']}/run", json={})
    goal_id = begun.json()["goal_id"]

    async def is_over() -> bool:
        found = await office.ben.get(f"/api/v1/goals/{goal_id}")
        return found.is_success and bool(found.json().get("ended_at"))

    await eventually(is_over, 60)
    assert (await office.ben.get(f"/api/v1/goals/{goal_id}")).json()["person"] == "ana"
