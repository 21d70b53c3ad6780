"""Signing in through an OpenID provider that speaks the real protocol, and one that lies."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from joserfc.jwk import OctKey, RSAKey

from services.gateway import login
from services.gateway.login import OpenId
from shared import settings
from shared.errors import ConfigError, MailroomError
from tests.support.access import one_bucket
from tests.support.openid_provider import CLIENT, SECRET, OpenIdProvider

BACK = "http://127.0.0.1:8642/login/oidc/callback"


@pytest.fixture
async def provider() -> AsyncIterator[OpenIdProvider]:
    async with OpenIdProvider().running() as provider:
        yield provider


def make_client(folder: Path, issuer: str, **more: str) -> OpenId:
    environment = {
        "MAILROOM_STATE_DIR": str(folder),
        "MAILROOM_GATEWAY_OIDC_ISSUER": issuer,
        "MAILROOM_GATEWAY_OIDC_CLIENT_ID": CLIENT,
        "MAILROOM_GATEWAY_OIDC_CLIENT_SECRET": SECRET,
        **more,
    }
    return OpenId(settings.load(environment), one_bucket())


@pytest.fixture
def client(provider: OpenIdProvider, tmp_path: Path) -> OpenId:
    return make_client(tmp_path, provider.issuer)


async def visit(client: OpenId) -> tuple[dict[str, str], str]:
    """Go to the provider and come back: the query of the way back, and the browser's cookie."""
    address, browser = await client.begin(BACK)
    async with httpx2.AsyncClient() as visitor:
        answer = await visitor.get(address)
    back = answer.headers["location"]
    assert back.startswith(f"{BACK}?")
    return dict(parse_qsl(urlsplit(back).query)), browser


async def test_the_provider_says_who_it_is(provider: OpenIdProvider, client: OpenId) -> None:
    query, browser = await visit(client)
    assert await client.finish(query, browser) == "ada@example.org"
    assert provider.asked[0]["code_challenge_method"] == "S256"


async def test_another_claim_can_be_named(provider: OpenIdProvider, tmp_path: Path) -> None:
    provider.claims = {"preferred_username": "ada"}
    client = make_client(tmp_path, provider.issuer, MAILROOM_GATEWAY_OIDC_CLAIM="preferred_username")
    assert await client.finish(*await visit(client)) == "ada"


@pytest.mark.parametrize(
    "forged",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"iss": "https://evil.example"},
        {"aud": "another-client"},
        {"aud": [CLIENT, "another"]},
        {"azp": "another"},
        {"exp": 1_700_000_000},
        {"exp": None},
        {"sub": None},
        {"email": None},
        {"email": 5},
        {"email_verified": False},
        {"email_verified": None},
        {"email_verified": "true"},
    ],
    ids=str,
)
async def test_a_wrong_token_is_refused(
    provider: OpenIdProvider, client: OpenId, forged: dict[str, Any]
) -> None:
    provider.forged = forged
    with pytest.raises(MailroomError, match=r"not valid|another client|does not say|not verified"):
        await client.finish(*await visit(client))


async def test_another_key_s_signature_is_refused(provider: OpenIdProvider, client: OpenId) -> None:
    provider.signing_key = RSAKey.generate_key(2048, {"kid": "one"})
    with pytest.raises(MailroomError, match="not valid"):
        await client.finish(*await visit(client))


async def test_a_signature_with_the_shared_secret_is_refused(
    provider: OpenIdProvider, client: OpenId
) -> None:
    provider.algorithm = "HS256"
    provider.signing_key = OctKey.import_key(SECRET.ljust(40, "x"))  # type: ignore[assignment]
    with pytest.raises(MailroomError, match="not valid"):
        await client.finish(*await visit(client))


async def test_a_code_and_a_state_count_once(client: OpenId) -> None:
    query, browser = await visit(client)
    await client.finish(query, browser)
    with pytest.raises(MailroomError, match="Begin again"):
        await client.finish(query, browser)


async def test_what_another_browser_began_is_refused(client: OpenId) -> None:
    for browser in ("", "ä", "x" * 43):
        query, _ = await visit(client)
        with pytest.raises(MailroomError, match="another browser"):
            await client.finish(query, browser)


async def test_a_stolen_code_is_of_no_use(client: OpenId, provider: OpenIdProvider, tmp_path: Path) -> None:
    stolen, _ = await visit(client)
    thief = make_client(tmp_path, provider.issuer)
    query, browser = await visit(thief)
    with pytest.raises(MailroomError, match="answered 400"):
        await thief.finish({**query, "code": stolen["code"]}, browser)


async def test_another_provider_s_answer_is_refused(client: OpenId) -> None:
    query, browser = await visit(client)
    with pytest.raises(MailroomError, match="another provider"):
        await client.finish({**query, "iss": "https://evil.example"}, browser)


async def test_a_refusal_of_the_provider_is_told(client: OpenId) -> None:
    query, browser = await visit(client)
    with pytest.raises(MailroomError, match="access_denied"):
        await client.finish({"state": query["state"], "error": "access_denied"}, browser)


async def test_what_was_begun_long_ago_is_refused(client: OpenId, monkeypatch: pytest.MonkeyPatch) -> None:
    query, browser = await visit(client)
    monkeypatch.setattr(login, "PENDING_LIFETIME", -1.0)
    with pytest.raises(MailroomError, match="too long ago"):
        await client.finish(query, browser)


async def test_beginnings_do_not_pile_up(client: OpenId, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "MAX_PENDING", 3)
    for _ in range(10):
        await client.begin(BACK)
    assert len(client._bucket.list("login")) == 3


async def test_a_provider_that_is_away_is_said_so(tmp_path: Path) -> None:
    client = make_client(tmp_path, "http://127.0.0.1:1")
    with pytest.raises(MailroomError, match="does not answer"):
        await client.begin(BACK)


@pytest.mark.parametrize("issuer", ["http://accounts.example.org", "ftp://x", "accounts.example.org"])
def test_a_provider_without_https_is_refused(tmp_path: Path, issuer: str) -> None:
    with pytest.raises(ConfigError, match="https://"):
        make_client(tmp_path, issuer)
