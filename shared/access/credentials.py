"""What people and programs come in with: secrets, the token of commands, and the address of the gateway."""

import contextlib
import hashlib
import hmac
import os
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from shared import subjects
from shared.errors import StartError
from shared.files import write_atomically
from shared.settings import Settings

TOKEN_PREFIX = "mr_"  # noqa: S105  # not a secret: it tells scanners of secrets what they found
"""What tokens of scripts begin with."""


def make_secret(prefix: str = "") -> str:
    """A new secret: ``prefix``, and 32 random bytes as 43 characters that need no quoting anywhere."""
    return prefix + secrets.token_urlsafe(32)


def hash_secret(secret: str) -> str:
    """The SHA-256 of a secret, which is what the bucket holds.

    A slow hash with a salt protects passwords, of which there are few likely ones. Nobody can try 2**256
    random values, so a quick hash is as good, and a request is not delayed by it. Secrets are found by their
    hash: how long the search takes says nothing about the secret.
    """
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def now() -> datetime:
    """The present moment in UTC."""
    return datetime.now(UTC)


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret; ``person`` is whose it is, empty for a script's."""

    name: str
    person: str = ""
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    used_at: datetime | None
    expired: bool


class TokenList(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens by name."""

    tokens: list[TokenRow]


TOKEN_FILE = f"{subjects.USER}.token"
"""The file beside the key of ``user``: who shows what is in it acts as who holds that key."""


def keep_command_token(config: Settings) -> None:
    """Write the token, a file of mode 0600, unless there is one; raises StartError if it cannot."""
    path = config.keys / TOKEN_FILE
    if read_command_token(config):
        return
    try:
        write_atomically(path, make_secret(TOKEN_PREFIX), mode=0o600)
    except OSError as error:
        raise StartError(
            f"The token {path} cannot be written: {error.strerror}", "Make its folder writable"
        ) from None


def read_command_token(config: Settings) -> str:
    """The token; empty if there is none, or if it may not be read here."""
    try:
        return Path(config.keys / TOKEN_FILE).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def is_command_token(config: Settings, secret: str) -> bool:
    """Whether ``secret`` is the token; it is read each time, so that a new file counts at once."""
    known = read_command_token(config)
    return bool(known) and hmac.compare_digest(known.encode(), secret.encode(errors="surrogatepass"))


LISTENING = "listening.json"


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """Where a gateway of this state directory listens, as the file in its folder says."""

    url: str
    pid: int


def login_path(config: Settings) -> Path:
    """The file in which ``mailroom login`` keeps the gateway of another machine."""
    return config.state_dir / "login.json"


def write_address(folder: Path, url: str) -> None:
    """Say in the folder of this process that it listens at ``url``; raises OSError."""
    write_atomically(folder / LISTENING, msgspec.json.encode(Listening(url=url, pid=os.getpid())))


def find_address(config: Settings) -> str:
    """The address of a running gateway of this state directory on this machine; raises StartError if there
    is none.
    """
    for path in (config.gateway / LISTENING, *sorted(config.gateway.glob(f"[0-9]*/{LISTENING}"))):
        try:
            found = msgspec.json.decode(path.read_bytes(), type=Listening)
            with contextlib.suppress(PermissionError):  # it runs, as another user
                os.kill(found.pid, 0)
        except (OSError, msgspec.MsgspecError):
            continue
        return found.url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")
    raise StartError(f"No gateway is running in {config.state_dir}", "Start the office with 'mailroom up'")


def public_address(config: Settings, address: str) -> str:
    """What people type to reach the gateway at ``address``: ``gateway_public_url``, else one of
    ``gateway_hosts`` with https, if any.
    """
    if config.gateway_public_url:
        return config.gateway_public_url.rstrip("/")
    named = (host for host in config.gateway_hosts if host.startswith("https://"))
    return next(named, address)


LINK_LIFETIME = timedelta(minutes=10)  # How long a one-time link counts
