"""Takes orders from its standard input, a socket, and has a minder carry out each, until it is closed."""

import contextlib
import gc
import json
import os
import signal
import socket
import time

from shared.jailer import order
from shared.jailer.minder import mind, shut_in
from shared.jailer.program import seal
from shared.jailer.stage import enter_own_mounts, prepare

FILES = 5
"""The files that come with an order: itself, where the command's output and errors go, rules, and control."""

REST = 0.005
"""Seconds before the next minder is forked: bubblewrap is to have the processor first."""


def serve(place: str, program: str) -> None:
    """Serve until the other end of the socket is closed, then remove ``place``, what jails need.

    ``program`` is the bubblewrap that orders will name.
    """
    is_root = os.geteuid() == 0
    if is_root:
        with contextlib.suppress(OSError):  # a minder meets it again and says so
            prepare()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for minders: they tell their callers
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a caller that drains still needs its commands
    gc.disable()  # so that forks share memory, and few live long enough to need it
    try:
        _keep_minders(place, program, is_root)
    finally:
        import shutil  # late, since what is imported makes every fork cost more

        shutil.rmtree(place, ignore_errors=True)


def _keep_minders(place: str, program: str, is_root: bool) -> None:
    """Keep one minder waiting for the next order: a fork when it comes would cost the command 2 ms."""
    while True:
        ours, theirs = os.pipe()
        if os.fork() == 0:
            os.close(ours)
            _wait_and_mind(place, program, is_root, theirs)
        os.close(theirs)
        taken = os.read(ours, 1)
        os.close(ours)
        if not taken:
            return
        time.sleep(REST)


def _wait_and_mind(place: str, program: str, is_root: bool, taken: int) -> None:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        problem = enter_own_mounts(place) if is_root else ""
        shut_in()
        if not is_root:
            with contextlib.suppress(OSError):  # it is met again, and told
                seal(program)  # now, while there is time
        with socket.socket(fileno=0) as orders:
            words, files, _, _ = socket.recv_fds(orders, 1, FILES)
        if not words:
            return
        with contextlib.suppress(OSError):  # whoever would wait for the next order may have been ended
            os.write(taken, b".")
        os.close(taken)
        os.open(os.devnull, os.O_RDONLY)  # in the place of the socket
        for fd in files:  # what comes through a socket would be inherited
            os.set_inheritable(fd, False)
        wanted, output, errors, rules, control = files
        # Opened anew: a file that others read too would not stand at its beginning.
        own_rules = os.open(f"/proc/self/fd/{rules}", os.O_RDONLY)
        os.close(rules)
        caller = socket.socket(fileno=control)
        # With its number the caller can end this process, and the command with it, should it hang.
        caller.sendall(b"%d\n" % os.getpid())
        if problem:
            caller.sendall(json.dumps({"problem": problem}).encode())
            return
        mind(order.read(wanted, place), place, caller, output, errors, own_rules)
    finally:
        os._exit(0)
