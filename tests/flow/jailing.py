"""How the jail's tests run commands."""

import subprocess
import sys
from pathlib import Path

from shared.sandbox import CommandResult, run_command

ROOT = Path(__file__).resolve().parents[2]


async def shell(script: str, workspace: Path, seconds: float = 20.0, **options: object) -> CommandResult:
    """What ``script`` does, with ``workspace`` as the folder it can write unless ``options`` name others."""
    return await _run(["sh", "-c", script], workspace, seconds, options)


async def python(code: str, workspace: Path, seconds: float = 20.0, **options: object) -> CommandResult:
    """The same for Python."""
    return await _run([sys.executable, "-I", "-S", "-c", code], workspace, seconds, options)


async def _run(argv: list[str], workspace: Path, seconds: float, options: dict[str, object]) -> CommandResult:
    options = {"writable": [workspace], **options}
    return await run_command(argv, cwd=workspace, timeout=seconds, **options)


def run_office(code: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """What a process of the office does that runs ``code``, outside the jail."""
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment or None, capture_output=True, text=True
    )


def start_office(code: str) -> "subprocess.Popen[bytes]":
    """The same, left running once it has written a line."""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def start_sleep() -> "subprocess.Popen[bytes]":
    """A process outside the jail."""
    return subprocess.Popen(["sleep", "60"])
