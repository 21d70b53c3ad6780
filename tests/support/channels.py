"""Servers of the channels that people are told by, on this machine: mail, ntfy, webhooks, Telegram."""

import asyncio
import email
import json
import re
import socket
import socketserver
import threading
import time
from email.message import EmailMessage
from email.policy import default
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from aiosmtpd.controller import Controller

from shared.delivery.outlets import verify
from tests.support.http import HttpServer, Request

SECRET = "0123456789abcdef-secret"


class MailStub:
    """An SMTP server that keeps what it took, and while ``answer`` is no 250 refuses it.

    It takes a mail ``hold`` seconds after it came, unless the client is gone by then.
    """

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.raw: list[bytes] = []
        self.answer, self.hold, self.came = "250 OK", 0.0, 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._controller = Controller(self, hostname="127.0.0.1", port=self.port)

    async def handle_DATA(self, _: Any, __: Any, envelope: Any) -> str:
        self.came += 1
        await asyncio.sleep(self.hold)
        if self.answer.startswith("250"):
            self.raw.append(envelope.content)
            self.mails.append(email.message_from_bytes(envelope.content, policy=default))  # type: ignore[arg-type]
        return self.answer

    def __enter__(self) -> Self:
        self._controller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._controller.stop()


class ImapStub:
    """A mailbox that imaplib reads: LOGIN, SELECT, and of UID the commands SEARCH, FETCH and STORE."""

    def __init__(self, port: int = 0) -> None:
        self.mails: list[bytes] = []
        self.seen: set[int] = set()
        stub = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"* OK ready\r\n")
                for line in self.rfile:
                    tag, _, command = line.decode().strip().partition(" ")
                    for part in stub.answer(command):
                        self.wfile.write(part)
                    self.wfile.write(f"{tag} OK done\r\n".encode())
                    if command.upper() == "LOGOUT":
                        return

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = allow_reuse_address = True

        self._server = Server(("127.0.0.1", port), Handler)
        self.port = int(self._server.server_address[1])

    def answer(self, command: str) -> list[bytes]:
        words = command.split()
        match [word.upper() for word in words[:2]]:
            case ["CAPABILITY"]:
                return [b"* CAPABILITY IMAP4rev1\r\n"]
            case ["LOGIN", _]:
                return [] if words[2] == f'"{SECRET}"' else [b"* BYE wrong password\r\n"]
            case ["SELECT", _]:
                return [b"* %d EXISTS\r\n" % len(self.mails)]
            case ["UID", "SEARCH"]:
                return [b"* SEARCH " + b" ".join(b"%d" % number for number in self._found(command)) + b"\r\n"]
            case ["UID", "FETCH"]:
                return self._fetch(int(words[2]), command)
            case ["UID", "STORE"]:
                self.seen.add(int(words[2]))
        return []

    def _found(self, command: str) -> list[int]:
        wanted = re.findall(r'HEADER (\S+) "([^"]*)"', command)
        fields = "|".join(rf"{name}:.*{re.escape(value)}" for name, value in wanted).encode()
        heads = [re.split(rb"\r?\n\r?\n", mail)[0] for mail in self.mails]
        heads = [re.sub(rb"\r?\n[ \t]+", b" ", head) for head in heads]
        return [
            number
            for number, head in enumerate(heads, 1)
            if number not in self.seen and re.search(rb"(?im)^(?:" + fields + rb")", head)
        ]

    def _fetch(self, number: int, command: str) -> list[bytes]:
        mail = self.mails[number - 1]
        if part := re.search(r"<0\.(\d+)>", command):
            mail = mail[: int(part[1])]
        return [b"* %d FETCH (UID %d BODY[] {%d}\r\n" % (number, number, len(mail)), mail, b")\r\n"]

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class WebStub:
    """ntfy, a receiver of webhooks and Telegram's Bot API in one; while ``status`` is not 200 all refuse.

    With ``lose`` a message is taken, but its answer does not come: the connection is closed.
    """

    def __init__(self) -> None:
        self.ntfy: list[dict[str, Any]] = []
        self.hooks: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []
        self.updates: list[dict[str, Any]] = []
        self.status = 200
        self.refused = 0
        self.lose = False
        self._lock = threading.Lock()
        self._server = HttpServer(self._answer)
        self.root = self._server.root

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.__exit__(kind, error, trace)

    def _answer(self, request: Request) -> None:
        body, path = request.read_body(), urlsplit(request.path).path
        if self.status != 200:
            self.refused += 1
            request.respond(self.status, {}, b"")
            return
        with self._lock:
            answer = self._take(request, path, body)
        if self.lose and request.command == "POST":
            request.close_connection = True
            request.connection.shutdown(socket.SHUT_RDWR)
            return
        request.respond(200, {"Content-Type": "application/json"}, answer)

    def _take(self, request: Request, path: str, body: bytes) -> bytes:
        if path.startswith("/bot"):
            return json.dumps(self._bot(path.rpartition("/")[2], json.loads(body))).encode()
        if path == "/hook":
            headers = {name.lower(): value for name, value in request.headers.items()}
            content = json.loads(body)
            assert verify(SECRET, headers, body) == content["id"]
            self.hooks.append(content)
            return b"{}"
        if request.command == "GET":
            return b"\n".join(json.dumps(each).encode() for each in self.ntfy)
        message = json.loads(body) | {"id": f"n{len(self.ntfy)}"}
        self.ntfy.append(message)
        return json.dumps(message).encode()

    def _bot(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        if method == "sendMessage":
            self.sent.append(body)
            return {"ok": True, "result": {"message_id": 100 + len(self.sent)}}
        if method == "getUpdates":
            self.updates = [each for each in self.updates if each["update_id"] >= body["offset"]]
            if not self.updates:
                time.sleep(0.1)
            return {"ok": True, "result": self.updates}
        return {"ok": True, "result": {"username": "mailroom_bot"}}
