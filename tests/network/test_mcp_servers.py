"""Six MCP servers that nobody here wrote, in both eras of the protocol, in the jail.

They are installed from the registries once, into the cache. Not part of ``make test``.
"""

import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from shared.mcp.config import ServerConfig
from shared.mcp.pins import compare
from shared.mcp.session import Session
from shared.sandbox import check_jail
from tests.support.http import Site
from tests.support.mcp_servers import Foreign, node_server, python_server
from tests.support.waiting import eventually

SITE = Site()
"""What fetch is granted: a host of the network, which it reaches through the gate."""
ERAS = {"2026-07-28": "auto", "2025-11-25": "legacy"}
SERVERS: dict[str, Callable[[Path], Foreign]] = {
    "time": lambda _: python_server("mcp_server_time", "get_current_time", {"timezone": "UTC"}, '"UTC"'),
    "git": lambda folder: python_server(
        "mcp_server_git", "git_log", {"repo_path": str(folder)}, "The first one"
    ),
    "fetch": lambda _: python_server(
        "mcp_server_fetch",
        "fetch",
        {"url": SITE.page("/page", "Come and read", kind="text/plain")},
        "Come",
        "--ignore-robots-txt",
        "--allow-private-ips",
    ),
    "filesystem": lambda folder: node_server(
        "server-filesystem", "read_text_file", {"path": str(folder / "note.txt")}, "to be read", str(folder)
    ),
    "everything": lambda _: node_server("server-everything", "echo", {"message": "so be it"}, "so be it"),
    "memory": lambda _: node_server(
        "server-memory",
        "create_entities",
        {"entities": [{"name": "Ada", "entityType": "person", "observations": ["counts"]}]},
        "[",  # the second time it knows her
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with one commit, and a file."""
    (tmp_path / "note.txt").write_text("to be read\n")
    for command in (
        "init -q -b main",
        "-c user.name=a -c user.email=a@b commit -q --allow-empty -m The_first_one",
    ):
        words = [word.replace("_", " ") for word in command.split()]
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


def configure(foreign: Foreign, folder: Path) -> ServerConfig:
    memory = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    program, *arguments = foreign.command
    return ServerConfig(
        command=program,
        args=tuple(arguments),
        read=(str(foreign.folder),),
        write=(str(folder),),
        env=memory,
        reach=(SITE.url("").removeprefix("http://").rstrip("/"),) if foreign.tool == "fetch" else (),
        timeout=30.0,
    )


async def ask(session: Session, foreign: Foreign) -> str:
    now = await session.list_tools()
    tool = next(each for each in now.tools if each.name == foreign.tool)
    return (await session.call(tool, foreign.params)).text


def running(folder: Path) -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["environ"])
        if (process.info["environ"] or {}).get("MEMORY_FILE_PATH", "").startswith(str(folder))
    ]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", SERVERS)
async def test_list_call_kill_restart(name: str, era: str, folder: Path) -> None:
    foreign = SERVERS[name](folder)
    server = configure(foreign, folder)
    first = Session(name, server, mode=ERAS[era])
    await first.start()
    pin = await first.list_tools()
    assert pin.tools
    if era == "2025-11-25":
        assert pin.protocol == era
    assert foreign.answer in await ask(first, foreign)
    for process in running(folder):
        process.kill()
    await eventually(lambda: not first.running)
    await first.close()
    assert not running(folder)
    second = Session(name, server, mode=ERAS[era])
    await second.start()
    try:
        assert not list(compare(pin, await second.list_tools()))  # the same set, to the letter
        assert foreign.answer in await ask(second, foreign)
    finally:
        await second.close()
    await eventually(lambda: not running(folder))


async def bare(foreign: Foreign, folder: Path) -> float:
    """Seconds until the library's own client has the first answer of the server, outside the jail."""
    from mcp import Client, StdioServerParameters

    begun = time.perf_counter()
    program, *arguments = foreign.command
    parameters = StdioServerParameters(
        command=program, args=arguments, env={"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    )
    async with Client(parameters, mode="auto") as client:
        await client.call_tool(foreign.tool, foreign.params)
        return time.perf_counter() - begun


async def jailed(foreign: Foreign, folder: Path) -> float:
    begun = time.perf_counter()
    session = Session("timed", configure(foreign, folder))
    await session.start()
    tool = next(each for each in (await session.list_tools()).tools if each.name == foreign.tool)
    await session.call(tool, foreign.params)
    took = time.perf_counter() - begun
    await session.close()
    return took


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", SERVERS)
async def test_the_jail_costs_little_until_the_first_answer(name: str, folder: Path) -> None:
    foreign = SERVERS[name](folder)
    assert not await check_jail()  # tested once in a process
    await bare(foreign, folder)
    pairs = [(await jailed(foreign, folder), await bare(foreign, folder)) for _ in range(7)]
    print(name, pairs, os.getloadavg())
    inside, outside = (statistics.median(each) for each in zip(*pairs, strict=True))
    assert inside / outside <= 1.2, pairs
