"""The self-test of the jail: a harmless command tries what it must not be able to do."""

import asyncio
import os
import sys
from pathlib import Path

from shared.errors import ActionError
from shared.sandbox.execution import OutputCapture, execute
from shared.sandbox.jail import UID, Limits, compose_spec
from shared.sandbox.visible_files import HOME, visible_mounts

SECONDS = 20.0  # The most the test may take, on a machine that is busy with other things
PROBE = f"""
import os, socket
def is_refused(family):
    try:
        socket.socket(family, socket.SOCK_RAW).close()
    except OSError:
        return True
devices = open("/proc/net/dev")
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
walls = {{
    "it is not a user of its own": os.getuid() == {UID},
    "it has capabilities": not any(int(status[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")),
    "it can gain rights": status["NoNewPrivs"].strip() == "1",
    "its system calls are not filtered": status["Seccomp"].strip() == "2",
    "it sees other processes": os.getpid() < 10,
    "it sees the machine's passwords": not os.path.exists("/etc/shadow"),
    "it can write to /usr": not os.access("/usr", os.W_OK),
    "it can change what makes the jail": not os.access("/proc/1/exe", os.W_OK),
    "it can write to the settings of the kernel": not os.access("/proc/sys/kernel/core_pattern", os.W_OK),
    "it sees the machine's network": [line.split(":")[0].strip() for line in devices][2:] == ["lo"],
    "it can ask the kernel about networks": is_refused(16),
}}
print(*(wall for wall, holds in walls.items() if not holds), "done", sep=", ")
"""
CURE = (
    "Allow unprivileged user namespaces (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, "
    "kernel.apparmor_restrict_unprivileged_userns), or in a container start it as compose.yaml does: "
    "not as root, and with its security_opt"
)
"""What helps if bubblewrap lacks a permission."""

_passed: set[int] = set()


async def check_jail() -> str:
    """Why the jail does not work here, as a sentence; empty if it does.

    Tested once in each process that runs commands; after a failure, tested again every time.
    """
    if os.getpid() in _passed:
        return ""
    reason = await _run_probe()
    if not reason:
        _passed.add(os.getpid())
    return reason


async def _run_probe() -> str:
    output = OutputCapture(10_000, None)
    try:
        spec = compose_spec(
            [sys.executable, "-I", "-S", "-c", PROBE],
            cwd=Path("/"),
            mounts=await asyncio.to_thread(visible_mounts, Path("/")),
            environment={"HOME": HOME, "PATH": "/usr/bin:/bin"},
            limits=Limits(cpu_seconds=int(SECONDS), file_bytes=0, processes=0, memory_bytes=0),
        )
        ending = await execute(spec, SECONDS, output)
    except ActionError as error:
        return f"{error.cause.rstrip('.')}. {error.cure or CURE}"
    words = output.text().strip()
    if ending.exit_code or ending.timed_out:
        last = words.splitlines()[-1:] or [f"exit code {ending.exit_code}"]
        return f"a harmless command failed in it: {last[0]}"
    return "" if words == "done" else f"a command in it is not shut in: {words.removesuffix(', done')}"
