"""A model server for tests: chat completions, Anthropic's messages, and every way in which servers fail."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from shared.llm.remote import forget_breaker
from tests.support import http
from tests.support.http import HttpServer
from tests.support.model_formats import FORMATS, Answer, Request

__all__ = ["Answer", "ModelServer", "Request", "serve_model"]

MODELS = {"object": "list", "data": [{"id": "small", "object": "model", "created": 0}]}


class ModelServer(HttpServer):
    """Answers ``answers`` in their order, the last one again and again, or what a function says.

    Requests that the real servers refuse, as a call without its result, are answered with status 400.
    ``pages`` are further JSON documents by their paths.
    """

    def __init__(self, answers: Sequence[Answer] | Callable[[Request], Answer]) -> None:
        self.answers = answers
        self.pages: dict[str, Any] = {"/v1/models": MODELS}
        self.requests: list[Request] = []
        self._lock = threading.Lock()
        super().__init__(self._handle, _Connection)
        self.url = f"{self.root}/v1"

    def _next_answer(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            if callable(self.answers):
                return self.answers(request)
            return self.answers[min(len(self.requests), len(self.answers)) - 1]

    def _handle(self, asked: http.Request) -> None:
        path = asked.path.partition("?")[0]
        if asked.command == "GET" or path in self.pages:
            asked.read_body()
            page = self.pages.get(path)
            _send(asked, 404 if page is None else 200, json.dumps(page))
            return
        names = {name.lower(): value for name, value in asked.headers.items()}
        body = json.loads(asked.read_body())
        try:
            self._answer(asked, Request(path=asked.path.partition("?")[0], headers=names, body=body))
        except (BrokenPipeError, ConnectionResetError):
            asked.close_connection = True

    def _answer(self, asked: http.Request, request: Request) -> None:
        form = FORMATS.get(request.path)
        if form is None:
            _send(asked, 404, "404 page not found", kind="text/plain")
            return
        answer = self._next_answer(request)
        if answer.hang:
            self.closing.wait(answer.hang)
        if answer.reset:
            _reset(asked)
        elif answer.body is not None:
            _send(asked, answer.status, answer.body, answer)
        elif answer.status != 200:
            _send(asked, answer.status, json.dumps(form.error(f"status {answer.status}")), answer)
        elif wrong := form.refuse(request):
            _send(asked, 400, json.dumps(form.error(wrong)))
        elif request.body.get("stream"):
            self._stream(asked, form.events(request.body, answer), answer)
        else:
            _send(asked, 200, json.dumps(form.whole(request.body, answer)), answer)

    def _stream(self, asked: http.Request, events: Iterator[str], answer: Answer) -> None:
        asked.start_response(200, {"content-type": "text/event-stream", "connection": "close"})
        asked.close_connection = True
        for number, event in enumerate(events):
            if number == answer.cut:
                return
            asked.wfile.write(event.encode())
            asked.wfile.flush()
            if answer.stall:
                self.closing.wait(answer.stall)


class _Connection(http.Request):
    protocol_version = "HTTP/1.1"

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()


def _send(
    asked: http.Request, status: int, text: str, answer: Answer | None = None, kind: str = "application/json"
) -> None:
    body = text.encode()
    given = answer.headers if answer else {}
    asked.start_response(status, {"content-type": kind, "content-length": str(len(body)), **given})
    if answer and answer.cut is not None:
        asked.wfile.write(body[: answer.cut])
        asked.close_connection = True
    else:
        asked.wfile.write(body)


def _reset(asked: http.Request) -> None:
    asked.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    asked.connection.close()
    asked.close_connection = True


@contextmanager
def serve_model(
    *answers: Answer | str, by: Callable[[Request], Answer] | None = None
) -> Iterator[ModelServer]:
    """A server on a random port that answers ``answers`` (texts or more), or what ``by`` says."""
    listed = [Answer(text=answer) if isinstance(answer, str) else answer for answer in answers]
    with ModelServer(by or listed or [Answer(text="Yes.")]) as server:
        forget_breaker(server.url)  # its port may have been that of another
        yield server
