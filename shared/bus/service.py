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
    answering = [(endpoint, "", _unsigned(answer)) for endpoint, answer in endpoints.items()]
    answering += [(endpoint, ".*", answer) for endpoint, answer in signed.items()]
    for endpoint, requester, answer in answering:
        await service.add_endpoint(
            EndpointConfig(
                name=endpoint,
                subject=f"{name}.{endpoint}{requester}",
                queue_group=name,
                handler=_responder(answer),
            )
        )
    # Until the server knows an endpoint, requests to it fail with "no responders".
    with contextlib.suppress(nats.errors.Error, TimeoutError):
        await client.flush()
    return service


def _unsigned(answer: Endpoint) -> SignedEndpoint:
    async def respond(data: bytes, _: str) -> bytes:
        return await answer(data)

    return respond


def _responder(answer: SignedEndpoint) -> Callable[[Request], Awaitable[None]]:
    working: set[asyncio.Task[None]] = set()

    async def respond(request: Request) -> None:
        headers = request.headers or {}
        named_reader.set(str(headers.get(subjects.READER_HEADER, "")))
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
