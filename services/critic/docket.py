"""The docket of a review: what was run again, what that refuted, and what could not be run."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from services.critic.findings import clean
from shared.errors import ActionError
from shared.sandbox import CommandResult, run_command

PLACE = re.compile(r"(?P<file>[\w./-]+\.\w+):(?P<line>\d+)(?::\d+)?:? ")


class Rerun(msgspec.Struct, frozen=True, kw_only=True):
    """What came of running claims again, by task: ``faults`` refute one, ``unrun`` says why it was not."""

    faults: tuple[tuple[str, str], ...] = ()
    unrun: tuple[tuple[str, str], ...] = ()
    runs: tuple[dict[str, Any], ...] = ()


class Docket:
    """Runs commands for the claims of tasks, each for at most ``timeout`` seconds, and notes how it went."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._faults: list[tuple[str, str]] = []
        self._unrun: list[tuple[str, str]] = []
        self._runs: list[dict[str, Any]] = []

    def refute(self, task: str, why: str) -> None:
        """Note that a claim of ``task`` does not hold."""
        self._faults.append((task, why))

    def leave(self, task: str, why: str) -> None:
        """Note that a claim of ``task`` was not run, or not to an end that tells."""
        self._unrun.append((task, clean(why)))

    @property
    def left(self) -> int:
        """How many claims were not run so far."""
        return len(self._unrun)

    def note(self, task: str, command: str, **how: Any) -> None:
        """Note that something was run for ``task``."""
        self._runs.append({"task": task, "command": command, **how})

    async def execute(
        self,
        task: str,
        argv: Sequence[str],
        cwd: Path,
        *,
        seconds: float = 60.0,
        readable: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
    ) -> CommandResult | None:
        """How the command went in the jail; None, which is noted, where it cannot be run at all."""
        line = shlex.join([Path(argv[0]).name, *argv[1:]])[:300]
        limit = min(self.timeout, seconds)
        try:
            result = await run_command(
                argv, cwd=cwd, timeout=limit, writable=[cwd], readable=readable, env=env
            )
        except ActionError as error:
            self.leave(task, f"{line}: {error}")
            return None
        self.note(task, line, exit_code=result.exit_code, seconds=round(result.seconds, 3))
        return result

    def close(self) -> Rerun:
        """All that was noted."""
        return Rerun(faults=tuple(self._faults), unrun=tuple(self._unrun), runs=tuple(self._runs))


def last_line(result: CommandResult) -> str:
    """The line of the output that says where it went wrong, else its last."""
    lines = [line.strip() for line in result.output.splitlines() if line.strip()]
    placed = [line for line in lines if PLACE.match(line)]
    return clean((placed or lines or ["without a word"])[-1])
