"""A model server for tests: chat completions, Anthropic's messages, and every way in which servers fail."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.flow.model_formats import FORMATS, Answer, Request

__all__ = ["Answer", "ModelServer", "Request", "serve_model"]


class ModelServer:
    """Answers ``answers`` in their order, the last one again and again, or what a function says.

    Requests that the real servers refuse, as a call without its result, are answered with status 400.
    """

    def __init__(self, answers: Sequence[Answer] | Callable[[Request], Answer]) -> None:
        self.answers = answers
        self.requests: list[Request] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.root = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{self.root}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def take(self, request: Request) -> Answer:
        with self._lock:
            self.requests.append(request)
            if callable(self.answers):
                return self.answers(request)
            return self.answers[min(len(self.requests), len(self.answers)) - 1]

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serve_model(
    *answers: Answer | str, by: Callable[[Request], Answer] | None = None
) -> Iterator[ModelServer]:
    """A server on a random port that answers ``answers`` (texts or more), or what ``by`` says."""
    listed = [Answer(text=answer) if isinstance(answer, str) else answer for answer in answers]
    server = ModelServer(by or listed or [Answer(text="Yes.")])
    try:
        yield server
    finally:
        server.close()


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            models = {"object": "list", "data": [{"id": "small", "object": "model", "created": 0}]}
            self._send(200, json.dumps(models))

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            names = {name.lower(): value for name, value in self.headers.items()}
            request = Request(path=self.path.partition("?")[0], headers=names, body=json.loads(raw))
            try:
                self._answer(request)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def _answer(self, request: Request) -> None:
            form = FORMATS.get(request.path)
            if form is None:
                self._send(404, "404 page not found", kind="text/plain")
                return
            answer = server.take(request)
            if answer.hang:
                server.closing.wait(answer.hang)
            if answer.reset:
                self._reset()
            elif answer.body is not None:
                self._send(answer.status, answer.body, answer)
            elif answer.status != 200:
                self._send(answer.status, json.dumps(form.error(f"status {answer.status}")), answer)
            elif wrong := form.refuse(request):
                self._send(400, json.dumps(form.error(wrong)))
            elif request.body.get("stream"):
                self._stream(form.events(request.body, answer), answer)
            else:
                self._send(200, json.dumps(form.whole(request.body, answer)), answer)

        def _send(
            self, status: int, text: str, answer: Answer | None = None, kind: str = "application/json"
        ) -> None:
            body = text.encode()
            self.send_response(status)
            headers = {
                "content-type": kind,
                "content-length": str(len(body)),
                **(answer.headers if answer else {}),
            }
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if answer and answer.cut is not None:
                self.wfile.write(body[: answer.cut])
                self.close_connection = True
            else:
                self.wfile.write(body)

        def _stream(self, events: Iterator[str], answer: Answer) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("connection", "close")
            self.end_headers()
            self.close_connection = True
            for number, event in enumerate(events):
                if number == answer.cut:
                    return
                self.wfile.write(event.encode())
                self.wfile.flush()
                if answer.stall:
                    server.closing.wait(answer.stall)

        def _reset(self) -> None:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True

        def finish(self) -> None:
            with suppress(OSError):
                super().finish()

    return Handler
