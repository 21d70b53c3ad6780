"""Requests that are refused before they reach a handler, answered as problem+json (RFC 9457)."""

import msgspec
from starlette.types import Message, Send

from services.gateway.problems import Problem, title_of


class Refusal(msgspec.Struct, frozen=True):
    """Why a request is refused, and what helps; ``headers`` are added to the answer."""

    status: int
    cause: str
    cure: str = ""
    headers: tuple[tuple[str, str], ...] = ()


class Refused(Exception):
    """Ends the handling of a request with a refusal."""

    def __init__(self, status: int, cause: str, cure: str = "", **headers: str) -> None:
        super().__init__(cause)
        named = tuple((name.replace("_", "-"), text) for name, text in headers.items())
        self.refusal = Refusal(status, cause, cure, named)


async def send_refusal(send: Send, refusal: Refusal) -> None:
    """Answer a request with ``refusal``."""
    problem = Problem(
        title=title_of(refusal.status), status=refusal.status, detail=refusal.cause, cure=refusal.cure
    )
    body = msgspec.json.encode(problem)
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        *((name.encode(), text.encode("latin-1")) for name, text in refusal.headers),
    ]
    start: Message = {"type": "http.response.start", "status": refusal.status, "headers": headers}
    await send(start)
    await send({"type": "http.response.body", "body": body})
