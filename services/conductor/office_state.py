"""The board that says what the office as a whole is doing."""

import asyncio

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.contracts import OfficeState, StateChanged
from shared.errors import BusError

POST_EVERY = 0.25
"""Seconds between posts while something changes: the goals' own records are exact, this one follows."""
MAX_LISTED = 1_000
"""The most goals the board lists."""
BUSIEST_FIRST = (OfficeState.EXECUTING, OfficeState.REVIEW, OfficeState.PLANNING)


class OfficeBoard:
    """Keeps ``state.office`` in step with the goals."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._active: dict[str, OfficeState] = {}
        self._posted: dict[str, OfficeState] | None = None
        self._state = OfficeState.IDLE

    async def restore(self) -> None:
        """Begin with the goals that were active when the board was last posted and still are."""
        stored = await self._bus.last(subjects.OFFICE, subjects.OFFICE_STATE)
        if stored is None:
            return
        posted = StateChanged.from_json(stored.data)
        self._state = posted.state
        for goal_id in posted.active:
            goal = await self._bus.last(subjects.OFFICE, subjects.goal(goal_id))
            if goal is not None:
                self.post(goal_id, StateChanged.from_json(goal.data).state)

    @property
    def active(self) -> tuple[str, ...]:
        """The goals that are open, as far as the board knows."""
        return tuple(self._active)

    def post(self, goal_id: str, state: OfficeState) -> None:
        """A goal is in this state now."""
        if state is OfficeState.IDLE:
            self._active.pop(goal_id, None)
        else:
            self._active[goal_id] = state

    async def keep_posted(self) -> None:
        """Post every change, until cancelled."""
        while True:
            if self._active != self._posted:
                try:
                    await self._post()
                except BusError:
                    self._posted = None
            await asyncio.sleep(POST_EVERY)

    async def _post(self) -> None:
        active = dict(self._active)
        listed = dict(list(active.items())[:MAX_LISTED])
        state = next((state for state in BUSIEST_FIRST if state in active.values()), OfficeState.IDLE)
        change = StateChanged(sender=subjects.CONDUCTOR, state=state, previous=self._state, active=listed)
        await self._bus.commit([seal(subjects.OFFICE_STATE, change)])
        self._state, self._posted = state, active
