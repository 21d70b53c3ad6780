"""Who sends a request, to which name, by its token or cookie; and who came in and who was kept out."""

import asyncio
import contextlib
import re
from collections.abc import Iterable
from functools import partial
from typing import Literal, NamedTuple

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import Response

from services.gateway.security.bucket import Bucket
from services.gateway.security.credentials import SESSION_LIFETIME, Links, Sessions, Token, Tokens
from services.gateway.security.limits import Rate, RateLimit, Refused
from shared import subjects
from shared.access.credentials import TOKEN_PREFIX, is_command_token
from shared.access.scopes import People, Person, Scope
from shared.bus import Bus
from shared.bus.entry import Entry, seal
from shared.bus.records import retry_until_taken
from shared.contracts import AccessAct, AccessChanged
from shared.errors import BusError, ConfigError
from shared.log import logger
from shared.settings import Settings

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?)(?::([0-9]{1,5}))?")


class Site(NamedTuple):
    """What a request is addressed to; ``secure``: browsers reach it by https."""

    name: str
    port: str
    secure: bool = False

    @property
    def host(self) -> str:
        """Name and port as in the header Host."""
        return f"{self.name}:{self.port}" if self.port else self.name

    def is_origin(self, origin: str) -> bool:
        """Whether a page of this very site has ``origin``."""
        schemes = ("https",) if self.secure else ("http", "https")
        return origin.lower() in {f"{scheme}://{self.host}" for scheme in schemes}


class Sites:
    """The names the gateway answers to: those of this machine's loopback, with any port, and ``named`` ones.

    One of these is ``host``, ``host:port`` or ``https://host``; the last says that a proxy speaks https for
    it. Raises ConfigError for another form.
    """

    def __init__(self, named: Iterable[str] = ()) -> None:
        self._named = [Site(name, "") for name in LOOPBACK] + [_parse_site(text) for text in named]

    def find(self, hosts: list[str]) -> Site | None:
        """The site of a request with these headers Host; None unless there is one, of a known name."""
        match = _HOST.fullmatch(hosts[0].lower()) if len(hosts) == 1 else None
        if match is None:
            return None
        name, port = match[1], match[2] or ""
        known = (each for each in self._named if each.name == name and each.port in ("", port))
        found = next(known, None)
        return Site(name, port, found.secure) if found else None


def list_sites(config: Settings) -> list[str]:
    """The names in the settings: the public address, and further hosts.

    Raises ConfigError for a public address that is none.
    """
    public = config.gateway_public_url
    if public and not public.startswith(("http://", "https://")):
        raise ConfigError(
            f"MAILROOM_GATEWAY_PUBLIC_URL is {public[:80]!r}",
            "Write it as in https://office.example.org or http://127.0.0.1:9000",
        )
    return [*([public] if public else []), *config.gateway_hosts]


def _parse_site(text: str) -> Site:
    scheme, separator, rest = text.strip().lower().rpartition("://")
    match = _HOST.fullmatch(rest.rstrip("/") if separator else rest)
    if match is None or scheme not in ("", "http", "https"):
        raise ConfigError(
            f"{text[:80]!r} in MAILROOM_GATEWAY_HOSTS or MAILROOM_GATEWAY_PUBLIC_URL is no host",
            "Write it as in office.example.org, office:8080 or https://office.example.org",
        )
    return Site(match[1], match[2] or "", scheme == "https")


def is_foreign_read(fetch_site: str) -> bool:
    """Whether another site's page reads: ``fetch_site`` is the header Sec-Fetch-Site, or empty."""
    return fetch_site not in ("", "same-origin", "none")


def is_foreign_change(site: Site, origins: list[str], fetch_site: str) -> bool:
    """Whether another site's page sends a change."""
    return is_foreign_read(fetch_site) or any(not site.is_origin(origin) for origin in origins)


COOKIE = "mailroom_session"


def cookie_name(site: Site) -> str:
    """The name of the cookie: with the port, which tells gateways on one machine apart where cookies do not.

    Browsers take a cookie with the prefix ``__Host-`` only from the host itself, by https.
    """
    name = f"{COOKIE}_{site.port}" if site.port else COOKIE
    return f"__Host-{name}" if site.secure else name


def set_cookie(answer: Response, site: Site, secret: str) -> None:
    """Have the browser keep the session ``secret``."""
    answer.set_cookie(
        cookie_name(site),
        secret,
        max_age=int(SESSION_LIFETIME.total_seconds()),
        path="/",
        httponly=True,
        secure=site.secure,
        samesite="strict",
    )


def clear_cookie(answer: Response, site: Site) -> None:
    """Have the browser forget the session."""
    answer.delete_cookie(cookie_name(site), path="/", httponly=True, secure=site.secure, samesite="strict")


Via = Literal["session", "token"]
COMMANDS = Person("", Scope.ADMIN)
"""Who shows the token of this machine: its acts are those of ``user``, of no person by name."""
MAX_SECRET = 200  # Characters of what may be a token or a session


class Credential(NamedTuple):
    """What a request shows for itself; ``via`` is None if that is nothing."""

    via: Via | None
    secret: str = ""


def read_credential(headers: Headers, site: Site) -> Credential:
    """The credential of a request: what its header Authorization holds, and without one its cookie."""
    given = headers.getlist("authorization")
    if given:
        scheme, _, secret = given[0].partition(" ")
        valid = len(given) == 1 and scheme.lower() == "bearer"
        return Credential("token", secret.strip() if valid else "")
    secret = cookie_parser("; ".join(headers.getlist("cookie"))).get(cookie_name(site), "")
    return Credential("session", secret) if secret else Credential(None)


class Authenticator:
    """Finds the person of a credential, in the file of people and the bucket as they are at that moment."""

    def __init__(self, config: Settings, bucket: Bucket) -> None:
        self._config, self._bucket = config, bucket
        self.people = People(config)
        self.links = Links(bucket)
        self.sessions = Sessions(bucket)
        self.tokens = Tokens(bucket, self.people)

    async def find(self, credential: Credential) -> Person | None:
        """The same, also if the person came in at another gateway just now."""
        await self._bucket.ensure_fresh()
        found = self.identify(credential)
        if found is None:
            await self._bucket.look_again()
            found = self.identify(credential)
        return found

    def identify(self, credential: Credential) -> Person | None:
        """The person; None for a credential that is unknown, revoked or has expired.

        Raises ConfigError if a file cannot be read: then nobody is let in.
        """
        if not 0 < len(credential.secret) <= MAX_SECRET:
            return None
        if credential.via == "token":
            return self.identify_token(credential.secret)
        session = self.sessions.find(credential.secret)
        if session is None:
            return None
        if session.token:
            token = self.tokens.find_named(session.token)
            valid = token is not None and token.created_at <= session.created_at
            return self._person_of(token) if token and valid else None
        user = self.people.find(session.person)
        return self.people.identify(session.person, user.scope) if user else None

    def _person_of(self, token: Token) -> Person | None:
        """A script under its own name; a person's token acts as that person, with what that may do now."""
        if not token.person:
            is_taken = self.people.find(token.name) is not None  # by one of the people who came later
            return None if is_taken else self.people.identify(token.name, token.scope)
        user = self.people.find(token.person)
        return self.people.identify(token.person, min(user.scope, token.scope)) if user else None

    def identify_token(self, secret: str) -> Person | None:
        """The person of a token; None if it is not valid."""
        if not secret.startswith(TOKEN_PREFIX):
            return None
        if is_command_token(self._config, secret):
            return COMMANDS
        token = self.tokens.find(secret)
        return self._person_of(token) if token else None


REFUSALS = {
    AccessAct.SIGN_IN_REFUSED,
    AccessAct.TOKEN_REFUSED,
    AccessAct.HOOK_REFUSED,
    AccessAct.REPLY_REFUSED,
}
REFUSAL_RATE = Rate(1 / 10, 30)
"""How many refusals are recorded: the log, from which nothing is removed, must not be filled by strangers."""
MAX_WAITING = 1_000
RETRY_PAUSE = 1.0

log = logger(__name__)


class AccessLog:
    """Publishes events in the order of the acts; if too many wait, one is in the log file alone."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._waiting: asyncio.Queue[AccessChanged] = asyncio.Queue(MAX_WAITING)
        self._refusals = RateLimit(REFUSAL_RATE)

    def note(
        self, act: AccessAct, *, person: str = "", address: str = "", about: str = "", reason: str = ""
    ) -> None:
        """Record an act; returns at once."""
        log.info(act.value, person=person, address=address, about=about, reason=reason)
        if act in REFUSALS:
            try:
                self._refusals.take("")
            except Refused:
                return
        event = AccessChanged(
            sender=subjects.GATEWAY,
            recipient=subjects.USER,
            act=act,
            person=person,
            address=address[:100],
            about=about[:100],
            reason=reason[:500],
        )
        try:
            self._waiting.put_nowait(event)
        except asyncio.QueueFull:
            log.error("access_unrecorded", act=act.value)

    async def run(self) -> None:
        """Publish until cancelled; then what waits is published."""
        try:
            while True:
                event = await self._waiting.get()
                publish = partial(self._bus.commit, [_entry(event)])
                await retry_until_taken(
                    publish, pause=RETRY_PAUSE, event="access_unsent", act=event.act.value
                )
        finally:
            with contextlib.suppress(BusError, TimeoutError):
                async with asyncio.timeout(1):
                    while not self._waiting.empty():
                        await self._bus.commit([_entry(self._waiting.get_nowait())])


def _entry(event: AccessChanged) -> Entry:
    return seal(subjects.event(subjects.GATEWAY, event.act.value), event)
