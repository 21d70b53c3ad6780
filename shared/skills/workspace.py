"""Workspaces: a folder for each task; how skills change it; outside files."""

import asyncio
import contextlib
import os
import re
import stat
from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from shared.agent.context import AgentContext
from shared.contracts import CommandVerdict, ResultOutcome, Task, generate_iso_timestamp
from shared.effects import begin_effect
from shared.errors import ActionError, NotApproved
from shared.files import write_atomically
from shared.gate.registries import Registry
from shared.sandbox import CommandResult, run_command
from shared.sandbox.confined import ConfinedFolder
from shared.sandbox.snapshots import Snapshots
from shared.settings import Settings
from shared.skills.origins import bases_path, begin_workspace, read_origins, snapshots_path
from shared.tasks.actions import Outcome
from shared.tasks.context import goal_of, inputs_path, is_own, workspace_path
from shared.text.display import flatten

if TYPE_CHECKING:
    from shared.policy import Ruling


async def open_workspace(context: AgentContext) -> Path:
    """The workspace of the current task as an absolute path; it is begun if needed.

    Its times are updated, so that it counts as used. Raises ActionError if it cannot be created, or is not a
    folder.
    """
    await begin_effect()
    path = workspace_path(context.settings, context.task)
    try:
        if not path.exists():
            await begin_workspace(context.settings, context.task, path)
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


def shared_objects(context: AgentContext) -> tuple[Path, ...]:
    """What commands read besides the workspace: the objects that its clones share with the goal's others."""
    bases = bases_path(context.settings, context.task)
    return (bases,) if bases.is_dir() else ()


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
    return context.settings.outputs / goal_of(context.task)


def goal_folder(settings: Settings, path: Path) -> Path | None:
    """The goal's folder of workspaces, or of outputs, or what a person sent, that ``path`` lies in, without
    links; None elsewhere.

    No command can put another folder in its place, as it can with folders within it.
    """
    for place in (settings.workspaces.resolve(), settings.outputs.resolve(), inputs_path(settings)):
        if path != place and path.is_relative_to(place):
            return place / path.relative_to(place).parts[0]
    return None


def origin_of(context: AgentContext, folder: str) -> Path | None:
    """The origin of the workspace's ``folder``; None if it is not a copy."""
    origin = read_origins(context.settings, context.task).folders.get(folder)
    return Path(origin.source) if origin else None


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
    if is_own(context.settings, folder) or not await asyncio.to_thread(folder.is_dir):
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
    own = (settings.state_dir, settings.keys)
    open_ones = (settings.workspaces, settings.outputs, inputs_path(settings))
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


# --- changing it: with a snapshot before, and a note of what was run after ----------------------------

LONGEST_NOTE = 300  # Characters of a command in the journal; a longer one is cut and gets a digest
COMMAND_SHOWN = 120  # Characters of a command that the reason of its failure quotes
LAST_LINE = 300  # Characters of the last line of its output that the reason quotes
ExitCodes = tuple[Annotated[int, msgspec.Meta(ge=0, le=255)], ...]  # Exit codes as a shell reports them
OK_CODES = "Exit codes that are no failure, such as [0, 1] for grep, which ends with 1 if it finds nothing"
OUTPUT_LIMIT = 16_000
"""Bytes of a command's output in the outcome, for a model to read; the log has all of it."""


class RanCommand(msgspec.Struct, frozen=True, kw_only=True):
    """A command that was run for a task, and how it ended."""

    command: str
    exit_code: int
    seconds: float
    timed_out: bool = False
    started_at: str
    log: str = ""


def snapshots_of(settings: Settings, task: Task) -> Snapshots:
    """The snapshots of a task's workspace."""
    return Snapshots(workspace_path(settings, task), snapshots_path(settings, task))


@contextlib.asynccontextmanager
async def changing(
    context: AgentContext, what: str, *, repeatable: bool = False, confined: bool = False
) -> AsyncIterator[Path]:
    """The workspace, for an effect on it: a snapshot is taken, then the effect is recorded.

    Raises ActionError if no snapshot can be made (then nothing is done), and Reject if an earlier
    attempt was interrupted while it did the same, unless that is ``repeatable``, or ``confined`` to the
    workspace and lost with it.
    """
    workspace = await open_workspace(context)
    note = shorten(what)
    snapshots = snapshots_of(context.settings, context.task)
    held = contextlib.ExitStack()
    entering = asyncio.ensure_future(
        asyncio.to_thread(held.enter_context, snapshots.changing(note, context.task.task_id))
    )
    try:
        await asyncio.shield(entering)
        async with journalled(context, note, repeatable=repeatable, confined=confined):
            yield workspace
            # Before the effect counts as done: the process that goes on elsewhere has its effect.
            await context.travelling.store(context.current_task.claim)
    finally:
        await asyncio.wait({entering})  # if cancelled meanwhile, it would be held for good
        entering.exception()
        await asyncio.to_thread(held.close)


@contextlib.asynccontextmanager
async def journalled(
    context: AgentContext, note: str, *, repeatable: bool = False, confined: bool = False
) -> AsyncIterator[None]:
    """``context.effect`` around what may fail: an ActionError ends the effect, so it may be tried again."""
    failed: ActionError | None = None
    async with context.effect(note, repeatable=repeatable, confined=confined):
        try:
            yield
        except ActionError as error:
            failed = error
    if failed is not None:
        raise failed


def shorten(what: str) -> str:
    """``what`` on one line, with a digest if it was cut, so that different ones stay different."""
    line = " ".join(what.split())
    if len(line) <= LONGEST_NOTE and line == what:
        return line
    return f"{line[:LONGEST_NOTE]}… [{sha256(what.encode(errors='replace')).hexdigest()[:12]}]"


async def run_recorded(
    context: AgentContext,
    argv: list[str],
    shown: str,
    *,
    cwd: Path,
    timeout: float = 0.0,
    env: dict[str, str] | None = None,
    network: Registry | None = None,
    ok_codes: Sequence[int] = (0,),
    writable: Sequence[Path] = (),
    readable: Sequence[Path] = (),
) -> Outcome:
    """Run a program in the jail with the workspace, or what is ``writable``, as all it can change; record it.

    ``shown`` is the command for people; ``timeout`` is at most, and by default, the setting
    ``command_timeout``; ``network`` is what it may reach, by default nothing. The outcome is FAILED if the
    command was stopped, refused a connection, or ended with none of ``ok_codes``; the log is among its
    output paths.
    """
    longest = context.settings.command_timeout
    workspace = await open_workspace(context)
    started = generate_iso_timestamp()
    moment = started[11:26].replace(":", "").replace(".", "")
    digest = sha256(f"{context.task.task_id} {shown}".encode(errors="replace")).hexdigest()[:8]
    outputs = outputs_path(context).absolute()
    log = outputs / "commands" / f"{moment}-{digest}.log"
    result = await run_command(
        argv,
        cwd=cwd,
        timeout=min(timeout or longest, longest),
        writable=writable or [workspace],
        readable=(
            *readable,
            *([skills] if (skills := context.settings.skills_dir) else []),
            *shared_objects(context),
            *([outputs] if outputs.is_dir() else []),
            *(network.readable if network else ()),
        ),
        env={**(network.environment if network else {}), **(env or {})},
        reach=network.reach if network else None,
        output_limit=OUTPUT_LIMIT,
        log_path=log,
    )
    ran = RanCommand(
        command=shown,
        exit_code=result.exit_code,
        seconds=round(result.seconds, 3),
        timed_out=result.timed_out,
        started_at=started,
        log=str(log),
    )
    await asyncio.to_thread(_record, context, ran)
    return _outcome(ran, result, workspace, ok_codes)


def explain_failure(name: str, result: CommandResult, log: Path, ok_codes: Sequence[int] = (0,)) -> str:
    """Why the command ``name`` failed, and what can be done; empty if it did not."""
    failure = result.find_failure(ok_codes)
    if not failure:
        return ""
    cure = f"Its output is in {log}"
    if result.timed_out:
        cure = "Give it more time; the setting command_timeout is the most that it can have"
    elif "may reach" in failure:  # the gate names a host that nobody granted
        cure = "To open a host: 'mailroom approvals grant ID --host HOST' when it asks, or the setting reach"
    said = [line.strip() for line in result.output.splitlines() if line.strip()][-1:]
    last = f": {flatten(said[0], LAST_LINE)}" if said and failure.startswith("ended") else ""
    return f"{flatten(name, COMMAND_SHOWN)} {failure}{last}. {cure}"


def _outcome(ran: RanCommand, result: CommandResult, workspace: Path, ok_codes: Sequence[int]) -> Outcome:
    end = result.find_failure(ok_codes).removeprefix("ended with ") or f"exit code {ran.exit_code}"
    problem = explain_failure(f"`{ran.command}`", result, Path(ran.log), ok_codes)
    cut = f"The middle is left out; all of it is in {ran.log}" if result.truncated else ""
    parts = (result.output.strip("\n"), f"[{'. '.join(filter(None, (end, cut)))}]")
    return Outcome(
        output="\n".join(filter(None, parts)),
        data={
            "commands": [msgspec.to_builtins(ran)],
            "exit_code": ran.exit_code,
            "workspace": str(workspace),
        },
        evidence_refs=(ran.log,),
        output_paths=(ran.log,),
        outcome=ResultOutcome.FAILED if problem else ResultOutcome.DONE,
        problem=problem,
    )


def records_path(context: AgentContext, task_id: str = "") -> Path:
    """The file with the commands that were run for a task, by default the one being worked on."""
    return outputs_path(context) / "commands" / f"{task_id or context.task.task_id}.jsonl"


def _record(context: AgentContext, ran: RanCommand) -> None:
    path = records_path(context)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(msgspec.json.encode(ran) + b"\n")
    except OSError as error:
        raise ActionError(f"That the command was run cannot be recorded: {error.strerror}") from None


def commands_of(context: AgentContext, task_id: str = "") -> list[RanCommand]:
    """The commands that were run for the task being worked on or another one, in all attempts."""
    try:
        lines = records_path(context, task_id).read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        with contextlib.suppress(msgspec.MsgspecError):  # a killed process may have left half a line
            found.append(msgspec.json.decode(line, type=RanCommand))
    return found
