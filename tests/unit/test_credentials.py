"""Links, sessions and tokens in the bucket of the gateways, of which there may be several."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from services.gateway.security import credentials
from services.gateway.security.authentication import Authenticator, Credential
from services.gateway.security.credentials import IDLE_LIFETIME, SESSION_LIFETIME
from shared import settings
from shared.access.scopes import Scope, read_owner_name
from shared.errors import BusError, MailroomError
from shared.settings import Settings
from tests.support.access import OneBucket, one_bucket


@pytest.fixture
def config(tmp_path: Path) -> Settings:
    return settings.load({"MAILROOM_STATE_DIR": str(tmp_path)})


@pytest.fixture
def bus() -> OneBucket:
    return OneBucket()


@pytest.fixture
def access(config: Settings, bus: OneBucket) -> Authenticator:
    return Authenticator(config, one_bucket(bus))


@pytest.fixture
def other(config: Settings, bus: OneBucket) -> Authenticator:
    """Another gateway of the office."""
    return Authenticator(config, one_bucket(bus))


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch):
    """Moves the clock forward."""
    real = credentials.now

    def move(span: timedelta) -> None:
        monkeypatch.setattr(credentials, "now", lambda: real() + span)

    return move


class TestLinks:
    async def test_a_link_works_once_at_whichever_gateway(
        self, access: Authenticator, other: Authenticator
    ) -> None:
        code = await access.links.create("ada")
        assert await other.links.use(code) == "ada"
        assert await access.links.use(code) == ""  # which has not heard of it yet
        assert await other.links.use(code) == ""

    async def test_a_link_works_for_ten_minutes(self, access: Authenticator, later) -> None:
        code = await access.links.create("ada")
        later(timedelta(minutes=10))
        assert await access.links.use(code) == ""

    async def test_of_many_who_use_a_link_at_once_one_gets_in(
        self, access: Authenticator, other: Authenticator
    ) -> None:
        code = await access.links.create("ada")
        found = await asyncio.gather(*(each.links.use(code) for each in (access, other) * 4))
        assert sorted(found) == [""] * 7 + ["ada"]


class TestTokens:
    async def test_the_bucket_holds_no_secrets(self, access: Authenticator, bus: OneBucket) -> None:
        made = [await access.tokens.add("ci", Scope.SUBMIT), await access.sessions.create("ada")]
        made.append(await access.links.create("ada"))
        stored = b"".join(subject.encode() + each.data for subject, each in bus.stored.items())
        assert not any(secret.encode() in stored for secret in made)

    async def test_a_token_is_found_until_it_expires(self, access: Authenticator, later) -> None:
        secret = await access.tokens.add("ci", Scope.SUBMIT, timedelta(days=1))
        found = access.tokens.find(secret)
        assert found
        assert (found.name, found.scope) == ("ci", Scope.SUBMIT)
        later(timedelta(days=1))
        assert access.tokens.find(secret) is None
        assert access.tokens.list()[0].expired
        assert await access.tokens.add("ci", Scope.READ) != secret

    async def test_the_last_use_is_noted(self, access: Authenticator, later) -> None:
        secret = await access.tokens.add("ci", Scope.READ)
        assert access.tokens.list()[0].used_at is None
        access.tokens.find(secret)
        await asyncio.sleep(0)
        first = access.tokens.list()[0].used_at
        assert first
        later(timedelta(hours=1))
        access.tokens.find(secret)
        await asyncio.sleep(0)
        second = access.tokens.list()[0].used_at
        assert second
        assert second - first >= timedelta(hours=1)

    async def test_what_another_gateway_made_and_revoked_counts(
        self, access: Authenticator, other: Authenticator
    ) -> None:
        secret = await access.tokens.add("ci", Scope.READ)
        shown = Credential("token", secret)
        assert await other.find(shown)
        await access.tokens.revoke("ci")
        other._bucket._read_at = other._bucket._tried_at = float("-inf")  # as after it was frozen
        assert await other.find(shown) is None
        with pytest.raises(MailroomError, match="There are: none"):
            await other.tokens.revoke("ci")

    @pytest.mark.parametrize("name", ["", "A", "a b", "../x", "a" * 65, "-a"])
    async def test_a_name_that_is_none_is_refused(self, access: Authenticator, name: str) -> None:
        with pytest.raises(MailroomError, match="no name for a token"):
            await access.tokens.add(name, Scope.READ)

    async def test_a_name_is_taken_once_by_all_gateways(
        self, access: Authenticator, other: Authenticator
    ) -> None:
        await access.tokens.add("ci", Scope.READ)
        for each in (access, other):
            with pytest.raises(MailroomError, match="already"):
                await each.tokens.add("ci", Scope.ADMIN)
        await access.tokens.revoke("ci")
        await other.tokens.add("ci", Scope.ADMIN)

    async def test_a_person_s_name_is_taken(self, access: Authenticator) -> None:
        with pytest.raises(MailroomError, match="a person's name"):
            await access.tokens.add(read_owner_name(), Scope.READ)

    async def test_a_full_disk_keeps_nobody_out(self, access: Authenticator, bus: OneBucket, later) -> None:
        token, session = await access.tokens.add("ci", Scope.READ), await access.sessions.create("ada")
        bus.full = True
        later(timedelta(hours=2))
        assert access.tokens.find(token)
        assert access.sessions.find(session)
        with pytest.raises(BusError, match="insufficient"):
            await access.tokens.revoke("ci")

    async def test_what_the_server_let_expire_is_forgotten(
        self, access: Authenticator, bus: OneBucket
    ) -> None:
        await access.sessions.create("ada")
        await access.tokens.add("ci", Scope.READ)
        await access.tokens.revoke("ci")
        await access.sessions.create("bob")
        for subject in list(bus.stored)[:2]:
            del bus.stored[subject]
        assert await access.tokens.add("ci", Scope.READ)  # though what it was is gone
        await access._bucket.refresh(whole=True)
        assert len(access._bucket._known["session"]) == 1


class TestSessions:
    async def test_a_session_counts_at_each_gateway_until_one_ends_it(
        self, access: Authenticator, other: Authenticator
    ) -> None:
        secret = await access.sessions.create("ada")
        await other._bucket.refresh()
        found = other.sessions.find(secret)
        assert found
        assert found.person == "ada"
        await other.sessions.end(secret)
        await access._bucket.refresh()
        assert access.sessions.find(secret) is None

    async def test_a_session_ends_when_it_is_not_used(self, access: Authenticator, later) -> None:
        secret = await access.sessions.create("ada")
        later(IDLE_LIFETIME - timedelta(hours=1))
        assert access.sessions.find(secret)
        await asyncio.sleep(0)
        later(IDLE_LIFETIME + timedelta(hours=1))
        assert access.sessions.find(secret)
        await asyncio.sleep(0)
        later(2 * IDLE_LIFETIME + timedelta(hours=2))
        assert access.sessions.find(secret) is None

    async def test_a_session_ends_after_a_month_even_if_it_is_used(
        self, access: Authenticator, later
    ) -> None:
        secret = await access.sessions.create("ada")
        for day in range(SESSION_LIFETIME.days):
            later(timedelta(days=day))
            assert access.sessions.find(secret)
            await asyncio.sleep(0)
        later(SESSION_LIFETIME)
        assert access.sessions.find(secret) is None

    async def test_all_sessions_of_a_person_can_be_ended(self, access: Authenticator) -> None:
        mine = [await access.sessions.create("ada") for _ in range(3)]
        theirs = await access.sessions.create("bob")
        assert await access.sessions.end_all("ada") == 3
        assert not any(access.sessions.find(secret) for secret in mine)
        assert access.sessions.find(theirs)

    async def test_there_are_only_so_many(
        self, access: Authenticator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(credentials, "MAX_SESSIONS", 2)
        made = [await access.sessions.create("ada") for _ in range(3)]
        assert [bool(access.sessions.find(secret)) for secret in made] == [False, True, True]
