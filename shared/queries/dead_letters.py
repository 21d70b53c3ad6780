"""How many dead letters there are, and which of them were dropped: these stay in the log."""

from shared import subjects
from shared.bus import Bus
from shared.contracts import DeadLetter, LettersDropped
from shared.queries.records import count_subjects, read_last, scan


async def read_dropped(bus: Bus) -> dict[str, frozenset[int]]:
    """The numbers of the dead letters that were dropped or sent again, by the agent that wrote them."""
    names = await count_subjects(bus, subjects.OFFICE, subjects.dropped("*"))
    dropped: dict[str, frozenset[int]] = {}
    for subject, stored in (await read_last(bus, subjects.OFFICE, names)).items():
        numbers = LettersDropped.from_json(stored.data).numbers
        dropped[subject.rpartition(".")[2]] = frozenset(numbers)
    return dropped


async def count_dead_letters(bus: Bus) -> dict[str, int]:
    """How many dead letters each agent has that were not dropped."""
    dropped = await read_dropped(bus)
    counts = await count_subjects(bus, subjects.OFFICE, subjects.dead("*"))
    left = {
        agent: number - len(dropped.get(agent, ()))
        for subject, number in counts.items()
        if (agent := subject.rpartition(".")[2])
    }
    return {agent: number for agent, number in left.items() if number}


async def find_dead_letter(bus: Bus, agent: str, seq: int) -> DeadLetter | None:
    """The dead letter of ``agent`` about message ``seq`` of OFFICE, unless it was dropped or sent again."""
    async for stored in scan(bus, subjects.OFFICE, subjects.dead(agent), seq=seq):
        try:
            letter = DeadLetter.from_json(stored.data)
        except ValueError:
            continue
        if (letter.stream, letter.stream_seq) == (subjects.OFFICE, seq):
            dropped = await read_dropped(bus)
            return None if stored.seq in dropped.get(agent, ()) else letter
    return None
