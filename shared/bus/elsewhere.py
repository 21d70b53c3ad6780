"""Storing messages in a stream of another server, which is none of the office's, and reading them back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit, urlunsplit

import nats.errors
import nats.js.errors
from nats.aio.client import Client

from shared.bus.client import BusClient
from shared.bus.connecting import ignore_error
from shared.errors import BusError, BusUnavailable, ConfigError


async def store_elsewhere(address: str, payload: bytes, message_id: str, *, timeout: float = 10.0) -> None:
    """Store a message on the subject in ``nats://user:password@host:port/subject``, or ``tls://...``.

    ``?creds=FILE`` or ``?nkey=FILE`` name a file of credentials instead of a user. It is stored once an
    answer says so: raises BusError if a stream refuses it or none takes the subject, BusUnavailable without
    an answer, and ConfigError if the address is none.
    """
    async with _connected(address, timeout) as (client, subject, host):
        try:
            headers = {"Nats-Msg-Id": message_id}
            await client.jetstream().publish(subject, payload, timeout=timeout, headers=headers)
        except nats.js.errors.NoStreamResponseError:
            raise BusError(f"No stream of {host} takes {subject}", "Create one there") from None
        except nats.js.errors.APIError as error:
            raise BusError(f"{host} refused {subject}: {error.description}") from None
        except (nats.errors.Error, TimeoutError) as error:
            raise BusUnavailable(
                f"No answer of {host} on {subject}: may this user publish there? "
                f"({error or type(error).__name__})"
            ) from None


async def read_elsewhere(address: str, *, timeout: float = 10.0) -> list[bytes]:
    """All messages on the subject of such an address, in order.

    Raises BusError if the server refuses that or has no such stream, BusUnavailable if for ``timeout``
    seconds nothing comes, and ConfigError if the address is none.
    """
    async with _connected(address, timeout) as (client, subject, host):
        found: list[bytes] = []
        try:
            # The answer to a request that a user may not make never comes.
            context = client.jetstream(timeout=timeout)
            subscription = await context.subscribe(subject, ordered_consumer=True)
            info = await subscription.consumer_info()
            left = (info.num_pending or 0) + (info.delivered.consumer_seq if info.delivered else 0)
            while len(found) < left:
                found.append((await subscription.next_msg(timeout)).data)
        except nats.js.errors.NotFoundError:
            raise BusError(f"No stream of {host} has {subject}", "Create one there") from None
        except nats.js.errors.APIError as error:
            raise BusError(f"{host} refused to read {subject}: {error.description}") from None
        except (nats.errors.Error, TimeoutError) as error:
            raise BusUnavailable(
                f"No answer of {host} on {subject}: may this user read there? "
                f"({error or type(error).__name__})"
            ) from None
        return found


@asynccontextmanager
async def _connected(address: str, timeout: float) -> AsyncIterator[tuple[BusClient, str, str]]:
    """A connection to the server of an address, its subject, and its host."""
    parts = urlsplit(address)
    subject, query = parts.path.strip("/"), parse_qs(parts.query)
    if not parts.hostname or not subject or any(each in subject for each in "*> "):
        raise ConfigError("A witness on NATS is no address", "Write nats://host:4222/subject")
    files = {"user_credentials": query.get("creds", [""])[0], "nkeys_seed": query.get("nkey", [""])[0]}
    given = {name: str(Path(path).expanduser()) for name, path in files.items() if path}
    for path in given.values():
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise ConfigError(
                f"The credentials {path} cannot be read: {error.strerror}", "Name a file"
            ) from None
    client = BusClient()
    try:
        async with asyncio.timeout(timeout):
            await client.connect(
                urlunsplit((parts.scheme, parts.netloc, "", "", "")),
                allow_reconnect=False,
                max_reconnect_attempts=1,
                connect_timeout=max(1, int(timeout)),
                error_cb=ignore_error,
                **given,
            )
    except (nats.errors.Error, OSError, ValueError, TimeoutError) as error:
        await client._close(Client.CLOSED, do_cbs=False)
        raise BusUnavailable(f"No connection to {parts.hostname}: {error or type(error).__name__}") from None
    try:
        yield client, subject, parts.hostname
    finally:
        await client.close()
