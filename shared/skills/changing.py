"""How skills change a workspace: with a snapshot before, and a note of what was run after."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec

from shared.agent.context import AgentContext
from shared.contracts import ResultOutcome, Task, generate_iso_timestamp
from shared.errors import ActionError
from shared.gate.registries import Registry
from shared.sandbox import CommandResult, run_command
from shared.sandbox.snapshot import Snapshots
from shared.settings import Settings
from shared.skills.workspace import (
    open_workspace,
    outputs_path,
    snapshots_path,
)
from shared.tasks.actions import Outcome
from shared.tasks.context import workspace_name, workspace_path
from shared.text.display import flatten

LONGEST_NOTE = 300  # Characters of a command in the journal; a longer one is cut and gets a digest
COMMAND_SHOWN = 120  # Characters of a command that the reason of its failure quotes
LAST_LINE = 300  # Characters of the last line of its output that the reason quotes
ExitCodes = tuple[Annotated[int, msgspec.Meta(ge=0, le=255)], ...]  # Exit codes as a shell reports them
OK_CODES = "Exit codes that are no failure, such as [0, 1] for grep, which ends with 1 if it finds nothing"
OUTPUT_LIMIT = 60_000
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
    return Snapshots(workspace_path(settings, task), snapshots_path(settings, workspace_name(task)))


@contextlib.asynccontextmanager
async def changing(context: AgentContext, what: str, *, repeatable: bool = False) -> AsyncIterator[Path]:
    """The workspace, for an effect on it: a snapshot is taken, then the effect is recorded.

    Raises ActionError if no snapshot can be made (then nothing is done), and Reject if an earlier
    attempt was interrupted while it did the same, unless that is ``repeatable``.
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
        async with journalled(context, note, repeatable=repeatable):
            yield workspace
    finally:
        await asyncio.wait({entering})  # if cancelled meanwhile, it would be held for good
        entering.exception()
        await asyncio.to_thread(held.close)


@contextlib.asynccontextmanager
async def journalled(context: AgentContext, note: str, *, repeatable: bool = False) -> AsyncIterator[None]:
    """``context.effect`` around what may fail: an ActionError ends the effect, so it may be tried again."""
    failed: ActionError | None = None
    async with context.effect(note, repeatable=repeatable):
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
) -> Outcome:
    """Run a program in the jail with the workspace as all it can change, and keep a record of it.

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
    log = outputs_path(context) / "commands" / f"{moment}-{digest}.log"
    result = await run_command(
        argv,
        cwd=cwd,
        timeout=min(timeout or longest, longest),
        writable=[workspace],
        readable=network.readable if network else (),
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
    output = result.output.strip("\n")
    return Outcome(
        output=f"$ {ran.command}\n{output}{chr(10) if output else ''}[{end}]",
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


def _records(context: AgentContext) -> Path:
    return outputs_path(context) / "commands" / f"{context.task.task_id}.jsonl"


def _record(context: AgentContext, ran: RanCommand) -> None:
    path = _records(context)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.write(msgspec.json.encode(ran) + b"\n")
    except OSError as error:
        raise ActionError(f"That the command was run cannot be recorded: {error.strerror}") from None


def commands_of(context: AgentContext) -> list[RanCommand]:
    """The commands that were run for the task being worked on, those of earlier attempts included."""
    try:
        lines = _records(context).read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        with contextlib.suppress(msgspec.MsgspecError):  # a killed process may have left half a line
            found.append(msgspec.json.decode(line, type=RanCommand))
    return found
