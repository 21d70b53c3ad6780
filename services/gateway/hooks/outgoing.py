"""Webhooks that go out: each notice is delivered at least once, also if the gateway is killed.

How far each webhook is told is kept on disk, and written after the delivery. So a notice may be delivered
again after a crash, with the same id, by which the receiver knows it.
"""

import asyncio
import time
from itertools import count
from typing import TYPE_CHECKING

import msgspec

from services.gateway.delivery.timing import FIRST_PAUSE, GIVE_UP, pause_after
from services.gateway.hooks.notices import Notice, is_wanted, make_notice
from services.gateway.index.index import LogIndex
from services.gateway.index.reading import LogReader
from services.gateway.security.access_log import AccessLog
from shared.access.address import public_address
from shared.access.hooks import HookFile, Outgoing
from shared.bus import Bus
from shared.contracts import AccessAct
from shared.delivery.signing import sign
from shared.errors import ConfigError, MailroomError
from shared.log import logger
from shared.settings import Settings
from shared.text.network_errors import format_network_error

if TYPE_CHECKING:
    from httpx2 import AsyncClient

WATCH_INTERVAL = 2.0
"""Seconds between two looks at the file of the webhooks."""
TIMEOUT = 10.0
"""Seconds a receiver has to answer."""
MAX_REMEMBERED = 200
"""How many notices are remembered as delivered: the record of a goal that ended may be written again."""
GONE = 410
"""The answer of a receiver that wants no more of it."""

log = logger(__name__)


class Deliveries:
    """Delivers to every outgoing webhook, each on its own: one that does not answer delays no other."""

    def __init__(self, bus: Bus, config: Settings, index: LogIndex, access: AccessLog, url: str) -> None:
        self._store, self._access = index.store, access
        self._address = public_address(config, url)
        self._hooks = HookFile(config)
        self._reader = LogReader(bus, index, config.gateway / "deliveries.json")
        self._running: dict[str, tuple[Outgoing, asyncio.Task[None]]] = {}

    async def run(self) -> None:
        """Deliver until cancelled; changes of the file count within WATCH_INTERVAL."""
        told = ""
        try:
            while True:
                try:
                    self._update(self._hooks.read().out)
                    told = ""
                except ConfigError as error:
                    if told != str(error):  # once, not each time that it is looked at
                        log.error("hooks_unreadable", reason=str(error))
                    told = str(error)
                await asyncio.sleep(WATCH_INTERVAL)
        finally:
            for _, task in self._running.values():
                task.cancel()

    def _update(self, wanted: dict[str, Outgoing]) -> None:
        for name, (hook, task) in list(self._running.items()):
            if wanted.get(name) != hook or task.done():
                task.cancel()
                del self._running[name]
        self._reader.forget_all_but(wanted)
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
                    await asyncio.sleep(FIRST_PAUSE.total_seconds())

    async def _follow(self, name: str, hook: Outgoing, client: "AsyncClient") -> None:
        async for position, stored in self._reader.follow(name):
            notice = make_notice(stored, self._store, self._address)
            known = self._reader.find(name)
            delivered = known.delivered if known else ()
            if notice and is_wanted(notice, hook.on) and notice.id not in delivered:
                await self._deliver(name, hook, notice, client)
                told = (*delivered, notice.id)[-MAX_REMEMBERED:]
                self._reader.note(name, position=position, delivered=told, failing_since=0.0)

    async def _deliver(self, name: str, hook: Outgoing, notice: Notice, client: "AsyncClient") -> None:
        """Post a notice until it is taken, or given up, which is recorded."""
        since = self._begin_attempts(name)
        body = msgspec.json.encode(notice)
        for attempts in count(1):
            reason = await _post(hook, notice.id, body, client)
            if not reason:
                return
            gone = reason == f"it answered {GONE}"
            if gone or time.time() - since > GIVE_UP.total_seconds():
                self._access.note(AccessAct.HOOK_FAILED, about=name, reason=f"{notice.id}: {reason}")
                return
            log.warning("hook_retried", hook=name, notice=notice.id, reason=reason)
            await asyncio.sleep(pause_after(attempts).total_seconds())

    def _begin_attempts(self, name: str) -> float:
        """When the notice was attempted first, in seconds since 1970, which a restart does not forget."""
        known = self._reader.find(name)
        since = known.failing_since if known else 0.0
        return since or self._reader.note(name, failing_since=time.time()).failing_since


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
