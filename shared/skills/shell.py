"""Commands in the workspace: judged by the policy, approved if needed, run in the jail, undone."""

import asyncio
import shutil

from shared.agent.context import AgentContext
from shared.errors import ActionError
from shared.gate.registries import Registry
from shared.skills.skill import Skill
from shared.skills.workspace import (
    OK_CODES,
    ExitCodes,
    changing,
    journalled,
    open_workspace,
    require_allowed,
    run_recorded,
    shorten,
    snapshots_of,
)
from shared.tasks.actions import Outcome, register_action

LONGEST_COMMAND = 20_000
"""The most characters of a command: more is a script, to be written to a file and run from there."""


def shell(command: str) -> list[str]:
    """The words that run ``command`` by a shell."""
    return [shutil.which("bash") or "sh", "-c", command]


async def require_command(context: AgentContext, command: str, timeout: float = 0.0) -> Registry | None:
    """What a command of a model may reach, once the policy, or a person if it says so, allows it.

    Raises ActionError for one that cannot be run as it is, NotApproved.
    """
    if not command.strip():
        raise ActionError("The command is empty")
    if "\0" in command:
        raise ActionError("The command holds a NUL character")
    if len(command) > LONGEST_COMMAND:
        raise ActionError(
            f"The command has {len(command):,} characters, more than {LONGEST_COMMAND:,}",
            "Write a script to a file of the workspace, and run that",
        )
    if not 0 <= timeout < 1e6:
        raise ActionError(f"timeout must be a number of seconds from 0 on, not {timeout}")
    ruling = await context.judge_command(command, str(await open_workspace(context)))
    opened = await require_allowed(
        context,
        ruling,
        f"run in the workspace: {command}",
        denied="this command",
        cure="Do it another way, or not at all",
    )
    return await context.open_reach(ruling, opened)


class ShellSkill(Skill):
    """Runs commands that can read the system, change the workspace, and reach the hosts they were granted."""

    @register_action(
        "Run a shell command in the workspace; what changes files can be undone, a network has to be granted",
        {
            "command": "The command, as for bash -c",
            "timeout": "Seconds it may take; 0 for the most that is allowed",
            "ok_codes": OK_CODES,
        },
    )
    async def run_shell(self, command: str, timeout: float = 0.0, ok_codes: ExitCodes = (0,)) -> Outcome:
        """Its output and exit code, in data key ``commands``; FAILED unless that is one of ``ok_codes``.

        Raises NotApproved if the policy denies it, or a person has to approve it and does not.
        """
        network = await require_command(self.context, command, timeout)
        confined = network is None
        async with changing(self.context, f"run: {command}", confined=confined) as workspace:
            await self.context.progress(f"runs {shorten(command)}")
            return await run_recorded(
                self.context,
                shell(command),
                command,
                cwd=workspace,
                timeout=timeout,
                network=network,
                ok_codes=ok_codes,
            )

    @register_action(
        "Undo the last change of the workspace; called again, the change before it",
        {"of_others": "Whether to undo it even if another task of the goal did it"},
    )
    async def undo(self, of_others: bool = False) -> Outcome:
        """The paths it touched are in the data; raises ActionError if there is nothing to take back.

        Also if another task changed the workspace last; the error names that change.
        """
        await open_workspace(self.context)
        snapshots = snapshots_of(self.context.settings, self.context.task)
        owner = "" if of_others else self.context.task.task_id
        async with journalled(self.context, "undo"):
            restored = await asyncio.to_thread(snapshots.undo, owner)
        lost = "".join(f"\nNot brought back: {path}, because {why}" for path, why in restored.lost.items())
        return Outcome(
            output=f"Took back: {restored.label} ({restored.count:,} paths){lost}",
            data={
                "took_back": restored.label,
                "written": list(restored.written),
                "removed": list(restored.removed),
                "lost": restored.lost,
            },
        )
