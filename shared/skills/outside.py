"""Folders outside the workspace that a task may copy from."""

import asyncio
import shlex
from pathlib import Path

from shared.contracts import CommandVerdict
from shared.errors import ActionError, NotApproved
from shared.skills.host import Host
from shared.skills.workspace import open_workspace


async def require_source(host: Host, path: str) -> Path:
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
    state = await asyncio.to_thread(host.settings.state_dir.resolve)
    if folder.is_relative_to(state) or not await asyncio.to_thread(folder.is_dir):
        raise ActionError(
            f"{path[:200]} is no folder that can be copied",
            "Name a project's folder on the engineer's machine",
        )
    ruling = await host.judge(f"cp -r {shlex.quote(str(folder))} copy", str(open_workspace(host)))
    if ruling.verdict == CommandVerdict.DENY:
        raise NotApproved(f"The policy denies to copy {folder} ({ruling.rule}): {ruling.why}")
    if ruling.verdict != CommandVerdict.ALLOW:
        await host.ask_approval(f"copy {folder} into the workspace", rule=ruling.rule, why=ruling.why)
    return folder
