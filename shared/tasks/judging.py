"""What the policy says of a command, and the record of it."""

import asyncio
from typing import TYPE_CHECKING

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.contracts import CommandJudged, CommandVerdict
from shared.tasks.context import current_task

if TYPE_CHECKING:
    from shared.sandbox.policy import Ruling

MAX_TOLD = 8_000
"""The most characters of a command that go on record."""


async def judge(bus: Bus, command: str, workspace: str = "") -> "Ruling":
    """What the policy says of a shell command; anything but ``allow`` goes on record."""
    from shared.sandbox import policy

    ruling = await asyncio.to_thread(policy.judge, command, workspace=workspace)
    if ruling.verdict is not CommandVerdict.ALLOW:
        job = current_task.get()
        judged = CommandJudged(
            sender=bus.name,
            goal_id=job.task.goal_id if job else "",
            task_id=job.task.task_id if job else "",
            command=command[:MAX_TOLD],
            verdict=ruling.verdict,
            rule=ruling.rule,
            why=ruling.why,
        )
        await bus.commit([seal(subjects.event(bus.name, "command_judged"), judged)])
    return ruling
