"""Processes of agents, forked from one process that has imported what agents import.

Importing is most of an agent's start: .25 s of processor time, and the tests start hundreds of agents. What
then runs is the agent's own ``__main__``, in a process of its own, with the environment and the log it would
have. ``tests/flow/test_up.py`` starts agents by their commands, and so does each test outside of pytest.
"""

import atexit
import multiprocessing
import os
import runpy
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

AGENTS = ("conductor", "cortex", "critic", "engineer", "frontier", "gateway", "nexus", "scout")
"""Not the memory daemon: its libraries start threads when they are imported, which a fork would lose."""

IMPORTED = ["uvloop", "shared.agent.process", *(f"services.{name}.__main__" for name in AGENTS)]

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(IMPORTED)


class ForkedProcess:
    """A process with what the tests use of ``subprocess.Popen``."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        log.touch()
        arguments = (tuple(command[1:]), dict(environment), str(log))
        self._process = _context.Process(target=_run, args=arguments)
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


def _run(arguments: Sequence[str], environment: Mapping[str, str], log: str) -> None:
    """Do what ``python`` does with ``arguments``: ``-m MODULE`` or a folder, and its arguments."""
    os.environ.clear()
    os.environ.update(environment)
    for target, path, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, log, os.O_WRONLY | os.O_APPEND | os.O_CREAT),
        (2, log, os.O_WRONLY | os.O_APPEND | os.O_CREAT),
    ):
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, target)
        os.close(opened)
    try:
        if arguments[0] == "-m":
            sys.argv = list(arguments[1:])
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = list(arguments)
            runpy.run_path(arguments[0], run_name="__main__")
    finally:
        atexit._run_exitfuncs()
