"""The everyday messages: conversations with what each line means, in three parts."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

BUSY = {
    "office": False,
    "office_held": False,
    "ten": True,
    "ten_held": True,
    "people": True,
    "people_held": True,
}
"""What is asked of an office in which much has happened, and whether that has a full calendar too."""
HALVES = ("work", "held", "fresh", *BUSY)
FOLDER = Path(__file__).parent
EFFECTS = {
    "work": "goal",
    "reminder_set": "reminder",
    "reminder_change": "reminder",
    "reminder_cancel": "reminder",
    "remember": "memory_write",
    "correct": "memory_write",
    "forget": "forget",
    "night_job": "job",
    "schedule": "job",
    "send_mail": "mail_sent",
    "approve": "approval",
    "calendar_add": "event",
}
"""The effect that a meaning has; the others have none."""
OF_OFFICE = frozenset("goals waiting mail queue spending brief agents project capabilities approve".split())


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One message: what it means, other right readings, values, and effects that would be wrong.

    ``*`` means any tool that tells of the office. ``tells`` are patterns that the answer has, whatever the
    case, or with a ``!`` has not.
    """

    say: str
    means: str
    also: tuple[str, ...] = ()
    slots: dict[str, Any] = {}
    never: tuple[str, ...] = ()
    tells: tuple[str, ...] = ()

    @property
    def meanings(self) -> frozenset[str]:
        """Every right reading."""
        return OF_OFFICE if self.means == "*" else frozenset((self.means, *self.also))

    def is_told(self, answer: str) -> bool:
        """Whether an answer has what it has to tell, and nothing that it must not."""
        return all(
            bool(re.search(each.removeprefix("!"), answer, re.IGNORECASE)) is not each.startswith("!")
            for each in self.tells
        )

    def is_wrong(self, effects: Sequence[str]) -> bool:
        """Whether one of ``effects`` must not be, or is none that a right reading has."""
        meant = {EFFECTS[each] for each in self.meanings if each in EFFECTS}
        return any(effect in self.never or effect not in meant for effect in effects)


class Talk(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation of one person."""

    id: str
    area: str
    lines: tuple[Line, ...]


def read_talks(half: str) -> list[Talk]:
    """The conversations of a half, or of the ones that were added last."""
    lines = (FOLDER / f"{half}.jsonl").read_text(encoding="utf-8").splitlines()
    return [msgspec.json.decode(line, type=Talk) for line in lines if line.strip()]
