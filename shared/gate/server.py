"""The gate's main loop: takes sessions from a socket, its standard input, and opens a proxy for each."""

import asyncio
import contextlib
import json
import resource
import shutil
import signal
import socket

from shared.gate import DESCRIPTORS, Session, decode_session
from shared.gate.proxy import HEAD_BYTES, Proxy

BACKLOG = 256
MESSAGE = 256 << 10  # The most bytes of a session's description


def serve(place: str) -> None:
    """Serve until the other end of the socket is closed, then remove ``place``, the folder of its sockets."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a caller that drains still needs its commands
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    try:
        asyncio.run(_serve())
    finally:
        shutil.rmtree(place, ignore_errors=True)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    requests = socket.socket(fileno=0)
    requests.setblocking(False)
    ended = asyncio.Event()
    sessions: set[asyncio.Task[None]] = set()

    def receive() -> None:
        try:
            message, files, _, _ = socket.recv_fds(requests, MESSAGE, DESCRIPTORS)
        except BlockingIOError:
            return
        except OSError:
            message, files = b"", []
        if not message:
            loop.remove_reader(0)
            ended.set()
        elif len(files) == DESCRIPTORS:
            task = asyncio.ensure_future(_serve_session(decode_session(message), *files))
            sessions.add(task)
            task.add_done_callback(sessions.discard)

    loop.add_reader(0, receive)
    await ended.wait()


async def _serve_session(session: Session, entrance: int, control: int) -> None:
    """Serve one command until its caller closes ``control``, then report its connections there."""
    with socket.socket(fileno=entrance) as door, socket.socket(fileno=control) as caller:
        door.setblocking(False)
        caller.setblocking(False)
        proxy = Proxy(session)
        serving = asyncio.ensure_future(_serve_command(proxy, door))
        try:
            await asyncio.get_running_loop().sock_sendall(caller, b".")
            # Nothing is sent there: what can be read is its end.
            await asyncio.get_running_loop().sock_recv(caller, 1)
            serving.cancel()
            await asyncio.wait({serving})
            report = await proxy.close()
            await asyncio.get_running_loop().sock_sendall(caller, json.dumps(report).encode())
        except OSError:  # the caller died
            serving.cancel()
            await proxy.close()


async def _serve_command(proxy: Proxy, door: socket.socket) -> None:
    """Take over the socket that the launcher made on the jail's loopback, and serve what connects to it.

    The launcher is the first to connect to ``door``, before the command runs; nobody else is let in.
    """
    loop = asyncio.get_running_loop()
    launcher, _ = await loop.sock_accept(door)
    door.close()
    with launcher:
        await _readable(launcher)
        _, files, _, _ = socket.recv_fds(launcher, 1, 1)
    if not files:
        return
    listener = socket.socket(fileno=files[0])
    listener.setblocking(False)
    server = await asyncio.start_server(proxy.handle, sock=listener, limit=HEAD_BYTES, backlog=BACKLOG)
    async with contextlib.AsyncExitStack() as closing:
        closing.callback(server.close)
        await proxy.close_idle()


async def _readable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    sock.setblocking(False)
    loop.add_reader(sock, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sock)
