"""Processes of agents and commands, forked from one process that has imported what they import.

Importing is most of their start: .3 to .5 s of processor time, 1.3 s for memory, and the tests start hundreds
of agents and more commands. What then runs is their own ``__main__``, in a process of its own, with the
environment and the files it would have. ``tests/flow/test_up.py`` starts agents by their commands, and so
does each test outside of pytest.
"""

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.util import resolve_name
from pathlib import Path

from services.cli.command import COMMANDS, MEMORY_COMMANDS

AGENTS = ("conductor", "cortex", "critic", "engineer", "frontier", "gateway", "memory", "nexus", "scout")

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "services.cli"
_PLACES = {place.partition(":")[0] for place, _ in (*COMMANDS.values(), *MEMORY_COMMANDS.values())}
_COMMANDS = {resolve_name(f".{place}", "services.cli.commands") for place in _PLACES}
IMPORTED = ["uvloop", "shared.agent.process", *(f"services.{name}.__main__" for name in (*AGENTS, "cli"))]

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([*IMPORTED, *sorted(_COMMANDS), "tests.support.preloaded"])


class ForkedProcess:
    """A process with what the tests use of ``subprocess.Popen``."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        log.touch()
        arguments = (tuple(command[1:]), dict(environment), (os.devnull, str(log), str(log)))
        self._process = FORKS.Process(target=_run, args=arguments)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, the negative signal that killed it, or None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The same."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; raises TimeoutExpired."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()


def may_fork(command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether it is an agent of ``services``, or one in a folder of its own, and may be forked."""
    own = command[1] != "-m" or f"{command[2]}.__main__" in IMPORTED
    return "pytest" in sys.modules and own and "PYTHONPATH" not in environment


def start_program(
    command: Sequence[str], environment: Mapping[str, str], log: Path
) -> "ForkedProcess | subprocess.Popen[bytes]":
    """Start an agent in the background, forked where it may be; what it prints is added to ``log``."""
    log.parent.mkdir(parents=True, exist_ok=True)
    if may_fork(command, environment):
        return ForkedProcess(command, environment, log)
    with log.open("ab") as output:
        return subprocess.Popen(
            command, env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )


def run_forked(work: Callable[..., None], *arguments: object, timeout: float = 60.0) -> int:
    """Run a function of a module in a process of its own; returns its exit code, negative for a signal.

    Raises TimeoutExpired, after killing it.
    """
    process = FORKS.Process(target=work, args=arguments)
    process.start()
    process.join(timeout)
    if process.exitcode is None:
        process.kill()
        raise subprocess.TimeoutExpired(work.__name__, timeout)
    return process.exitcode


def run_command(
    arguments: Sequence[str], environment: Mapping[str, str], text: str, timeout: float
) -> "subprocess.CompletedProcess[str]":
    """Run ``mailroom`` with ``arguments`` to its end; ``text`` is its standard input.

    Raises TimeoutExpired, after killing it.
    """
    with tempfile.TemporaryDirectory(prefix="mailroom-command-") as folder:
        files = [Path(folder, name) for name in ("input", "output", "errors")]
        for file in files:
            file.write_text(text if file.name == "input" else "")
        command = ("-m", COMMAND, *arguments)
        process = FORKS.Process(target=_run, args=(command, dict(environment), tuple(map(str, files))))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(command, timeout)
        output, errors = (file.read_text() for file in files[1:])
        return subprocess.CompletedProcess(command, process.exitcode, output, errors)


def _run(arguments: Sequence[str], environment: Mapping[str, str], files: tuple[str, str, str]) -> None:
    """Do what ``python`` does with ``arguments``: ``-m MODULE`` or a folder, and its arguments.

    ``files`` are its standard input, output and error.
    """
    os.environ.clear()
    os.environ.update(environment)
    for target, path in enumerate(files):
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT if target else os.O_RDONLY
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, target)
        os.close(opened)
    sys.stdin = os.fdopen(0, closefd=False)  # multiprocessing closed it
    try:
        if arguments[0] == "-m":
            sys.argv = list(arguments[1:])
            sys.modules.pop(f"{arguments[1]}.__main__", None)  # or runpy warns
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = list(arguments)
            runpy.run_path(arguments[0], run_name="__main__")
    finally:
        atexit._run_exitfuncs()
