"""The ledger of turns at model servers that the processes of an office share over the bus."""

from shared import subjects
from shared.bus import Bus
from shared.llm.turns import Noted, Turn
from shared.reasoning.entries import Entries


class OfficeLedger:
    """A bucket with an entry for each request, which its own agent alone writes."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._entries = Entries(bus, subjects.TURNS_BUCKET, Turn)

    async def write(self, server: str, request: str, turn: Turn) -> int:
        """As Ledger.write."""
        return await self._entries.write(subjects.turn(server, self._bus.name, request), turn)

    async def read(self, server: str) -> list[Noted]:
        """As Ledger.read; ages are by the server's clock, which an entry of this process tells."""
        found = await self._entries.read(subjects.turn(server, "*", "*"))
        return [Noted(each.subject.rpartition(".")[2], each.seq, each.age, each.value) for each in found]
