"""Code that a model writes: parsed, run or tested in the jail, written again where it fails."""

import ast
import asyncio
import json
import sys
import tomllib
from collections.abc import Awaitable, Callable
from pathlib import Path, PurePosixPath
from typing import Literal

import msgspec
import yaml

from services.cortex.script import make_command
from shared.agent.context import AgentContext
from shared.errors import ActionError
from shared.llm.protocol import Message
from shared.sandbox.beneath import Beneath
from shared.sandbox.command import CommandResult, run_command
from shared.skills.changing import changing
from shared.tasks.actions import Outcome

Check = Literal["parse", "run", "test"]
TRIES = 3
"""How often code that parses but fails is written again."""
LONGEST = 200_000
"""The most characters of a file that is written in one go."""
TAIL = 3_000
"""The most characters of a failure that the model is shown."""

Execute = Callable[[list[str]], Awaitable[CommandResult]]
"""Runs a command in the workspace, in the jail."""


class Code(msgspec.Struct, frozen=True, kw_only=True):
    """A file as a model writes it, and, where it was asked for, a test of it for unittest."""

    path: str
    code: str
    explanation: str = ""
    test_path: str = ""
    test_code: str = ""


async def write_code(agent: AgentContext, question: str, path: str, *, tested: bool) -> Code:
    """Code for ``question`` that parses, at ``path`` where one is given; raises ModelError."""
    return await agent.models.ask_model_for(
        [Message(role="user", text=question)], Code, checker(path, tested=tested)
    )


class Coder:
    """Writes code for one task of ``agent`` into ``workspace``, and holds it to ``check``."""

    def __init__(self, agent: AgentContext, workspace: Path, check: Check) -> None:
        self._agent = agent
        self._workspace = workspace
        self._check = check

    async def write(self, description: str, path: str) -> Outcome:
        """The file written; raises ActionError where the last of TRIES fails its check, ModelError."""
        failure, files = "", tuple[str, ...]()
        for _ in range(TRIES):
            question = ask(description, path, self._check, failure)
            code = await write_code(self._agent, question, path, tested=self._check == "test")
            files = await self._write(code)
            failure = await try_out(code, self._check, self._workspace, self._run)
            if not failure:
                data = {"path": files[0], "check": self._check}
                said = f"Wrote {files[0]}. {code.explanation}".strip()
                return Outcome(output=said, data=data, output_paths=files)
            await self._agent.progress(f"{code.path} failed its check: {' '.join(failure.split())[:200]}")
        raise ActionError(
            f"The code failed its check {TRIES} times: {' '.join(failure.split())[-500:]}",
            f"The last try is in {files[0]}",
        )

    async def _write(self, code: Code) -> tuple[str, ...]:
        files = {code.path: code.code} | ({code.test_path: code.test_code} if self._check == "test" else {})
        async with changing(self._agent, f"write {', '.join(files)}", repeatable=True) as workspace:
            with Beneath(workspace) as folder:
                for path, text in files.items():
                    await asyncio.to_thread(folder.write, path, text.encode())
        return tuple(str(self._workspace / path) for path in files)

    async def _run(self, command: list[str]) -> CommandResult:
        timeout = self._agent.settings.command_timeout
        async with changing(self._agent, f"run {' '.join(command)}", repeatable=True) as workspace:
            return await run_command(command, cwd=workspace, timeout=timeout, writable=[workspace])


def ask(description: str, path: str, check: Check, failure: str = "") -> str:
    """What the model is asked; ``failure`` is how the code before went wrong."""
    where = f"The file is {path}." if path else "Choose a short file name with the right suffix, as .py."
    wanted = {
        "parse": "",
        "run": " It is run as it stands, without arguments, and must end with exit code 0.",
        "test": " Give a unittest test too, as test_path and test_code; it imports it by its module name.",
    }[check]
    again = (
        f"\n\nWhat you wrote before failed:\n<output>\n{failure}\n</output>\nWrite it anew."
        if failure
        else ""
    )
    return (
        "Write code, as JSON with path, code (the whole file) and explanation (one sentence). "
        f"{where}{wanted} There is no network, and only the standard library is sure to be there.\n\n"
        f"<wanted>\n{description}\n</wanted>{again}"
    )


def checker(path: str, *, tested: bool) -> Callable[[Code], str | None]:
    """What says of code why it cannot be taken, or None where it can."""

    def check(code: Code) -> str | None:
        if path and code.path != path:
            return f"path must be {path!r}, not {code.path[:80]!r}"
        if fault := _fault_of_path(code.path) or find_fault(code.path, code.code):
            return fault
        if not tested:
            return None
        if not PurePosixPath(code.test_path).name.startswith("test_") or not code.test_path.endswith(".py"):
            return "test_path must be the name of a test file, such as test_it.py"
        return _fault_of_path(code.test_path) or find_fault(code.test_path, code.test_code)

    return check


def find_fault(path: str, text: str) -> str | None:
    """Why ``text`` does not parse as what ``path`` says it is; None where it does, or no parser is known."""
    if not text.strip():
        return f"{path} is empty"
    if len(text) > LONGEST:
        return f"{path} has {len(text):,} characters; the limit is {LONGEST:,}"
    try:
        match PurePosixPath(path).suffix:
            case ".py":
                ast.parse(text, path)
            case ".json":
                json.loads(text)
            case ".toml":
                tomllib.loads(text)
            case ".yaml" | ".yml":
                yaml.safe_load(text)
    except SyntaxError as error:
        return f"{path}:{error.lineno}: it does not parse: {error.msg}"
    except (ValueError, yaml.YAMLError, RecursionError, MemoryError) as error:
        return f"{path} does not parse: {' '.join(str(error).split())[:300]}"
    return None


async def try_out(code: Code, check: Check, workspace: Path, execute: Execute) -> str:
    """How running or testing ``code`` failed, "" where it did not; shell code is parsed too."""
    shell = PurePosixPath(code.path).suffix in (".sh", ".bash")
    if shell and (failure := told(await execute(["bash", "-n", code.path]))):
        return failure
    if check == "run":
        return told(await execute(make_command(workspace, code.path, ())))
    if check == "test":
        folder = str(PurePosixPath(code.test_path).parent)
        command = ["env", f"PYTHONPATH={folder}:.", sys.executable, "-B", "-m", "unittest", code.test_path]
        result = await execute(command)
        return told(result) or ("It holds no test." if "Ran 0 tests" in result.output else "")
    return ""


def told(result: CommandResult) -> str:
    """How a command failed, "" where it did not."""
    if result.timed_out:
        return f"It was stopped after {result.seconds:.0f} s.\n{result.output[-TAIL:]}"
    if result.exit_code:
        return f"It ended with exit code {result.exit_code}.\n{result.output[-TAIL:]}"
    return ""


def require_path(path: str) -> str:
    """``path`` as a relative path without ``..``; raises ActionError where it is none."""
    if path and (fault := _fault_of_path(path)):
        raise ActionError(fault[0].upper() + fault[1:], "Give a path beneath the workspace, such as tool.py")
    return path


def _fault_of_path(path: str) -> str | None:
    pure = PurePosixPath(path)
    if not path.strip() or pure.is_absolute() or ".." in pure.parts or "\0" in path or len(path) > 200:
        return f"{path[:80]!r} is not a path beneath the workspace"
    if any(part.startswith(".") for part in pure.parts):
        return f"{path[:80]!r} has a hidden name"
    return None
