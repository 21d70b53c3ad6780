"""An office whose scout has the hostile MCP server, and what its processes are."""

import sys
from pathlib import Path

import psutil

from shared import settings
from shared.bus import Bus
from shared.contracts import ApprovalRequest
from shared.mcp.config import ServerConfig, add_server
from shared.mcp.pins import write_pin
from shared.mcp.session import Session
from shared.operations.approvals import answer_request, read_approvals
from tests.support.server import environment
from tests.support.waiting import eventually

HOSTILE = Path(__file__).parent / "hostile_mcp.py"
GONE = 8.0
"""Seconds after a kill until nothing of a server may be left: its grace, and what a busy machine takes."""


async def install(folder: Path, *modes: str, pinned: bool = True, **given: object) -> ServerConfig:
    """Add the hostile server to the settings in ``folder``, and approve its tools as a person does."""
    config = settings.load(environment(folder / "state"))
    (folder / "granted").mkdir(exist_ok=True)
    values = {
        "agents": ("scout",),
        "read": (str(HOSTILE),),
        "write": (str(folder / "granted"),),
        "env": {"MAILROOM_FOE": str(folder)},
        **given,
    }
    server = ServerConfig(command=sys.executable, args=("-I", str(HOSTILE), *modes), **values)
    add_server(config, "foe", server)
    if pinned:
        session = Session("foe", server)
        await session.start()
        try:
            write_pin(config, await session.list_tools())
        finally:
            await session.close()
    return server


def processes(folder: Path) -> list[psutil.Process]:
    """The processes of the hostile server that was installed in ``folder``, in whatever jail."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        command = process.info["cmdline"] or []
        mine = (process.info["environ"] or {}).get("MAILROOM_FOE") == str(folder)
        if mine and str(HOSTILE) in command:
            found.append(process)
    return found


async def gone(folder: Path) -> None:
    """Wait until none of them is left."""
    await eventually(lambda: not processes(folder), GONE)


async def answer(bus: Bus, granted: bool) -> ApprovalRequest:
    """Answer what waits for a person, as soon as something does."""

    async def waiting() -> str:
        page = await read_approvals(bus)
        return next((each.request.approval_id for each in page.approvals if each.state == "waiting"), "")

    return await answer_request(bus, await eventually(waiting, 30), granted, "")
