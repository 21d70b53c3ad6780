"""What people add to a goal while agents work on it, as those agents learn it between two steps."""

from collections.abc import Sequence

from shared import subjects
from shared.bus import Bus
from shared.bus.records import read_record
from shared.contracts import Instructions
from shared.contracts.base import amended
from shared.errors import BusError
from shared.log import logger
from shared.tasks.context import TaskContext
from shared.tasks.said import SaidChecker

log = logger(__name__)


class NewInstructions:
    """Reads what was added to the goal of a task since it was submitted; each text is returned once.

    The record is the conductor's alone, by the rights of the broker. What the texts name counts as said by a
    person from then on, if the signature is the conductor's.
    """

    def __init__(self, bus: Bus, task: TaskContext) -> None:
        self._bus = bus
        self._task = task
        known = task.task.context.get("instructions")
        self._known = [str(text) for text in known] if isinstance(known, list) else []

    async def read(self) -> Sequence[str]:
        """The texts that are new; none if the bus cannot be reached."""
        goal_id = self._task.task.goal_id
        if not goal_id:
            return ()
        subject = subjects.record(subjects.CONDUCTOR, subjects.INSTRUCTIONS, goal_id)
        try:
            record = await read_record(self._bus, subject, Instructions)
            if record is None:
                return ()
            told = [each.text for each in record.value.instructions if each.text.strip()]
            new = [text for text in told if text not in self._known]
            if new and record.value.said is not None:
                said = amended(self._task.task, said=record.value.said)
                self._task.restate(await SaidChecker(self._bus).check(said))
        except (BusError, ValueError) as error:
            log.warning("instructions_unread", goal_id=goal_id, reason=str(error))
            return ()
        self._known += new
        return new
