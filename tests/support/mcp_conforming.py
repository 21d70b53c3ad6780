"""The client of scenarios of the conformance suite, which goes through Mailroom's own session.

Run as ``python -m tests.support.mcp_conforming`` with a listening socket as its standard input; the suite
runs ``stub``. It calls each tool that is offered once, and signs in by the page of ``mailroom mcp login``,
with a browser that says yes.
"""

import asyncio
import contextlib
import gc
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import mcp  # noqa: F401 - before it forks

from services.cli.commands.mcp import _receive
from shared import settings
from shared.errors import ActionError
from shared.mcp.config import OAuth, ServerConfig
from shared.mcp.pins import Tool
from shared.mcp.questions import Choice
from shared.mcp.session import Session
from tests.support.forking import ROOT
from tests.support.once import share_certificates
from tests.support.server import environment

MOST = 4  # Clients at the same time: the suite starts dozens, each of which has seconds for its first answer
STUB = """
import json, os, socket, sys
made = socket.socket(socket.AF_UNIX)
made.connect(sys.argv[1])
given = {key: text for key, text in os.environ.items() if key.startswith("MCP_")}
made.sendall(json.dumps([sys.argv[-1], given]).encode())
made.shutdown(socket.SHUT_WR)
sys.exit(int(made.recv(1) or 1))
"""
"""What the suite starts: dozens at once, which are not to import what an agent does, each for itself."""


@contextlib.contextmanager
def stub(folder: Path) -> Iterator[str]:
    """The command of a client, as long as the block runs."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "stub"))
        listening.listen(100)
        process = subprocess.Popen([sys.executable, "-m", __name__], stdin=listening, cwd=ROOT)
        try:
            (folder / "stub.py").write_text(STUB)
            yield shlex.join([sys.executable, "-IS", str(folder / "stub.py"), str(folder / "stub")])
        finally:
            process.kill()
            process.wait()


def read_context() -> dict[str, Any]:
    """What the suite tells of a scenario."""
    return dict(json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")))


def browse(address: str) -> bool:
    """Open an address as a person's browser does, who signed in there before."""
    return httpx2.get(address, follow_redirects=True).status_code == httpx2.codes.OK


def find_issuer(url: str) -> str:
    """The service that issued a secret, which a person knows who has one; scenarios do not tell it."""
    parts = urlsplit(url)
    place = parts._replace(path=f"/.well-known/oauth-protected-resource{parts.path}").geturl()
    return str(httpx2.get(place).json()["authorization_servers"][0])


def guess(schema: dict[str, Any]) -> Any:
    """A value that fits a parameter."""
    return {"number": 1, "integer": 1, "boolean": True}.get(schema.get("type", ""), "us-west1")


def calls_of(tools: tuple[Tool, ...]) -> list[tuple[Tool, dict[str, Any]]]:
    """What to call: what the scenario names, or every tool with what it requires."""
    named = {tool.name: tool for tool in tools}
    context = read_context()
    if "toolCalls" in context:
        return [(named[each["name"]], each["arguments"]) for each in context["toolCalls"]]
    if "json_schema_echo" in named:  # it is sent the schema of the other, as it was pinned
        return [(named["json_schema_echo"], {"schema": tools[0].schema})]
    return [
        (tool, {key: guess(tool.schema["properties"][key]) for key in tool.schema.get("required", ())})
        for tool in tools
        if tool.kind == "tool"
    ]


def known_by(url: str, folder: Path) -> OAuth:
    """What the service of the scenario knows Mailroom by."""
    scenario, context = os.environ["MCP_CONFORMANCE_SCENARIO"], read_context()
    if scenario == "auth/basic-cimd":
        return OAuth(client="https://conformance-test.local/client-metadata.json")
    if not (secret := context.get("client_secret") or context.get("private_key_pem")):
        return OAuth()
    path = folder / "secret"
    path.write_text(secret)
    grant = "client_credentials" if "client-credentials" in scenario else "authorization_code"
    issuer = context.get("issuer") or find_issuer(url)
    return OAuth(client=context["client_id"], secret=str(path), issuer=issuer, grant=grant)


async def main(url: str, folder: Path) -> None:
    """Go through the scenario whose server is at ``url``."""
    webbrowser.open = lambda address, *_: browse(address)  # type: ignore[assignment]
    # The services of a scenario have any ports of this machine.
    hosts = [f"localhost:{port}" for port in range(1024, 65536)]
    config = settings.load(environment(folder, MAILROOM_PRIVATE_HOSTS=",".join(hosts)))
    server = ServerConfig(url=url, oauth=known_by(url, folder))

    async def ask(*_: object) -> tuple[Choice, dict[str, Any]]:
        return "accept", {}

    async with contextlib.AsyncExitStack() as stack:
        signs_in = os.environ["MCP_CONFORMANCE_SCENARIO"].startswith("auth/")
        sign_in = await stack.enter_async_context(_receive(server.oauth.redirect)) if signs_in else None
        session = Session("suite", server, settings=config, sign_in=sign_in, ask=ask)
        stack.push_async_callback(session.close)
        await session.start()
        for tool, params in calls_of((await session.list_tools()).tools):
            with contextlib.suppress(ActionError):  # the suite judges what was sent
                await session.call(tool, params)


def serve(listening: socket.socket) -> None:
    """Be the client of each scenario whose STUB connects, in a process of its own that imports nothing."""
    running = 0
    while True:
        stub, _ = listening.accept()
        if running == MOST:
            os.wait()
            running -= 1
        if os.fork():
            stub.close()
            running += 1
            continue
        with stub, stub.makefile() as asked, tempfile.TemporaryDirectory() as made:
            url, variables = json.loads(asked.read())
            os.environ.update(variables)
            status = b"1"
            try:
                asyncio.run(main(url, Path(made)))
                status = b"0"
            finally:
                stub.sendall(status)
        os._exit(0)


if __name__ == "__main__":
    share_certificates()
    gc.freeze()
    serve(socket.socket(fileno=0))
