"""The client of the jailer: starts that process, sends it commands, and makes the folder its jails use."""

import atexit
import contextlib
import importlib.util
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from shared.errors import ActionError
from shared.jailer import JailSpec, write_spec
from shared.sandbox.confined import remove_tree
from shared.sandbox.jail import find_bubblewrap, seccomp_filter
from shared.settings import environment

ROOT = Path(__file__).parents[2]
START = """
import sys
sys.path.insert(0, sys.argv[1])
__import__(sys.argv[2], fromlist=["serve"]).serve(*sys.argv[3:])
"""

OWN_ETC = {
    "passwd": (
        "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
        "agent:x:1000:1000:agent:/home/agent:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
    ),
    "group": "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nprotocols: files\nservices: files\n",
    # The owner of a repository does not matter: what its settings name can do no harm in the jail.
    "gitconfig": "[safe]\n\tdirectory = *\n",
}
PREFIX = "mailroom-jailer-"
PLACE = "/tmp"  # noqa: S108 - the user root becomes must reach it, and bubblewrap needs it too
PUBLIC_ETC = (
    *(
        "ld.so.cache ld.so.conf ld.so.conf.d alternatives localtime mime.types magic protocols services"
    ).split(),
    *("ssl/openssl.cnf ssl/certs/java/cacerts crypto-policies debian_version os-release java*").split(),
    *("maven/m2.conf maven/logging").split(),
)
"""What programs need of the machine's own /etc, as patterns."""
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
"""Where a command finds the certificates that the machine trusts."""
BUNDLES = (CERTIFICATES, "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem")
"""Where distributions keep them."""


class ServerProcess:
    """A process that serves this one: started when it is first asked, and again after it ended.

    ``owner`` is the process that started it: one that was forked since starts another.
    """

    def __init__(self) -> None:
        self.owner = 0
        self.requests: socket.socket | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.lock = threading.Lock()

    def known(self) -> socket.socket | None:
        """Where this process asks it; None if it has to be started."""
        return self.requests if self.owner == os.getpid() else None

    def start(self, module: str, *arguments: str) -> socket.socket:
        """Start ``serve`` of a module with these arguments; requests come to its standard input."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", START, str(ROOT), module, *arguments],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"LANG": "C.UTF-8"},  # file names are UTF-8
                cwd="/",
                start_new_session=True,
            )
        self.owner, self.requests = os.getpid(), ours
        return ours

    def give_up(self, asked: subprocess.Popen[bytes] | None) -> None:
        """Kill the process ``asked``, which does not answer; the next command starts another one."""
        with self.lock:
            if asked is not None and asked is self.process:  # else another caller did so before
                asked.kill()
                self.close()

    def close(self) -> None:
        """End the process."""
        raise NotImplementedError


class JailerClient(ServerProcess):
    """The process that starts commands: one for each process of Mailroom, from its first command on."""

    seccomp = -1

    def send(self, spec: JailSpec, streams: Sequence[int], control: int) -> subprocess.Popen[bytes] | None:
        """Have a command started: its input, output and errors are ``streams``, its end comes by ``control``.

        Returns the process that was asked. Raises ActionError if no process can be started.
        """
        fd = write_spec(spec)
        try:
            with self.lock:
                try:
                    socket.send_fds(self._open(), [b"."], [fd, *streams, self.seccomp, control])
                except ConnectionError:  # the process was killed
                    self.close()
                    socket.send_fds(self._open(), [b"."], [fd, *streams, self.seccomp, control])
                return self.process
        except OSError as error:
            raise ActionError(f"No process can be started: {error.strerror}") from None
        finally:
            os.close(fd)

    def _open(self) -> socket.socket:
        if requests := self.known():
            return requests
        program = seccomp_filter()
        requests = self.start("shared.jailer.server", make_jail_folder(), find_bubblewrap())
        self.seccomp = os.memfd_create("seccomp")
        os.write(self.seccomp, program)
        return requests

    def close(self) -> None:
        """End the process; commands that run go on until they end or their caller does."""
        if self.requests is None or self.process is None:
            return
        self.requests.close()
        os.close(self.seccomp)
        self.requests = None
        if self.owner == os.getpid():
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5)


def make_jail_folder() -> str:
    """A new folder, readable by all users, with the jail's /etc in ``etc`` and an empty folder ``stage``.

    It is made once, because each mount would cost every command time; the jailer that gets it removes it. The
    folders of killed processes are removed first. Raises ActionError if it cannot be made.
    """
    remove_orphans(PREFIX)
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=PLACE))
        etc = folder / "etc"
        for made in (etc, folder / "stage"):
            made.mkdir()
        for path in (path for pattern in PUBLIC_ETC for path in Path("/etc").glob(pattern)):
            with contextlib.suppress(OSError, shutil.Error):
                _copy(path, etc / path.relative_to("/etc"))
        if bundle := find_certificates():
            _copy(bundle, etc / Path(CERTIFICATES).relative_to("/etc"))
        for name, text in OWN_ETC.items():
            (etc / name).write_text(text)
            (etc / name).chmod(0o644)
        for path in (folder, *folder.rglob("*")):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
        return str(folder.resolve())
    except OSError as error:
        raise ActionError(
            f"The jail's folder cannot be made in {PLACE}: {error.strerror or error}",
            f"Let all users write to {PLACE} (chmod 1777 {PLACE}), and free space on its disk",
        ) from None


def remove_orphans(prefix: str) -> None:
    """Remove the folders with ``prefix`` of processes that were killed."""
    for folder in Path(PLACE).glob(f"{prefix}*"):
        owner = folder.name.removeprefix(prefix).partition("-")[0]
        with contextlib.suppress(OSError):
            if folder.lstat().st_uid == os.geteuid() and not Path("/proc", owner).exists():
                remove_tree(folder)


def find_certificates() -> Path | None:
    """The file of the certificates that the person's settings name, else the machine's, else certifi's."""
    env = environment()
    named = [env.get(name, "") for name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")]
    spec = importlib.util.find_spec("certifi")
    own = str(Path(spec.origin).parent / "cacert.pem") if spec and spec.origin else ""
    return next((Path(path) for path in (*named, *BUNDLES, own) if path and Path(path).is_file()), None)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=_find_private)
    elif _is_public(source):
        # Followed, if it is a link: its target may lie where a command does not see it.
        shutil.copyfile(source, target)
        target.chmod(0o644)


def _find_private(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not _is_public(Path(folder, name))]


def _is_public(path: Path) -> bool:
    """Whether all users may read it: the copy is readable by all."""
    try:
        return bool(path.stat().st_mode & stat.S_IROTH)
    except OSError:
        return False


jailer = JailerClient()
atexit.register(jailer.close)
