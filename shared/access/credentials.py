"""How people and programs come in: sessions, one-time links and tokens, in files of the state directory."""

import contextlib
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import quote

import msgspec

from shared import subjects
from shared.access.scopes import People, Scope, WatchedFile
from shared.contracts.base import NAME
from shared.errors import MailroomError, StartError
from shared.files import hold_lock_within, write_atomically
from shared.settings import Settings

TOKEN_PREFIX = "mr_"  # noqa: S105  # not a secret: it tells scanners of secrets what they found
"""What tokens of scripts begin with."""


def make_secret(prefix: str = "") -> str:
    """A new secret: ``prefix``, and 32 random bytes as 43 characters that need no quoting anywhere."""
    return prefix + secrets.token_urlsafe(32)


def hash_secret(secret: str) -> str:
    """The SHA-256 of a secret, which is what the files hold.

    A slow hash with a salt protects passwords, of which there are few likely ones. Nobody can try 2**256
    random values, so a quick hash is as good, and a request is not delayed by it. Secrets are found by their
    hash: how long the search takes says nothing about the secret.
    """
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def now() -> datetime:
    """The present moment in UTC."""
    return datetime.now(UTC)


T = TypeVar("T")

LOCK_TIMEOUT = 1.0  # Seconds to wait for another process, such as a stopped one, that changes the file


class RecordFile(Generic[T]):
    """The records of one kind in a JSON file of mode 0600; a missing file holds none.

    Several processes change it: it is locked, written whole, and read again when it was changed.
    """

    def __init__(self, path: Path, kind: type[T]) -> None:
        decoder = msgspec.json.Decoder(dict[str, kind])  # type: ignore[valid-type]
        cure = "Delete it; what it allowed has to be allowed again"
        self._path = path
        self._file = WatchedFile(path, decoder.decode, "cannot be read", cure)

    def read(self) -> dict[str, T]:
        """The records by their keys; not to be changed. Raises ConfigError if the file cannot be read."""
        return self._file.read() or {}

    @contextlib.contextmanager
    def change(self) -> Iterator[dict[str, T]]:
        """The records to be changed; they are written when the block ends without an error.

        Other processes wait meanwhile. Raises MailroomError if the file cannot be written.
        """
        try:
            with hold_lock_within(self._path.with_suffix(".lock"), LOCK_TIMEOUT):
                known = self.read()
                records = dict(known)
                yield records
                if records != known:
                    write_atomically(self._path, msgspec.json.encode(records), mode=0o600)
        except TimeoutError:
            raise MailroomError(
                f"Another process keeps {self._path} locked", "Try again, or end that process"
            ) from None
        except OSError as error:
            raise MailroomError(
                f"{self._path} cannot be written: {error.strerror}",
                "Make its folder writable, or free disk space",
            ) from None


USED_INTERVAL = timedelta(minutes=1)  # How exactly the last use is noted: each note is a write to the disk


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token, valid until it expires (None: never) or is revoked; ``name`` is who acts with it."""

    name: str
    scope: Scope
    created_at: datetime
    expires_at: datetime | None = None
    used_at: datetime | None = None

    @property
    def expired(self) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now()


class Tokens:
    """The tokens, stored as their hashes."""

    def __init__(self, config: Settings) -> None:
        self._file = RecordFile(config.gateway / "tokens.json", Token)
        self._people = People(config)

    def add(self, name: str, scope: Scope, lifetime: timedelta | None = None) -> str:
        """A new token, which is shown this once.

        Raises MailroomError for a wrong name, and if a token or a person has it.
        """
        if not NAME.fullmatch(name):
            raise MailroomError(
                f"{name[:64]!r} is no name for a token",
                "Take 1 to 64 lower-case letters, digits, '_' or '-', beginning with a letter or digit",
            )
        if self._people.find(name):
            raise MailroomError(f"{name!r} is a person's name", "Choose another: it says who did something")
        secret = make_secret(TOKEN_PREFIX)
        with self._file.change() as tokens:
            if any(token.name == name and not token.expired for token in tokens.values()):
                raise MailroomError(
                    f"There is a token {name!r} already", "Choose another name, or revoke that one"
                )
            for key in [key for key, token in tokens.items() if token.name == name]:
                del tokens[key]
            moment = now()
            tokens[hash_secret(secret)] = Token(
                name=name,
                scope=scope,
                created_at=moment,
                expires_at=moment + lifetime if lifetime is not None else None,
            )
        return secret

    def list(self) -> list[Token]:
        """The tokens by name, those that expired too."""
        return sorted(self._file.read().values(), key=lambda token: token.name)

    def find(self, secret: str) -> Token | None:
        """The token, unless it is unknown, revoked or expired; its use is noted."""
        key = hash_secret(secret)
        token = self._file.read().get(key)
        if token is None or token.expired:
            return None
        if token.used_at is None or now() - token.used_at > USED_INTERVAL:
            # On a full disk scripts are let in all the same.
            with contextlib.suppress(MailroomError), self._file.change() as tokens:
                if key in tokens:  # another process may have revoked it
                    tokens[key] = msgspec.structs.replace(tokens[key], used_at=now())
        return token

    def find_named(self, name: str) -> Token | None:
        """The token of that name, unless it is revoked or expired."""
        tokens = self._file.read().values()
        return next((token for token in tokens if token.name == name and not token.expired), None)

    def revoke(self, name: str) -> None:
        """Make a token invalid, from its next request on; raises MailroomError if there is none."""
        with self._file.change() as tokens:
            found = [key for key, token in tokens.items() if token.name == name]
            for key in found:
                del tokens[key]
            if not found:
                names = ", ".join(sorted(token.name for token in tokens.values())) or "none"
                raise MailroomError(f"There is no token {name[:64]!r}", f"There are: {names}")


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


SESSION_LIFETIME = timedelta(days=30)  # How long a session lasts at most
IDLE_LIFETIME = timedelta(days=7)  # How long it lasts without a request
SEEN_INTERVAL = timedelta(hours=1)  # How exactly the last request is noted: each note is a write to the disk
MAX_SESSIONS = 1_000  # The most sessions that are kept; a new one ends the oldest


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """A signed-in browser; ``token`` is the name of the token it was signed in with, or empty."""

    person: str
    token: str = ""
    created_at: datetime
    seen_at: datetime

    @property
    def ends_at(self) -> datetime:
        """When the session ends if there is no further request."""
        return min(self.created_at + SESSION_LIFETIME, self.seen_at + IDLE_LIFETIME)


class Sessions:
    """The sessions, stored as hashes of what the cookies hold."""

    def __init__(self, config: Settings) -> None:
        self._file = RecordFile(config.gateway / "sessions.json", Session)

    def create(self, person: str, token: str = "") -> str:
        """The secret of a new session, for a cookie; raises MailroomError if it cannot be stored."""
        secret, moment = make_secret(), now()
        with self._file.change() as sessions:
            for key in [key for key, session in sessions.items() if session.ends_at <= moment]:
                del sessions[key]
            while len(sessions) >= MAX_SESSIONS:
                del sessions[min(sessions, key=lambda key: sessions[key].seen_at)]
            new = Session(person=person, token=token, created_at=moment, seen_at=moment)
            sessions[hash_secret(secret)] = new
        return secret

    def find(self, secret: str) -> Session | None:
        """The session with this secret, unless it has ended; the request is noted."""
        key, moment = hash_secret(secret), now()
        session = self._file.read().get(key)
        if session is None or session.ends_at <= moment:
            return None
        if moment - session.seen_at > SEEN_INTERVAL:
            # On a full disk people are let in all the same.
            with contextlib.suppress(MailroomError), self._file.change() as sessions:
                if key in sessions:  # another process may have ended it
                    sessions[key] = msgspec.structs.replace(sessions[key], seen_at=moment)
        return session

    def end(self, secret: str) -> None:
        """End the session with this secret, if there is one."""
        with self._file.change() as sessions:
            sessions.pop(hash_secret(secret), None)

    def end_all(self, person: str = "") -> int:
        """End the sessions of ``person``, or of everybody; returns how many there were."""
        with self._file.change() as sessions:
            ended = [key for key, session in sessions.items() if person in ("", session.person)]
            for key in ended:
                del sessions[key]
        return len(ended)


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """Where the gateway of this state directory listens, as ``listening.json`` in its folder says."""

    url: str
    pid: int


def write_address(config: Settings, url: str) -> None:
    """Say that this process listens at ``url``; raises OSError."""
    listening = msgspec.json.encode(Listening(url=url, pid=os.getpid()))
    write_atomically(config.gateway / "listening.json", listening)


def find_address(config: Settings) -> str:
    """The address of the running gateway of this state directory; raises StartError if there is none."""
    try:
        found = msgspec.json.decode((config.gateway / "listening.json").read_bytes(), type=Listening)
        os.kill(found.pid, 0)
    except (OSError, msgspec.MsgspecError) as error:
        if isinstance(error, PermissionError):  # it runs, as another user
            return found.url
        raise StartError(
            f"No gateway is running in {config.state_dir}", "Start the office with 'mailroom up'"
        ) from None
    return found.url


def public_address(config: Settings, address: str) -> str:
    """What people type to reach the gateway at ``address``: ``gateway_public_url``, else one of
    ``gateway_hosts`` with https, if any.
    """
    if config.gateway_public_url:
        return config.gateway_public_url.rstrip("/")
    named = (host for host in config.gateway_hosts if host.startswith("https://"))
    return next(named, address)


LINK_LIFETIME = timedelta(minutes=10)


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A link that was made and not used."""

    person: str
    expires_at: datetime


class Links:
    """The links, stored as hashes of their codes."""

    def __init__(self, config: Settings) -> None:
        self._file = RecordFile(config.gateway / "links.json", Link)

    def create(self, person: str) -> str:
        """The code of a new link for ``person``; raises MailroomError if it cannot be stored."""
        code = make_secret()
        with self._file.change() as links:
            for key in [key for key, link in links.items() if link.expires_at <= now()]:
                del links[key]
            links[hash_secret(code)] = Link(person=person, expires_at=now() + LINK_LIFETIME)
        return code

    def find(self, code: str) -> str:
        """The person whom the link with this code would sign in; empty if there is none."""
        link = self._file.read().get(hash_secret(code))
        return link.person if link and link.expires_at > now() else ""

    def use(self, code: str) -> str:
        """The person whose link has this code, which is then void; empty if it is unknown, used or old."""
        key = hash_secret(code)
        if key not in self._file.read():
            return ""
        with self._file.change() as links:
            link = links.pop(key, None)
        return link.person if link and link.expires_at > now() else ""


def create_link(config: Settings, person: str = "", page: str = "") -> str:
    """A link that signs ``person`` (default: the one at this machine) in at the running gateway.

    It leads to ``page``, such as ``/goals/ID`` (empty: the inbox), and works once, within ten minutes. The
    code is behind ``#``, which browsers do not send, so that no server logs it. Raises StartError if no
    gateway runs, MailroomError if there is no such person.
    """
    address = public_address(config, find_address(config))
    to = f"?next={quote(page)}" if page else ""
    return f"{address}/login{to}#{Links(config).create(People(config).choose(person))}"
