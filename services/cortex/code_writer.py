"""Writes code with a model: it is parsed, run or tested in the jail, and written again if it fails."""

import ast
import asyncio
import json
import sys
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import msgspec
import yaml

from services.cortex.scripts import make_command
from shared.agent.context import AgentContext
from shared.errors import ActionError
from shared.llm.protocol import Message
from shared.sandbox.command import CommandResult, run_command
from shared.sandbox.confined import ConfinedFolder
from shared.skills.workspace import changing, open_workspace
from shared.tasks.actions import Outcome, register_action

Check = Literal["parse", "run", "test"]
TRIES = 3  # How often code that parses is written before its failure is final
MAX_CODE = 200_000  # The most characters of a file
TAIL = 3_000  # The most characters of a failure that the model is shown

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
            return await run_command(command, cwd=workspace, timeout=timeout, writable=[workspace])


def format_question(description: str, path: str, check: Check, failure: str = "") -> str:
    """The question to the model; ``failure`` is how the code before failed."""
    where = f"The file is {path}." if path else "Choose a short file name with the right suffix, as .py."
    wanted = {
        "parse": "",
        "run": " It is run as it stands, without arguments, and must end with exit code 0.",
        "test": " Give a unittest test too, as test_path and test_code; it imports it by its module name.",
    }[check]
    again = f"\n\nWhat you wrote before failed:\n<output>\n{failure}\n</output>\nWrite it again."
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
    return f"It {failure}.\n{result.output[-TAIL:]}" if failure else ""


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
