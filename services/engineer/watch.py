"""Running a command under a watch: one that makes no progress is interrupted, and progress is told."""

import asyncio
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from services.engineer.events import count_events
from shared.sandbox import CommandResult, Reach, run_command

OUTPUT_LIMIT = 4_000_000
LOOK_EVERY = 1.0
"""Seconds between two looks at a command that runs."""
TELL_EVERY = 20.0
"""Seconds between two notes on its progress."""

Note = Callable[[str], Awaitable[None]]


async def run_watched(
    argv: Sequence[str],
    *,
    cwd: Path,
    timeout: float,
    quiet: float,
    env: Mapping[str, str],
    readable: Sequence[Path],
    writable: Sequence[Path],
    log: Path,
    events: Path,
    note: Note,
    reach: Reach | None = None,
) -> CommandResult:
    """The result of ``argv``, interrupted after ``timeout`` seconds, or ``quiet`` ones without progress.

    Progress is output, or an event of a test. Raises ActionError as run_command does.
    """
    started = changed = told = time.monotonic()
    size = (-1, -1)
    running = asyncio.ensure_future(
        run_command(
            argv,
            cwd=cwd,
            timeout=timeout,
            writable=writable,
            readable=readable,
            env=env,
            output_limit=OUTPUT_LIMIT,
            log_path=log,
            reach=reach,
            # Test runners report what they have when interrupted from the keyboard; SIGTERM just ends them.
            stop_signal=signal.SIGINT,
        )
    )
    try:
        while not (await asyncio.wait({running}, timeout=LOOK_EVERY))[0]:
            now = time.monotonic()
            latest = (_size(log), _size(events))
            changed, size = (now, latest) if latest != size else (changed, size)
            if now - changed > quiet:
                running.cancel()
                await asyncio.wait({running})
                return _interrupted(argv, log, now - started)
            if now - told > TELL_EVERY:
                told = now
                await note(await asyncio.to_thread(_progress, events, now - started))
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait({running})
    return running.result()


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return path.stat(follow_symlinks=False).st_size
    return 0


def _progress(events: Path, seconds: float) -> str:
    ended, failed = count_events(events)
    counted = f"{ended:,} tests so far, {failed:,} failed" if ended else "the tests run"
    return f"{counted} ({seconds:.0f} s)"


def _interrupted(argv: Sequence[str], log: Path, seconds: float) -> CommandResult:
    data = log.read_bytes()[-OUTPUT_LIMIT:] if log.is_file() else b""
    output = data.decode("utf-8", "replace")
    return CommandResult(
        argv=tuple(argv), exit_code=-signal.SIGINT, output=output, seconds=seconds, timed_out=True
    )
