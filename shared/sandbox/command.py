"""The only place where Mailroom runs a program, and always in the jail."""

import math
import os
import shlex
import shutil
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path

import msgspec

from shared.contracts import Connection, SpanKind
from shared.effects import begin_effect
from shared.errors import ActionError
from shared.jailer import JailSpec
from shared.sandbox.execution import Ending, OutputCapture, check_jail, execute, open_log, signed_code
from shared.sandbox.gate_client import gate, launch, proxy_environment
from shared.sandbox.jail import (
    HOME,
    TEMPORARY,
    Limits,
    Reach,
    compose_spec,
    manager_homes,
    search_path,
    visible_mounts,
)
from shared.spans import OpenSpan, span

connection_observer: ContextVar[Callable[[Sequence[str], Sequence[Connection]], Awaitable[None]] | None] = (
    ContextVar("connection_observer", default=None)
)
"""What is called with a command and its connections after it ended."""
SHOWN_REFUSALS = 5  # How many different refusals of the gate a failure names


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a command.

    ``exit_code`` is negative if a signal ended it, also if it reports that as a shell does, by 128 plus the
    signal's number. ``output`` is its standard output and standard error as they came, undecodable bytes
    replaced; if ``truncated``, a line in it says how much of the middle was cut. ``errors`` is the standard
    error alone if that was asked for. ``problem`` says why it was ended early. ``connections`` are those it
    asked the gate for.
    """

    argv: tuple[str, ...]
    exit_code: int
    output: str
    errors: str = ""
    seconds: float
    timed_out: bool = False
    truncated: bool = False
    problem: str = ""
    connections: tuple[Connection, ...] = ()

    def find_failure(self, ok_codes: Sequence[int] = (0,)) -> str:
        """How it failed, to follow the command's name: ``ended with exit code 3``; empty if it did not.

        ``ok_codes`` are the exit codes that are no failure, as a shell reports them. A command that was
        stopped, or that the gate refused a connection, failed whatever its exit code is.
        """
        if self.timed_out:
            return f"was stopped after {self.seconds:.0f} s, because its time was up"
        if self.problem:
            return f"was stopped, because {self.problem}"
        if refused := dict.fromkeys(each.why for each in self.connections if not each.allowed):
            return f"was refused a connection by the gate: {'; '.join(list(refused)[:SHOWN_REFUSALS])}"
        if self.exit_code in map(signed_code, ok_codes):
            return ""
        if self.exit_code < 0:
            return f"was ended by signal {-self.exit_code}{_name_signal(-self.exit_code)}"
        return f"ended with exit code {self.exit_code}"


def _name_signal(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""  # a real-time signal has no name


async def run_command(
    argv: Sequence[str],
    *,
    cwd: Path,
    timeout: float,
    writable: Sequence[Path] = (),
    readable: Sequence[Path] = (),
    env: Mapping[str, str] | None = None,
    output_limit: int = 1_000_000,
    log_path: Path | None = None,
    separate_errors: bool = False,
    stop_signal: int = signal.SIGTERM,
    limits: Limits | None = None,
    reach: Reach | None = None,
    started: Callable[[int], None] | None = None,
    source: int | None = None,
    output: OutputCapture | None = None,
) -> CommandResult:
    """Run ``argv`` in ``cwd``, in the jail, for at most ``timeout`` seconds (``math.inf``: until cancelled).

    Of the machine's files the command sees /usr, the tool chains on the PATH, and at their own paths the
    ``writable`` folders (the only ones it can change), the ``readable`` ones, and ``cwd`` (read-only unless
    it lies in a writable one). No other command must be able to replace one of these folders. Home and /tmp
    are the command's own and removed afterwards; there is no network but the hosts of ``reach``, by a proxy
    that the environment names, no input but that of the descriptor ``source``, no other process, and of the
    caller's environment only the PATH, to which ``env`` is added. Up to ``output_limit`` bytes of its output
    are returned, half from the start and half from the end, unless ``output`` takes it as it comes;
    ``log_path`` gets up to LOG_LIMIT. When its time is up, or when the caller is cancelled or dies, every
    process it started gets ``stop_signal`` and GRACE seconds later SIGKILL; none outlives it. ``started`` is
    told the process that all of them descend from.

    Raises ActionError if the jail does not work here, if the program or a folder does not exist or may not be
    shown, or if no process can be started.
    """
    await begin_effect()
    reach = reach if reach and reach.hosts else None
    if reason := await check_jail():
        raise ActionError(f"Commands are refused, because the jail does not work here: {reason}")
    environment = {**_clean_environment(), **(proxy_environment(reach) if reach else {}), **(env or {})}
    _require_runnable(argv, cwd, environment["PATH"])
    limits = limits or Limits(cpu_seconds=math.ceil(timeout * (os.cpu_count() or 1)) + 1)
    spec = compose_spec(
        launch(argv) if reach else argv,
        cwd=Path(os.path.abspath(cwd)),  # noqa: PTH100 - links are followed inside the jail
        mounts=visible_mounts(cwd, writable, readable, argv[0]),
        environment=environment,
        limits=limits,
        stop_signal=stop_signal,
    )
    with open_log(log_path) as log, span(SpanKind.COMMAND, argv[0], shlex.join(argv)) as command:
        output = output or OutputCapture(output_limit, log)
        errors = OutputCapture(output_limit, log) if separate_errors else None
        ending, connections = await _execute(spec, timeout, output, errors, reach, started, source)
        _record(command, ending, output, errors)
    if connections and (observe := connection_observer.get()):
        await observe(argv, connections)
    result = _make_result(argv, ending, output, errors)
    return msgspec.structs.replace(result, connections=connections) if connections else result


def _record(command: OpenSpan, ending: Ending, output: OutputCapture, errors: OutputCapture | None) -> None:
    command.failed = bool(ending.exit_code or ending.timed_out or ending.problem)
    command.output = "\n".join(capture.text() for capture in (output, errors) if capture and capture.total)


def _make_result(
    argv: Sequence[str], ending: Ending, output: OutputCapture, errors: OutputCapture | None
) -> CommandResult:
    return CommandResult(
        argv=tuple(argv),
        exit_code=ending.exit_code,
        output=output.text(),
        errors=errors.text() if errors else "",
        seconds=ending.seconds,
        timed_out=ending.timed_out,
        truncated=bool(output.cut or (errors and errors.cut)),
        problem=ending.problem,
    )


async def _execute(
    spec: JailSpec,
    timeout: float,
    output: OutputCapture,
    errors: OutputCapture | None,
    reach: Reach | None,
    started: Callable[[int], None] | None,
    source: int | None,
) -> tuple[Ending, tuple[Connection, ...]]:
    if reach is None:
        return await execute(spec, timeout, output, errors, started, source), ()
    async with gate.open(reach) as passage:
        spec = spec._replace(mounts=[*spec.mounts, passage.mount])
        ending = await execute(spec, timeout, output, errors, started, source)
    return ending, passage.connections


def _clean_environment() -> dict[str, str]:
    own = {"HOME": HOME, "TMPDIR": TEMPORARY, "LANG": "C.UTF-8", "TERM": "dumb", "USER": "agent"}
    return {"PATH": search_path(), **own, **manager_homes()}


def _require_runnable(argv: Sequence[str], cwd: Path, path: str) -> None:
    if not argv or not argv[0] or any("\0" in argument for argument in argv):
        raise ActionError("A command must name a program and hold no NUL characters")
    if not cwd.is_dir():
        raise ActionError(f"The folder {cwd} to run {argv[0]} in does not exist")
    program = str(cwd / argv[0]) if "/" in argv[0] else argv[0]
    if shutil.which(program, path=path) is None:
        cause = f"{argv[0]} is not installed or not on the PATH"
        raise ActionError(cause, "Install it, or put its folder on the PATH")
