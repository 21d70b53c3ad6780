"""A real gateway under attack: its process, its files, its sockets."""

import asyncio
import contextlib
import gzip
import itertools
import re
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from services.gateway.api import TABLE
from shared import subjects
from shared.access.scopes import Scope, read_owner_name
from shared.contracts import AccessAct, AccessChanged
from tests.support.access import Tokens, create_link, end_sessions
from tests.support.gateway import RunningGateway
from tests.support.waiting import eventually

POST = "POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\n"
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    running = RunningGateway(tmp_path_factory.mktemp("gateway"))
    try:
        await running.open()
        yield running
    finally:
        await running.close()


@pytest_asyncio.fixture(scope="class", loop_scope="module", autouse=True)
async def fresh_limits(running: RunningGateway) -> None:
    """Each class begins with a new process, which has counted no attempts: ten in a minute are allowed."""
    running.office.kill(subjects.GATEWAY)
    running.office.start(subjects.GATEWAY)
    await running.office.ready(subjects.GATEWAY)


@pytest.fixture
def gateway(running: RunningGateway) -> Iterator[RunningGateway]:
    """The one gateway, without the people and tokens of the test before."""
    yield running
    (running.config.gateway / "users.toml").unlink(missing_ok=True)
    tokens = Tokens(running.config)
    for token in tokens.list():
        tokens.revoke(token.name)


def port_of(gateway: RunningGateway) -> int:
    return int(gateway.url.rpartition(":")[2])


async def exchange(gateway: RunningGateway, sent: bytes, timeout: float = 5.0) -> bytes:
    """What the gateway answers to these bytes until it closes the connection, or ``timeout`` passes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port_of(gateway))
    received = b""
    try:
        writer.write(sent)
        async with asyncio.timeout(timeout):
            while part := await reader.read(65_536):
                received += part
    except (TimeoutError, ConnectionResetError):
        pass
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    return received


class TestRoutes:
    async def test_no_route_but_sign_in_answers_without_a_token(self, gateway: RunningGateway) -> None:
        rows = [(each.method, each.path) for each in TABLE if each.scope > Scope.NONE]
        others = [
            ("GET", path) for path in ("/openapi.json", "/metrics", "/asyncapi.json", "/api", "/api/v1")
        ]
        async with gateway.stranger() as client:
            for method, path in (*rows, *others):
                answer = await client.request(method, path.replace("{", "").replace("}", ""), json={})
                assert answer.status_code == 401, (method, path)
                assert answer.headers["content-security-policy"]

    async def test_only_sign_in_and_hooks_are_open(self) -> None:
        assert [(each.method, each.path) for each in TABLE if each.scope is Scope.NONE] == [
            ("POST", "/api/v1/session")
        ]

    async def test_what_a_token_may_not_is_refused(self, gateway: RunningGateway) -> None:
        async with gateway.client(Scope.READ) as client:
            for each in TABLE:
                if each.scope > Scope.READ:
                    path = each.path.replace("{", "").replace("}", "")
                    assert (await client.request(each.method, path, json={})).status_code == 403, each.path


class TestSession:
    async def test_a_link_signs_in_once_and_survives_a_restart(self, gateway: RunningGateway) -> None:
        code = create_link(gateway.config).partition("#")[2]
        async with gateway.stranger() as client:
            answer = await client.post("/api/v1/session", json={"link": code})
            assert answer.status_code == 200
            assert answer.json() == {
                "person": read_owner_name(),
                "scopes": ["read", "submit", "approve", "admin"],
            }
            cookie = answer.headers["set-cookie"]
            assert "HttpOnly" in cookie
            assert "SameSite=strict" in cookie
            assert "Path=/" in cookie
            assert "Secure" not in cookie
            assert (await client.get("/api/v1/session")).status_code == 200
            url = gateway.url
            gateway.office.kill(subjects.GATEWAY)
            gateway.office.environment["MAILROOM_GATEWAY_PORT"] = url.rpartition(":")[2]
            gateway.office.start(subjects.GATEWAY)
            await gateway.office.ready(subjects.GATEWAY)
            assert gateway.url == url
            assert (await client.get("/api/v1/session")).status_code == 200
        async with gateway.stranger() as thief:
            answer = await thief.post("/api/v1/session", json={"link": code})
            assert answer.status_code == 401
            assert "mailroom web" in answer.json()["cure"]

    async def test_signing_out_ends_it(self, gateway: RunningGateway) -> None:
        async with gateway.browser() as client, gateway.browser() as other:
            stolen = {"Cookie": "; ".join(f"{name}={value}" for name, value in client.cookies.items())}
            assert (await client.get("/api/v1/session", headers=stolen)).status_code == 200
            assert (await client.delete("/api/v1/session")).status_code == 204
            assert not client.cookies
            assert (await client.get("/api/v1/session", headers=stolen)).status_code == 401
            assert (await other.get("/api/v1/session")).status_code == 200
            assert (await other.delete("/api/v1/session?everywhere=true")).status_code == 204
            assert end_sessions(gateway.config) == 0

    async def test_a_link_cannot_make_somebody_work_in_another_name(self, gateway: RunningGateway) -> None:
        (gateway.config.gateway / "users.toml").write_text(
            f'{read_owner_name()} = {{ role = "admin" }}\neve = {{ role = "viewer" }}\n'
        )
        async with gateway.browser() as client:
            code = create_link(gateway.config, "eve").partition("#")[2]
            answer = await client.post("/api/v1/session", json={"link": code})
            assert answer.status_code == 409
            assert (await client.get("/api/v1/session")).json()["person"] == read_owner_name()

    async def test_a_session_by_token_has_its_scopes(self, gateway: RunningGateway) -> None:
        token = Tokens(gateway.config).add("kiosk", Scope.READ)
        async with gateway.stranger() as client:
            answer = await client.post("/api/v1/session", json={"token": token})
            assert answer.json() == {"person": "kiosk", "scopes": ["read"]}
            assert (await client.get("/api/v1/tokens")).status_code == 403
            Tokens(gateway.config).revoke("kiosk")
            assert (await client.get("/api/v1/session")).status_code == 401


class TestTokens:
    async def test_an_admin_makes_and_revokes_them(self, gateway: RunningGateway) -> None:
        async with gateway.client() as admin:
            made = await admin.post("/api/v1/tokens", json={"name": "ci", "scopes": ["submit"], "days": 30})
            assert made.status_code == 201
            secret = {"Authorization": f"Bearer {made.json()['token']}"}
            again = await admin.post("/api/v1/tokens", json={"name": "ci", "scopes": ["read"]})
            assert again.status_code == 409
            assert (await admin.get("/api/v1/session", headers=secret)).json()["scopes"] == ["read", "submit"]
            listed = (await admin.get("/api/v1/tokens")).json()["tokens"]
            assert [each["name"].partition("-")[0] for each in listed] == ["ci", "test"]
            assert made.json()["token"] not in str(listed)
            assert (await admin.delete("/api/v1/tokens/ci")).status_code == 204
            assert (await admin.delete("/api/v1/tokens/ci")).status_code == 404
            assert (await admin.get("/api/v1/session", headers=secret)).status_code == 401

    async def test_a_stream_ends_when_its_token_is_revoked(self, gateway: RunningGateway) -> None:
        async with gateway.client(name="reader") as client, client.stream("GET", "/api/v1/events") as stream:
            parts = stream.aiter_bytes()
            assert b"event: open" in await anext(parts)
            Tokens(gateway.config).revoke("reader")
            begun = time.monotonic()
            async for _ in parts:
                pass
            assert time.monotonic() - begun < 5

    async def test_no_secret_is_in_a_log_or_on_the_bus(self, gateway: RunningGateway) -> None:
        token = Tokens(gateway.config).add("ci", Scope.READ)
        code = create_link(gateway.config).partition("#")[2]
        async with gateway.stranger() as client:
            await client.get(f"/api/v1/goals?token={token}", headers={"Authorization": f"Bearer {token}"})
            await client.get(f"/login?code={code}")
            await client.post("/api/v1/session", json={"link": code})
            await client.get("/api/v1/session", headers={"Authorization": f"Bearer {token}x"})
        written = (gateway.config.logs / "gateway.log").read_text()
        stored = b"".join(data for _, _, data in await gateway.office.stored()).decode()
        for secret in (token, code, *client.cookies.values()):
            assert secret not in written
            assert secret not in stored


class TestConnections:
    async def test_files_outside_of_the_pages_are_not_served(self, gateway: RunningGateway) -> None:
        for path in (
            "/web/../security/guard.py",
            "/web/..%2fsecurity/guard.py",
            "/web/%2e%2e/%2e%2e/process.py",
            "/web/....//process.py",
            "/web//etc/passwd",
            "/web/%00",
            "//etc/passwd",
            "/web/..\\process.py",
        ):
            answer = await exchange(
                gateway, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
            )
            assert answer.split(b" ", 2)[1] in (b"404", b"400", b"401"), (path, answer)
            assert b"import" not in answer.partition(b"\r\n\r\n")[2]

    async def test_headers_cannot_be_injected(self, gateway: RunningGateway) -> None:
        for head in (
            "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n",
            "GET /%0d%0aX-Evil:%201 HTTP/1.1\r\nHost: localhost\r\n",
            "GET / HTTP/1.0\r\n",
            f"{POST}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            f"{POST}Content-Length: 5\r\nContent-Length: 6\r\n",
            "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n",
        ):
            answer = await exchange(gateway, f"{head}Connection: close\r\n\r\n".encode())
            assert b"x-evil" not in answer.partition(b"\r\n\r\n")[0].lower()
            assert not answer.startswith(b"HTTP/1.1 2"), (head, answer)
            assert not answer.startswith(b"HTTP/1.1 5"), (head, answer)

    async def test_a_body_of_two_lengths_is_refused_and_what_follows_not_read(
        self, gateway: RunningGateway
    ) -> None:
        head = f"{POST}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
        second = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        received = await exchange(gateway, f"{head}0\r\n\r\n{second}".encode())
        assert received.startswith(b"HTTP/1.1 400")
        assert received.count(b"HTTP/1.1 ") == 1

    async def test_a_connection_outlasts_what_clients_keep(self, gateway: RunningGateway) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port_of(gateway))
        for pause in (6, 0):
            writer.write(b"HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            await asyncio.sleep(pause)
        writer.close()

    async def test_requests_that_never_end_are_cut_off(self, gateway: RunningGateway) -> None:
        head = b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
        begun = time.monotonic()
        slow = [
            asyncio.create_task(exchange(gateway, head, timeout=40)),
            asyncio.create_task(exchange(gateway, f"{POST}Content-Length: 9\r\n\r\n{{".encode(), timeout=40)),
        ]
        async with gateway.client(Scope.READ) as client:
            assert (await client.get("/api/v1/session")).status_code == 200
        assert time.monotonic() - begun < 5
        cut, answer = await asyncio.gather(*slow)
        assert cut == b""
        assert b" 408 " in answer.split(b"\r\n")[0]
        assert time.monotonic() - begun < 35

    async def test_connections_that_send_nothing_leave_room_for_others(self, gateway: RunningGateway) -> None:
        """As many as the process may have files open: the oldest are closed, and it still answers."""
        silent = [await asyncio.open_connection("127.0.0.1", port_of(gateway)) for _ in range(600)]
        try:
            async with gateway.client(Scope.READ) as client:
                assert (await client.get("/api/v1/session")).status_code == 200
            open_files = len(list(Path(f"/proc/{gateway.office.processes['gateway'].pid}/fd").iterdir()))
            assert open_files < 400
        finally:
            for _, writer in silent:
                writer.close()

    async def test_a_head_or_a_body_of_a_stranger_is_small(self, gateway: RunningGateway) -> None:
        heads = (
            "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000\r\n\r\n",
            "POST /api/v1/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20000\r\n\r\n",
        )
        for head in heads:
            answer = await exchange(gateway, head.encode() + b"x" * 1_000)
            assert b" 413 " in answer.split(b"\r\n")[0], answer
        many = "".join(f"X-{number}: {'y' * 500}\r\n" for number in range(1_000))
        answer = await exchange(gateway, f"GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n".encode())
        assert b" 2" not in answer.split(b"\r\n")[0]

    async def test_a_body_is_not_read_from_strangers(self, gateway: RunningGateway) -> None:
        head = b"POST /api/v1/tokens HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n"
        answer = await exchange(gateway, head + b"x" * 1_000)
        assert b" 401 " in answer.split(b"\r\n")[0]

    async def test_the_server_does_not_say_what_it_is(self, gateway: RunningGateway) -> None:
        async with gateway.stranger() as client:
            answer: Any = await client.get("/healthz")
            assert answer.status_code == 200
            assert "server" not in answer.headers


async def read_acts(gateway: RunningGateway) -> list[AccessChanged]:
    stored = await gateway.office.stored(subjects.event(subjects.GATEWAY, ">"))
    return [AccessChanged.from_json(data) for _, _, data in stored]


class TestRubbish:
    """Bodies, cursors and ids that no client of ours sends: refused with a sentence, and nothing breaks."""

    @pytest.mark.parametrize(
        "body",
        [
            b'{"text": "x", "context": {"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}}",
            b'{"text": "x", "unknown": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
            gzip.compress(b'{"text": "x"}' + b" " * 10_000_000),
            b'{"text": "\\ud800"}',
            b'{"text": "x", "deadline": "9999999999-01-01"}',
            b'{"text": "x", "context": {"a": 1e999}}',
            b"\xff\xfe{}",
            b"[]",
        ],
        ids=["deep", "deep and unknown", "gzip", "half", "date", "infinite", "utf-16", "list"],
    )
    async def test_such_a_body_is_refused(self, gateway: RunningGateway, body: bytes) -> None:
        async with gateway.client(Scope.SUBMIT) as client:
            headers = {"Content-Type": "application/json", "Content-Encoding": "identity"}
            answer = await client.post("/api/v1/goals", content=body, headers=headers)
            assert answer.status_code in (400, 422), answer.text
            assert answer.json()["detail"]

    @pytest.mark.parametrize("rubbish", ["9" * 30 + "-1", "-1", "1-1-1", "\u00b2-1", "0x1-0", "a" * 9_000])
    async def test_such_a_position_is_refused(self, gateway: RunningGateway, rubbish: str) -> None:
        async with gateway.client(Scope.READ) as client:
            for path in ("/api/v1/messages", "/api/v1/events", "/api/v1/export"):
                assert (await client.get(path, params={"after": rubbish})).status_code == 422, path
            headers = {"Last-Event-ID": rubbish.encode()}
            assert (await client.get("/api/v1/events", headers=headers)).status_code == 422

    async def test_no_id_leads_out_of_its_folder_or_into_a_header(self, gateway: RunningGateway) -> None:
        ids = (
            "..%2f..%2fetc%2fpasswd",
            "%2e%2e",
            "a%0d%0aX-Evil:%201",
            "%00",
            "x" * 3_000,
            "*",
            ">",
            "a.b.%3e",
        )
        rows = [each for each in TABLE if "{" in each.path]
        async with gateway.client() as client:
            for each, name in itertools.product(rows, ids):
                path = re.sub(r"{[^}]*}", name, each.path)
                answer = await client.request(each.method, path, json={})
                assert 400 <= answer.status_code < 500, (each.method, path, answer.text)
                assert "x-evil" not in answer.headers


class TestRecords:
    async def test_who_came_in_and_who_was_kept_out_is_on_the_bus(self, gateway: RunningGateway) -> None:
        begun = len(await read_acts(gateway))
        Tokens(gateway.config).add("cron", Scope.READ)
        async with gateway.browser() as client, gateway.stranger() as stranger:
            await client.post("/api/v1/tokens", json={"name": "robot", "scopes": ["read"]})
            forged = {"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "https"}
            await stranger.post("/api/v1/session", json={"link": "guess"}, headers=forged)
            await stranger.get("/api/v1/goals", headers={"Authorization": "Bearer mr_guess"})
            await client.delete("/api/v1/tokens/robot")
            await client.delete("/api/v1/session")
        owner = read_owner_name()
        expected = {
            ("signed_in", owner, ""),
            ("token_added", owner, "robot"),
            ("sign_in_refused", "", ""),
            ("token_refused", "", ""),
            ("token_revoked", owner, "robot"),
            ("signed_out", owner, ""),
        }

        async def recorded() -> bool:
            acts = (await read_acts(gateway))[begun:]
            assert {each.address for each in acts} <= {"127.0.0.1", ""}
            return expected <= {(each.act.value, each.person, each.about) for each in acts}

        await eventually(recorded, 10)

    async def test_what_the_command_changes_is_on_the_bus_too(self, gateway: RunningGateway) -> None:
        Tokens(gateway.config).add("cron", Scope.READ)

        async def recorded(act: AccessAct) -> bool:
            return any((each.act, each.about) == (act, "cron") for each in await read_acts(gateway))

        await eventually(lambda: recorded(AccessAct.TOKEN_ADDED), 10)
        Tokens(gateway.config).revoke("cron")
        await eventually(lambda: recorded(AccessAct.TOKEN_REVOKED), 10)
