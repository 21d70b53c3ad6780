"""Workspaces: one folder for each goal, shared by its tasks; and the outside files a task may use."""

import asyncio
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from shared.agent.context import AgentContext
from shared.contracts import CommandVerdict
from shared.effects import begin_effect
from shared.errors import ActionError, NotApproved
from shared.files import write_atomically
from shared.sandbox.confined import ConfinedFolder
from shared.settings import Settings
from shared.tasks.context import workspace_name, workspace_path

if TYPE_CHECKING:
    from shared.policy import Ruling


async def open_workspace(context: AgentContext) -> Path:
    """The workspace of the current task as an absolute path; it is created if needed.

    Its times are updated, so that it counts as used. Raises ActionError if it cannot be created, or is not a
    folder.
    """
    await begin_effect()
    path = workspace_path(context.settings, context.task)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        if path.is_symlink():
            raise ActionError(f"The workspace {path} is a link", "Remove it")
        os.utime(path)
    except OSError as error:
        raise ActionError(f"The workspace {path} cannot be made: {error.strerror}") from None
    return path


def require_existing(workspace: Path, path: str) -> str:
    """The name of a file or folder in the workspace, relative to it; raises ActionError for anything else."""
    with ConfinedFolder(workspace) as confined:
        name = confined.relative(path)
        info = os.fstat(confined.fd) if name == "." else confined.stat(name)
    if info is None or not (stat.S_ISDIR(info.st_mode) or stat.S_ISREG(info.st_mode)):
        raise ActionError(
            f"There is no file or folder {path!r} in the workspace", "list_files shows the workspace"
        )
    return name


def snapshots_path(settings: Settings, name: str) -> Path:
    """The folder of the snapshots of the workspace ``name``: outside of it, where no command can write."""
    return settings.snapshots / name


async def write_output(context: AgentContext, path: Path, text: str, name: str) -> None:
    """Write ``text`` to ``path`` as a repeatable effect; ``name`` is what it is, as in "the brief".

    Raises ActionError if it cannot be written.
    """
    async with context.effect(f"write {name} into {path.parent}", repeatable=True):
        try:
            await asyncio.to_thread(write_atomically, path, text)
        except OSError as error:
            cause = f"{name[:1].upper()}{name[1:]} cannot be written into {path.parent}: {error.strerror}"
            raise ActionError(cause, "Make the folder writable") from None


def outputs_path(context: AgentContext) -> Path:
    """The folder for what the task being worked on delivers; it is not made here."""
    return context.settings.outputs / workspace_name(context.task)


def goal_folder(settings: Settings, path: Path) -> Path | None:
    """The workspace, or the folder of outputs, that ``path``, without links, lies in; None elsewhere.

    No command can put another folder in its place, as it can with folders within it.
    """
    for place in (settings.workspaces.resolve(), settings.outputs.resolve()):
        if path != place and path.is_relative_to(place):
            return place / path.relative_to(place).parts[0]
    return None


def note_origin(context: AgentContext, folder: str, source: Path) -> None:
    """Record the origin of the workspace's ``folder``, a copy, where no command can change it."""
    path = _origins(context)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, msgspec.json.encode({**_read_origins(path), folder: str(source)}))
    except OSError as error:
        raise ActionError(f"Where {folder} comes from cannot be noted: {error.strerror}") from None


def origin_of(context: AgentContext, folder: str) -> Path | None:
    """The origin of the workspace's ``folder``; None if it is not a copy."""
    source = _read_origins(_origins(context)).get(folder)
    return Path(source) if source else None


def _origins(context: AgentContext) -> Path:
    return snapshots_path(context.settings, workspace_name(context.task)) / "origins.json"


def _read_origins(path: Path) -> dict[str, str]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.MsgspecError):
        return {}


def slug(text: str, limit: int = 40) -> str:
    """``text`` as part of a file's name: lower-case letters, digits and dashes, never empty."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:limit].strip("-") or "untitled"


async def require_source(context: AgentContext, path: str) -> Path:
    """The folder ``path`` of this machine, if it may be copied into the workspace.

    The task's model can read everything that is copied, so the policy denies
    credentials, and requires approval for folders outside of projects. The office's own folder, with keys and
    other workspaces, is never copied. Raises ActionError, NotApproved.
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
    ruling = await context.judge_read(str(folder), deep=True, workspace=str(await open_workspace(context)))
    await require_allowed(context, ruling, f"copy {folder} into the workspace")
    return folder


async def require_readable(context: AgentContext, folder: str, path: str) -> None:
    """Check that the file ``path`` beneath ``folder`` may be read, as the policy judges.

    In the office's own folder only workspaces and outputs may be. Raises ActionError, NotApproved.
    """
    if "\0" in folder + path:
        raise ActionError(f"{path[:200]!r} is not the path of a file")
    file = await asyncio.to_thread(Path(folder, path).resolve)
    settings = context.settings
    own, open_ones = (settings.state_dir, settings.keys), (settings.workspaces, settings.outputs)
    if _lies_in(file, own) and not _lies_in(file, open_ones):
        raise ActionError(f"{path[:200]} may not be read", "It is the office's own")
    await require_allowed(context, await context.judge_read(str(file)), f"read {file}")


def _lies_in(file: Path, folders: tuple[Path, ...]) -> bool:
    return any(file.is_relative_to(folder.resolve()) for folder in folders)


async def require_allowed(
    context: AgentContext, ruling: "Ruling", what: str, *, denied: str = "", cure: str = ""
) -> frozenset[str]:
    """Ask a person to approve ``what`` if the policy's ``ruling`` says so; returns the reach that this opens.

    Raises NotApproved.

    ``denied`` is what the policy denies, if that is not "to ``what``".
    """
    if ruling.verdict == CommandVerdict.DENY:
        raise NotApproved(f"The policy denies {denied or f'to {what}'} ({ruling.rule}): {ruling.why}", cure)
    if ruling.verdict != CommandVerdict.ALLOW:
        return await context.approvals.require(what, rule=ruling.rule, why=ruling.why, reach=ruling.reach)
    return frozenset()
