"""Scripts: which ones may be run, and how; and code that a model writes until it works."""

import ast
import asyncio
import json
import os
import sys
import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import msgspec
import yaml

from shared.agent.context import AgentContext
from shared.contracts import ResultOutcome, Task, generate_task_id
from shared.errors import ActionError
from shared.llm.leaving import section
from shared.llm.protocol import Message
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
    shared_objects,
)
from shared.tasks.actions import Outcome, register_action
from shared.tasks.context import is_own, workspace_path
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
                readable=[folder, *shared_objects(context)],
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
    return is_own(settings, folder) or any(part.startswith(".") for part in beneath_home)


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


Check = Literal["parse", "run", "test"]
TRIES = 3  # How often code that parses is written before its failure is final
MAX_CODE = 200_000  # The most characters of a file
FAILURE_TAIL = 3_000  # The most characters of a failure that the model is shown

PARSERS: Mapping[str, Callable[[str], Any]] = {
    ".py": ast.parse,
    ".json": json.loads,
    ".toml": tomllib.loads,
    ".yaml": yaml.safe_load,
    ".yml": yaml.safe_load,
}
"""The parsers of the file types whose syntax is checked."""

Execute = Callable[[list[str]], Awaitable[CommandResult]]  # Runs a command in the workspace, in the jail


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """A file as a model writes it, and, if asked for, a unittest of it."""

    path: str
    code: str
    explanation: str = ""
    test_path: str = ""
    test_code: str = ""


class CodeWriter:
    """Writes code for the task at hand into its workspace."""

    def __init__(self, context: AgentContext) -> None:
        self._context = context

    @register_action(
        "Write code into the workspace; needs a model",
        {
            "description": "What the code is to do",
            "path": "Its path beneath the workspace; empty: the model chooses one",
            "check": "parse (it must parse), run (it must run) or test (a test of it must pass)",
        },
    )
    async def write_code(self, description: str, path: str = "", check: Check = "parse") -> Outcome:
        """The path of the file; fails if the last of TRIES fails its check, and leaves that one."""
        if not self._context.models.model.available:
            raise ActionError(
                "Code cannot be written without a model", "Set MAILROOM_BRAIN, or give a script to run_script"
            )
        require_path(path)
        workspace = await open_workspace(self._context)
        failure, files = "", tuple[str, ...]()
        for _ in range(TRIES):
            code = await self._ask_for_code(description, path, check, failure)
            files = await self._write(workspace, code, check)
            failure = await try_out(code, check, workspace, self._run)
            if not failure:
                data = {"path": files[0], "check": check}
                output = f"Wrote {files[0]}. {code.explanation}".strip()
                return Outcome(output=output, data=data, output_paths=files)
            await self._context.progress(f"{code.path} failed its check: {' '.join(failure.split())[:200]}")
        raise ActionError(
            f"The code failed its check {TRIES} times: {' '.join(failure.split())[-500:]}",
            f"The last try is in {files[0]}",
        )

    async def _ask_for_code(self, description: str, path: str, check: Check, failure: str) -> Code:
        message = Message(role="user", text=format_question(description, path, check, failure))
        return await self._context.models.ask_model_for(
            [message], Code, lambda code: find_code_fault(code, path, tested=check == "test")
        )

    async def _write(self, workspace: Path, code: Code, check: Check) -> tuple[str, ...]:
        files = {code.path: code.code} | ({code.test_path: code.test_code} if check == "test" else {})
        async with changing(self._context, f"write {', '.join(files)}", repeatable=True) as changed:
            with ConfinedFolder(changed) as folder:
                for path, text in files.items():
                    await asyncio.to_thread(folder.write, path, text.encode())
        return tuple(str(workspace / path) for path in files)

    async def _run(self, command: list[str]) -> CommandResult:
        timeout = self._context.settings.command_timeout
        async with changing(self._context, f"run {' '.join(command)}", repeatable=True) as workspace:
            return await run_command(
                command,
                cwd=workspace,
                timeout=timeout,
                writable=[workspace],
                readable=shared_objects(self._context),
            )


def format_question(description: str, path: str, check: Check, failure: str = "") -> str:
    """The question to the model; ``failure`` is how the code before failed."""
    where = f"The file is {path}." if path else "Choose a short file name with the right suffix, as .py."
    wanted = {
        "parse": "",
        "run": " It is run as it stands, without arguments, and must end with exit code 0.",
        "test": " Give a unittest test too, as test_path and test_code; it imports it by its module name.",
    }[check]
    again = f"\n\nWhat you wrote before failed:\n{section(failure, 'repository')}\nWrite it again."
    return (
        "Write code, as JSON with path, code (the whole file) and explanation (one sentence). "
        f"{where}{wanted} There is no network, and only the standard library is sure to be there.\n\n"
        f"<wanted>\n{description}\n</wanted>{again if failure else ''}"
    )


def find_code_fault(code: Code, path: str, *, tested: bool) -> str | None:
    """Why code cannot be used as an answer; None if it can. ``path`` is the one that was asked for."""
    if path and code.path != path:
        return f"path must be {path!r}, not {code.path[:80]!r}"
    if fault := _fault_of_path(code.path) or find_syntax_fault(code.path, code.code):
        return fault
    if not tested:
        return None
    if not PurePosixPath(code.test_path).name.startswith("test_") or not code.test_path.endswith(".py"):
        return "test_path must be the name of a test file, such as test_it.py"
    return _fault_of_path(code.test_path) or find_syntax_fault(code.test_path, code.test_code)


def find_syntax_fault(path: str, text: str) -> str | None:
    """Why ``text`` does not parse as the file type of ``path``; None if it does, or no parser is known."""
    if not text.strip():
        return f"{path} is empty"
    if len(text) > MAX_CODE:
        return f"{path} has {len(text):,} characters; the limit is {MAX_CODE:,}"
    parse = PARSERS.get(PurePosixPath(path).suffix, str)
    try:
        parse(text)
    except SyntaxError as error:
        return f"{path}:{error.lineno}: it does not parse: {error.msg}"
    except (ValueError, yaml.YAMLError, RecursionError, MemoryError) as error:
        return f"{path} does not parse: {' '.join(str(error).split())[:300]}"
    return None


async def try_out(code: Code, check: Check, workspace: Path, execute: Execute) -> str:
    """How running or testing ``code`` failed, "" if it did not; shell code is parsed too."""
    shell = PurePosixPath(code.path).suffix in (".sh", ".bash")
    if shell and (failure := format_failure(await execute(["bash", "-n", code.path]))):
        return failure
    if check == "run":
        return format_failure(await execute(make_command(workspace, code.path, ())))
    if check == "test":
        folder = str(PurePosixPath(code.test_path).parent)
        command = ["env", f"PYTHONPATH={folder}:.", sys.executable, "-B", "-m", "unittest", code.test_path]
        result = await execute(command)
        return format_failure(result) or ("It holds no test." if "Ran 0 tests" in result.output else "")
    return ""


def format_failure(result: CommandResult) -> str:
    """How a command failed, "" if it did not."""
    failure = result.find_failure()
    return f"It {failure}.\n{result.output[-FAILURE_TAIL:]}" if failure else ""


def require_path(path: str) -> None:
    """Raise ActionError unless ``path`` is empty, or relative and without ``..`` and hidden names."""
    if path and (fault := _fault_of_path(path)):
        raise ActionError(fault[0].upper() + fault[1:], "Give a path beneath the workspace, such as tool.py")


def _fault_of_path(path: str) -> str | None:
    pure = PurePosixPath(path)
    if not path.strip() or pure.is_absolute() or ".." in pure.parts or "\0" in path or len(path) > 200:
        return f"{path[:80]!r} is not a path beneath the workspace"
    if any(part.startswith(".") for part in pure.parts):
        return f"{path[:80]!r} has a hidden name"
    return None
