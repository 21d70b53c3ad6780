"""People, links, sessions and tokens in the files of the state directory."""

import errno
import fcntl
import threading
from datetime import timedelta
from pathlib import Path

import pytest

from shared import settings
from shared.access import credentials
from shared.access.credentials import (
    IDLE_LIFETIME,
    SESSION_LIFETIME,
    Links,
    Sessions,
    Tokens,
    create_link,
    find_address,
    public_address,
    write_address,
)
from shared.access.scopes import People, Scope, list_scopes, parse_scope, read_owner_name
from shared.errors import ConfigError, MailroomError, StartError
from shared.settings import Settings

USERS = """\
ada = { role = "admin", email = "Ada@example.org" }
bob = { role = "viewer" }
"""


@pytest.fixture
def config(tmp_path: Path) -> Settings:
    return settings.load({"MAILROOM_STATE_DIR": str(tmp_path)})


def write_users(config: Settings, text: str) -> None:
    config.gateway.mkdir(parents=True, exist_ok=True)
    (config.gateway / "users.toml").write_text(text)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch):
    """Moves the clock of all stores forward."""
    real = credentials.now

    def move(span: timedelta) -> None:
        monkeypatch.setattr(credentials, "now", lambda: real() + span)

    return move


class TestScopes:
    def test_a_scope_includes_those_before_it(self) -> None:
        assert parse_scope(["read", " Approve "]) is Scope.APPROVE
        assert list_scopes(Scope.APPROVE) == ["read", "submit", "approve"]

    @pytest.mark.parametrize("names", [[], [""], ["root"], ["read", "none"]])
    def test_what_is_no_scope_is_refused(self, names: list[str]) -> None:
        with pytest.raises(MailroomError, match="Scopes are read, submit, approve, admin"):
            parse_scope(names)


class TestPeople:
    def test_without_a_file_there_is_the_one_who_runs_the_office(self, config: Settings) -> None:
        people = People(config)
        assert people.choose() == read_owner_name()
        user = people.find(read_owner_name())
        assert user
        assert user.scope is Scope.ADMIN

    def test_a_change_of_the_file_counts_at_once(self, config: Settings) -> None:
        people = People(config)
        write_users(config, USERS)
        found = people.find("bob")
        assert found
        assert found.scope is Scope.READ
        write_users(config, 'bob = { role = "approver" }')
        changed = people.find("bob")
        assert changed
        assert changed.scope is Scope.APPROVE
        assert people.find("ada") is None

    @pytest.mark.parametrize(
        "text",
        [
            'ada = { role = "king" }',
            "ada = 1",
            'ada = { role = "admin", password = "x" }',
            '"Ada Lovelace" = { role = "admin" }',
            'a = { role = "admin", email = "x@y.z" }\nb = { role = "viewer", email = "X@y.z" }',
            "][",
        ],
    )
    def test_a_wrong_file_lets_nobody_in(self, config: Settings, text: str) -> None:
        write_users(config, text)
        with pytest.raises(ConfigError, match=r"users\.toml is wrong"):
            People(config).find("ada")

    def test_who_signs_in_has_to_be_clear(self, config: Settings) -> None:
        write_users(config, USERS)
        people = People(config)
        assert people.choose("ada") == "ada"
        with pytest.raises(MailroomError, match="ada, bob"):
            people.choose()
        with pytest.raises(MailroomError, match="no person 'eve'"):
            people.choose("eve")
        assert people.find_by_email("ada@EXAMPLE.org") == "ada"
        assert people.find_by_email("") == people.find_by_email("eve@example.org") == ""


class TestLinks:
    def test_a_link_works_once(self, config: Settings) -> None:
        with pytest.raises(StartError, match="No gateway is running"):
            create_link(config)
        write_address(config, "http://127.0.0.1:8642")
        address, _, code = create_link(config).partition("/login#")
        assert address == "http://127.0.0.1:8642"
        assert Links(config).use(code) == read_owner_name()
        assert Links(config).use(code) == ""

    def test_a_link_works_for_ten_minutes(self, config: Settings, later) -> None:
        code = Links(config).create("ada")
        later(timedelta(minutes=10))
        assert Links(config).use(code) == ""

    def test_of_many_who_use_a_link_at_once_one_gets_in(self, config: Settings) -> None:
        code = Links(config).create("ada")
        found: list[str] = []
        threads = [threading.Thread(target=lambda: found.append(Links(config).use(code))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [""] * 7 + ["ada"]


class TestTokens:
    def test_the_files_hold_no_secrets_and_are_private(self, config: Settings) -> None:
        token = Tokens(config).add("ci", Scope.SUBMIT)
        session = Sessions(config).create("ada")
        code = Links(config).create("ada")
        for path in config.gateway.iterdir():
            assert path.stat().st_mode & 0o077 == 0, path
            content = path.read_text()
            assert all(secret not in content for secret in (token, session, code))

    def test_a_token_is_found_until_it_expires(self, config: Settings, later) -> None:
        secret = Tokens(config).add("ci", Scope.SUBMIT, timedelta(days=1))
        found = Tokens(config).find(secret)
        assert found
        assert (found.name, found.scope) == ("ci", Scope.SUBMIT)
        later(timedelta(days=1))
        assert Tokens(config).find(secret) is None
        assert Tokens(config).list()[0].expired
        assert Tokens(config).add("ci", Scope.READ) != secret

    def test_the_last_use_is_noted(self, config: Settings, later) -> None:
        secret = Tokens(config).add("ci", Scope.READ)
        assert Tokens(config).list()[0].used_at is None
        Tokens(config).find(secret)
        first = Tokens(config).list()[0].used_at
        assert first
        later(timedelta(hours=1))
        Tokens(config).find(secret)
        second = Tokens(config).list()[0].used_at
        assert second
        assert second - first >= timedelta(hours=1)

    def test_another_process_s_revocation_counts_at_once(self, config: Settings) -> None:
        running = Tokens(config)
        secret = running.add("ci", Scope.READ)
        assert running.find(secret)
        Tokens(config).revoke("ci")
        assert running.find(secret) is None
        with pytest.raises(MailroomError, match="There are: none"):
            Tokens(config).revoke("ci")

    @pytest.mark.parametrize("name", ["", "A", "a b", "../x", "a" * 65, "-a"])
    def test_a_name_that_is_none_is_refused(self, config: Settings, name: str) -> None:
        with pytest.raises(MailroomError, match="no name for a token"):
            Tokens(config).add(name, Scope.READ)

    def test_a_name_is_taken_once(self, config: Settings) -> None:
        Tokens(config).add("ci", Scope.READ)
        with pytest.raises(MailroomError, match="already"):
            Tokens(config).add("ci", Scope.ADMIN)

    def test_a_person_s_name_is_taken(self, config: Settings) -> None:
        with pytest.raises(MailroomError, match="a person's name"):
            Tokens(config).add(read_owner_name(), Scope.READ)

    def test_a_full_disk_keeps_nobody_out(
        self, config: Settings, later, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        token, session = Tokens(config).add("ci", Scope.READ), Sessions(config).create("ada")

        def fail(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(credentials, "write_atomically", fail)
        later(timedelta(hours=2))
        assert Tokens(config).find(token)
        assert Sessions(config).find(session)
        with pytest.raises(MailroomError, match="No space left"):
            Tokens(config).revoke("ci")

    def test_a_stopped_process_that_has_the_lock_is_not_waited_for(
        self, config: Settings, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(credentials, "LOCK_TIMEOUT", 0.05)
        token = Tokens(config).add("ci", Scope.READ)
        with (config.gateway / "tokens.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert Tokens(config).find(token)
            with pytest.raises(MailroomError, match="Another process keeps"):
                Tokens(config).revoke("ci")

    def test_a_damaged_file_lets_nobody_in(self, config: Settings) -> None:
        secret = Tokens(config).add("ci", Scope.READ)
        (config.gateway / "tokens.json").write_text("{")
        with pytest.raises(ConfigError, match="cannot be read"):
            Tokens(config).find(secret)


class TestSessions:
    def test_a_session_survives_a_restart_and_ends_by_sign_out(self, config: Settings) -> None:
        secret = Sessions(config).create("ada")
        found = Sessions(config).find(secret)
        assert found
        assert found.person == "ada"
        Sessions(config).end(secret)
        assert Sessions(config).find(secret) is None

    def test_a_session_ends_when_it_is_not_used(self, config: Settings, later) -> None:
        secret = Sessions(config).create("ada")
        later(IDLE_LIFETIME - timedelta(hours=1))
        assert Sessions(config).find(secret)
        later(IDLE_LIFETIME + timedelta(hours=1))
        assert Sessions(config).find(secret)
        later(2 * IDLE_LIFETIME + timedelta(hours=2))
        assert Sessions(config).find(secret) is None

    def test_a_session_ends_after_a_month_even_if_it_is_used(self, config: Settings, later) -> None:
        secret = Sessions(config).create("ada")
        for day in range(SESSION_LIFETIME.days):
            later(timedelta(days=day))
            assert Sessions(config).find(secret)
        later(SESSION_LIFETIME)
        assert Sessions(config).find(secret) is None

    def test_all_sessions_of_a_person_can_be_ended(self, config: Settings) -> None:
        mine = [Sessions(config).create("ada") for _ in range(3)]
        other = Sessions(config).create("bob")
        assert Sessions(config).end_all("ada") == 3
        assert not any(Sessions(config).find(secret) for secret in mine)
        assert Sessions(config).find(other)

    def test_there_are_only_so_many(self, config: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(credentials, "MAX_SESSIONS", 2)
        secrets_made = [Sessions(config).create("ada") for _ in range(3)]
        assert [bool(Sessions(config).find(secret)) for secret in secrets_made] == [False, True, True]


class TestAddress:
    def test_the_address_is_that_of_a_running_gateway(self, config: Settings) -> None:
        with pytest.raises(StartError, match="No gateway is running"):
            find_address(config)
        write_address(config, "http://127.0.0.1:8642")
        assert find_address(config) == "http://127.0.0.1:8642"
        (config.gateway / "listening.json").write_text('{"url": "http://127.0.0.1:1", "pid": 4194303}')
        with pytest.raises(StartError, match="No gateway is running"):
            find_address(config)

    def test_people_get_an_address_they_can_open(self, config: Settings) -> None:
        assert public_address(config, "http://127.0.0.1:8642") == "http://127.0.0.1:8642"
        hosts = {
            "MAILROOM_STATE_DIR": str(config.state_dir),
            "MAILROOM_GATEWAY_HOSTS": "a,https://office.example.org",
        }
        assert public_address(settings.load(hosts), "http://127.0.0.1:8642") == "https://office.example.org"
        hosts["MAILROOM_GATEWAY_PUBLIC_URL"] = "http://127.0.0.1:9000/"
        assert public_address(settings.load(hosts), "http://127.0.0.1:8642") == "http://127.0.0.1:9000"
