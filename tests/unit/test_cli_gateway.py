"""``mailroom token`` and ``mailroom web`` without a gateway, and what doctor says of who may use one."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from services.cli.commands.token import token
from services.cli.commands.web import web
from shared import settings
from shared.access.scopes import read_owner_name
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
    @pytest.mark.parametrize(
        "arguments",
        [
            ("add", "ci", "--scope", "root"),
            ("add", "ci", "--scope", ""),
            ("add", "ci", "--expires", "soon"),
            ("add", "ci", "--expires", "0s"),
            ("add", "ci", "--expires", "99999999999d"),
        ],
    )
    def test_what_is_wrong_is_refused_without_a_gateway(self, run: Run, arguments: tuple[str, ...]) -> None:
        failed = run("token", *arguments)
        assert failed.exit_code != 0
        assert "No gateway" not in f"{failed.output}{failed.exception}"

    def test_it_needs_a_gateway(self, run: Run) -> None:
        for group, *arguments in (("token", "add", "ci"), ("token", "list"), ("web",)):
            assert "No office is running" in str(run(group, *arguments).exception)


class TestDoctor:
    def test_it_names_people(self, config: Settings) -> None:
        check = check_access(config)
        assert check.verdict == "ok"
        assert check.finding == f"people: {read_owner_name()}"

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
