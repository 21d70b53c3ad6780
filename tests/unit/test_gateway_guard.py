"""The guard in front of the gateway, without a gateway behind it: what it refuses, and what it adds."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from services.gateway.security import exchange, limits
from services.gateway.security.authentication import Authenticator, Sites
from services.gateway.security.exchange import format_page_policy, hash_source
from services.gateway.security.guard import Guard, secure
from services.gateway.security.limits import Rate, RateLimit, Refused, Streams, read_body
from shared import settings
from shared.access.scopes import Scope, read_owner_name
from shared.errors import ConfigError
from shared.settings import Settings
from tests.support.access import one_bucket
from tests.support.waiting import eventually

HOST = "127.0.0.1:8642"
ORIGIN = f"http://{HOST}"
IMPORT_MAP = '{"imports": {"preact": "/web/vendored/preact.mjs"}}'
PAGE = f"""<!doctype html><script type="importmap">{IMPORT_MAP}</script>
<script type="module" src="/web/app/main.js"></script>"""


async def tell(request: Request) -> Response:
    person = request.state.person
    body = await request.body()
    return JSONResponse({"name": person.name, "scope": person.scope, "bytes": len(body)})


async def show_page(_: Request) -> Response:
    return PlainTextResponse("page", headers={"cache-control": "no-cache", "x-frame-options": "ALLOWALL"})


@pytest.fixture
def config(tmp_path: Path) -> Settings:
    (tmp_path / "gateway").mkdir()
    return settings.load(
        {"MAILROOM_STATE_DIR": str(tmp_path), "MAILROOM_GATEWAY_HOSTS": "office,https://office.example.org"}
    )


@pytest.fixture
def access(config: Settings) -> Authenticator:
    return Authenticator(config, one_bucket())


@pytest.fixture
def app(config: Settings, access: Authenticator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Guard:
    for name in ("ADDRESS_RATE", "SIGN_IN_RATE"):  # a slow machine must not give them time to refill
        monkeypatch.setattr(limits, name, Rate(1e-9, getattr(limits, name).burst))
    (tmp_path / "index.html").write_text(PAGE)
    methods = ["GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"]
    paths = ("/api/v1/session", "/api/v1/goals", "/metrics", "/openapi.json", "/hooks/ci")
    routes = [Route(path, tell, methods=methods) for path in paths]
    pages = [tmp_path / "index.html"]
    return secure(Starlette(routes=[*routes, Route("/", show_page)]), config, access, pages=pages)


@pytest.fixture
async def client(app: Guard) -> AsyncIterator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url=ORIGIN) as client:
        yield client


@pytest.fixture
async def token(access: Authenticator) -> dict[str, str]:
    return {"authorization": f"Bearer {await access.tokens.add('ci', Scope.SUBMIT)}"}


@pytest.fixture
async def session(access: Authenticator) -> dict[str, str]:
    return {"cookie": f"mailroom_session_8642={await access.sessions.create(read_owner_name())}"}


class TestHost:
    @pytest.mark.parametrize(
        "host",
        [HOST, "localhost:9000", "localhost", "[::1]:8642", "LOCALHOST:1", "office:80", "office.example.org"],
    )
    async def test_a_known_name_is_served(self, client: httpx2.AsyncClient, host: str) -> None:
        assert (await client.get("/", headers={"host": host})).status_code == 200

    @pytest.mark.parametrize(
        "host",
        [
            "rebound.example:8642",
            "127.0.0.1.example.org",
            "localhost.",
            "127.0.0.2",
            "0.0.0.0:8642",
            "localhost@evil.example",
            "evil.example\tlocalhost",
            "localhost:99999999",
            "",
        ],
    )
    async def test_a_rebound_name_is_not(self, client: httpx2.AsyncClient, token, host: str) -> None:
        for path in ("/", "/api/v1/goals"):
            answer = await client.get(path, headers={**token, "host": host})
            assert answer.status_code == 421
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["cure"]

    async def test_two_names_are_not(self, client: httpx2.AsyncClient) -> None:
        request = client.build_request("GET", "/")
        request.headers = httpx2.Headers([("host", HOST), ("host", "evil.example")])
        assert (await client.send(request)).status_code == 421

    @pytest.mark.parametrize("text", ["*", "ftp://a", "https://a/b", "a b", ""])
    def test_a_wrong_setting_is_refused(self, text: str) -> None:
        with pytest.raises(ConfigError, match="GATEWAY_HOSTS"):
            Sites([text])


class TestOtherSites:
    @pytest.mark.parametrize("path", ["/api/v1/goals", "/metrics", "/openapi.json"])
    @pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
    async def test_their_pages_cannot_read(self, client: httpx2.AsyncClient, session, path, site) -> None:
        answer = await client.get(path, headers={**session, "sec-fetch-site": site})
        assert answer.status_code == 403

    async def test_they_can_link_to_a_page(self, client: httpx2.AsyncClient) -> None:
        assert (await client.get("/", headers={"sec-fetch-site": "cross-site"})).status_code == 200

    @pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH", "OPTIONS"])
    @pytest.mark.parametrize(
        "headers",
        [
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": "http://127.0.0.1:9999"},
            {"origin": f"http://{HOST}.evil.example"},
            {"origin": ORIGIN, "sec-fetch-site": "cross-site"},
            {"origin": ORIGIN, "sec-fetch-site": "same-site"},
            {},
        ],
    )
    async def test_their_pages_cannot_change(
        self, client: httpx2.AsyncClient, session, method: str, headers: dict[str, str]
    ) -> None:
        answer = await client.request(method, "/api/v1/goals", headers={**session, **headers})
        assert answer.status_code == 403

    @pytest.mark.parametrize("path", ["/api/v1/session", "/hooks/ci"])
    async def test_they_can_neither_sign_in_nor_deliver(self, client: httpx2.AsyncClient, path: str) -> None:
        answer = await client.post(path, headers={"origin": "https://evil.example"})
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers

    async def test_our_own_page_can_change(self, client: httpx2.AsyncClient, session) -> None:
        headers = {**session, "origin": ORIGIN, "sec-fetch-site": "same-origin"}
        answer = await client.post("/api/v1/goals", headers=headers, content=b"{}")
        assert answer.json() == {"name": read_owner_name(), "scope": Scope.ADMIN, "bytes": 2}

    async def test_where_a_proxy_speaks_https_a_page_by_http_is_another(self) -> None:
        site = Sites(["https://office.example.org"]).find(["office.example.org"])
        assert site
        assert site.is_origin("https://office.example.org")
        assert not site.is_origin("http://office.example.org")

    async def test_a_script_needs_no_origin(self, client: httpx2.AsyncClient, token) -> None:
        assert (await client.post("/api/v1/goals", headers=token)).json()["name"] == "ci"


class TestCredentials:
    @pytest.mark.parametrize("path", ["/api/v1/goals", "/metrics", "/openapi.json", "/api", "/api/v1/none"])
    @pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS", "TRACE"])
    async def test_nothing_is_done_without_one(self, client: httpx2.AsyncClient, method, path) -> None:
        answer = await client.request(method, path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")

    async def test_no_change_outside_of_the_api_either(self, client: httpx2.AsyncClient) -> None:
        assert (await client.post("/")).status_code == 401
        assert (await client.delete("/hooks/ci")).status_code == 401

    async def test_pages_sign_in_and_hooks_need_none(self, client: httpx2.AsyncClient) -> None:
        assert (await client.get("/")).status_code == 200
        for path in ("/api/v1/session", "/hooks/ci"):
            assert (await client.post(path)).json() == {"name": "", "scope": Scope.NONE, "bytes": 0}

    @pytest.mark.parametrize(
        "header",
        [
            "Bearer",
            "Bearer ",
            "Bearer mr_",
            "Bearer mr_" + "A" * 43,
            "Basic cm9vdDpyb290",
            "Bearer \xff",
            "x" * 9_000,
        ],
    )
    async def test_forged_tokens_are_refused(self, client: httpx2.AsyncClient, session, header: str) -> None:
        headers = [("authorization", header.encode("latin-1")), ("cookie", session["cookie"])]
        assert (await client.get("/api/v1/goals", headers=headers)).status_code == 401

    async def test_two_tokens_are_refused(self, client: httpx2.AsyncClient, token) -> None:
        request = client.build_request("GET", "/api/v1/goals")
        given = token["authorization"]
        request.headers = httpx2.Headers([("host", HOST), *[("authorization", given)] * 2])
        assert (await client.send(request)).status_code == 401

    async def test_a_token_is_no_cookie_and_a_cookie_no_token(
        self, client: httpx2.AsyncClient, token, session
    ) -> None:
        secret = token["authorization"].partition(" ")[2]
        swapped = {"cookie": f"mailroom_session_8642={secret}"}
        assert (await client.get("/api/v1/goals", headers=swapped)).status_code == 401
        swapped = {"authorization": f"Bearer {session['cookie'].partition('=')[2]}"}
        assert (await client.get("/api/v1/goals", headers=swapped)).status_code == 401
        assert (await client.get(f"/api/v1/goals?token={secret}&access_token={secret}")).status_code == 401

    async def test_a_revoked_token_is_refused_at_once(
        self, client: httpx2.AsyncClient, access: Authenticator, token
    ) -> None:
        assert (await client.get("/api/v1/goals", headers=token)).status_code == 200
        await access.tokens.revoke("ci")
        assert (await client.get("/api/v1/goals", headers=token)).status_code == 401

    async def test_a_session_begun_with_a_token_ends_with_it(
        self, client: httpx2.AsyncClient, access: Authenticator, token
    ) -> None:
        cookie = {"cookie": f"mailroom_session_8642={await access.sessions.create('ci', token='ci')}"}
        answer = await client.get("/api/v1/goals", headers=cookie)
        assert answer.json()["scope"] == Scope.SUBMIT
        await access.tokens.revoke("ci")
        await access.tokens.add("ci", Scope.ADMIN)
        assert (await client.get("/api/v1/goals", headers=cookie)).status_code == 401

    async def test_who_is_taken_off_the_list_is_signed_out(
        self, client: httpx2.AsyncClient, config: Settings, session
    ) -> None:
        assert (await client.get("/api/v1/goals", headers=session)).status_code == 200
        (config.gateway / "users.toml").write_text('ada = { role = "admin" }')
        assert (await client.get("/api/v1/goals", headers=session)).status_code == 401
        (config.gateway / "users.toml").write_text(f'{read_owner_name()} = {{ role = "viewer" }}')
        answer = await client.get("/api/v1/goals", headers=session)
        assert answer.json()["scope"] == Scope.READ

    async def test_a_list_that_cannot_be_read_lets_nobody_in(
        self, client: httpx2.AsyncClient, config: Settings, session
    ) -> None:
        (config.gateway / "users.toml").write_text("][")
        answer = await client.get("/api/v1/goals", headers=session)
        assert answer.status_code == 503
        assert str(config.gateway) not in answer.text

    async def test_another_gateway_s_cookie_is_not_ours(self, client: httpx2.AsyncClient, session) -> None:
        answer = await client.get("/api/v1/goals", headers={**session, "host": "127.0.0.1:9000"})
        assert answer.status_code == 401


class TestHeaders:
    async def test_every_answer_protects_itself(self, client: httpx2.AsyncClient, token) -> None:
        answers = [
            await client.get("/"),
            await client.get("/none"),
            await client.get("/api/v1/goals"),
            await client.get("/api/v1/goals", headers=token),
            await client.get("/", headers={"host": "evil.example"}),
        ]
        for answer in answers:
            assert answer.headers["x-frame-options"] == "DENY"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["cross-origin-opener-policy"] == "same-origin"
            assert answer.headers["cross-origin-resource-policy"] == "same-origin"
            policy = answer.headers["content-security-policy"]
            assert "frame-ancestors 'none'" in policy
            assert "unsafe-inline" not in policy
            assert "default-src 'none'" in policy
        assert {answer.headers.get("cache-control") for answer in answers[2:4]} == {"no-store"}
        assert answers[0].headers["cache-control"] == "no-cache"

    async def test_https_is_remembered_where_it_is_spoken(self, client: httpx2.AsyncClient) -> None:
        answer = await client.get("/", headers={"host": "office.example.org"})
        assert answer.headers["strict-transport-security"]
        assert "strict-transport-security" not in (await client.get("/")).headers

    async def test_the_import_map_is_allowed_by_its_hash(self, client: httpx2.AsyncClient) -> None:
        policy = (await client.get("/")).headers["content-security-policy"]
        assert f"script-src 'self' {hash_source(IMPORT_MAP)};" in policy

    def test_the_hash_is_that_of_the_standard(self) -> None:
        # https://www.w3.org/TR/CSP3/#external-hash: the digest of the element's text.
        assert (
            hash_source("alert('Hello, world.');") == "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"
        )
        assert format_page_policy([]).startswith("default-src 'none'; script-src 'self';")


class TestLimits:
    def test_a_bucket_fills_again(self) -> None:
        moments: Iterator[float] = iter([0, 0, 0, 0.5, 1.1, 1.2])
        limit = RateLimit(Rate(per_second=1, burst=2), clock=lambda: next(moments))
        limit.take("a")
        limit.take("a")
        for _ in range(2):
            with pytest.raises(Refused) as refused:
                limit.take("a")
            assert refused.value.status == 429
        limit.take("a")
        with pytest.raises(Refused):
            limit.take("a")

    def test_addresses_are_forgotten_before_memory_is_full(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limits, "MAX_KEYS", 10)
        limit = RateLimit(Rate(per_second=1, burst=2), clock=lambda: 0.0)
        for number in range(1_000):
            limit.take(str(number))
        assert len(limit._buckets) == 10

    async def test_strangers_use_up_nothing_of_a_person(self, client: httpx2.AsyncClient, session) -> None:
        burst = int(limits.ADDRESS_RATE.burst)
        answers = [await client.get("/api/v1/goals") for _ in range(burst + 20)]
        assert answers[-1].status_code == 429
        assert float(answers[-1].headers["retry-after"]) >= 1
        assert (await client.get("/api/v1/goals", headers=session)).status_code == 200

    async def test_attempts_to_sign_in_are_few(self, client: httpx2.AsyncClient, session) -> None:
        answers = [await client.post("/api/v1/session") for _ in range(12)]
        assert [answer.status_code for answer in answers] == [200] * 10 + [429] * 2
        assert (await client.get("/api/v1/goals", headers=session)).status_code == 200

    async def test_guessed_tokens_are_few(self, client: httpx2.AsyncClient) -> None:
        headers = {"authorization": "Bearer mr_guess"}
        answers = [await client.get("/api/v1/goals", headers=headers) for _ in range(12)]
        assert [answer.status_code for answer in answers] == [401] * 10 + [429] * 2

    async def test_a_large_body_is_refused(self, client: httpx2.AsyncClient, token) -> None:
        allowed = await client.post("/api/v1/goals", headers=token, content=b"x" * limits.BODY_LIMIT)
        assert allowed.json()["bytes"] == limits.BODY_LIMIT
        answer = await client.post("/api/v1/goals", headers=token, content=b"x" * (limits.BODY_LIMIT + 1))
        assert answer.status_code == 413

    async def test_a_large_body_in_parts_is_refused(self, client: httpx2.AsyncClient, token) -> None:
        sent = 0

        async def parts() -> AsyncIterator[bytes]:
            nonlocal sent
            for _ in range(1_000):
                sent += 64 << 10
                yield bytes(64 << 10)

        answer = await client.post("/api/v1/goals", headers=token, content=parts())
        assert answer.status_code == 413
        assert sent <= limits.BODY_LIMIT + (128 << 10)

    @pytest.mark.parametrize("length", ["9" * 5_000, str(1 << 40)])
    async def test_a_length_alone_is_enough_to_refuse(self, length: str) -> None:
        with pytest.raises(Refused) as refused:
            await read_body(never, length, limit=10, timeout=1)
        assert refused.value.status == 413

    async def test_a_slow_body_is_refused(self) -> None:
        with pytest.raises(Refused) as refused:
            await read_body(never, "5", limit=10, timeout=0.05)
        assert refused.value.status == 408

    def test_streams_of_one_person_are_limited(self) -> None:
        streams = Streams(2)
        streams.open("ada")
        streams.open("ada")
        with pytest.raises(Refused):
            streams.open("ada")
        streams.open("bob")
        streams.close("ada")
        streams.open("ada")


async def never() -> Any:
    await asyncio.Event().wait()


class Caller:
    """One request as a server makes it, whose response is seen while it goes on."""

    def __init__(self, app: Guard, path: str, headers: dict[str, str]) -> None:
        self.sent: list[Any] = []
        given = {"host": HOST, **headers}
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "method": "GET",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "scheme": "http",
            "http_version": "1.1",
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8642),
            "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        }
        self._gone = asyncio.Event()
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> Any:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return self.sent[0]["status"] if self.sent else 0

    async def leave(self) -> None:
        self._gone.set()
        await self.task


class TestStreams:
    @pytest.fixture
    def app(self, config: Settings, access: Authenticator) -> Guard:
        async def follow(_: Request) -> Response:
            async def frames() -> AsyncIterator[bytes]:
                yield b"data: 1\n\n"
                await asyncio.Event().wait()

            return StreamingResponse(frames(), media_type="text/event-stream")

        return secure(Starlette(routes=[Route("/api/v1/events", follow)]), config, access)

    async def test_too_many_of_one_person_are_refused(self, app: Guard, token, session) -> None:
        app._streams = Streams(2)
        callers = [Caller(app, "/api/v1/events", token) for _ in range(3)]
        await eventually(lambda: all(len(caller.sent) >= 2 for caller in callers), 5)
        assert sorted(caller.status for caller in callers) == [200, 200, 429]
        other = Caller(app, "/api/v1/events", session)
        await eventually(lambda: other.status == 200, 5)
        for caller in (*callers, other):
            await caller.leave()
        again = Caller(app, "/api/v1/events", token)
        await eventually(lambda: again.status == 200, 5)
        await again.leave()

    async def test_a_stream_ends_with_its_session(
        self, app: Guard, config: Settings, session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(exchange, "RECHECK_INTERVAL", 0.01)
        caller = Caller(app, "/api/v1/events", session)
        await eventually(lambda: caller.status == 200, 5)
        await app.authenticator.sessions.end_all()
        async with asyncio.timeout(5):
            await caller.task
        assert caller.sent[-1] == {"type": "http.response.body", "body": b""}


async def test_a_websocket_is_refused(app: Guard) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "websocket", "path": "/api/v1/events", "headers": []}, never, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_refused_tokens_are_noted_without_the_token(config: Settings) -> None:
    noted: list[Any] = []
    app = secure(
        Starlette(),
        config,
        Authenticator(config, one_bucket()),
        note=lambda act, **more: noted.append((act, more)),
    )
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=ORIGIN) as client:
        await client.get("/api/v1/goals", headers={"authorization": "Bearer mr_stolen"})
    assert noted == [("token_refused", {"address": "127.0.0.1"})]
