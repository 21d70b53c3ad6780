"""The door: the only place where Mailroom runs a program, and that always in the jail."""

import math
import os
import resource
import shutil
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from shared.errors import ActionError
from shared.sandbox.capture import Capture, open_log
from shared.sandbox.execution import GRACE, execute
from shared.sandbox.jail import compose_order
from shared.sandbox.self_test import check_jail
from shared.sandbox.view import HOME, TEMPORARY, manager_homes, search_path, shown_folders


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a command may use; 0 is no limit.

    ``cpu_seconds`` of one process's threads together (default: the command's timeout times the cores, a net
    for what escapes the timeout), ``file_bytes`` a written file may have, ``processes`` (and threads) at
    once, ``memory_bytes`` of one process and of all together (default: half of the machine's).
    """

    cpu_seconds: int = 0
    file_bytes: int = 2 << 30
    processes: int = 2048
    memory_bytes: int = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a command went.

    ``exit_code`` is negative where a signal ended it, and also where it says so itself as a shell does, with
    128 and the signal's number; ``output`` is its standard output with its standard error as they came,
    undecodable bytes replaced, and says how much of its middle was cut where ``truncated``; ``errors`` is
    the standard error alone where that was asked for. ``problem`` says why it was ended before its time.
    """

    argv: tuple[str, ...]
    exit_code: int
    output: str
    errors: str = ""
    seconds: float
    timed_out: bool = False
    truncated: bool = False
    problem: str = ""


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
) -> CommandResult:
    """Run ``argv`` in ``cwd``, in the jail, for at most ``timeout`` seconds and tell how it went.

    Of the machine's files the command sees /usr and the tool chains on the PATH, and where they are:
    ``writable`` folders (the only ones it can change), ``readable`` ones, and ``cwd`` (read-only where it
    lies in none of them). Another command must not be able to replace one of these folders. Home and /tmp
    are its own and thrown away; there is no network, no input, no other process, and of the caller's
    environment nothing but the PATH; ``env`` is added to that. ``output_limit`` bytes of its output are
    returned, half from the start and half from the end; ``log_path`` gets up to LOG_LIMIT bytes. When its
    time is up, or when the caller is cancelled or dies, every process it started gets ``stop_signal`` and
    GRACE seconds later SIGKILL; none outlives it.

    Raises ActionError where the jail does not work here, where the program or a folder does not exist or may
    not be shown, or where no process can be started.
    """
    if reason := await check_jail():
        raise ActionError(f"Commands are refused, because the jail does not work here: {reason}")
    bounds = limits or Limits(cpu_seconds=math.ceil(timeout * (os.cpu_count() or 1)) + 1)
    environment = {**_clean_environment(), **(env or {})}
    _require_runnable(argv, cwd, environment["PATH"])
    order = compose_order(
        argv,
        cwd=Path(os.path.abspath(cwd)),  # noqa: PTH100 - links are followed inside the jail
        folders=shown_folders(cwd, writable, readable, argv[0]),
        environment=environment,
        limits={
            resource.RLIMIT_CPU: bounds.cpu_seconds,
            resource.RLIMIT_FSIZE: bounds.file_bytes,
            resource.RLIMIT_NPROC: bounds.processes,
            resource.RLIMIT_DATA: bounds.memory_bytes,
        },
        memory=bounds.memory_bytes,
        stop_signal=int(stop_signal),
        grace=GRACE,
    )
    with open_log(log_path) as log:
        output = Capture(output_limit, log)
        errors = Capture(output_limit, log) if separate_errors else None
        ending = await execute(order, timeout, output, errors)
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
