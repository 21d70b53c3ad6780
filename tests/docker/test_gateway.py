"""The gateway in its container, used from this machine through the port that compose.yaml publishes."""

import inspect
import time
from collections.abc import AsyncIterator

import httpx2
import msgspec
import pytest

from tests.docker.conftest import ISSUER
from tests.support import openid_provider
from tests.support.containers import PATIENCE, Containers
from tests.support.waiting import eventually

pytestmark = pytest.mark.timeout(1800)
GOAL = "Check up on the repository at /repos/tiny"
PROVIDER = """
import asyncio, socket
provider = OpenIdProvider()
provider._listener = socket.create_server(("127.0.0.1", 8999))
provider.issuer = "http://127.0.0.1:8999"
async def main():
    async with provider.running():
        await asyncio.sleep(120)
asyncio.run(main())
"""
AGREE = "import httpx2, sys; print(httpx2.get(sys.argv[1]).headers['location'])"
WAIT = "for i in $(seq 60); do wget -q -O - http://127.0.0.1:8999/keys && exit; sleep 1; done; exit 1"


def sign_in_link(office: Containers) -> str:
    """What ``mailroom web`` prints in the gateway's container, as the documents say."""
    return office.run("exec", "--no-TTY", "gateway", "mailroom", "web").strip()


@pytest.fixture
async def browser(office: Containers) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that is signed in by the link."""
    headers = {"Origin": office.gateway, "Sec-Fetch-Site": "same-origin"}
    async with httpx2.AsyncClient(base_url=office.gateway, headers=headers, timeout=30) as client:
        code = sign_in_link(office).partition("#")[2]
        (await client.post("/api/v1/session", json={"link": code})).raise_for_status()
        yield client


async def test_the_page_opens_with_its_libraries_and_knows_nobody(office: Containers) -> None:
    async with httpx2.AsyncClient(base_url=office.gateway, timeout=30) as client:
        assert "importmap" in (await client.get("/")).text
        assert "export" in (await client.get("/web/vendor/preact.mjs")).text
        assert (await client.get("/api/v1/goals")).status_code == 401
        foreign = await client.get("/healthz", headers={"Host": "elsewhere.example.org:8642"})
        assert foreign.status_code == 421


async def test_the_link_has_the_published_port_and_works_once(office: Containers) -> None:
    link = sign_in_link(office)
    assert link.startswith(f"{office.gateway}/")
    headers = {"Origin": office.gateway, "Sec-Fetch-Site": "same-origin"}
    body = {"link": link.partition("#")[2]}
    answers = []
    for _ in range(2):
        async with httpx2.AsyncClient(base_url=office.gateway, headers=headers, timeout=30) as client:
            answers.append((await client.post("/api/v1/session", json=body)).status_code)
    assert answers == [200, 401]


async def test_a_goal_is_submitted_followed_and_answered(
    office: Containers, browser: httpx2.AsyncClient
) -> None:
    body, key = {"text": GOAL}, {"Idempotency-Key": f"once-{time.time_ns()}"}
    ids = {(await browser.post("/api/v1/goals", json=body, headers=key)).json()["goal_id"] for _ in range(2)}
    (goal_id,) = ids
    subjects = await follow(browser, goal_id)
    assert subjects[0] == "tasks.submit"
    goal = (await browser.get(f"/api/v1/goals/{goal_id}")).json()
    assert (goal["status"], goal["outcome"]) == ("completed", "done_with_findings"), goal["answer"]
    assert "test_add" in (await browser.get(f"/api/v1/goals/{goal_id}/report")).text


async def follow(client: httpx2.AsyncClient, goal_id: str) -> list[str]:
    """The subjects of the goal's events until it has ended."""
    seen: list[str] = []
    parameters = {"goal": goal_id, "after": "0-0"}
    until = time.monotonic() + PATIENCE
    async with client.stream("GET", "/api/v1/events", params=parameters, timeout=PATIENCE) as events:
        async for line in events.aiter_lines():
            assert time.monotonic() < until, seen
            if line.startswith('data: {"message"'):
                seen.append(msgspec.json.decode(line[6:])["message"]["subject"])
                ended = (await client.get(f"/api/v1/goals/{goal_id}")).json()
                if ended["state"] == "ended":
                    break
    return seen


async def test_prometheus_scrapes_with_a_token(office: Containers) -> None:
    token = office.run("exec", "--no-TTY", "gateway", "mailroom", "token", "add", "prometheus").strip()
    async with httpx2.AsyncClient(base_url=office.gateway, timeout=30) as client:
        assert (await client.get("/metrics")).status_code == 401
        figures = (await client.get("/metrics", headers={"Authorization": f"Bearer {token}"})).text
    assert "mailroom_bus_up 1.0" in figures
    assert 'mailroom_processes{agent="engineer",host="office"}' in figures
    assert "mailroom_nats_connections " in figures
    # What the chart has KEDA scale by; an agent that has no task at work is not in the second one.
    assert 'mailroom_queue_depth{agent="engineer"' in figures
    assert "# TYPE mailroom_tasks_working gauge" in figures


async def test_the_container_is_in_order(browser: httpx2.AsyncClient) -> None:
    checks = (await browser.get("/api/v1/doctor")).json()["checks"]
    assert {check["name"]: check["verdict"] for check in checks} == dict.fromkeys(
        ["agents", "bus", "deliver", "disk", "index", "memory", "rates", "seals", "streams"], "ok"
    )


@pytest.mark.parametrize("how", ["restart", "kill"])
async def test_a_session_outlives_the_container(
    office: Containers, browser: httpx2.AsyncClient, how: str
) -> None:
    before = (await browser.get("/api/v1/session")).json()["person"]
    last = await first_position(browser, {"Last-Event-ID": "0-0"})
    office.run(how, "gateway")
    office.run("up", "--detach", "--wait", "--no-deps", "gateway")

    async def answers() -> bool:
        try:
            return (await browser.get("/healthz")).status_code == 200
        except httpx2.HTTPError:
            return False

    await eventually(answers, 60)
    assert (await browser.get("/api/v1/session")).json()["person"] == before
    following = await first_position(browser, {"Last-Event-ID": last})
    assert is_after(following, last)


async def first_position(client: httpx2.AsyncClient, headers: dict[str, str]) -> str:
    """The position of the first message in the stream of events."""
    async with client.stream("GET", "/api/v1/events", headers=headers) as answer:
        async for line in answer.aiter_lines():
            if line.startswith('data: {"message"'):
                return str(msgspec.json.decode(line[6:])["message"]["position"])
    raise AssertionError("the stream ended without a message")


def is_after(position: str, other: str) -> bool:
    return [*map(int, position.split("-"))] > [*map(int, other.split("-"))]


async def test_a_person_signs_in_through_the_team_s_provider(office: Containers) -> None:
    people = 'ada = { role = "approver", email = "ada@example.org" }'
    office.inside("gateway", f"echo '{people}' > /state/gateway/users.toml")
    source = inspect.getsource(openid_provider) + PROVIDER
    office.run("exec", "--detach", "gateway", "python", "-c", source)
    office.inside("gateway", WAIT)
    try:
        async with httpx2.AsyncClient(base_url=office.gateway, timeout=30) as client:
            assert (await client.get("/login/methods")).json() == {"oidc": True}
            begun = await client.get("/login/oidc")
            at_provider = begun.headers["location"]
            assert at_provider.startswith(ISSUER)
            command = ["exec", "--no-TTY", "gateway", "python", "-c", AGREE, at_provider]
            back = office.run(*command).strip()
            assert back.startswith(f"{office.gateway}/login/oidc/callback")
            assert (await client.get(back)).headers["location"] == "/"
            session = (await client.get("/api/v1/session")).json()
            assert (session["person"], session["scopes"]) == ("ada", ["read", "submit", "approve"])
    finally:
        office.inside("gateway", "rm /state/gateway/users.toml")
