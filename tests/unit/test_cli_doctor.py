"""What ``mailroom doctor`` says of the jail in a container whose process runs no commands."""

from pathlib import Path

import pytest

from services.cli.commands.doctor import check_sandbox
from shared.settings import Settings


@pytest.mark.parametrize("name", ["user", "gateway", "nexus"])
async def test_no_jail_is_missed_where_no_commands_run(tmp_path: Path, name: str) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / f"{name}.nk").write_text("key")
    config = Settings(state_dir=tmp_path, nats_url="nats://nats:4222")
    check = await check_sandbox(config)
    assert (check.verdict, check.finding.partition(":")[0]) == ("ok", f"{name} runs no commands")


async def test_the_jail_is_tried_where_commands_run(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "engineer.nk").write_text("key")
    check = await check_sandbox(Settings(state_dir=tmp_path, nats_url="nats://nats:4222"))
    assert "jail" in check.finding
    assert "runs no commands" not in check.finding
