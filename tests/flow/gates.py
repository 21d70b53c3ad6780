"""Commands with reach, and servers of the machine that note what arrives, for the tests of the gate."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator

from shared.sandbox import Reach
from tests.support.http import HttpServer, Request

ASK = """
import json, socket, sys
def ask(*pieces, half=False):
    "Send bytes to the gate; returns all that comes back."
    with socket.create_connection(("127.0.0.1", 61128), timeout=20) as gate:
        answer = failed = b""
        try:
            for piece in pieces:
                gate.sendall(piece)
            if half:
                gate.shutdown(socket.SHUT_WR)
        except OSError as error:  # it may have answered before it closed
            failed = b"[" + type(error).__name__.encode() + b"]"
        try:
            while more := gate.recv(65536):
                answer += more
        except OSError as error:
            failed = failed or b"[" + type(error).__name__.encode() + b"]"
    return (answer + failed).decode("latin-1")
def connect(target):
    return ask(f"CONNECT {target} HTTP/1.1\\r\\n\\r\\n".encode())
"""


class Canary:
    """A server that must not be reached: it notes every connection."""

    def __init__(self, family: int = socket.AF_INET) -> None:
        self.visits = 0
        address = "127.0.0.1" if family == socket.AF_INET else "::1"
        self._listener = socket.create_server((address, 0), family=socket.AddressFamily(family))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                visitor, _ = self._listener.accept()
            except OSError:
                return
            self.visits += 1
            visitor.close()

    def close(self) -> None:
        self._listener.close()


@contextlib.contextmanager
def serve_mirror(canary_port: int) -> Iterator[HttpServer]:
    """A server that a person's settings name, on a private address, as a company's mirror is."""

    def answer(request: Request) -> None:
        if request.path == "/away":
            request.respond(302, {"Location": f"http://127.0.0.1:{canary_port}/"}, b"")
        elif request.path == "/much":
            request.respond(200, {}, b"x" * 3_000_000)
        elif request.path == "/endless":
            request.start_response(200, {})
            with contextlib.suppress(OSError):
                while True:
                    request.wfile.write(b"x" * 100_000)
        else:
            told = {
                "path": request.path,
                "headers": dict(request.headers),
                "body": request.read_body().decode(),
            }
            request.respond(200, {"Content-Type": "application/json"}, json.dumps(told).encode())

    with HttpServer(answer) as server:
        yield server


def reach_of(*hosts: str, max_bytes: int = 1 << 30) -> Reach:
    """A reach to hosts of this machine, as a person's settings name them."""
    return Reach(hosts=hosts, allow_private=hosts, max_bytes=max_bytes)
