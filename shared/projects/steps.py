"""Runs the steps of a preparation in the jail, and keeps a record of them."""

import asyncio
import contextlib
import re
import shlex
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import msgspec

from shared.contracts import CommandRecord, Connection
from shared.errors import ActionError
from shared.gate.registries import PUBLIC, Registry, registry_reach
from shared.projects.diagnosis import explain, list_refused
from shared.projects.environment import Request, format_path
from shared.sandbox import CommandResult, Limits, Reach, run_command

OUTPUT_LIMIT = 2_000_000
PROGRESS = 3.0
"""Seconds between two notes of what a step is doing."""
FILE_BYTES = 4 << 30
"""The most bytes of one file: some wheels have more than 1 GiB."""


class StepFailedError(ActionError):
    """A step failed; ``output`` is what it printed."""

    def __init__(self, cause: str, cure: str, output: str) -> None:
        super().__init__(cause, cure)
        self.output = output


class Steps:
    """The steps of one preparation; ``records`` and ``connections`` grow with them."""

    def __init__(self, request: Request, ecosystem: str) -> None:
        self.request = request
        registry = (
            registry_reach(ecosystem, request.place) if ecosystem in PUBLIC else Registry(reach=Reach())
        )
        self.registry = msgspec.structs.replace(registry, reach=registry.reach.join(request.reach))
        self.records: list[CommandRecord] = []
        self.connections: list[Connection] = []
        self.notes: list[str] = []

    @property
    def refused(self) -> tuple[str, ...]:
        """The hosts that were asked for and not reached."""
        return list_refused(self.connections)

    async def run(
        self,
        argv: Sequence[str],
        *,
        writable: Sequence[Path] = (),
        readable: Sequence[Path] = (),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        online: bool = True,
        doing: str = "",
    ) -> CommandResult:
        """Run one step in the project's folder, ``online`` with the registries of its ecosystem.

        Raises StepFailedError with the cause and the cure if it fails.
        """
        line = shlex.join([Path(argv[0]).name, *argv[1:]])
        await self.request.note(doing or f"runs {line}")
        own = self.registry.environment if online else {}
        step_log = self.request.log.with_name(f"{self.request.log.name}.step")
        started = time.monotonic()
        async with self._following(step_log, doing or line):
            result = await run_command(
                argv,
                cwd=cwd or self.request.place,
                timeout=self.request.remaining(),
                writable=writable,
                readable=(*readable, *(self.registry.readable if online else ())),
                env={"PATH": format_path(), "CI": "true", "NO_COLOR": "1", **own, **(env or {})},
                output_limit=OUTPUT_LIMIT,
                log_path=step_log,
                limits=Limits(file_bytes=FILE_BYTES),
                reach=self.registry.reach if online else None,
            )
        seconds = round(time.monotonic() - started, 3)
        self.records.append(CommandRecord(command=line, exit_code=result.exit_code, seconds=seconds))
        self.connections += result.connections
        await asyncio.to_thread(self._append, line, step_log, result)
        if result.exit_code or result.timed_out or result.problem:
            cause, cure = explain(line, result, self.registry.named)
            raise StepFailedError(cause, cure, result.output)
        return result

    @contextlib.asynccontextmanager
    async def _following(self, log: Path, doing: str) -> AsyncIterator[None]:
        follower = asyncio.ensure_future(self._follow(log, doing))
        try:
            yield
        finally:
            follower.cancel()
            await asyncio.wait({follower})

    async def _follow(self, log: Path, doing: str) -> None:
        """Note what a step printed last, if that is new."""
        last = ""
        while True:
            await asyncio.sleep(PROGRESS)
            line = _read_last_line(log)
            if line and line != last:
                last = line
                await self.request.note(f"{doing}: {line}")

    def _append(self, line: str, step_log: Path, result: CommandResult) -> None:
        self.request.log.parent.mkdir(parents=True, exist_ok=True)
        with self.request.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {line}\n{result.output}\n[exit code {result.exit_code}, {result.seconds:.1f} s]\n")
            for each in result.connections:
                verdict = "allowed" if each.allowed else f"refused: {each.why}"
                log.write(f"[{each.host}:{each.port} {verdict}, {each.received:,} bytes]\n")
            log.write("\n")
        step_log.unlink(missing_ok=True)


def _read_last_line(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 2_000))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    lines = [line.strip() for line in re.split(r"[\r\n]", plain) if re.search(r"\w", line)]
    return lines[-1][:160] if lines else ""
