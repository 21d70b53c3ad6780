"""Python scripts in the workspace."""

import asyncio
import shlex
import sys
from pathlib import Path

from shared.errors import ActionError
from shared.sandbox.confined import ConfinedFolder
from shared.skills.skill import Skill
from shared.skills.workspace import OK_CODES, ExitCodes, changing, open_workspace, run_recorded, shorten
from shared.tasks.actions import Outcome, register_action

LONGEST_SCRIPT = 100_000
"""The most characters of a script that is given as text: the kernel takes 131,072 bytes an argument."""


class PythonSkill(Skill):
    """Runs Python in the jail: with the workspace to work on, without network."""

    @register_action(
        "Run Python in the workspace: a script given as text, or a file that is there",
        {
            "script": "The script itself; empty if path names a file",
            "path": "A script's path, relative to the workspace",
            "args": "Its arguments",
            "timeout": "Seconds it may take; 0 for the most that is allowed",
            "ok_codes": OK_CODES,
        },
    )
    async def run_python(
        self,
        script: str = "",
        path: str = "",
        args: tuple[str, ...] = (),
        timeout: float = 0.0,
        ok_codes: ExitCodes = (0,),
    ) -> Outcome:
        """As run_shell; it is the jail that keeps it from harm."""
        if bool(script.strip()) == bool(path):
            raise ActionError("Give either a script or the path of one", "Name one of 'script' and 'path'")
        if len(script) > LONGEST_SCRIPT:
            raise ActionError(
                f"The script has more than {LONGEST_SCRIPT:,} characters", "Write it to a file first"
            )
        if any("\0" in word for word in (script, *args)):
            raise ActionError("Neither a script nor its arguments may hold NUL characters")
        if path:
            path = await asyncio.to_thread(_require_script, await open_workspace(self.context), path)
        program = [path] if path else ["-c", script]
        shown = shlex.join(["python", *([path] if path else ["-c", shorten(script)]), *args])
        what = f"run Python: {path or script} {shlex.join(args)}"
        async with changing(self.context, what, confined=True) as workspace:
            return await run_recorded(
                self.context,
                [sys.executable, *program, *args],
                shown,
                cwd=workspace,
                timeout=timeout,
                env=ENVIRONMENT,
                ok_codes=ok_codes,
            )


ENVIRONMENT = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
"""Nothing is written that the script did not mean to, and all of its output is there when its time is up."""


def _require_script(workspace: Path, path: str) -> str:
    with ConfinedFolder(workspace) as confined:
        name = confined.relative(path)
        with confined.open_file(name):
            return name
