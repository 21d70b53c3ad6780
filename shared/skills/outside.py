"""Folders and files outside the workspace that a task may copy or read."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from shared.agent.context import AgentContext
from shared.contracts import CommandVerdict
from shared.errors import ActionError, NotApproved
from shared.skills.workspace import open_workspace

if TYPE_CHECKING:
    from shared.policy import Ruling


async def require_source(context: AgentContext, path: str) -> Path:
    """The folder ``path`` of this machine, if it may be copied into the workspace.

    What a task copies, whoever thinks for it reads. So the policy judges it as it would judge ``cp``: it
    denies credentials, and has a person asked for what is not a project's. The office's own folder, with its
    keys and the other workspaces, is none. Raises ActionError, NotApproved.
    """
    folder = Path(path)
    if "\0" in path or not folder.is_absolute():
        raise ActionError(
            f"{path[:200]!r} is not an absolute path", "Give the whole path of the folder, from / on"
        )
    folder = await asyncio.to_thread(folder.resolve)
    state = await asyncio.to_thread(context.settings.state_dir.resolve)
    if folder.is_relative_to(state) or not await asyncio.to_thread(folder.is_dir):
        raise ActionError(
            f"{path[:200]} is no folder that can be copied",
            "Name a project's folder on the engineer's machine",
        )
    ruling = await context.judge_read(str(folder), deep=True, workspace=str(open_workspace(context)))
    await _require_allowed(context, ruling, f"copy {folder} into the workspace")
    return folder


async def require_readable(context: AgentContext, folder: str, path: str) -> None:
    """Let the file ``path`` beneath ``folder`` be read: the policy judges it as it would judge ``cat``.

    Of the office's own folder there are only the workspaces and the outputs. Raises ActionError, NotApproved.
    """
    if "\0" in folder + path:
        raise ActionError(f"{path[:200]!r} is not the path of a file")
    file = await asyncio.to_thread(Path(folder, path).resolve)
    settings = context.settings
    own, open_ones = (settings.state_dir, settings.keys), (settings.workspaces, settings.outputs)
    if _lies_in(file, own) and not _lies_in(file, open_ones):
        raise ActionError(f"{path[:200]} may not be read", "It is the office's own")
    await _require_allowed(context, await context.judge_read(str(file)), f"read {file}")


def _lies_in(file: Path, folders: tuple[Path, ...]) -> bool:
    return any(file.is_relative_to(folder.resolve()) for folder in folders)


async def _require_allowed(context: AgentContext, ruling: "Ruling", what: str) -> None:
    if ruling.verdict == CommandVerdict.DENY:
        raise NotApproved(f"The policy denies to {what} ({ruling.rule}): {ruling.why}")
    if ruling.verdict != CommandVerdict.ALLOW:
        await context.approvals.require(what, rule=ruling.rule, why=ruling.why)
