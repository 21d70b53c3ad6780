"""Scripts: how one is run, and what came of it."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from shared.actions import Outcome
from shared.errors import ActionError
from shared.sandbox.command import CommandResult

SHELLS = {".sh": "sh", ".bash": "bash"}
TAIL = 4_000
"""The most characters of a script's output that its result quotes; the log holds all."""


def make_command(path: str, args: Sequence[str], workspace: Path) -> list[str]:
    """The command that runs the script at ``path``, relative paths beneath ``workspace``.

    .py runs with this Python, .sh and .bash with their shell, anything else by its own "#!" line. Raises
    ActionError where there is no such file or no way to run it.
    """
    script = workspace / Path(path).expanduser()
    if not script.is_file():
        raise ActionError(f"There is no script {script}", "Give the absolute path of a file")
    if script.suffix == ".py":
        return [sys.executable, str(script), *args]
    if script.suffix in SHELLS:
        return [SHELLS[script.suffix], str(script), *args]
    with script.open("rb") as file:
        if file.read(2) == b"#!" and os.access(script, os.X_OK):
            return [str(script), *args]
    raise ActionError(
        f"How to run {script} is not clear",
        "Name it .py or .sh, or give it a '#!' line and make it executable",
    )


def script_folder(script: Path, state_dir: Path) -> Path:
    """The folder that a script may read beside the workspace: its own.

    Raises ActionError for one that holds secrets: a hidden folder of a home, or the state directory itself.
    """
    folder = script.parent.resolve()
    home, state = Path.home().resolve(), state_dir.resolve()
    beneath_home = folder.parts[len(home.parts) :] if folder.is_relative_to(home) else ()
    is_hidden = any(part.startswith(".") for part in beneath_home)
    if folder == state or (is_hidden and not folder.is_relative_to(state)):
        raise ActionError(
            f"{folder} may hold secrets, so no script is run there", "Put the script into a folder of its own"
        )
    return folder


def tell_run(name: str, result: CommandResult, log_path: Path) -> Outcome:
    """What came of running the script ``name``, whose whole output is in ``log_path``.

    Raises ActionError where it ended with another exit code than 0 or was not done in time.
    """
    where = f"Its output is in {log_path}"
    if result.timed_out:
        raise ActionError(f"{name} was stopped after {result.seconds:.0f} s", where)
    if result.exit_code:
        raise ActionError(f"{name} ended with exit code {result.exit_code}{_last_words(result)}", where)
    return Outcome(
        output=result.output[-TAIL:].strip() or f"{name} ended without a word.",
        data={
            "exit_code": result.exit_code,
            "seconds": round(result.seconds, 3),
            "command": list(result.argv),
        },
        output_paths=(str(log_path),),
    )


def _last_words(result: CommandResult) -> str:
    lines = [line.strip() for line in result.output.splitlines() if line.strip()]
    return f": {lines[-1][:300]}" if lines else ""
