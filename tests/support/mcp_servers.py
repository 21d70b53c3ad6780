"""MCP servers of others that only tests run, installed once into the cache; nothing of them is committed."""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.npm import CACHE, require_package

PYTHON = ("mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19", "mcp-server-fetch==2026.10.24")
NPM = "2026.8.31"
MARK = "installed"


class Foreign(NamedTuple):
    """A server: its command, the folder of its program, and a call with a part of what it answers."""

    command: tuple[str, ...]
    folder: Path
    tool: str
    params: dict[str, object]
    answer: str


def python_server(module: str, tool: str, params: dict[str, object], answer: str, *more: str) -> Foreign:
    """One of PYTHON; skips the test where these cannot be had."""
    folder = CACHE.parent / "mcp" / "python"
    if not (folder / MARK).exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as wheels:
            try:
                _pip(sys.executable, "download", "-q", "-d", wheels, *PYTHON)
                venv.create(folder, with_pip=True, clear=True)
                _pip(str(folder / "bin" / "python"), "install", "-q", "--no-index", "-f", wheels, *PYTHON)
            except (OSError, subprocess.SubprocessError) as error:
                pytest.skip(f"{PYTHON[0]} cannot be had from the Python index: {error}")
        (folder / MARK).touch()
    return Foreign((str(folder / "bin" / "python"), "-m", module, *more), folder, tool, params, answer)


def node_server(name: str, tool: str, params: dict[str, object], answer: str, *more: str) -> Foreign:
    """One of npm's reference servers; skips the test where it cannot be had."""
    folder = require_package(f"@modelcontextprotocol/{name}", NPM)
    program = folder / "node_modules" / "@modelcontextprotocol" / name / "dist" / "index.js"
    return Foreign(("node", str(program), *more), folder, tool, params, answer)


def _pip(python: str, *arguments: str) -> None:
    subprocess.run([python, "-m", "pip", *arguments], check=True, capture_output=True, timeout=90)
