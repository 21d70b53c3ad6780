"""The office's side of the process that starts commands."""

import atexit
import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

from shared.errors import ActionError
from shared.jailer import order
from shared.jailer.order import Order
from shared.sandbox.etc import furnish
from shared.sandbox.jail import find_bubblewrap
from shared.sandbox.rules import seccomp_rules

ROOT = Path(__file__).parents[2]
START = """
import sys
sys.path.insert(0, sys.argv[1])
from shared.jailer.serving import serve
serve(*sys.argv[2:])
"""


class Jailer:
    """The process that starts commands: one for each process of the office, from its first command on."""

    def __init__(self) -> None:
        self.owner = 0
        self.orders: socket.socket | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.rules = -1
        self.lock = threading.Lock()

    def send(self, wanted: Order, output: int, errors: int, control: int) -> subprocess.Popen[bytes] | None:
        """Have a command started whose output and end are told through these descriptors.

        Returns the process that was asked. Raises ActionError where no process can be started.
        """
        fd = order.write(wanted)
        try:
            with self.lock:
                self._send(fd, output, errors, control)
                return self.process
        except OSError as error:
            raise ActionError(f"No process can be started: {error.strerror}") from None
        finally:
            os.close(fd)

    def _send(self, fd: int, output: int, errors: int, control: int) -> None:
        try:
            socket.send_fds(self._open(), [b"."], [fd, output, errors, self.rules, control])
        except ConnectionError:  # somebody ended it
            self.close()
            socket.send_fds(self._open(), [b"."], [fd, output, errors, self.rules, control])

    def _open(self) -> socket.socket:
        if self.orders is not None and self.owner == os.getpid():
            return self.orders
        rules = seccomp_rules()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", START, str(ROOT), furnish(), find_bubblewrap()],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"LANG": "C.UTF-8"},  # names of files are what they are
                cwd="/",
                start_new_session=True,
            )
        self.rules = os.memfd_create("rules")
        os.write(self.rules, rules)
        self.owner, self.orders = os.getpid(), ours
        return ours

    def give_up(self, asked: subprocess.Popen[bytes] | None) -> None:
        """End the process ``asked``, which does not answer; the next command has another one started."""
        with self.lock:
            if asked is not None and asked is self.process:  # else somebody gave it up before
                asked.kill()
                self.close()

    def close(self) -> None:
        """End the process; commands that run go on until they end or their caller does."""
        if self.orders is None or self.process is None:
            return
        self.orders.close()
        os.close(self.rules)
        self.orders = None
        if self.owner == os.getpid():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)


jailer = Jailer()
atexit.register(jailer.close)
