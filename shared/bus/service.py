"""NATS micro services: an agent is listed by ``nats micro ls`` and answers requests."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Any

import nats.errors
import nats.micro
from nats.aio.client import Client
from nats.micro.request import Request
from nats.micro.service import EndpointConfig, ServiceConfig

from shared import subjects
from shared.errors import MailroomError
from shared.log import logger
from shared.trace import HEADER as TRACE_HEADER
from shared.trace import continue_trace

log = logger(__name__)

Endpoint = Callable[[bytes], Awaitable[bytes]]
SignedEndpoint = Callable[[bytes, str], Awaitable[bytes]]
"""Takes the requester's name too, which the broker verifies."""
named_reader: ContextVar[str] = ContextVar("named_reader", default="")
"""Whom the request that is answered says it is made for: believed of nexus alone."""

least_version: ContextVar[int] = ContextVar("least_version", default=0)
"""The graph version that the answer to the request has to be of, or of a later one."""
CREDIT = 4  # The requests that a process which stands still may have got; they are asked again elsewhere
READY_AGAIN = 0.1  # Seconds between two looks whether a process that is not ready is


async def start_service(
    client: Client,
    name: str,
    version: str,
    description: str,
    endpoints: Mapping[str, Endpoint],
    signed: Mapping[str, SignedEndpoint],
    metadata: dict[str, str],
) -> Any:
    """Start a service: endpoints answer on ``<name>.<endpoint>``, signed ones with ``.<requester>``."""
    config = ServiceConfig(name=name, version=version, description=description, metadata=metadata)
    service = await nats.micro.add_service(client, config=config)
    for endpoint, subject, handler in _answering(name, endpoints, signed):
        await service.add_endpoint(
            EndpointConfig(name=endpoint, subject=subject, queue_group=name, handler=handler)
        )
    # Until the server knows an endpoint, requests to it fail with "no responders".
    with contextlib.suppress(nats.errors.Error, TimeoutError):
        await client.flush()
    return service


def _answering(
    name: str, endpoints: Mapping[str, Endpoint], signed: Mapping[str, SignedEndpoint]
) -> list[tuple[str, str, Callable[[Request], Awaitable[None]]]]:
    """The name of each endpoint, its subject, and what takes a request."""
    return [
        *((each, f"{name}.{each}", _responder(_unsigned(answer))) for each, answer in endpoints.items()),
        *((each, f"{name}.{each}.*", _responder(answer)) for each, answer in signed.items()),
    ]


def _unsigned(answer: Endpoint) -> SignedEndpoint:
    async def respond(data: bytes, _: str) -> bytes:
        return await answer(data)

    return respond


def _responder(answer: SignedEndpoint) -> Callable[[Request], Awaitable[None]]:
    working: set[asyncio.Task[None]] = set()

    async def respond(request: Request) -> None:
        headers = request.headers or {}
        named_reader.set(str(headers.get(subjects.READER_HEADER, "")))
        least = str(headers.get(subjects.LEAST_HEADER, ""))
        least_version.set(int(least) if least.isdecimal() and len(least) < 20 else 0)
        continue_trace(str(headers.get(TRACE_HEADER, "")))
        try:
            reply = await answer(request.data, request.subject.rpartition(".")[2])
        except (ValueError, MailroomError) as error:
            await request.respond_error("400", " ".join(str(error).split()))
            return
        except Exception as error:
            # Without an answer the requester would time out, and blame the connection.
            log.error("request_failed", subject=request.subject, exc_info=error)
            await request.respond_error(
                "500", f"It failed unexpectedly ({type(error).__name__}); see its log"
            )
            return
        if len(reply) > subjects.MAX_PAYLOAD:
            sizes = f"{len(reply):,} bytes, and a message can have {subjects.MAX_PAYLOAD:,}"
            await request.respond_error("413", f"The answer has {sizes}: ask for less at once")
            return
        await request.respond(reply)

    async def begin(request: Request) -> None:
        # The client delivers one request of a subscription at a time; a slow one must not block the others.
        task = asyncio.create_task(respond(request))
        working.add(task)
        task.add_done_callback(working.discard)

    return begin


async def share_service(
    client: Client,
    name: str,
    endpoints: Mapping[str, Endpoint],
    signed: Mapping[str, SignedEndpoint],
    ready: Callable[[], bool],
) -> None:
    """Answer on the subjects of a service that ``start_service`` runs in another process."""
    for _, subject, respond in _answering(name, endpoints, signed):
        await SharedEndpoint(client, subject, name, respond, ready).open()
    with contextlib.suppress(nats.errors.Error, TimeoutError):
        await client.flush()


class SharedEndpoint:
    """A place in the queue group ``group`` for the next CREDIT requests at a time, renewed while ``ready()``.

    The server itself ends a subscription after so many messages: of a process that is frozen, or behind, it
    knows none soon, and asks the others.
    """

    def __init__(
        self,
        client: Client,
        subject: str,
        group: str,
        respond: Callable[[Request], Awaitable[None]],
        ready: Callable[[], bool],
    ) -> None:
        self._client, self._subject, self._group = client, subject, group
        self._respond, self._ready = respond, ready
        self._left = 0
        self._renewing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Take the next CREDIT requests."""
        self._left = CREDIT
        subscription = await self._client.subscribe(self._subject, queue=self._group, cb=self._receive)
        await subscription.unsubscribe(CREDIT)

    async def _receive(self, message: Any) -> None:
        self._left -= 1
        if not self._left:
            if self._ready():
                await self.open()
            else:
                self._renewing = asyncio.create_task(self._open_again())
        await self._respond(Request(message))

    async def _open_again(self) -> None:
        while not self._ready():  # noqa: ASYNC110  # a matter of time too
            await asyncio.sleep(READY_AGAIN)
        await self.open()
