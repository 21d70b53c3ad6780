"""Runs scripts: which ones may be run, and how."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from shared.agent.context import AgentContext
from shared.contracts import ResultOutcome, Task, generate_task_id
from shared.errors import ActionError
from shared.sandbox.command import CommandResult, run_command
from shared.sandbox.confined import ConfinedFolder
from shared.settings import Settings
from shared.skills.workspace import (
    OK_CODES,
    ExitCodes,
    changing,
    explain_failure,
    goal_folder,
    open_workspace,
    outputs_path,
)
from shared.tasks.actions import Outcome, register_action
from shared.tasks.context import workspace_path
from shared.tasks.said import is_named, said_in

SHELLS = {".sh": "sh", ".bash": "bash"}
TAIL = 4_000  # The most characters of a script's output that its result quotes; the log holds all


class ScriptRunner:
    """Runs scripts for the task at hand in the jail."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context

    @register_action(
        "Run a script in the workspace, or one that the task names",
        {"path": "Path of the script", "args": "Its arguments", "ok_codes": OK_CODES},
    )
    async def run_script(self, path: str, args: tuple[str, ...] = (), ok_codes: ExitCodes = (0,)) -> Outcome:
        """The script's output, and a log of all of it; FAILED unless its exit code is one of ``ok_codes``."""
        context = self._context
        await open_workspace(context)
        folder, script = await asyncio.to_thread(find_script, path, context.task, context.settings)
        command = await asyncio.to_thread(make_command, folder, script, args)
        name = Path(path).name
        log_path = outputs_path(context) / f"{name}-{generate_task_id('run')}.log"
        async with changing(context, f"run the script {' '.join([path, *args])}") as workspace:
            result = await run_command(
                command,
                cwd=workspace,
                timeout=context.settings.command_timeout,
                writable=[workspace],
                readable=[folder],
                log_path=log_path,
            )
        return script_outcome(name, result, log_path, ok_codes)


def find_script(path: str, task: Task, settings: Settings) -> tuple[Path, str]:
    """The folder that the script at ``path`` is run from, which it may read, and its path within that.

    A relative path is in the workspace of ``task``. A script elsewhere must be named by a person, in another
    workspace by its absolute path. Raises ActionError, also if the folder may hold secrets.
    """
    workspace = workspace_path(settings, task)
    given = Path(os.path.expanduser(path))  # noqa: PTH111 - a home that nobody has is no error
    if "\0" in path or ".." in given.parts or not given.is_absolute() or given.is_relative_to(workspace):
        return workspace, str(given)  # what is not beneath it is refused there
    folder = given.parent.resolve()
    shared = goal_folder(settings, folder)  # all of it may be read
    if shared is None and _may_hold_secrets(folder, settings):
        raise ActionError(
            f"{folder} may hold secrets, so no script is run there", "Put the script into a folder of its own"
        )
    if not _is_named(given, path, task, wholly=shared is not None):
        raise ActionError(
            f"The script {path} is not run: it is not in the workspace and no person named it",
            "Name it in the task by its whole path",
        )
    root = shared or folder
    return root, str((folder / given.name).relative_to(root))


def _may_hold_secrets(folder: Path, settings: Settings) -> bool:
    """Whether it is in Mailroom's own folder or a hidden folder of a home."""
    home = Path.home().resolve()
    beneath_home = folder.parts[len(home.parts) :] if folder.is_relative_to(home) else ()
    own = (settings.state_dir.resolve(), settings.keys.resolve())
    return any(map(folder.is_relative_to, own)) or any(part.startswith(".") for part in beneath_home)


def _is_named(script: Path, path: str, task: Task, *, wholly: bool) -> bool:
    words = said_in(task)
    return is_named(str(script), task) and (not wholly or str(script) in words or path in words)


def make_command(root: Path, name: str, args: Sequence[str]) -> list[str]:
    """The command that runs the script ``name`` beneath ``root``.

    .py runs with this Python, .sh and .bash with their shell, anything else by its own "#!" line. Raises
    ActionError if there is no such file, it is or passes through a link, or has no way to run it.
    """
    with ConfinedFolder(root) as confined:
        script = root / confined.relative(name)
        if confined.stat(name) is None:
            raise ActionError(f"There is no script {script}", "Give the absolute path of a file")
        with confined.open_file(name) as file:
            is_program = file.read(2) == b"#!" and os.fstat(file.fileno()).st_mode & 0o111
    if script.suffix == ".py":
        return [sys.executable, str(script), *args]
    if script.suffix in SHELLS:
        return [SHELLS[script.suffix], str(script), *args]
    if is_program:
        return [str(script), *args]
    raise ActionError(
        f"How to run {script} is not clear",
        "Name it .py or .sh, or give it a '#!' line and make it executable",
    )


def script_outcome(name: str, result: CommandResult, log_path: Path, ok_codes: Sequence[int]) -> Outcome:
    """The outcome of the script ``name``, whose whole output is in ``log_path``."""
    problem = explain_failure(name, result, log_path, ok_codes)
    return Outcome(
        output=result.output[-TAIL:].strip() or f"{name} ended without output.",
        data={
            "exit_code": result.exit_code,
            "seconds": round(result.seconds, 3),
            "command": list(result.argv),
        },
        output_paths=(str(log_path),),
        outcome=ResultOutcome.FAILED if problem else ResultOutcome.DONE,
        problem=problem,
    )
