"""Webhooks that go out: each notice is delivered at least once, also if the gateway is killed.

How far each webhook is told is kept on disk, and written after the delivery. So a notice may be delivered
again after a crash, with the same id, by which the receiver knows it.
"""

import asyncio
import random
import time
from typing import TYPE_CHECKING

import msgspec

from services.gateway.hooks.notices import Notice, is_wanted, make_notice, may_concern
from services.gateway.hooks.rules import HookFile, Outgoing
from services.gateway.index.index import LogIndex
from services.gateway.index.rows import STREAMS, Position
from services.gateway.index.store import Filter
from services.gateway.security.access_log import AccessLog
from shared.access.address import public_address
from shared.access.file import RecordFile
from shared.bus import Bus
from shared.contracts import AccessAct
from shared.delivery.signing import sign
from shared.errors import ConfigError, MailroomError
from shared.log import logger
from shared.queries.records import last_sequence, read_message
from shared.settings import Settings
from shared.text.network_errors import format_network_error

if TYPE_CHECKING:
    from httpx2 import AsyncClient

WATCH_INTERVAL = 2.0
"""Seconds between two looks at the file of the webhooks."""
NOTE_INTERVAL = 30.0
"""Seconds after which it is written how far the log was read, though there was nothing to deliver."""
TIMEOUT = 10.0
"""Seconds a receiver has to answer."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
"""Seconds between two attempts; each pause is twice the one before."""
GIVE_UP = 24 * 3_600.0
"""Seconds after which a notice is no longer attempted."""
MAX_REMEMBERED = 200
"""How many notices are remembered as delivered: the record of a goal that ended may be written again."""
GONE = 410
"""The answer of a receiver that wants no more of it."""

log = logger(__name__)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a webhook is told: a position in the log, and the ids of the last notices."""

    position: str
    delivered: tuple[str, ...] = ()
    failing_since: float = 0.0


class Deliveries:
    """Delivers to every outgoing webhook, each on its own: one that does not answer delays no other."""

    def __init__(self, bus: Bus, config: Settings, index: LogIndex, access: AccessLog, url: str) -> None:
        self._bus, self._index, self._access = bus, index, access
        self._address = public_address(config, url)
        self._hooks = HookFile(config)
        self._progress = RecordFile(config.gateway / "deliveries.json", Progress)
        self._running: dict[str, tuple[Outgoing, asyncio.Task[None]]] = {}

    async def run(self) -> None:
        """Deliver until cancelled; changes of the file count within WATCH_INTERVAL."""
        try:
            while True:
                try:
                    self._update(self._hooks.read().out)
                except ConfigError as error:
                    log.error("hooks_unreadable", reason=str(error))
                await asyncio.sleep(WATCH_INTERVAL)
        finally:
            for _, task in self._running.values():
                task.cancel()

    def _update(self, wanted: dict[str, Outgoing]) -> None:
        for name, (hook, task) in list(self._running.items()):
            if wanted.get(name) != hook or task.done():
                task.cancel()
                del self._running[name]
        if self._progress.read().keys() - wanted.keys():
            with self._progress.change() as records:
                for name in records.keys() - wanted.keys():
                    del records[name]
        for name, hook in wanted.items():
            if name not in self._running:
                self._running[name] = (hook, asyncio.create_task(self._serve(name, hook)))

    async def _serve(self, name: str, hook: Outgoing) -> None:
        import httpx2

        async with httpx2.AsyncClient(timeout=TIMEOUT, follow_redirects=False) as client:
            while True:
                try:
                    await self._follow(name, hook, client)
                except (MailroomError, OSError) as error:
                    log.warning("hook_interrupted", hook=name, reason=str(error))
                    await asyncio.sleep(FIRST_PAUSE)

    async def _follow(self, name: str, hook: Outgoing, client: "AsyncClient") -> None:
        progress = self._progress.read().get(name)
        if progress is None:  # a new one is told what happens from now on
            ends = [await last_sequence(self._bus, stream) for stream in STREAMS]
            progress = self._note(name, Progress(position=str(Position(*ends))))
        noted = time.monotonic()
        async for batch in self._index.events(Position.parse(progress.position), Filter()):
            for each in batch:
                notice = None
                if may_concern(each.row.subject):
                    notice = await self._read_notice(each.row.stream, each.row.seq)
                if notice and is_wanted(notice, hook.on) and notice.id not in progress.delivered:
                    await self._deliver(name, hook, notice, client)
                    delivered = (*progress.delivered, notice.id)[-MAX_REMEMBERED:]
                    progress = self._note(name, Progress(position=each.row.position, delivered=delivered))
                    noted = time.monotonic()
            if time.monotonic() - noted > NOTE_INTERVAL:
                last = batch[-1].row.position
                progress = self._note(name, msgspec.structs.replace(progress, position=last))
                noted = time.monotonic()

    async def _read_notice(self, stream: str, seq: int) -> Notice | None:
        stored = await read_message(self._bus, stream, seq)
        return make_notice(stored, self._index.store, self._address) if stored else None

    def _note(self, name: str, progress: Progress) -> Progress:
        with self._progress.change() as records:
            records[name] = progress
        return progress

    async def _deliver(self, name: str, hook: Outgoing, notice: Notice, client: "AsyncClient") -> None:
        """Post a notice until it is taken, or given up, which is recorded."""
        since = self._begin_attempts(name)
        body, pause = msgspec.json.encode(notice), FIRST_PAUSE
        while True:
            reason = await _post(hook, notice.id, body, client)
            if not reason:
                return
            gone = reason == f"it answered {GONE}"
            if gone or time.time() - since > GIVE_UP:
                self._access.note(AccessAct.HOOK_FAILED, about=name, reason=f"{notice.id}: {reason}")
                return
            log.warning("hook_retried", hook=name, notice=notice.id, reason=reason, pause=pause)
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311  # spreads load
            pause = min(LONGEST_PAUSE, 2 * pause)

    def _begin_attempts(self, name: str) -> float:
        """When the notice was attempted first, in seconds since 1970, which a restart does not forget."""
        known = self._progress.read()[name]
        if known.failing_since:
            return known.failing_since
        return self._note(name, msgspec.structs.replace(known, failing_since=time.time())).failing_since


async def _post(hook: Outgoing, delivery: str, body: bytes, client: "AsyncClient") -> str:
    """Why a delivery failed; empty if it was taken."""
    import httpx2

    headers = sign(hook.secret, body, delivery=delivery, moment=int(time.time()))
    headers |= {"content-type": "application/json", "user-agent": "mailroom"}
    try:
        # What it answers beyond its status is of no interest, and may be large.
        async with client.stream("POST", hook.url, content=body, headers=headers) as answer:
            return "" if answer.is_success else f"it answered {answer.status_code}"
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return format_network_error(error)
