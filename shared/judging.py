"""What the policy says of a command, and the record of it."""

import asyncio
from typing import TYPE_CHECKING

from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.contracts import CommandJudged, CommandVerdict
from shared.job import current_job

if TYPE_CHECKING:
    from shared.policy import Ruling

MAX_TOLD = 8_000
"""The most characters of a command that go on record."""


async def judge(bus: Bus, command: str, workspace: str = "") -> "Ruling":
    """What the policy says of a shell command; anything but ``allow`` goes on record."""
    from shared import policy

    return await _record(bus, await asyncio.to_thread(policy.judge, command, workspace=workspace))


async def judge_read(bus: Bus, path: str, *, deep: bool = False, workspace: str = "") -> "Ruling":
    """What the policy says of reading a file, or with ``deep`` of copying a folder; it records as judge()."""
    from shared import policy

    ruling = await asyncio.to_thread(policy.judge_read, path, deep=deep, workspace=workspace)
    return await _record(bus, ruling)


async def _record(bus: Bus, ruling: "Ruling") -> "Ruling":
    if ruling.verdict is not CommandVerdict.ALLOW:
        job = current_job.get()
        judged = CommandJudged(
            sender=bus.name,
            goal_id=job.task.goal_id if job else "",
            task_id=job.task.task_id if job else "",
            command=ruling.command[:MAX_TOLD],
            verdict=ruling.verdict,
            rule=ruling.rule,
            why=ruling.why,
        )
        await bus.commit([seal(subjects.event(bus.name, "command_judged"), judged)])
    return ruling
