"""The connection of one identity to the bus."""

import asyncio
import base64
import contextlib
import hmac
import json
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from shared import subjects
from shared.bus.bulk import BulkReader, Span
from shared.bus.client import BusClient, ConnectionLost, headers_of, make_salt
from shared.bus.commit import Committer, wait_for_turn
from shared.bus.connecting import connect_once, public_key, read_identity, require_more_time, sign
from shared.bus.consumer import Consumer, ConsumerConfig, DeadLetterHandler, Handler
from shared.bus.entry import SALT, Entry, Stored, block_of, is_stored, newest, parse_block, read, read_stored
from shared.contracts import generate_id
from shared.errors import BusError, BusUnavailable, NoResponders, Refused
from shared.log import logger
from shared.trace import trace_headers

log = logger(__name__)

RELOADING = 1.0
"""Seconds for which the server itself may not answer: it reloads its settings, as for a new specialist."""
READING = (
    "$JS.API.DIRECT.GET.",
    "position.",
    *map(
        subjects.memory, (*subjects.MEMORY_VERBS, *subjects.MEMORY_READ_VERBS, *subjects.MEMORY_WHOLE_VERBS)
    ),
)
"""What the subjects of requests begin with that change nothing."""
DENIED = 20  # Refusals of the key in a row, four a second, after which it counts as revoked
Headers = Mapping[str, str] | None


class Bus:
    """The connection of one process to the bus, under one name.

    It reconnects for ever: while the server is away, commits wait, and consumers resume afterwards. What a
    task publishes waits if it is too much; see ``throttle``.
    ``instance`` identifies the process among those of the same name; ``host`` is where it runs.
    """

    def __init__(self, name: str, *, synced: bool = True) -> None:
        self.name = name
        self.instance = generate_id().replace("-", "")[-12:]
        self.host = subjects.OFFICE_HOST
        self._client = BusClient()
        self._synced = synced
        self._office = Committer(self._client, self._last_payload, synced=synced)
        self._memory: Committer | None = None
        self._memory_started: asyncio.Future[None]
        self._consumers: list[Consumer] = []
        self._services: list[Any] = []
        self._secret = self._ids = b""
        self._encryption: dict[str, Any] = {}
        self._url = ""
        self._last_error, self._denied = "", 0
        self.reconnected_at = float("-inf")
        """When the connection was last up again after it was lost, by the monotonic clock."""
        self.reconnected = asyncio.Event()
        """Wakes those who wait for it whenever the connection is up again; it is never seen set."""
        self.closed = asyncio.Event()
        """Set when the connection is closed for good, such as when the server no longer knows the key."""

    @classmethod
    async def connect(
        cls, name: str, url: str, seed: Path, *, wait: float = 10.0, synced: bool = True
    ) -> Self:
        """Connect as ``name`` with the NKey seed in the file ``seed``.

        ``synced`` is whether the server writes every message to disk before it answers; see Committer. Tries
        for ``wait`` seconds. Raises BusUnavailable if no server answers, Denied if it does not accept the
        key.
        """
        bus = cls(name, synced=synced)
        await bus._open(url, seed, wait)
        await bus._office.start()
        return bus

    async def _open(self, url: str, seed: Path, wait: float) -> None:
        self._secret, self._ids, self.host, self._encryption = read_identity(self.name, seed)
        self._url = url
        if self.host != subjects.OFFICE_HOST:
            self.instance = f"{self.host}-{self.instance}"
        deadline = asyncio.get_running_loop().time() + wait
        while True:
            try:
                await connect_once(
                    *(self._client, url, self._secret),
                    **self._options(),
                    error_cb=self._on_error,
                    disconnected_cb=self._on_disconnected,
                    reconnected_cb=self._on_reconnected,
                    closed_cb=self._on_closed,
                )
                return
            except Exception as error:
                await self._client._close(Client.CLOSED, do_cbs=False)
                require_more_time(error, self.name, url, deadline, self.host)
                await asyncio.sleep(0.2)
                self.closed.clear()
                self._client = BusClient()
                self._office = Committer(self._client, self._last_payload, synced=self._synced)

    def _options(self, ending: str = "") -> dict[str, Any]:
        """How a connection of this process is named, and where it gets answers."""
        inbox = {"inbox_prefix": subjects.ERASER_INBOX} if self.name == subjects.ERASER else {}
        return {"name": f"{self.name}-{self.instance}{ending}", **inbox, **self._encryption}

    def _committers(self) -> list[Committer]:
        return [self._office] if self._memory is None else [self._office, self._memory]

    @property
    def connected(self) -> bool:
        """Whether the connection is up at present."""
        return self._client.is_connected

    @property
    def pulling(self) -> bool:
        """Whether the connection is up, and the server answers what each consumer asks for."""
        return self.connected and all(consumer.pulling for consumer in self._consumers)

    @property
    def clustered(self) -> bool:
        """Whether the server is one of a cluster."""
        return self._client.clustered

    @property
    def url(self) -> str:
        """The server this connection uses, without credentials."""
        return self._client.connected_url.netloc if self._client.connected_url else ""

    @property
    def server_version(self) -> str:
        """The version of the connected nats-server, such as ``2.15.1``."""
        version = self._client.connected_server_version
        return f"{version.major}.{version.minor}.{version.patch}"

    @property
    def public_key(self) -> str:
        """The public key that this identity signs with, an NKey."""
        return public_key(self._secret)

    def sign(self, data: bytes) -> str:
        """The signature of ``data`` by this identity, in hexadecimal digits."""
        return sign(self._secret, data)

    def derive_id(self, *parts: str) -> str:
        """The same id for the same parts in every process of this name; others cannot guess it."""
        return hmac.digest(self._ids, "\0".join(parts).encode(), "sha256").hex()[:32]

    async def commit(self, entries: Sequence[Entry]) -> tuple[int, ...]:
        """Store all entries in OFFICE or none; see Committer.commit."""
        await wait_for_turn(len(entries))
        return await self._office.commit(entries)

    async def store_apart(self, entries: Sequence[Entry], *, timeout: float = 5.0) -> None:
        """Store each entry over a connection of its own, as a thread does while the event loop is blocked.

        What the server refuses, because something else was stored meanwhile, is left out. Raises
        BusUnavailable if it does not answer.
        """
        client = BusClient()
        try:
            async with asyncio.timeout(timeout):
                await connect_once(client, self._url, self._secret, **self._options("-apart"))
                for each in entries:
                    headers = headers_of(each)
                    await client.request(each.subject, each.payload, timeout=timeout, headers=headers)
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise BusUnavailable(f"Storing by a thread failed: {error or type(error).__name__}") from None
        finally:
            await client.close()

    async def append(self, entry: Entry, *, timeout: float = 5.0) -> int:
        """Store one message in MEMORY; returns its sequence. Those that wait at the same time share a batch.

        Append it again with the same id after BusUnavailable: it is stored once.
        """
        await wait_for_turn()
        if self._memory is None:
            self._memory = Committer(self._client, self._last_payload, synced=self._synced)
            self._memory_started = asyncio.ensure_future(self._memory.start())
        try:
            async with asyncio.timeout(timeout):
                await asyncio.shield(self._memory_started)
                (seq,) = await self._memory.commit([entry])
        except TimeoutError:
            raise BusUnavailable(f"No answer on {entry.subject!r} within {timeout:g} s") from None
        except nats.errors.Error as error:
            raise BusUnavailable(f"Storing on {entry.subject!r} failed: {error}") from None
        return seq

    async def publish(self, subject: str, payload: bytes, *, headers: Headers = None) -> None:
        """Publish without waiting for an answer; there may be no subscriber.

        Raises BusUnavailable if the connection is closed or its buffer full.
        """
        await wait_for_turn()
        try:
            await self._client.publish(subject, payload, headers=_traced(headers))
        except nats.errors.Error as error:
            raise BusUnavailable(f"Publishing on {subject!r} failed: {error}") from None

    async def store(
        self, subject: str, payload: bytes, *, headers: Headers = None, timeout: float = 5.0
    ) -> dict[str, Any]:
        """Store one message in the stream of its subject; returns the server's answer.

        Send it again with the same ``Nats-Msg-Id`` after BusUnavailable: it is stored once.
        """
        await wait_for_turn()
        salted = {SALT: make_salt(), **(headers or {})}
        reply = await self._request(subject, payload, timeout, salted, by_stream=True)
        answer: dict[str, Any] = json.loads(reply.data) if reply.data else {}
        if error := answer.get("error"):
            raise BusError(
                f"The bus refused {subject!r}: {error.get('description')} ({error.get('err_code')})"
            )
        if "seq" not in answer:
            raise BusUnavailable(f"No stream takes {subject!r}", "Provision the office: run 'mailroom up'")
        return answer

    async def request(
        self, subject: str, payload: bytes = b"", *, timeout: float = 5.0, headers: Headers = None
    ) -> bytes:
        """Send a request and wait for the answer.

        Raises BusUnavailable after ``timeout`` seconds, NoResponders if there is no subscriber, Refused with
        the service's own sentence if it answers with an error.
        """
        reply = await self._request(subject, payload, timeout, headers)
        if reason := (reply.headers or {}).get("Nats-Service-Error"):
            raise Refused(reason)
        return reply.data

    async def _request(
        self,
        subject: str,
        payload: bytes,
        timeout: float,
        headers: Headers = None,
        *,
        by_stream: bool = False,
    ) -> Msg:
        """The answer; that nobody is there to give one is believed at once only of an agent.

        What only reads is asked again if the connection is lost before the answer.
        """
        is_server = by_stream or subject.startswith("$JS.API.")
        begun = time.monotonic()
        until = begun + (RELOADING if is_server else 0.0)
        if is_server and self._client.clustered:
            until = begun + timeout - RELOADING  # one of them leads soon
        try:
            while True:
                # request() takes a stored message with the header "Status: 503", which any writer can give
                # it, for the server's word that there is nobody to answer.
                left = begun + timeout - time.monotonic()
                try:
                    answer = await self._client._request_new_style(
                        subject, payload, timeout=left, headers=_traced(headers)
                    )
                except ConnectionLost:
                    if not subject.startswith(READING):
                        # Its answer never comes, but a caller that waits as long knows it may be taken.
                        await asyncio.sleep(begun + timeout - time.monotonic())
                        raise TimeoutError from None
                    continue
                if is_stored(answer) or (answer.headers or {}).get("Status") != "503":
                    return answer
                if time.monotonic() >= until:
                    raise NoResponders(f"Nobody answers on {subject!r}")
                await asyncio.sleep(0.05)
        except (TimeoutError, nats.errors.TimeoutError):
            raise BusUnavailable(f"No answer on {subject!r} within {timeout:g} s") from None
        except nats.errors.Error as error:
            raise BusUnavailable(f"The request on {subject!r} failed: {error}") from None

    async def last(self, stream: str, subject: str) -> Stored | None:
        """The last message on ``subject``, None if there is none, or it is withheld."""
        asked = f"$JS.API.DIRECT.GET.{stream}.{subject}"
        return await newest(lambda: self._request(asked, b"", 5.0), copies=self._client.clustered)

    async def _last_payload(self, subject: str) -> tuple[int, bytes] | None:
        stored = await self.last("OFFICE", subject)
        return None if stored is None else (stored.seq, stored.data)

    def read(
        self, stream: str, request: Mapping[str, Any], *, timeout: float = 5.0
    ) -> AsyncGenerator[Stored, None]:
        """Messages of a stream as a direct get of several names them; see ``entry.read``."""
        return read(self._client, stream, request, timeout)

    def bulk_reader(self) -> BulkReader:
        """A reader on a connection of its own; to be closed."""
        client = BusClient()
        options = self._options("-bulk")

        async def connect(lost: Callable[[], Awaitable[None]]) -> None:
            await connect_once(client, self._url, self._secret, **options, disconnected_cb=lost)

        return BulkReader(client, connect)

    async def read_all(
        self,
        stream: str,
        start: int,
        end: int,
        *,
        subject: str = ">",
        headers: bool = False,
        timeout: float = 5.0,
    ) -> AsyncGenerator[list[Stored], None]:
        """The messages of a stream from ``start`` to ``end``, quickly; see BulkReader.read."""
        if start > end:
            return
        reader = self.bulk_reader()
        try:
            async for page in reader.read(Span(stream, subject, start, end, headers), timeout):
                yield page
        finally:
            await reader.close()

    async def call(self, verb: str, body: object = None, *, timeout: float = 10.0) -> dict[str, Any]:
        """The server's answer to a request of its API, with its ``error`` if it refuses."""
        payload = json.dumps(body).encode() if body is not None else b""
        answer = await self.request(f"$JS.API.{verb}", payload, timeout=timeout)
        found: dict[str, Any] = json.loads(answer)
        return found

    async def get_exactly(self, stream: str, seq: int) -> Stored | None:
        """A message with the bytes of its headers; None if it is not there. For who may ask that."""
        answer = await self.call(f"STREAM.MSG.GET.{stream}", {"seq": seq})
        if "error" in answer:
            if answer["error"].get("code") == 404:
                return None
            raise BusError(f"Reading message {seq} of {stream} failed: {answer['error'].get('description')}")
        found = answer["message"]
        raw = base64.b64decode(found.get("hdrs", ""))
        block = (
            block_of(raw[:-2] + b"\r\n") if raw else b""
        )  # as bulk reading shows it, whatever it ends with
        return Stored(
            stream=stream,
            subject=found["subject"],
            seq=seq,
            data=base64.b64decode(found.get("data", "")),
            headers=parse_block(block),
            time=found["time"],
            block=block,
        )

    async def subscribe(
        self, subject: str, handler: Callable[[str, bytes, dict[str, str]], Awaitable[None]]
    ) -> Callable[[], Awaitable[None]]:
        """Call ``handler(subject, payload, headers)`` for each message published from now on.

        What it returns ends that.
        """

        async def receive(message: Msg) -> None:
            await handler(message.subject, message.data, dict(message.headers or {}))

        subscription = await self._client.subscribe(subject, cb=receive)
        await self._client.flush()

        async def end() -> None:
            with contextlib.suppress(nats.errors.Error):  # the connection is gone, and it with that
                await subscription.unsubscribe()

        return end

    async def follow_log(self, receive: Callable[[Stored], None]) -> None:
        """Call ``receive`` for each message of the log as it is stored, with its headers as bytes alone.

        Some may get lost, with the connection: what counts is the stream.
        """

        def take(_: str, __: str, headers: bytes, data: bytes) -> None:
            stored = read_stored(headers, data)
            if stored is not None:
                receive(stored)

        await self._client.subscribe_directly(subjects.AUDIT_ALL, take)
        await self._client.flush()

    async def answer(self, subject: str, handler: Callable[[str, bytes], Awaitable[bytes]]) -> None:
        """Answer each request on ``subject`` with what ``handler(subject, payload)`` returns."""

        async def respond(message: Msg) -> None:
            await message.respond(await handler(message.subject, message.data))

        await self._client.subscribe(subject, cb=respond)
        await self._client.flush()

    async def consume(
        self, config: ConsumerConfig, handler: Handler, dead_letter: DeadLetterHandler
    ) -> Consumer:
        """Start to consume a durable; see Consumer."""
        consumer = self.consumer(config, handler, dead_letter)
        await self.start(consumer)
        return consumer

    def consumer(self, config: ConsumerConfig, handler: Handler, dead_letter: DeadLetterHandler) -> Consumer:
        """A consumer on this connection, to be started with ``start``."""
        return Consumer(self._client, config, handler, dead_letter)

    async def start(self, consumer: Consumer) -> None:
        """Start a consumer; it stops with the connection."""
        self._consumers.append(consumer)
        await consumer.start()

    async def serve(
        self,
        name: str,
        version: str,
        description: str,
        endpoints: Mapping[str, Callable[[bytes], Awaitable[bytes]]],
        signed: Mapping[str, Callable[[bytes, str], Awaitable[bytes]]] | None = None,
        metadata: Mapping[str, str] | None = None,
        ready: Callable[[], bool] | None = None,
    ) -> None:
        """Run a NATS micro service (ping, info, stats) that answers on ``<name>.<endpoint>``.

        ``signed`` endpoints answer on ``<name>.<endpoint>.<requester>`` and take the requester's name too. An
        error in one, ValueError or MailroomError, is its answer. ``ready``: see SharedEndpoint.
        """
        from shared.bus.service import share_service, start_service

        client, signed, more = self._client, signed or {}, dict(metadata or {})
        if ready:
            await share_service(client, name, endpoints, signed, ready)
        else:
            service = await start_service(client, name, version, description, endpoints, signed, more)
            self._services.append(service)

    async def close(self, grace: float = 0.0, *, flush: int = 2) -> None:
        """Stop consuming, give handlers ``grace`` seconds, flush (0: not) within seconds, and disconnect."""
        await asyncio.gather(*(consumer.stop(grace) for consumer in self._consumers))
        for each in (*self._services, *self._committers()):
            await each.stop()
        if flush and self._client.is_connected:
            try:
                await self._client.flush(flush)
            except (nats.errors.Error, TimeoutError):
                log.warning("flush_failed")
        await self._client.close()
        self.closed.set()

    async def _on_error(self, error: Exception) -> None:
        denied = re.search(r'permissions violation for (publish|subscription) to "([^"]*)"', str(error))
        if denied is None:
            self._denied += "authorization violation" in str(error).lower()
            if self._denied > DENIED:
                self.closed.set()
            # Logged once: while the server is away the client reports every attempt to reach it.
            if (text := str(error) or type(error).__name__) != self._last_error:
                log.warning("bus_error", error=text)
            self._last_error = text
            return
        log.error("denied_by_broker", action=denied[1].lower(), subject=denied[2], identity=self.name)
        for committer in self._committers():
            committer.on_denied(denied[2])

    async def _on_closed(self) -> None:
        self.closed.set()

    async def _on_disconnected(self) -> None:
        self._client.give_up_requests()
        if not self._client.is_closed:
            log.warning("bus_disconnected")

    async def _on_reconnected(self) -> None:
        log.info("bus_reconnected", server=self.url)
        self.reconnected_at = time.monotonic()
        self._last_error, self._denied = "", 0
        for committer in self._committers():
            committer.on_reconnected()
        self.reconnected.set()
        self.reconnected.clear()
        for consumer in self._consumers:
            await consumer.reconnected()


def _traced(headers: Headers) -> dict[str, str] | None:
    """``headers`` with the present trace."""
    return {**(trace_headers() or {}), **(headers or {})} or None
