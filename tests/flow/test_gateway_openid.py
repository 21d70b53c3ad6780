"""Signing in at a real gateway through a provider, as a browser does it."""

from pathlib import Path

import httpx2

from shared import subjects
from shared.contracts import AccessChanged
from tests.support.gateway import RunningGateway
from tests.support.openid_provider import CLIENT, SECRET, OpenIdProvider
from tests.support.waiting import eventually


async def test_a_person_of_the_office_gets_in_and_nobody_else(tmp_path: Path) -> None:
    async with OpenIdProvider().running() as provider:
        gateway = RunningGateway(
            tmp_path,
            MAILROOM_GATEWAY_OIDC_ISSUER=provider.issuer,
            MAILROOM_GATEWAY_OIDC_CLIENT_ID=CLIENT,
            MAILROOM_GATEWAY_OIDC_CLIENT_SECRET=SECRET,
        )
        try:
            await gateway.open()
            await check(gateway, provider)
            log = (gateway.config.logs / "gateway.log").read_text()
            assert SECRET not in log
        finally:
            await gateway.close()


async def check(gateway: RunningGateway, provider: OpenIdProvider) -> None:
    (gateway.config.gateway / "users.toml").write_text(
        'ada = { role = "approver", email = "Ada@example.org" }\n'
    )
    async with gateway.stranger() as client:
        assert (await client.get("/login/methods")).json() == {"oidc": True}
        assert 'type="module"' in (await client.get("/login")).text
        answer = await come_back(client)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert "SameSite=strict" in answer.headers["set-cookie"]
        session = (await client.get("/api/v1/session")).json()
        assert (session["person"], session["scopes"]) == ("ada", ["read", "submit", "approve"])
    provider.claims = {"email": "eve@example.org", "email_verified": True}
    async with gateway.stranger() as client:
        answer = await come_back(client)
        assert answer.headers["location"] == "/login?refused=1"
        assert (await client.get("/api/v1/session")).status_code == 401
        forged = await client.get("/login/oidc/callback?code=x&state=y")
        assert forged.status_code == 401

    async def recorded() -> bool:
        stored = await gateway.office.stored(subjects.event(subjects.GATEWAY, ">"))
        acts = [AccessChanged.from_json(data) for _, _, data in stored]
        found = [(each.act.value, each.person, each.about) for each in acts]
        return found == [
            ("signed_in", "ada", "openid"),
            ("sign_in_refused", "", "openid"),
            ("sign_in_refused", "", "openid"),
        ]

    await eventually(recorded, 10)


async def come_back(client: httpx2.AsyncClient) -> httpx2.Response:
    """Sign in at the provider, with the headers of a browser that is led there and back."""
    begun = await client.get("/login/oidc")
    assert begun.status_code == 303
    agreed = await client.get(begun.headers["location"])
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    return await client.get(agreed.headers["location"], headers=headers)
