"""The ledger of turns at model servers that the processes of an office share over the bus."""

import time
from datetime import datetime, timedelta

import msgspec

from shared import subjects
from shared.bus import Bus
from shared.errors import BusUnavailable
from shared.llm.turns import Noted, Turn
from shared.text.times import parse_time

PAGE = 1_000  # Entries that are read at once
PATIENCE = 2.0  # Seconds for an answer of the server: a model is asked without it too


class OfficeLedger:
    """A bucket with an entry for each request, which its own agent alone writes."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._stream = subjects.bucket_stream(subjects.TURNS_BUCKET)
        self._written: tuple[str, float] = ("", 0.0)

    async def write(self, server: str, request: str, turn: Turn) -> int:
        """As Ledger.write."""
        self._require_connection()
        subject = subjects.turn(server, self._bus.name, request)
        answer = await self._bus.store(subject, msgspec.json.encode(turn), timeout=PATIENCE)
        self._written = subject, time.monotonic()
        return int(answer["seq"])

    async def read(self, server: str) -> list[Noted]:
        """As Ledger.read; ages are by the server's clock, which an entry of this process tells."""
        self._require_connection()
        pattern, position, found = subjects.turn(server, "*", "*"), 1, []
        while True:
            request = {"seq": position, "next_by_subj": pattern, "batch": PAGE}
            page = [stored async for stored in self._bus.read(self._stream, request, timeout=PATIENCE)]
            found += page
            if len(page) < PAGE:
                break
            position = page[-1].seq + 1
        subject, at = self._written
        mine = next((parse_time(each.time) for each in found if each.subject == subject), None)
        passed = timedelta(seconds=time.monotonic() - at)
        now = mine + passed if mine else datetime.now().astimezone()
        noted = []
        for each in found:
            try:
                turn = msgspec.json.decode(each.data, type=Turn)
            except ValueError:  # an agent may write anything
                continue
            age = max(0.0, (now - parse_time(each.time)).total_seconds())
            noted.append(Noted(each.subject.rpartition(".")[2], each.seq, age, turn))
        return noted

    def _require_connection(self) -> None:
        if not self._bus.connected:
            raise BusUnavailable("The bus is away")
