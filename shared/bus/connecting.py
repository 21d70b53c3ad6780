"""Opening a connection: the server found, the key and what it signs, and whether another try makes sense."""

import asyncio
import contextlib
import hmac
import os
import random
from base64 import b32decode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
import nats.errors
from nats.aio.client import Client

from shared import subjects
from shared.bus.hosts import read_membership
from shared.errors import BusUnavailable, Denied, StartError
from shared.files import write_atomically
from shared.settings import Settings

CONNECT_TIMEOUT = 2  # Seconds for one attempt to connect
PING_INTERVAL, CLUSTER_PING = 10, 2
"""Seconds between pings; two unanswered ones mean that the server hangs. The second if there are others."""
RECONNECT_WAIT = (0.1, 0.5)
"""Seconds between two attempts, by chance for each process: not all come to a server that is back at once."""
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


def read_identity(name: str, path: Path) -> tuple[bytes, bytes, str, dict[str, Any]]:
    """The seed of ``name`` in a file, what its ids derive from, its host, and how connections are encrypted.

    Raises Denied if the seed cannot be read, StartError if what the host was told cannot.
    """
    seed, member = read_seed(name, path), read_membership(path.parent)
    if member is None:
        return seed, secret_of_ids(seed), subjects.OFFICE_HOST, {}
    return seed, bytes.fromhex(member.ids.get(name, "")), member.host, member.encryption()


async def ignore_error(_: Exception) -> None:
    """What goes wrong is raised by what was asked; without this nats-py prints it with a traceback."""


async def connect_once(
    client: Client,
    url: str,
    seed: bytes,
    **options: Any,
) -> None:
    """Connect; once connected, the client reconnects for ever, to any of the servers of ``url`` that answers.

    ``url`` has the addresses of a cluster's servers, separated by commas. ``options`` are others of
    Client.connect.
    """
    servers, wait = url.split(","), random.uniform(*RECONNECT_WAIT)  # noqa: S311  # spreads load, keeps no secret
    try:
        await client.connect(
            servers,
            nkeys_seed_str=seed.decode(),
            **{"error_cb": ignore_error, **options},
            connect_timeout=CONNECT_TIMEOUT,
            reconnect_time_wait=wait,  # type: ignore[arg-type]  # it sleeps, so it takes a float
            allow_reconnect=False,
            max_reconnect_attempts=1,
            ping_interval=CLUSTER_PING if len(servers) > 1 else PING_INTERVAL,
            max_outstanding_pings=2,
            pending_size=PENDING_LIMIT,
        )
    except asyncio.CancelledError:
        await client._close(Client.CLOSED, do_cbs=False)
        raise
    # Only now: the caller handles a first connection that fails.
    client.options.update(allow_reconnect=True, max_reconnect_attempts=-1)


def require_more_time(error: Exception, name: str, url: str, deadline: float, host: str = "") -> None:
    """Raise, with a cure, unless another attempt is worth it before ``deadline`` (of the loop's clock)."""
    if "authorization" in str(error).lower():
        if host not in ("", subjects.OFFICE_HOST):
            raise Denied(
                f"The office at {url} does not know the key of {name!r} of this host, {host}",
                "It was revoked, it seems: 'mailroom leave' ends that, and another token lets it join again",
            ) from None
        raise Denied(
            f"The server at {url} does not know the key of {name!r}",
            "The keys and the server's configuration must come from the same state directory: "
            "run 'mailroom down', then 'mailroom up'",
        ) from None
    if not isinstance(error, OSError | nats.errors.Error | TimeoutError):
        raise BusUnavailable(f"The bus at {url!r} cannot be used: {error}") from None
    if asyncio.get_running_loop().time() > deadline:
        if host not in ("", subjects.OFFICE_HOST):
            raise BusUnavailable(
                f"No nats-server answers at {url}", "See whether the office is up, and reached from here"
            ) from None
        raise BusUnavailable(
            f"No nats-server answers at {url}", "Start the office with 'mailroom up', or correct NATS_URL"
        ) from None


@contextmanager
def keeping_cancellation() -> Iterator[None]:
    """Raise CancelledError at the end of the block if the task was cancelled within and that was lost.

    ``asyncio.wait_for`` of Python 3.11, which nats-py uses, returns a result that comes in the same turn of
    the event loop as the cancellation, and forgets the cancellation: who cancelled the task waits for ever.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task else 0
    try:
        yield
    finally:
        if task and task.cancelling() > before:
            raise asyncio.CancelledError


class RunningInstance(msgspec.Struct, frozen=True, kw_only=True):
    """The record of ``mailroom up`` about the office it keeps running, in ``<state_dir>/run/office.json``.

    ``brain`` and ``nats_address`` are the settings of these names that it was started with.
    """

    pid: int
    url: str
    nats_address: Literal["127.0.0.1", "0.0.0.0", "::"] = "127.0.0.1"  # noqa: S104
    started_at: str = ""
    state_dir: str = ""
    brain: str = ""


def find_instance(config: Settings) -> RunningInstance | None:
    """The office that ``mailroom up`` keeps running with these settings; None if there is none."""
    try:
        office = msgspec.json.decode(
            (config.state_dir / "run" / "office.json").read_bytes(), type=RunningInstance
        )
    except (OSError, msgspec.MsgspecError):
        return None
    return office if _alive(office.pid) else None


def lock_path(state_dir: Path) -> Path:
    """The file that the office of ``state_dir`` locks, and writes its process id to."""
    return state_dir / "run" / "office.lock"


def read_supervisor(state_dir: Path) -> int:
    """The id of the process that locked it last, the supervisor of its office; 0 if unknown."""
    try:
        return int(lock_path(state_dir).read_text())
    except (OSError, ValueError):
        return 0


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def find_url(config: Settings) -> str:
    """The server's address: NATS_URL, else that of the running office; raises StartError without either."""
    if config.nats_url:
        return config.nats_url
    office = find_instance(config)
    if office is None:
        raise StartError(
            f"No office is running in {config.state_dir}",
            "Start one with 'mailroom up', or name a server with NATS_URL",
        )
    return office.url


# --- the keys that identities connect with (Ed25519), and what is signed with them -------------------


def ensure_keys(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The public key of each name, after making the seeds that are missing (files of mode 0600).

    Raises StartError if the folder cannot be written or a seed cannot be read.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return {name: _public_key(folder / f"{name}.nk") for name in names}
    except OSError as error:
        raise StartError(
            f"The keys in {folder} cannot be used: {error.strerror}",
            "Make the folder writable, or set MAILROOM_STATE_DIR to one that is",
        ) from None


def _public_key(path: Path) -> str:
    import nkeys

    if not path.exists():
        draft = path.with_name(f".{path.name}-{os.getpid()}.new")
        write_atomically(draft, nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER), mode=0o600)
        with contextlib.suppress(FileExistsError):  # another process made one in the same moment
            os.link(draft, path)
        draft.unlink()
    try:
        public: bytes = nkeys.from_seed(bytearray(path.read_bytes().strip())).public_key
        return public.decode()
    except (nkeys.NkeysError, ValueError):
        raise StartError(
            f"The key in {path} is damaged", "Delete the file and start the office again"
        ) from None


def public_key(seed: bytes) -> str:
    """The public key of an NKey seed, as an NKey such as ``UDXB...``."""
    import nkeys

    public: bytes = nkeys.from_seed(bytearray(seed)).public_key
    return public.decode()


def secret_of_ids(seed: bytes) -> bytes:
    """What the ids of an identity derive from (``Bus.derive_id``): its hosts have it too, not the seed."""
    return hmac.digest(seed, b"ids", "sha256")


def sign(seed: bytes, data: bytes) -> str:
    """The signature of ``data``, in hexadecimal digits."""
    import nkeys

    signature: bytes = nkeys.from_seed(bytearray(seed)).sign(data)
    return signature.hex()


def is_signed(data: bytes, signature: str, key: str) -> bool:
    """Whether ``signature`` is that of ``data`` by the owner of the public ``key``, an NKey."""
    from nacl.exceptions import BadSignatureError
    from nacl.signing import VerifyKey

    try:
        raw = b32decode(key)[1:-2]  # between the kind of key and a checksum
        VerifyKey(raw).verify(data, bytes.fromhex(signature))
    except (BadSignatureError, ValueError):
        return False
    return True
