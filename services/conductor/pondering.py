"""Having a model asked about goals while the mailbox goes on, and committing what it decided, once."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from services.conductor.course import state_of
from services.conductor.deliberation import Deliberation
from services.conductor.records import Records
from services.conductor.repair import think_of
from shared import subjects
from shared.agent.base import Outbox
from shared.agent.dispatcher import address
from shared.bus import Bus, Entry
from shared.contracts import Envelope, Goal, OfficeState
from shared.errors import BusUnavailable, Conflict

AT_ONCE = 8
"""Goals about which a model is asked at once; the others wait their turn."""
LOOK_AGAIN = 60.0
"""Seconds after which it is looked whether a model is still asked about a goal: the process may be gone."""
DECIDE_TRIES = 20
TRY_AGAIN = 0.25
"""Seconds after which a decision is committed anew where that lost a race, or the server was away."""


class Pondering:
    """Keeps in the goal's record that a model is being asked, so that any process can go on with it.

    ``after`` says what follows from a decision: it gets what was asked, the goal decided and before, and the
    sequence of its record. ``spawn`` runs something in the background.
    """

    def __init__(
        self,
        bus: Bus,
        records: Records,
        deliberation: Deliberation,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        after: Callable[[str, Goal, Goal, int], Awaitable[Outbox]],
    ) -> None:
        self._bus = bus
        self._records = records
        self._deliberation = deliberation
        self._spawn = spawn
        self._after = after
        self._begun: set[str] = set()
        self._again: set[str] = set()
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def ponder(
        self, goal: Goal, what: str, before: OfficeState, expect: int, more: Sequence[Entry] = ()
    ) -> Outbox:
        """Store that a model is asked for ``what``, with ``more`` in the same commit, and have it asked."""
        await self._records.look_again(goal.goal_id, LOOK_AGAIN)
        thinking = think_of(goal, what)
        await self._bus.commit([self._records.entry(thinking, state_of(thinking), before, expect), *more])
        self.begin(goal.goal_id)
        return ()

    async def go_on(self, goal_id: str) -> None:
        """Have a model asked, if this process does not yet, and look again later."""
        await self._records.look_again(goal_id, LOOK_AGAIN)
        self.begin(goal_id)

    def begin(self, goal_id: str) -> None:
        """Ask, in the background, what the goal's record says is to be asked: perhaps nothing."""
        if goal_id in self._begun:
            self._again.add(goal_id)
            return
        self._begun.add(goal_id)
        self._spawn(self._deliberate(goal_id))

    async def _deliberate(self, goal_id: str) -> None:
        try:
            await self._decide(goal_id)
        finally:
            self._begun.discard(goal_id)
        if goal_id in self._again:
            # It was asked for once more meanwhile, perhaps about what this decision led to.
            self._again.discard(goal_id)
            self.begin(goal_id)

    async def _decide(self, goal_id: str) -> None:
        async with self._turns:
            found = await self._records.find(goal_id)
            if found is None or not found[0].thinking or found[0].status.final:
                return
            asked = found[0]
            decision = await self._deliberation.decide(asked, await self._records.results(asked))
        for _ in range(DECIDE_TRIES):
            found = await self._records.find(goal_id)
            if found is None or found[0].status.final or found[0].thinking != asked.thinking:
                return
            with contextlib.suppress(Conflict, BusUnavailable):
                await self._commit(await self._after(asked.thinking, decision(found[0]), *found))
                return
            await asyncio.sleep(TRY_AGAIN)

    async def _commit(self, replies: Outbox) -> None:
        entries: list[Entry] = []
        for reply in replies:
            entries += address(reply, subjects.CONDUCTOR) if isinstance(reply, Envelope) else [reply]
        if entries:
            await self._bus.commit(entries)
