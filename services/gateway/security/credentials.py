"""Tokens, sessions and one-time links, in the bucket of the gateways: what one takes counts on each."""

import contextlib
from datetime import datetime, timedelta

import msgspec

from services.gateway.security.bucket import Bucket
from shared.access.credentials import LINK_LIFETIME, TOKEN_PREFIX, hash_secret, make_secret, now
from shared.access.scopes import People, Scope
from shared.contracts.base import NAME
from shared.errors import Conflict, MailroomError

USED_INTERVAL = timedelta(minutes=1)  # How exactly the last use is noted: each note is a write to the bus


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token, valid until it expires (None: never) or is revoked; ``name`` is who acts with it, unless it
    is a ``person``'s.
    """

    name: str
    person: str = ""
    scope: Scope
    hash: str
    created_at: datetime
    expires_at: datetime | None = None
    used_at: datetime | None = None

    @property
    def expired(self) -> bool:
        """Whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now()


_read_token = msgspec.json.Decoder(Token)


class Tokens:
    """The tokens by their names, with the hashes of their secrets."""

    def __init__(self, bucket: Bucket, people: People) -> None:
        self._bucket, self._people = bucket, people
        self._by_hash: dict[str, str] = {}
        self._seen = -1

    async def add(self, name: str, scope: Scope, lifetime: timedelta | None = None, person: str = "") -> str:
        """A new token, which is shown this once; who has it acts as ``person``, or as the script ``name``.

        Raises MailroomError for a wrong name, if a token or a person has it, and for an unknown person.
        """
        if person:
            self._people.choose(person)
        if not NAME.fullmatch(name):
            raise MailroomError(
                f"{name[:64]!r} is no name for a token",
                "Take 1 to 64 lower-case letters, digits, '_' or '-', beginning with a letter or digit",
            )
        if self._people.find(name):
            raise MailroomError(f"{name!r} is a person's name", "Choose another: it says who did something")
        await self._bucket.refresh()
        known, secret, moment = self._find_any(name), make_secret(TOKEN_PREFIX), now()
        taken = MailroomError(f"There is a token {name!r} already", "Choose another name, or revoke that one")
        if known and not known.expired:
            raise taken
        token = Token(
            name=name,
            person=person,
            scope=scope,
            hash=hash_secret(secret),
            created_at=moment,
            expires_at=moment + lifetime if lifetime is not None else None,
        )
        try:
            await self._bucket.put(f"token.{name}", msgspec.json.encode(token), new=known is None)
        except Conflict:
            raise taken from None
        return secret

    def list(self) -> list[Token]:
        """The tokens by name, those that expired too."""
        return [_read_token.decode(data) for _, data in sorted(self._bucket.list("token").items())]

    def find(self, secret: str) -> Token | None:
        """The token, unless it is unknown, revoked or expired; its use is noted."""
        if self._seen != self._bucket.changes:
            self._by_hash, self._seen = {each.hash: each.name for each in self.list()}, self._bucket.changes
        token = self.find_named(self._by_hash.get(hash_secret(secret), ""))
        if token is not None and (token.used_at is None or now() - token.used_at > USED_INTERVAL):
            used = msgspec.structs.replace(token, used_at=now())
            self._bucket.note(f"token.{token.name}", msgspec.json.encode(used))
        return token

    def find_named(self, name: str) -> Token | None:
        """The token of that name, unless it is revoked or expired."""
        token = self._find_any(name)
        return token if token and not token.expired else None

    def _find_any(self, name: str) -> Token | None:
        data = self._bucket.find(f"token.{name}")
        return _read_token.decode(data) if data else None

    async def revoke(self, name: str) -> None:
        """Make a token invalid, from its next request on; raises MailroomError if there is none."""
        while self._bucket.find(f"token.{name}"):  # until nobody writes meanwhile that it was used
            if await self._bucket.remove(f"token.{name}"):
                return
        names = ", ".join(token.name for token in self.list()) or "none"
        raise MailroomError(f"There is no token {name[:64]!r}", f"There are: {names}")


SESSION_LIFETIME = timedelta(days=30)  # How long a session lasts at most
IDLE_LIFETIME = timedelta(days=7)  # How long it lasts without a request
SEEN_INTERVAL = timedelta(hours=1)  # How exactly the last request is noted: each note is a write to the bus
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


_read_session = msgspec.json.Decoder(Session)


class Sessions:
    """The sessions by the hashes of what the cookies hold."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    async def create(self, person: str, token: str = "") -> str:
        """The secret of a new session, for a cookie; raises MailroomError if it cannot be stored."""
        known = {key: _read_session.decode(data) for key, data in self._bucket.list("session").items()}
        oldest = sorted(known, key=lambda key: known[key].seen_at)
        for key in oldest[: max(0, len(known) - MAX_SESSIONS + 1)]:
            await self._bucket.remove(f"session.{key}")
        secret, moment = make_secret(), now()
        new = Session(person=person, token=token, created_at=moment, seen_at=moment)
        lifetime = IDLE_LIFETIME.total_seconds()
        await self._bucket.put(f"session.{hash_secret(secret)}", msgspec.json.encode(new), lifetime=lifetime)
        return secret

    def find(self, secret: str) -> Session | None:
        """The session with this secret, unless it has ended; the request is noted."""
        key, moment = f"session.{hash_secret(secret)}", now()
        data = self._bucket.find(key)
        session = _read_session.decode(data) if data else None
        if session is None or session.ends_at <= moment:
            return None
        if moment - session.seen_at > SEEN_INTERVAL:
            seen = msgspec.structs.replace(session, seen_at=moment)
            left = (seen.ends_at - moment).total_seconds()
            self._bucket.note(key, msgspec.json.encode(seen), lifetime=max(1.0, left))
        return session

    async def end(self, secret: str) -> None:
        """End the session with this secret, if there is one."""
        await self._end(hash_secret(secret))

    async def _end(self, key: str) -> None:
        while self._bucket.find(f"session.{key}"):  # until nobody writes meanwhile that it was seen
            if await self._bucket.remove(f"session.{key}"):
                return

    async def end_all(self, person: str = "") -> int:
        """End the sessions of ``person``, or of everybody; returns how many there were."""
        known = self._bucket.list("session").items()
        ended = [key for key, data in known if person in ("", _read_session.decode(data).person)]
        for key in ended:
            await self._end(key)
        return len(ended)


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A link that was made and not used."""

    person: str
    expires_at: datetime


class Links:
    """The links by the hashes of their codes."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    async def create(self, person: str) -> str:
        """The code of a new link for ``person``; raises MailroomError if it cannot be stored."""
        code = make_secret()
        link = msgspec.json.encode(Link(person=person, expires_at=now() + LINK_LIFETIME))
        lifetime = LINK_LIFETIME.total_seconds()
        await self._bucket.put(f"link.{hash_secret(code)}", link, lifetime=lifetime)
        return code

    def find(self, code: str) -> str:
        """The person whom the link with this code would sign in; empty if there is none."""
        data = self._bucket.find(f"link.{hash_secret(code)}")
        link = msgspec.json.decode(data, type=Link) if data else None
        return link.person if link and link.expires_at > now() else ""

    async def use(self, code: str) -> str:
        """The person whose link has this code, which is then void; empty if it is unknown, used or old.

        Of all gateways one at most takes it.
        """
        person = self.find(code)
        if not person:
            with contextlib.suppress(MailroomError):
                await self._bucket.refresh()  # another gateway made it just now
            person = self.find(code)
        return person if person and await self._bucket.remove(f"link.{hash_secret(code)}") else ""
