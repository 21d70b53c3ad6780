"""Watches the servers of an office: that writes are answered, followers follow, durables deliver."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from services.cli.supervisor.logs import LogLine
from shared import subjects
from shared.bus import Bus
from shared.errors import BusError, MailroomError
from shared.files import write_atomically
from shared.queries.replicas import replicas_of
from shared.queries.status import ALARMS
from shared.settings import Settings
from shared.text.display import count

INTERVAL = 2.0  # Seconds between two looks
PROBE_WAIT = 2.0  # Seconds within which a write must be answered
UNANSWERED = 10.0
"""Seconds without an answer to a write, from a group that says that it is healthy, until another is to lead:
an election is over by then."""
RESTART_AFTER = 20.0
"""Seconds after which the server that leads is started again, if that did not help: its group may be catching
up without end (nats-server 8519), so that nobody can take over."""
BEHIND = 30.0  # Seconds for which a server may follow badly, until that is told
STALLED = 20.0
"""Seconds for which a durable may have messages and processes that ask for them, and deliver none."""
NOTHING = 2**53
"""A message that is not there. To erase it is a write as any other, which all servers have to agree on, and
changes nothing."""


class Since:
    """Since when something is so, by the monotonic clock; what is not so any more is forgotten."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[object, float]] = {}

    def lasts(self, what: str, *, so: bool, at: object = None) -> float:
        """For how many seconds ``what`` has been so without a change of ``at``."""
        before, since = self._since.pop(what, (at, time.monotonic()))
        if not so:
            return 0.0
        self._since[what] = (at, since if before == at else time.monotonic())
        return time.monotonic() - self._since[what][1]


class ServersWatch:
    """Finds what the servers do not notice themselves, cures what can be cured, and tells the rest.

    ``report`` gets what is found, and what is over; ``restart`` starts the server of a name again. What is
    wrong at present is in a file that the status reads.
    """

    def __init__(
        self, folder: Path, report: Callable[[LogLine], None], restart: Callable[[str], None]
    ) -> None:
        self.alarms: dict[str, str] = {}
        self._file = folder / ALARMS
        self._report, self._restart = report, restart
        self._since = Since()
        self._acted: dict[str, float] = {}

    async def run(self, settings: Settings, url: str) -> None:
        """Watch until cancelled."""
        try:
            while True:
                try:
                    bus = await Bus.connect(subjects.ADMIN, url, settings.keys / f"{subjects.ADMIN}.nk")
                    try:
                        while not bus.closed.is_set():
                            await self.look(bus)
                            await asyncio.sleep(INTERVAL)
                    finally:
                        await bus.close()
                except (MailroomError, OSError) as error:
                    self._tell("watch", f"the servers cannot be watched: {error}")
                    await asyncio.sleep(INTERVAL)
        finally:
            self._file.unlink(missing_ok=True)

    async def look(self, bus: Bus) -> None:
        """Look at each stream of the log once."""
        for stream in subjects.LOG:
            try:
                info = await bus.call(f"STREAM.INFO.{stream}", timeout=PROBE_WAIT)
            except BusError:
                info = {}
            leader = str((info.get("cluster") or {}).get("leader") or "")
            await self._watch_writes(bus, stream, leader)
            self._watch_followers(stream, info)
        await self._watch_durables(bus)
        self._tell("watch", "")

    async def _watch_writes(self, bus: Bus, stream: str, leader: str) -> None:
        answered = False
        with contextlib.suppress(BusError):
            verb = f"STREAM.MSG.DELETE.{stream}"
            answer = await bus.call(verb, {"seq": NOTHING, "no_erase": True}, timeout=PROBE_WAIT)
            answered = answer.get("error", {}).get("code") != 503
        silent = self._since.lasts(f"{stream} writes", so=not answered)
        if silent < UNANSWERED:
            self._tell(stream, "")
        elif not leader:
            self._tell(stream, f"no server leads {stream}: fewer than two of three reach each other")
        else:
            self._tell(stream, f"{leader} leads {stream} and answers no write")
            if self._may_act(f"move {stream}", RESTART_AFTER):
                with contextlib.suppress(BusError):
                    await bus.call(f"STREAM.LEADER.STEPDOWN.{stream}", timeout=PROBE_WAIT)
            elif silent > UNANSWERED + RESTART_AFTER and self._may_act("restart", 3 * RESTART_AFTER):
                self._restart(leader)

    def _may_act(self, what: str, pause: float) -> bool:
        """Whether it is ``pause`` seconds since this was done last; then it counts as done now."""
        now = time.monotonic()
        if now - self._acted.get(what, float("-inf")) < pause:
            return False
        self._acted[what] = now
        return True

    def _watch_followers(self, stream: str, info: Mapping[str, Any]) -> None:
        for each in replicas_of(stream, info):
            seconds = self._since.lasts(f"{stream} {each.server}", so=not each.current)
            self._tell(f"{stream} {each.server}", f"{each} in {stream}" if seconds >= BEHIND else "")

    async def _watch_durables(self, bus: Bus) -> None:
        """Have another server lead a durable that delivers nothing to those who ask: they ask again."""
        try:
            durables = (await bus.call(f"CONSUMER.LIST.{subjects.OFFICE}")).get("consumers") or []
        except BusError:
            return
        for each in durables:
            name, reached = each["name"], each["delivered"]["stream_seq"]
            waits = each["num_pending"] > 0 and each["num_waiting"] > 0
            full = each["num_ack_pending"] >= each["config"].get("max_ack_pending", 1 << 30)
            seconds = self._since.lasts(f"durable {name}", so=waits and not full, at=reached)
            waiting = count(each["num_pending"], "message")
            stalled = seconds >= STALLED
            self._tell(f"durable {name}", f"{name} asks for {waiting} and gets none" if stalled else "")
            if stalled and self._may_act(f"move {name}", STALLED):
                with contextlib.suppress(BusError):
                    await bus.call(f"CONSUMER.LEADER.STEPDOWN.{subjects.OFFICE}.{name}")

    def _tell(self, about: str, text: str) -> None:
        """Note what is wrong, or with an empty text that it is over; report what is new."""
        before = self.alarms.pop(about, "")
        if text:
            self.alarms[about] = text
        if bool(before) != bool(text):
            level, what = ("error", text) if text else ("info", f"no more: {before}")
            self._report(LogLine("office", level, what))
            with contextlib.suppress(OSError):
                write_atomically(self._file, msgspec.json.encode(list(self.alarms.values())))
