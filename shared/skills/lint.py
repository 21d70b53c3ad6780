"""Linters over files of the workspace: ruff for mistakes, bandit for security."""

import asyncio
import sys
from pathlib import Path

from shared.errors import ActionError
from shared.sandbox import run_command
from shared.skills.files import cite_lines
from shared.skills.skill import Skill
from shared.skills.workspace import open_workspace, require_existing
from shared.tasks.actions import Outcome, register_action

LINT_SECONDS = 120.0
SHOWN = 200
"""The most findings of one linter that are shown."""

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
        workspace = open_workspace(self.context)
        name = await asyncio.to_thread(require_existing, workspace, path)
        name = name if name == "." else f"./{name}"  # no name is an option
        mistakes = await _run(workspace, *RUFF, "--", name)
        flaws = await _run(workspace, *BANDIT, BANDIT_LINE, name)
        findings = [*mistakes, *flaws]
        return Outcome(
            output="\n".join(findings) or f"ruff and bandit found nothing in {path}",
            data={"ruff": len(mistakes), "bandit": len(flaws), "findings": findings},
            evidence_refs=cite_lines(findings),
        )


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
