"""Records on the bus who came in and who was kept out."""

import asyncio
import contextlib
from datetime import datetime
from functools import partial

from services.gateway.security.limits import Rate, RateLimit
from services.gateway.security.refusals import Refused
from shared import subjects
from shared.access.tokens import Tokens
from shared.bus import Bus
from shared.bus.entry import Entry, seal
from shared.bus.records import retry_until_taken
from shared.contracts import AccessAct, AccessChanged
from shared.errors import BusError, ConfigError
from shared.log import logger
from shared.settings import Settings

REFUSALS = {
    AccessAct.SIGN_IN_REFUSED,
    AccessAct.TOKEN_REFUSED,
    AccessAct.HOOK_REFUSED,
    AccessAct.REPLY_REFUSED,
}
REFUSAL_RATE = Rate(1 / 10, 30)
"""How many refusals are recorded: the log, from which nothing is removed, must not be filled by strangers."""
MAX_WAITING = 1_000
WATCH_INTERVAL = 2.0
"""Seconds between two looks at the tokens, which 'mailroom token' may have changed."""
RETRY_PAUSE = 1.0

log = logger(__name__)


class AccessLog:
    """Publishes events in the order of the acts; if too many wait, one is in the log file alone."""

    def __init__(self, bus: Bus, config: Settings) -> None:
        self._bus = bus
        self._waiting: asyncio.Queue[AccessChanged] = asyncio.Queue(MAX_WAITING)
        self._refusals = RateLimit(REFUSAL_RATE)
        self._tokens = Tokens(config)
        self._known: dict[str, datetime] | None = None

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

    def note_token(self, act: AccessAct, name: str, person: str) -> None:
        """Record that ``person`` made or revoked a token through the gateway."""
        self.note(act, person=person, about=name)
        self._known = self._read_tokens()

    async def run(self) -> None:
        """Publish, and watch the tokens, until cancelled; then what waits is published."""
        watch = asyncio.create_task(self._watch_tokens())
        try:
            while True:
                event = await self._waiting.get()
                publish = partial(self._bus.commit, [_entry(event)])
                await retry_until_taken(
                    publish, pause=RETRY_PAUSE, event="access_unsent", act=event.act.value
                )
        finally:
            watch.cancel()
            with contextlib.suppress(BusError, TimeoutError):
                async with asyncio.timeout(1):
                    while not self._waiting.empty():
                        await self._bus.commit([_entry(self._waiting.get_nowait())])

    async def _watch_tokens(self) -> None:
        self._known = self._read_tokens()
        while True:
            await asyncio.sleep(WATCH_INTERVAL)
            found, known = self._read_tokens(), self._known
            if found is None or known is None:
                self._known = found
                continue
            for name in sorted(found.keys() | known.keys()):
                if found.get(name) != known.get(name):
                    act = AccessAct.TOKEN_ADDED if name in found else AccessAct.TOKEN_REVOKED
                    self.note(act, about=name, reason="by 'mailroom token'")
            self._known = found

    def _read_tokens(self) -> dict[str, datetime] | None:
        """The tokens with their times; None if they cannot be read."""
        try:
            return {token.name: token.created_at for token in self._tokens.list()}
        except ConfigError:
            return None


def _entry(event: AccessChanged) -> Entry:
    return seal(subjects.event(subjects.GATEWAY, event.act.value), event)
