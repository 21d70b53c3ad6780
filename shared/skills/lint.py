"""Linters over files of the workspace: ruff for mistakes, bandit for security."""

import asyncio
import os
import sys
from pathlib import Path

from shared.errors import ActionError
from shared.sandbox import run_command
from shared.skills.files import cite_lines
from shared.skills.skill import Skill
from shared.skills.workspace import open_workspace, require_existing
from shared.source import MAX_CHECKED
from shared.tasks.actions import Outcome, register_action
from shared.text.display import format_list

SUFFIXES = (".py", ".pyi", ".pyw", ".ipynb", ".toml")  # What ruff and bandit read
LINT_SECONDS = 120.0
SHOWN = 200  # The most findings of one linter that are shown

RUFF = ("ruff", "check", "--no-cache", "--no-fix", "--output-format", "concise", "--quiet")
BANDIT = ("bandit", "--quiet", "--recursive", "--format", "custom", "--msg-template")
BANDIT_LINE = "{relpath}:{line}: {test_id} {msg} ({severity})"


class LintSkill(Skill):
    """Checks Python files with linters."""

    @register_action(
        "Lint Python files of the workspace with ruff, and look for security flaws with bandit",
        {"path": "The file or folder, relative to the workspace"},
    )
    async def lint_files(self, path: str = ".") -> Outcome:
        """Findings as ``path:line: ...``; raises ActionError if a linter cannot do its work."""
        workspace = await open_workspace(self.context)
        name = await asyncio.to_thread(require_existing, workspace, path)
        name = name if name == "." else f"./{name}"  # no name is an option
        large = await asyncio.to_thread(_list_large, workspace, name)
        if large == [name]:
            raise ActionError(f"{path} is not checked: it has more than {MAX_CHECKED:,} bytes")
        without = ",".join(large)
        mistakes = await _run(workspace, *RUFF, *(("--extend-exclude", without) if large else ()), "--", name)
        skipped = ("--exclude", without) if large else ()
        flaws = await _run(workspace, *BANDIT, BANDIT_LINE, *skipped, name)
        findings = [*mistakes, *flaws]
        notes = [f"Not checked, more than {MAX_CHECKED:,} bytes: {format_list(large, 5)}"] if large else []
        return Outcome(
            output="\n".join([*(findings or [f"ruff and bandit found nothing in {path}"]), *notes]),
            data={"ruff": len(mistakes), "bandit": len(flaws), "findings": findings},
            evidence_refs=cite_lines(findings),
        )


def _list_large(workspace: Path, name: str) -> list[str]:
    """The files of Python there that are too large for a checker, as the checkers call them."""
    walked = ((folder, each) for folder, _, names in os.walk(workspace / name) for each in names)
    files = [f"./{Path(*place).relative_to(workspace)}" for place in walked] or [name]
    sizes = {file: (workspace / file).lstat().st_size for file in files if file.endswith(SUFFIXES)}
    return [file for file, size in sizes.items() if size > MAX_CHECKED]


async def _run(workspace: Path, *words: str) -> list[str]:
    result = await run_command(
        [sys.executable, "-I", "-m", *words],
        cwd=workspace,
        timeout=LINT_SECONDS,
        output_limit=1_000_000,
        separate_errors=True,
    )
    if result.timed_out or result.exit_code not in (0, 1):
        said = result.errors.strip().splitlines() or result.output.strip().splitlines()
        reason = "its time was up" if result.timed_out else (said or [f"exit code {result.exit_code}"])[-1]
        raise ActionError(f"{words[0]} cannot look at these files: {reason[:300]}")
    lines = [line.removeprefix("./") for line in result.output.splitlines() if line.strip()]
    return lines[:SHOWN]
