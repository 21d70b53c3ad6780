"""``mailroom mcp serve``: the office for a host that starts its MCP servers and talks to them by pipes."""

import base64
import contextlib
import http.client
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from services.cli import api
from services.cli.commands.options import format_examples
from shared import settings
from shared.errors import BusUnavailable, ConfigError, MailroomError, StartError
from shared.settings import Settings
from shared.text.display import clean

TIMEOUT = (
    60.0  # Seconds of silence after which an answer is given up: the gateway says every 15 that it works
)
START_WAIT = 30.0  # Seconds that a gateway is waited for which starts again, as with a whole office
MOST = 64  # Messages that are answered at the same time: of more, the next is read when one is done
VERSION = "io.modelcontextprotocol/protocolVersion"
NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The parameter that is repeated in a header, by method."""


def token_path(config: Settings, name: str) -> Path:
    """The file, of mode 0600, with the token of the host ``name``."""
    return config.state_dir / "hosts" / f"{name}.token"


@click.command(epilog=format_examples("mailroom mcp serve --as claude-code"))
@click.option("--as", "name", default="", help="With the token that 'mailroom mcp install NAME' made.")
def serve(name: str) -> None:
    """Offer the office as an MCP server on standard input and output.

    Programs start it: 'mailroom mcp install' has them do so. It passes messages on to the gateway, and waits
    for one that starts again.
    """
    config = settings.load()
    secret = ""
    if name:
        try:
            secret = token_path(config, name).read_text().strip()
        except OSError as error:
            raise ConfigError(
                f"The token of {name} cannot be read: {error.strerror}",
                f"Make one with 'mailroom mcp install {name}'",
            ) from None
    with contextlib.suppress(BrokenPipeError):
        _Bridge(config, secret).run()


class _Lost(Exception):
    """The gateway does not know the session: it started again."""


class _Message(NamedTuple):
    """A message of the host; ``id`` is None for a notification."""

    data: bytes
    method: str
    id: Any
    params: Mapping[str, Any]

    @property
    def version(self) -> str:
        """The version it names itself, as since 2026-07-28; else empty."""
        meta = self.params.get("_meta")
        return str(meta.get(VERSION) or "") if isinstance(meta, dict) else ""


class _Bridge:
    """Passes lines of standard input on to the gateway, each as a request, and what it answers back."""

    def __init__(self, config: Settings, secret: str) -> None:
        self._config, self._secret = config, secret
        self._written, self._reopening = threading.Lock(), threading.Lock()
        self._open: dict[str, http.client.HTTPConnection] = {}
        self._session = self._version = ""
        self._opening: _Message | None = None
        self._room = threading.Semaphore(MOST)

    def run(self) -> None:
        """Serve until the host closes its end."""
        pool = ThreadPoolExecutor(MOST + 1)
        for line in sys.stdin.buffer:
            if not line.strip():
                continue
            try:
                message = _parse(line)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                self._fail(None, -32700, "The line is no message of JSON-RPC")
                continue
            if message.method == "notifications/cancelled" and not self._session:
                self._cancel(message.params.get("requestId"))
            elif message.method == "initialize":
                self._opening, self._session, self._version = message, "", ""
                self._answer(message)
            elif message.id is not None or self._session:
                self._room.acquire()
                pool.submit(self._answer_and_leave, message)
        if self._session:
            with contextlib.suppress(MailroomError, OSError, http.client.HTTPException):
                self._ask("DELETE", b"", {}).close()
        pool.shutdown(wait=False, cancel_futures=True)
        for connection in tuple(self._open.values()):
            connection.close()

    def _answer_and_leave(self, message: _Message) -> None:
        try:
            self._answer(message)
        finally:
            self._room.release()

    def _answer(self, message: _Message) -> None:
        """Pass a message on, and what the gateway answers back; a problem becomes an error of JSON-RPC."""
        try:
            try:
                self._pass_on(message)
            except _Lost:
                self._reopen(self._session)
                self._pass_on(message)
        except MailroomError as error:
            self._fail(message.id, -32603, str(error))
        except (OSError, http.client.HTTPException, _Lost):
            text = "The gateway ended before it answered: whether it was done is not known"
            self._fail(message.id, -32603, text)
        if message.method == "notifications/initialized":
            threading.Thread(target=self._listen, daemon=True).start()

    def _pass_on(self, message: _Message) -> None:
        connection = self._ask("POST", message.data, _headers_of(message))
        key = repr(message.id)
        if message.id is not None:
            self._open[key] = connection
        try:
            response = connection.getresponse()
            if response.status == 404 and self._session and not message.version:
                raise _Lost
            if message.method == "initialize":
                self._session = response.getheader("Mcp-Session-Id", "")
            kind = response.getheader("Content-Type", "").partition(";")[0]
            if kind == "application/problem+json":
                problem = msgspec.json.decode(response.read())
                text = f"{problem.get('detail', '')}. {problem.get('cure', '')}".removesuffix(". ")
                raise MailroomError(clean(text))
            for data in _read_events(response) if kind == "text/event-stream" else [response.read()]:
                self._write(data, message)
        finally:
            self._open.pop(key, None)
            connection.close()

    def _ask(self, method: str, data: bytes, headers: Mapping[str, str]) -> http.client.HTTPConnection:
        """Send a request, once: a gateway that starts again is waited for. Raises MailroomError, OSError."""
        login, connection = self._connect(time.monotonic() + START_WAIT)
        own = {"Mcp-Session-Id": self._session, "MCP-Protocol-Version": self._version}
        every = {
            "Authorization": f"Bearer {self._secret or login.token}",
            "Content-Type": "application/json",
            "Accept": "text/event-stream" if method == "GET" else "application/json, text/event-stream",
        }
        if "Mcp-Method" not in headers:
            every |= {name: value for name, value in own.items() if value}
        path = api.parse_address(login.url).path.rstrip("/")
        connection.request(method, f"{path}/mcp", data or None, {**every, **headers})
        return connection

    def _connect(self, deadline: float) -> tuple[api.Login, http.client.HTTPConnection]:
        while True:
            connection = None
            try:
                login = api.find_login(self._config, 0)
                parts = api.parse_address(login.url)
                is_safe = parts.scheme == "https"
                kind = http.client.HTTPSConnection if is_safe else http.client.HTTPConnection
                connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT)
                connection.connect()
            except (OSError, StartError, BusUnavailable) as error:
                if connection is not None:
                    connection.close()
                if time.monotonic() < deadline:
                    time.sleep(api.POLL_INTERVAL)
                elif isinstance(error, MailroomError):
                    raise
                else:
                    raise BusUnavailable(f"The gateway cannot be reached: {error}") from None
            else:
                return login, connection

    def _reopen(self, lost: str) -> None:
        """Open a session in place of the one that was lost, as the host opened that."""
        with self._reopening:
            if self._session != lost or self._opening is None:
                return
            self._session = ""
            connection = self._ask("POST", self._opening.data, {})
            response = connection.getresponse()
            self._session = response.getheader("Mcp-Session-Id", "")
            connection.close()
            begun = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
            self._pass_on(_parse(begun))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        """Pass on what the gateway tells without being asked, as long as the session lasts."""
        session = self._session
        with contextlib.suppress(MailroomError, OSError, http.client.HTTPException, ValueError):
            connection = self._ask("GET", b"", {})
            response = connection.getresponse()
            if response.status == 200:
                for data in _read_events(response):
                    if session != self._session:
                        break
                    self._write(data, None)
            connection.close()

    def _cancel(self, request_id: Any) -> None:
        """End a request, as 2026-07-28 has it: by closing its connection."""
        if (connection := self._open.get(repr(request_id))) and connection.sock:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(2)

    def _write(self, data: bytes, message: _Message | None) -> None:
        """Write a message of the gateway as a line."""
        if not data.strip():
            return
        if message is not None and message.method == "initialize":
            with contextlib.suppress(msgspec.MsgspecError, AttributeError):
                self._version = msgspec.json.decode(data).get("result", {}).get("protocolVersion", "")
        with self._written:
            sys.stdout.buffer.write(msgspec.json.format(data, indent=-1) + b"\n")
            sys.stdout.buffer.flush()

    def _fail(self, request_id: Any, code: int, text: str) -> None:
        if request_id is not None or code == -32700:
            error = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}}
            self._write(msgspec.json.encode(error), None)


def _parse(line: bytes) -> _Message:
    """A message; raises ValueError if it is none."""
    value = msgspec.json.decode(line)
    if not isinstance(value, dict):
        raise ValueError("no object")
    params = value.get("params")
    return _Message(
        line.strip(),
        str(value.get("method") or ""),
        value.get("id"),
        params if isinstance(params, dict) else {},
    )


def _headers_of(message: _Message) -> dict[str, str]:
    """The headers that repeat parts of a message, as HTTP has them since 2026-07-28."""
    if not message.version:
        return {}
    headers = {"MCP-Protocol-Version": message.version, "Mcp-Method": message.method}
    name = message.params.get(NAMED.get(message.method, ""))
    if isinstance(name, str):
        is_plain = name.isascii() and name.isprintable() and name == name.strip() and "=?" not in name
        packed = f"=?base64?{base64.b64encode(name.encode(errors='replace')).decode()}?="
        headers["Mcp-Name"] = name if is_plain else packed
    return {key: each if each.isprintable() and each.isascii() else "?" for key, each in headers.items()}


def _read_events(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The data of server-sent events."""
    while line := response.readline():
        if line.startswith(b"data:"):
            yield line[5:].strip()
