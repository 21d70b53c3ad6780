"""The transport of a server that runs in the jail: its input and output, kept open as pipes."""

import asyncio
import contextlib
import math
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared.errors import ActionError
from shared.mcp.config import ServerConfig
from shared.sandbox import CommandResult, Limits, OutputCapture, run_command
from shared.sandbox.jail import search_path
from shared.text.display import escape_invisible, shorten

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MAX_OUTPUT = 16_000_000
"""The most bytes that a server may write for one request: results are a hundredth of that, floods are not."""
LEAVE = 0.5  # Seconds a server has to end by itself after its input was closed; then it is stopped


class Life:
    """What becomes of one server: ``reason`` says why it ended, ``on_end`` is called then."""

    def __init__(self, name: str, on_end: Callable[[], None]) -> None:
        self.name = name
        self.on_end = on_end
        self.reason = ""
        self.allowed = MAX_OUTPUT

    def allow(self) -> None:
        """Let it write MAX_OUTPUT bytes more, for a request that is sent now."""
        self.allowed = MAX_OUTPUT

    def end(self, reason: str) -> None:
        """It ended, or has to; the first reason counts."""
        self.reason = self.reason or reason
        self.on_end()


class _Lines(OutputCapture):
    """Passes on the lines that a server writes, as long as they are not more than it may."""

    def __init__(self, life: Life, take: Callable[[bytes], None]) -> None:
        super().__init__(2, None)
        self._life, self._take = life, take
        self._begun = bytearray()

    def add(self, chunk: bytes) -> None:
        """Take the next chunk."""
        self._life.allowed -= len(chunk)
        if self._life.allowed < 0:
            self._begun.clear()
            self._life.end(f"it wrote more than {MAX_OUTPUT:,} bytes for one request")
            return
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            self._begun += line
            self._take(bytes(self._begun))
            self._begun.clear()
        self._begun += rest


@contextlib.asynccontextmanager
async def open_pipes(server: ServerConfig, life: Life) -> AsyncIterator["TransportStreams"]:
    """Start ``server`` in the jail; its tree is gone when the block ends.

    ``life`` is told when it ends, also if it never began. What it writes that is no message is left out.
    """
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    incoming, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](math.inf)
    write_stream, outgoing = anyio.create_memory_object_stream[SessionMessage](0)

    def take(line: bytes) -> None:
        with contextlib.suppress(ValueError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            incoming.send_nowait(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))

    source, sink = os.pipe()
    os.set_blocking(sink, False)
    running = asyncio.create_task(_run(server, life, _Lines(life, take), source))
    running.add_done_callback(lambda _: incoming.close())
    writing = asyncio.create_task(_write(sink, outgoing))
    try:
        yield read_stream, write_stream
    finally:
        writing.cancel()
        await asyncio.wait({writing})
        os.close(sink)
        await asyncio.wait({running}, timeout=LEAVE)
        running.cancel()
        await asyncio.wait({running})
        os.close(source)
        for stream in (incoming, read_stream, write_stream, outgoing):
            stream.close()


async def _run(server: ServerConfig, life: Life, output: OutputCapture, source: int) -> None:
    try:
        secrets = server.read_secrets()
        # The programs of this Python go first, so that "python" is the one that Mailroom runs in.
        path = os.pathsep.join((str(Path(sys.executable).parent), search_path()))
        folders = {
            kind: [Path(each).expanduser() for each in getattr(server, kind)] for kind in ("read", "write")
        }
        result = await run_command(
            [server.command, *server.args],
            cwd=Path(server.cwd or "/").expanduser(),
            timeout=math.inf,
            readable=folders["read"],
            writable=folders["write"],
            env={"PATH": path, **server.env, **secrets},
            output_limit=4_000,
            separate_errors=True,
            limits=Limits(processes=server.processes),
            reach=server.make_reach(),
            source=source,
            output=output,
        )
        life.end(_tell_end(result, secrets))
    except ActionError as error:
        life.end(str(error))


def _tell_end(result: CommandResult, secrets: dict[str, str]) -> str:
    words = hide(result.errors.strip().rpartition("\n")[2], secrets)
    said = f"; its last words: {shorten(escape_invisible(words), 300)}" if words else ""
    return f"it {result.find_failure() or 'ended by itself'}{said}"


def hide(text: str, secrets: dict[str, str]) -> str:
    """``text`` without the secrets of a server, which it may repeat."""
    for name, secret in secrets.items():
        if len(secret) >= 4:
            text = text.replace(secret, f"({name})")
    return text


async def _write(sink: int, outgoing: Any) -> None:
    """Write messages to the server's input, as fast as it reads them."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):  # it closed its input, or is gone
        async for message in outgoing:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            left = memoryview(text.encode() + b"\n")
            while left:
                try:
                    left = left[os.write(sink, left) :]
                except BlockingIOError:
                    writable = loop.create_future()
                    loop.add_writer(sink, _settle, writable)
                    try:
                        await writable
                    finally:
                        loop.remove_writer(sink)


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
