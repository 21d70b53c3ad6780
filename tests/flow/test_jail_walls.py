"""The jail's walls to the network and to the kernel, and what happens where they do not stand."""

import asyncio
import contextlib
import errno
import os
import socket
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from shared.jailer import mounts
from shared.sandbox.execution import PROBE
from tests.flow.jailing import python, run_office, shell

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[dict[str, object]]:
    """Sockets of the machine that note who connects: TCP, UDP, a file, an abstract one."""
    name = f"mailroom-{uuid.uuid4().hex}"
    heard: list[str] = []
    tcp = socket.create_server(("127.0.0.1", 0))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))
    file, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    file.bind(str(tmp_path / "socket"))
    abstract.bind(f"\0{name}")
    for listening in (file, abstract):
        listening.listen()

    def accept(listening: socket.socket, what: str) -> None:
        try:
            listening.accept()[0].close()
            heard.append(what)
        except OSError:
            pass

    def receive() -> None:
        try:
            udp.recv(10)
            heard.append("udp")
        except OSError:
            pass

    pairs = ((tcp, "tcp"), (file, "file"), (abstract, "abstract"))
    threads = [threading.Thread(target=accept, args=pair, daemon=True) for pair in pairs]
    threads.append(threading.Thread(target=receive, daemon=True))
    for thread in threads:
        thread.start()
    yield {
        "tcp": tcp.getsockname()[1],
        "udp": udp.getsockname()[1],
        "file": str(tmp_path / "socket"),
        "abstract": name,
        "heard": heard,
    }
    for listening in (tcp, udp, file, abstract):
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
    for thread in threads:
        thread.join(2)


async def test_no_socket_of_the_machine_is_reached(workspace, listeners):
    (workspace / "socket").symlink_to(listeners["file"])
    code = f"""
import socket
def attempt(family, kind, address):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(2)
            s.connect(address); s.send(b"x"); print("reached", address)
    except OSError as error: print(type(error).__name__)
attempt(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", {listeners["tcp"]}))
attempt(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 4222))
attempt(socket.AF_INET, socket.SOCK_STREAM, ("192.0.2.1", 80))
attempt(socket.AF_INET, socket.SOCK_STREAM, ("169.254.169.254", 80))
attempt(socket.AF_UNIX, socket.SOCK_STREAM, {listeners["file"]!r})
attempt(socket.AF_UNIX, socket.SOCK_STREAM, "socket")
attempt(socket.AF_UNIX, socket.SOCK_STREAM, "\\0{listeners["abstract"]}")
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/dbus/system_bus_socket"):
    attempt(socket.AF_UNIX, socket.SOCK_STREAM, path)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    try: s.sendto(b"x", ("127.0.0.1", {listeners["udp"]}))
    except OSError: pass
for family in (16, 17, 40, 38, 29, 31, 21, 44, 45, 99):
    try: socket.socket(family, socket.SOCK_RAW if family == 16 else 1); print("reached family", family)
    except OSError: pass
"""
    result = await python(code, workspace)
    assert result.exit_code == 0, result.output
    assert "reached" not in result.output
    await asyncio.sleep(0.1)
    assert listeners["heard"] == []


async def test_a_network_of_its_own_is_there(workspace):
    code = """
import socket
server = socket.create_server(("127.0.0.1", 0))
with socket.create_connection(server.getsockname()) as client: print("connected")
a, b = socket.socketpair(); a.send(b"pair"); print(b.recv(9).decode())
"""
    assert (await python(code, workspace)).output == "connected\npair\n"


async def test_dangerous_system_calls_are_refused(workspace):
    code = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    ctypes.set_errno(0)
    result = getattr(libc, name)(*arguments)
    print(name, "done" if result >= 0 else errno.errorcode[ctypes.get_errno()])
buffer = ctypes.create_string_buffer(64)
call("mount", b"none", b"/tmp", b"tmpfs", 0, None)
call("umount2", b"/proc", 2)
call("chroot", b"/tmp")
call("unshare", 0x10000000)
call("unshare", 0x00020000)
call("setns", 0, 0)
call("ptrace", 0, 0, 0, 0)
call("process_vm_readv", 1, buffer, 1, buffer, 1, 0)
call("personality", 0x0008)
call("sethostname", b"x", 1)
call("reboot", 0)
call("ioctl", 0, 0x5412, buffer)
call("swapon", b"/tmp/x", 0)
call("acct", b"/tmp/x")
call("fcntl", os.open("own", os.O_CREAT), 1024, 0)
call("open_by_handle_at", 3, buffer, 0)
import platform
numbers = {"keyctl": 250, "add_key": 248, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323}
numbers_of_all = {"clone3": 435, "io_uring_setup": 425, "open_tree": 428, "fsopen": 430}
for name, number in {**numbers, **numbers_of_all}.items():
    if name in numbers and platform.machine() != "x86_64": continue
    ctypes.set_errno(0)
    print(name, "done" if libc.syscall(number, 0, 0, 0, 0, 0) >= 0 else errno.errorcode[ctypes.get_errno()])
print("clone", "done" if libc.syscall(56, 0x10000011, 0, 0, 0, 0) > 0 else "EPERM")
"""
    told = dict(line.split() for line in (await python(code, workspace)).output.splitlines())
    assert told.pop("clone3") == "ENOSYS"
    told.pop("personality")
    assert set(told.values()) == {"EPERM"}, told


async def test_no_namespace_can_be_made(workspace):
    result = await shell("unshare -Ur id 2>&1; unshare -n true 2>&1; cat /proc/self/uid_map", workspace)
    assert "uid=0" not in result.output
    assert result.output.count("ermitted") >= 2


async def test_settings_of_the_kernel_are_not_changed(workspace):
    names = ("core_pattern", "modprobe", "hostname", "randomize_va_space", "sysrq", "panic")
    places = [Path("/proc/sys/kernel", name) for name in names]
    before = [place.read_bytes() for place in places if place.exists()]
    script = (
        "for name in "
        + " ".join(map(str, places))
        + "; do echo '|/tmp/x' > $name; done; echo b > /proc/sysrq-trigger"
    )
    await shell(f"({script}; echo 1 > /proc/self/oom_score_adj) 2>/dev/null; hostname evil", workspace)
    assert [place.read_bytes() for place in places if place.exists()] == before


async def test_it_is_the_first_to_go_where_memory_runs_out_and_cannot_leave_that_place(workspace):
    place = "/proc/self/oom_score_adj"
    result = await shell(f"cat {place}; echo -1000 > {place}; cat {place}", workspace)
    assert result.output.split()[0] == "1000"
    assert result.output.split()[-1] == "1000"


async def test_a_crash_starts_no_program_of_the_machine(workspace):
    code = """
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.prlimit(0, resource.RLIMIT_CORE, (0, 0))
print(*resource.getrlimit(resource.RLIMIT_CORE))
"""
    assert (await python(code, workspace)).output == "1 1\n"  # what the kernel takes for no core at all


async def test_no_disk_is_taken_at_once(workspace):
    code = """
import errno, fcntl, os, struct
def tell(work):
    try: work(); print("done")
    except OSError as error: print(errno.errorcode[error.errno])
file = os.open("large", os.O_CREAT | os.O_RDWR)
for request in (0x40305828, 0x4030582A, 0x40305839):
    tell(lambda: fcntl.ioctl(file, request, struct.pack("hhqqiI16x", 0, 0, 0, 1 << 20, 0, 0)))
os.posix_fallocate(file, 0, 1 << 16)
print(os.fstat(file).st_size)
"""
    result = await python(code, workspace)
    assert result.output.split() == ["ENOTSUP"] * 3 + [str(1 << 16)], result.output
    assert "not supported" in (await shell("fallocate -l 1M new 2>&1", workspace)).output


def test_a_root_that_may_make_no_user_namespace_says_so(monkeypatch):
    def refuse(flags: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(mounts.syscalls, "unshare", refuse)
    with pytest.raises(OSError, match="no user namespace can be made"):
        mounts._map_owner.__wrapped__(1, 1)


async def test_output_without_end_neither_fills_memory_nor_outlives_its_time(workspace):
    before = psutil.Process().memory_info().rss
    result = await shell(
        "yes $(head -c 1000 /dev/zero | tr '\\0' y)", workspace, seconds=1.0, output_limit=100_000
    )
    assert result.timed_out
    assert result.truncated
    assert len(result.output) < 101_000
    assert psutil.Process().memory_info().rss - before < 50_000_000


async def test_a_jail_that_does_not_hold_refuses_every_command(workspace, tmp_path, monkeypatch):
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo 'bubblewrap 9.0' && exit\n"
        "echo 'bwrap: No permissions' >&2; exit 1\n"
    )
    fake.chmod(0o755)
    code = (
        "import asyncio, pathlib\nfrom shared.sandbox import check_jail, run_command\n"
        "print(asyncio.run(check_jail()))\n"
        f"asyncio.run(run_command(['touch', 'made'], cwd=pathlib.Path({str(workspace)!r}), timeout=9))"
    )
    done = run_office(code, **{**os.environ, "PATH": f"{fake.parent}:{os.environ['PATH']}"})
    assert "No permissions" in done.stdout
    assert "Commands are refused, because the jail does not work here" in done.stderr
    assert not list(workspace.iterdir())


def test_landlock_is_a_second_wall_around_signals_and_abstract_sockets():
    with socket.socket(socket.AF_UNIX) as listening:
        name = f"mailroom-{uuid.uuid4().hex}"
        listening.bind(f"\0{name}")
        listening.listen()
        code = f"""
import os, socket
from shared.jailer import syscalls
syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
print(syscalls.restrict_by_landlock())
try: os.kill(os.getppid(), 0); print("signalled")
except PermissionError: print("refused")
with socket.socket(socket.AF_UNIX) as s:
    try: s.connect("\\0{name}"); print("connected")
    except PermissionError: print("refused")
"""
        done = run_office(code, **os.environ)
    if done.stdout.startswith("False"):
        pytest.skip("this kernel's Landlock knows no scopes")
    assert done.stdout.split() == ["True", "refused", "refused"], done.stderr


def test_the_check_of_the_jail_notices_what_does_not_hold():
    told = run_office(PROBE, **os.environ).stdout
    for wall in (
        "can gain rights",
        "calls are not filtered",
        "other processes",
        "machine's network",
        "about networks",
    ):
        assert wall in told
