"""The client of the gate: starts that process, and opens it for one command."""

import asyncio
import atexit
import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec

from shared.contracts import Connection
from shared.errors import ActionError
from shared.gate import PORT, SOCKET, Session, decode_report, encode_session
from shared.jailer import Mount
from shared.log import logger
from shared.sandbox.jail import Reach
from shared.sandbox.jailer_client import CERTIFICATES, PLACE, ServerProcess, find_certificates, remove_orphans
from shared.settings import environment

log = logger(__name__)

PREFIX = "mailroom-gate-"
SEND_SECONDS = 5.0  # Seconds until a gate that does not confirm a message counts as frozen
REPORT_SECONDS = 2.0  # Seconds it has to report the connections after the end of a command
LAUNCH = f"""
import os, sys
import _signal as signal, _socket as socket
try:
    listener, gate = socket.socket(), socket.socket(socket.AF_UNIX)
    listener.bind(("127.0.0.1", {PORT}))
    listener.listen(256)
    gate.connect({SOCKET!r})
    files = listener.fileno().to_bytes(4, sys.byteorder)
    gate.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
except OSError as error:
    print(f"The gate does not answer: {{error.strerror}}", file=sys.stderr, flush=True)
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
try:
    os.execvp(sys.argv[1], sys.argv[1:])
except OSError as error:
    print(f"{{sys.argv[1]}} cannot be started: {{error.strerror}}", file=sys.stderr, flush=True)
    os._exit(127)
"""
"""The program that runs in the jail before the command, which replaces it: it makes a socket that listens on
the jail's loopback and hands it to the gate, which then accepts what connects to it. Importing ``socket``
itself would take most of its time."""


def launch(argv: Sequence[str]) -> list[str]:
    """``argv`` as a command that makes the way to the gate first."""
    return [sys.executable, "-I", "-S", "-c", LAUNCH, *argv]


def proxy_environment(reach: Reach) -> dict[str, str]:
    """The variables by which programs find the gate and trust what the machine trusts.

    Loopback is the jail's own, unless ``reach`` has a registry on this machine: then the gate leads to it.
    """
    proxy, direct = f"http://127.0.0.1:{PORT}", "" if reach.has_loopback else "127.0.0.1,localhost,::1"
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    certificates = (
        *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "NODE_EXTRA_CA_CERTS", "CARGO_HTTP_CAINFO"),
        *("GIT_SSL_CAINFO", "CURL_CA_BUNDLE"),
    )
    return {
        **{each: proxy for name in names for each in (name, name.lower())},
        **dict.fromkeys(("npm_config_proxy", "npm_config_https_proxy", "CARGO_HTTP_PROXY"), proxy),
        **dict.fromkeys(("NO_PROXY", "no_proxy", "npm_config_noproxy"), direct),
        **(dict.fromkeys(certificates, CERTIFICATES) if find_certificates() else {}),
    }


class Passage:
    """The gate as it is open for one command; ``mount`` is to be shown in its jail."""

    def __init__(self, mount: Mount) -> None:
        self.mount = mount
        self.connections: tuple[Connection, ...] = ()


class GateClient(ServerProcess):
    """The process that connects: one for each process of Mailroom, from the first command with reach on."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path()
        self.numbers = itertools.count()

    @contextlib.asynccontextmanager
    async def open(self, reach: Reach) -> AsyncIterator[Passage]:
        """The gate, open for what ``reach`` names; its connections are known after the end.

        Raises ActionError if it cannot be opened.
        """
        control, path, asked = await asyncio.to_thread(self._ask, reach)
        try:
            with control:
                passage = Passage(Mount(str(path), SOCKET, False))
                yield passage
                words = b""
                try:
                    control.shutdown(socket.SHUT_WR)
                    async with asyncio.timeout(REPORT_SECONDS):
                        while more := await asyncio.get_running_loop().sock_recv(control, 65_536):
                            words += more
                except TimeoutError:
                    await asyncio.to_thread(self.give_up, asked)
                except OSError:
                    pass  # the gate was killed
                if not words:
                    log.warning("gate_without_report", reason="it was killed, or does not answer")
                passage.connections = tuple(
                    msgspec.convert(each, Connection) for each in decode_report(words)
                )
        finally:
            path.unlink(missing_ok=True)

    def _ask(self, reach: Reach) -> tuple[socket.socket, Path, subprocess.Popen[bytes] | None]:
        env = environment()
        proxies = (env.get(name, "") for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"))
        session = encode_session(
            Session(
                hosts=list(reach.hosts),
                private=list(reach.allow_private),
                max_bytes=reach.max_bytes,
                upstream=next((each for each in proxies if each.startswith("http://")), ""),
                direct=env.get("no_proxy") or env.get("NO_PROXY", ""),
            )
        )
        with self.lock:
            for _ in range(2):
                try:
                    requests = self._open()
                    path = self.folder / str(next(self.numbers))
                    with contextlib.ExitStack() as ours, socket.socket(socket.AF_UNIX) as door:
                        door.bind(str(path))
                        path.chmod(0o666)  # its folder is closed; in the jail it is another user's
                        door.listen(8)
                        control, theirs = socket.socketpair()
                        ours.callback(control.close)
                        with theirs:
                            socket.send_fds(requests, [session], [door.fileno(), theirs.fileno()])
                        control.settimeout(SEND_SECONDS)
                        if not control.recv(1):
                            raise ConnectionError
                        control.setblocking(False)
                        ours.pop_all()
                    return *(control, path), self.process
                except OSError as error:  # the process was killed, or is frozen
                    if self.process is not None and self.owner == os.getpid():
                        self.process.kill()
                    self.close()
                    problem = error.strerror or "it does not answer"
        raise ActionError(f"The gate to the network cannot be opened: {problem}", "Try again")

    def _open(self) -> socket.socket:
        if requests := self.known():
            return requests
        remove_orphans(PREFIX)
        self.folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=PLACE)).resolve()
        requests = self.start("shared.gate.server", str(self.folder))
        requests.settimeout(SEND_SECONDS)
        return requests

    def close(self) -> None:
        """End the process, and with it every connection of commands that still run."""
        if self.requests is None or self.process is None:
            return
        self.requests.close()
        self.requests = None
        if self.owner == os.getpid():
            shutil.rmtree(self.folder, ignore_errors=True)  # a gate that was killed did not
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:  # it is frozen
                self.process.kill()
                self.process.wait()


gate = GateClient()
atexit.register(gate.close)
