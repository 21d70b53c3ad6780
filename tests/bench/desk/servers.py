"""Measure which tool of MCP servers the desk finds in a message: ``python -m tests.bench.desk.servers``.

The tools are those of real servers, as these list them, and of a house like Home Assistant's. Right is
the tool that is meant with its arguments, or a question where one is missing; wrong in effect is another call
that changes something. What is said to the desk itself must be for no tool, however unsure the desk is of it.
Of the half ``servers_held`` only figures are looked at.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from services.nexus.servers.choosing import Choice, Chooser, Offered, choose
from services.nexus.servers.reading import Said, read_known, read_tokens
from shared.language.utterance import read_utterance
from shared.mcp.config import ServerConfig
from shared.mcp.pins import Pin, Tool
from shared.mcp.session import Session
from tests.bench.desk.messages import FOLDER, HALVES, read_talks
from tests.support import home_server
from tests.support.mcp_servers import python_server
from tests.support.npm import require_package

NPM = {
    "files": ("@modelcontextprotocol/server-filesystem", "2026.8.31", "dist/index.js", "/tmp"),
    "github": ("@modelcontextprotocol/server-github", "2025.4.8", "dist/index.js"),
    "browser": ("@playwright/mcp", "0.0.83", "cli.js", "--headless"),
}
ALLOWED = {"GetLiveContext", "todo_get_items", "GetDateTime"}  # of the house, which says nothing of its tools
QUERY = Tool(
    name="query",
    description="Run a read-only SQL query",
    schema={"type": "object", "properties": {"sql": {"type": "string"}}},
)
"""The one tool of Postgres' server, which lists it only where there is a database."""


class Meant(msgspec.Struct, frozen=True, kw_only=True):
    """A message, the tool that it means, the arguments that are right, and whether one is asked for."""

    id: str
    say: str
    tool: str
    args: tuple[dict[str, Any], ...] = ()
    also: tuple[str, ...] = ()
    asks: bool = False


async def list_tools(name: str, command: Sequence[str], folder: str) -> Pin:
    """What a server says that it has, run in the jail."""
    server = ServerConfig(command=command[0], args=tuple(command[1:]), read=(folder,))
    session = Session(name, server)
    await session.start()
    try:
        return await session.list_tools()
    finally:
        await session.close()


async def read_offered() -> list[Offered]:
    """The tools of all servers."""
    house = [
        Tool(name=t["name"], description=t["description"], schema=t["inputSchema"]) for t in home_server.TOOLS
    ]
    found = {"home": Pin(server="home", program="home-assistant", tools=tuple(house))}
    found["db"] = Pin(server="db", program="example-servers/postgres", tools=(QUERY,))
    for name, (package, version, program, *more) in NPM.items():
        folder = require_package(package, version)
        command = ("node", str(folder / "node_modules" / package / program), *more)
        found[name] = await list_tools(name, command, str(folder))
    clock = python_server("mcp_server_time", "", {}, "")
    found["time"] = await list_tools("time", clock.command, str(clock.folder))
    return [
        Offered(
            action=action,
            server=name,
            tool=tool,
            assignee="nexus",
            asks=tool.asks and tool.name not in ALLOWED,
            program=pin.program,
        )
        for name, pin in found.items()
        for action, tool in pin.actions().items()
    ]


def plain(value: Any) -> Any:
    """A value without regard to case."""
    return json.loads(json.dumps(value).casefold())


def judge(meant: Meant, found: Sequence[Choice]) -> str:
    """What became of a message: right, asked, missed, or wrong, in effect or not."""
    if len(found) != 1:
        return "asked which" if found else "missed"
    offered, filled = found[0].offered, found[0].filled
    is_tool = offered.action in (meant.tool, *meant.also)
    if filled.missing:
        return "right" if is_tool and meant.asks else "asked"
    if is_tool and any(plain(each) == plain(filled.params) for each in meant.args):
        return "right"
    return "wrong in effect" if offered.asks else "wrong"


def main() -> None:
    """Measure both halves and what is the desk's, and print a line of JSON."""
    chooser = Chooser(asyncio.run(read_offered()))
    states = {name: state for name, (_, _, state) in home_server.HOUSE.items()}
    known = {"home": read_known(home_server.describe(states, list(states)))}

    def find(text: str) -> list[Choice]:
        said = Said(text, read_tokens(text), read_utterance(text).act, "Europe/Berlin")
        return choose(chooser.rank(said, known), said, sure=0.0, is_general=True)

    told: dict[str, Any] = {}
    for half in ("servers", "servers_held"):
        lines = (FOLDER / f"{half}.jsonl").read_text(encoding="utf-8").splitlines()
        meant = [msgspec.json.decode(line, type=Meant) for line in lines]
        told[half] = Counter(judge(each, find(each.say)) for each in meant)
        if half == "servers":
            print(*(each.say for each in meant if judge(each, find(each.say)) != "right"), sep="\n")
    own = [talk.lines[0].say for half in HALVES for talk in read_talks(half)]
    told["own"] = {"messages": len(own), "taken": sum(bool(find(each)) for each in own)}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
