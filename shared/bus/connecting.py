"""Opening a connection: the key, one attempt, and whether another makes sense."""

import asyncio
from pathlib import Path
from typing import Any

import nats.errors
from nats.aio.client import Client

from shared.errors import BusUnavailable, Denied

CONNECT_TIMEOUT = 2
"""Seconds for one attempt to connect."""
PING_INTERVAL = 10
"""Seconds between pings; two unanswered ones mean that the server hangs."""
PENDING_LIMIT = 32 * 1024 * 1024
"""Bytes kept for the server while it is away; commits wait instead of adding to them."""


def read_seed(name: str, path: Path) -> bytes:
    """The NKey seed in a file; raises Denied if it cannot be read, or is no seed."""
    import nkeys

    try:
        seed = path.read_bytes().strip()
        nkeys.from_seed(bytearray(seed))
        return seed
    except (nkeys.NkeysError, ValueError):
        raise Denied(
            f"The key of {name!r} is damaged ({path})", "Delete the file and start the office again"
        ) from None
    except OSError as error:
        raise Denied(
            f"The key of {name!r} cannot be read: {error.strerror} ({path})",
            "'mailroom up' makes the keys; point MAILROOM_STATE_DIR or MAILROOM_KEY_DIR at them",
        ) from None


async def connect_once(
    client: Client,
    url: str,
    seed: bytes,
    **options: Any,
) -> None:
    """Connect; once connected, the client reconnects for ever. ``options`` are others of Client.connect."""
    await client.connect(
        url,
        nkeys_seed_str=seed.decode(),
        **options,
        connect_timeout=CONNECT_TIMEOUT,
        reconnect_time_wait=0.25,  # type: ignore[arg-type]  # it sleeps, so it takes a float
        allow_reconnect=False,
        max_reconnect_attempts=1,
        ping_interval=PING_INTERVAL,
        max_outstanding_pings=2,
        pending_size=PENDING_LIMIT,
    )
    # Only now: the caller handles a first connection that fails.
    client.options.update(allow_reconnect=True, max_reconnect_attempts=-1)


def require_more_time(error: Exception, name: str, url: str, deadline: float) -> None:
    """Raise, with a cure, unless another attempt is worth it before ``deadline`` (of the loop's clock)."""
    if "authorization" in str(error).lower():
        raise Denied(
            f"The server at {url} does not know the key of {name!r}",
            "The keys and the server's configuration must come from the same state directory: "
            "run 'mailroom down', then 'mailroom up'",
        ) from None
    if not isinstance(error, OSError | nats.errors.Error | TimeoutError):
        raise BusUnavailable(f"The bus at {url!r} cannot be used: {error}") from None
    if asyncio.get_running_loop().time() > deadline:
        raise BusUnavailable(
            f"No nats-server answers at {url}", "Start the office with 'mailroom up', or correct NATS_URL"
        ) from None
