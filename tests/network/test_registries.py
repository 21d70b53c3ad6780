"""Real package managers in the jail, at the real registries, through the gate. Not part of ``make test``."""

import asyncio
import shutil
import socket
import sys
from pathlib import Path

import pytest

from shared.gate.registries import PUBLIC, registry_reach
from shared.sandbox import CommandResult, run_command

UV = shutil.which("uv") or str(Path(sys.executable).parent / "uv")


async def run(ecosystem: str, script: str, folder: Path) -> CommandResult:
    """Run ``script`` with the registries of ``ecosystem``; skips the test if these cannot be reached."""
    host = PUBLIC[ecosystem][0]
    try:
        await asyncio.get_running_loop().getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    except OSError:
        pytest.skip(f"{host} cannot be resolved here")
    registry = registry_reach(ecosystem)
    result = await run_command(
        ["bash", "-ec", script],
        cwd=folder,
        writable=[folder],
        readable=registry.readable,
        env=registry.environment,
        timeout=110,
        reach=registry.reach,
    )
    assert result.exit_code == 0, f"{result.output}\n{result.connections}"
    assert all(each.allowed for each in result.connections), result.connections
    assert result.connections
    return result


def require(program: str) -> None:
    """Skip the test if the program is not installed."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


async def test_pip(tmp_path: Path) -> None:
    script = f"{sys.executable} -m pip install -q --target there certifi; ls there"
    assert "certifi" in (await run("python", script, tmp_path)).output


async def test_uv(tmp_path: Path) -> None:
    require(UV)
    script = f"{UV} venv -q own; {UV} pip install -q --python own/bin/python certifi"
    await run("python", f"{script}; own/bin/python -c 'import certifi'", tmp_path)


async def test_npm(tmp_path: Path) -> None:
    require("npm")
    script = "echo '{}' > package.json; npm install --silent left-pad; node -e 'require(\"left-pad\")'"
    await run("javascript", script, tmp_path)


async def test_cargo(tmp_path: Path) -> None:
    require("cargo")
    await run("rust", "cargo init -q --name pebble .; cargo add -q itoa; cargo fetch -q", tmp_path)


async def test_go(tmp_path: Path) -> None:
    require("go")
    await run("go", "go mod init example.org/pebble; go get github.com/google/uuid@v1.6.0", tmp_path)


async def test_maven(tmp_path: Path) -> None:
    require("mvn")
    await run("java", "mvn -q -B dependency:get -Dartifact=junit:junit:4.13.2", tmp_path)
