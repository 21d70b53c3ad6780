"""``mailroom token`` and ``mailroom web``, on the files of a state directory."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from services.cli.commands.token import token
from services.cli.commands.web import web
from shared import settings
from shared.access.credentials import Links, Sessions, Tokens, write_address
from shared.access.scopes import Scope, read_owner_name
from shared.queries.checks import check_access
from shared.settings import Settings

Run = Callable[..., Result]


@pytest.fixture
def config(tmp_path: Path) -> Settings:
    return settings.load({"MAILROOM_STATE_DIR": str(tmp_path)})


@pytest.fixture
def run(config: Settings) -> Run:
    def invoke(command: str, *arguments: str) -> Result:
        group = token if command == "token" else web
        return CliRunner().invoke(group, arguments, env={"MAILROOM_STATE_DIR": str(config.state_dir)})

    return invoke


class TestToken:
    def test_it_is_printed_once_and_works(self, run: Run, config: Settings) -> None:
        done = run("token", "add", "ci", "--scope", "read,submit", "--expires", "30d")
        assert done.exit_code == 0
        secret = done.stdout.strip()
        assert secret.startswith("mr_")
        found = Tokens(config).find(secret)
        assert found
        assert (found.name, found.scope) == ("ci", Scope.SUBMIT)
        assert found.expires_at
        assert secret not in run("token", "list").output
        assert "ci  read, submit; expires " in run("token", "list").output

    def test_json(self, run: Run, config: Settings) -> None:
        made = json.loads(run("token", "add", "ci", "--json").stdout)
        assert made["scopes"] == ["read"]
        assert Tokens(config).find(made["token"])
        (listed,) = json.loads(run("token", "list", "--json").stdout)
        assert (listed["name"], listed["expires_at"], listed["expired"]) == ("ci", None, False)
        assert json.loads(run("token", "revoke", "ci", "--json").stdout) == {"name": "ci", "revoked": True}
        assert Tokens(config).find(made["token"]) is None

    @pytest.mark.parametrize(
        "arguments",
        [
            ("add", "Not A Name"),
            ("add", "ci", "--scope", "root"),
            ("add", "ci", "--scope", ""),
            ("add", "ci", "--expires", "soon"),
            ("add", "ci", "--expires", "0s"),
            ("add", "ci", "--expires", "99999999999d"),
            ("revoke", "none"),
        ],
    )
    def test_what_is_wrong_changes_nothing(
        self, run: Run, config: Settings, arguments: tuple[str, ...]
    ) -> None:
        assert run("token", *arguments).exit_code != 0
        assert Tokens(config).list() == []

    def test_without_any_it_says_how_to_make_one(self, run: Run) -> None:
        assert "mailroom token add" in run("token", "list").output


class TestWeb:
    def test_a_link_needs_a_gateway(self, run: Run) -> None:
        failed = run("web")
        assert failed.exit_code != 0
        assert "No gateway is running" in str(failed.exception)

    def test_a_link_signs_in(self, run: Run, config: Settings) -> None:
        write_address(config, "http://127.0.0.1:8642")
        link = run("web").stdout.strip()
        address, _, code = link.partition("/login#")
        assert address == "http://127.0.0.1:8642"
        assert Links(config).use(code) == read_owner_name()
        made = json.loads(run("web", "--json").stdout)
        assert (made["person"], made["minutes"]) == (read_owner_name(), 10)

    def test_another_person_is_named(self, run: Run, config: Settings) -> None:
        write_address(config, "http://127.0.0.1:8642")
        (config.gateway / "users.toml").write_text('ada = { role = "admin" }\nbob = { role = "viewer" }\n')
        assert "Name one" in str(run("web").exception)
        assert "no person 'eve'" in str(run("web", "--as", "eve").exception)
        code = run("web", "--as", "bob").stdout.strip().partition("#")[2]
        assert Links(config).use(code) == "bob"

    def test_all_browsers_are_signed_out(self, run: Run, config: Settings) -> None:
        secrets = [Sessions(config).create(read_owner_name()) for _ in range(2)]
        assert "2 sessions" in run("web", "--sign-out").output
        assert not any(Sessions(config).find(secret) for secret in secrets)


class TestDoctor:
    def test_it_counts_people_and_tokens(self, config: Settings) -> None:
        Tokens(config).add("ci", Scope.READ)
        check = check_access(config)
        assert check.verdict == "ok"
        assert check.finding == f"people: {read_owner_name()}; tokens: 1"

    def test_it_names_a_wrong_file(self, config: Settings) -> None:
        config.gateway.mkdir()
        (config.gateway / "users.toml").write_text("][")
        check = check_access(config)
        assert (check.verdict, "users.toml is wrong" in check.finding) == ("fail", True)

    def test_it_warns_of_secrets_that_others_can_read(self, config: Settings) -> None:
        config.gateway.mkdir()
        (config.gateway / "hooks.toml").touch(mode=0o644)
        assert check_access(config).fix.startswith("chmod 600")

    def test_it_names_a_wrong_webhook(self, config: Settings) -> None:
        config.gateway.mkdir()
        (config.gateway / "hooks.toml").touch(mode=0o600)
        (config.gateway / "hooks.toml").write_text("[out.chat]\non = ['all']\n")
        check = check_access(config)
        assert (check.verdict, "[out.chat]: " in check.finding) == ("fail", True)
