"""The jailer's main loop: takes commands from a socket, its standard input; forks a supervisor for each."""

import contextlib
import gc
import json
import os
import signal
import socket
import time

from shared.jailer import read_spec
from shared.jailer.mounts import enter_mount_namespace, prepare_user_namespace
from shared.jailer.supervisor import harden_process, seal_program, supervise

DESCRIPTORS = 6
"""The descriptors in a message: the specification, input, output, errors, seccomp filter, control socket."""

FORK_DELAY = 0.005  # Seconds before the next supervisor is forked: bubblewrap is to have the processor first


def serve(place: str, program: str) -> None:
    """Serve until the other end of the socket is closed, then remove ``place``, the folder that jails use.

    ``program`` is the bubblewrap that the specifications will name.
    """
    is_root = os.geteuid() == 0
    if is_root:
        with contextlib.suppress(OSError):  # it fails again in a supervisor, which reports it
            prepare_user_namespace()
    # Supervisors are not waited for: they report to their callers.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a caller that drains still needs its commands
    gc.disable()  # so that forks share memory, and few live long enough to need it
    try:
        _keep_one_ready(place, program, is_root)
    finally:
        import shutil  # late, since what is imported makes every fork cost more

        shutil.rmtree(place, ignore_errors=True)


def _keep_one_ready(place: str, program: str, is_root: bool) -> None:
    """Keep one supervisor waiting for the next command: forking it on demand would cost the command 2 ms."""
    while True:
        ours, theirs = os.pipe()
        if os.fork() == 0:
            os.close(ours)
            _await_spec(place, program, is_root, theirs)
        os.close(theirs)
        taken = os.read(ours, 1)
        os.close(ours)
        if not taken:
            return
        time.sleep(FORK_DELAY)


def _await_spec(place: str, program: str, is_root: bool, taken: int) -> None:
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        problem = enter_mount_namespace(place) if is_root else ""
        harden_process()
        if not is_root:
            with contextlib.suppress(OSError):  # it fails again later, and is reported
                seal_program(program)  # now, while nobody waits
        with socket.socket(fileno=0) as requests:
            words, files, _, _ = socket.recv_fds(requests, 1, DESCRIPTORS)
        if not words:
            return
        with contextlib.suppress(OSError):  # the process that reads it may have been killed
            os.write(taken, b".")
        os.close(taken)
        os.open(os.devnull, os.O_RDONLY)  # in place of the socket
        for fd in files:  # descriptors from a socket are inherited by default
            os.set_inheritable(fd, False)
        wanted, *streams, seccomp, control = files
        # Opened again: other supervisors read the shared one, so its position is not at the start.
        own_seccomp = os.open(f"/proc/self/fd/{seccomp}", os.O_RDONLY)
        os.close(seccomp)
        caller = socket.socket(fileno=control)
        # With its pid the caller can kill this process, and the command with it, if it hangs.
        caller.sendall(b"%d\n" % os.getpid())
        if problem:
            caller.sendall(json.dumps({"problem": problem}).encode())
            return
        supervise(read_spec(wanted, place), place, caller, streams, own_seccomp)
    finally:
        os._exit(0)
