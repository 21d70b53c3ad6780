"""People and the address of the gateway, in the files of the state directory."""

from pathlib import Path

import pytest

from shared import settings
from shared.access.credentials import find_address, public_address, write_address
from shared.access.scopes import People, Scope, User, list_scopes, parse_scope, read_owner_name
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


class TestWritingPeople:
    def test_the_first_keeps_the_owner_and_the_last_admin_stays(self, config: Settings) -> None:
        people, owner = People(config), read_owner_name()
        people.add("ana", User(role="member", email='a"b@example.org'))
        assert people.read() == {
            owner: User(role="admin"),
            "ana": User(role="member", email='a"b@example.org'),
        }
        assert people.path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(ConfigError, match="nobody would have the role admin"):
            people.remove(owner)
        people.remove("ana")
        assert people.read() == {owner: User(role="admin")}
        with pytest.raises(ConfigError, match="has no 'ana'"):
            people.remove("ana")

    def test_nothing_else_in_the_file_is_touched(self, config: Settings) -> None:
        text = '# ours\nada = { role = "admin" } # founder\n\n[bob]\nrole = "viewer" # for now\n# end'
        write_users(config, text)
        people = People(config)
        people.add("cy", User(role="approver"))
        assert people.path.read_text() == text.replace("[bob]", 'cy = { role = "approver" }\n[bob]')
        people.remove("cy")
        assert people.path.read_text() == f"{text}\n"
        people.remove("bob")
        assert people.path.read_text() == '# ours\nada = { role = "admin" } # founder\n'

    @pytest.mark.parametrize(
        ("name", "email"),
        [("ada", ""), ("Eve", ""), ("user", ""), ("e] x", ""), ("eve", "ADA@example.org")],
    )
    def test_who_cannot_be_added_changes_nothing(self, config: Settings, name: str, email: str) -> None:
        write_users(config, USERS)
        with pytest.raises(ConfigError):
            People(config).add(name, User(role="member", email=email))
        assert (config.gateway / "users.toml").read_text() == USERS

    @pytest.mark.parametrize("text", ["bob.role = 'viewer'\n", '"b\\u006fb" = { role = "viewer" }\n'])
    def test_what_is_written_in_another_way_is_left_to_an_editor(self, config: Settings, text: str) -> None:
        write_users(config, text := 'ada = { role = "admin" }\n' + text)
        with pytest.raises(ConfigError, match="a way that is not changed here"):
            People(config).remove("bob")
        assert (config.gateway / "users.toml").read_text() == text


class TestAddress:
    def test_the_address_is_that_of_a_running_gateway(self, config: Settings) -> None:
        with pytest.raises(StartError, match="No gateway is running"):
            find_address(config)
        write_address(config.gateway, "http://127.0.0.1:8642")
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
