"""A person's folder as it is sent to an office elsewhere: what git knows of it, and what is not committed.

git runs with the person's own settings, which say what is ignored, but without hooks and monitors. What is
left out is told, but for ignored files: untracked ones with secrets, links that lead out of the folder, a
history that is too large.
"""

import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from shared import settings
from shared.errors import ActionError, MailroomError, StartError
from shared.sandbox.confined import ConfinedFolder
from shared.sandbox.parcels import Packer, stays_inside
from shared.skills.git import find_repository
from shared.text.secret_forms import find_secrets

MAX_FILE = 256 << 20  # Bytes of an untracked file beyond which it is left out
MAX_HISTORY = 256 << 20  # Bytes of the history beyond which it is left out
MAX_SCANNED = 1 << 20  # Bytes of an untracked file in which secrets are looked for
MAX_TAGS = 500
TIMEOUT = 300.0  # Seconds that git may take for one step
SECRET_NAME = re.compile(
    r"(?:\.env(?:\.(?!example|sample|template|dist)[\w.-]+)?|\.(?:netrc|npmrc|pypirc|git-credentials|htpasswd|pgpass)"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)|credentials(?:\.json)?|.*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|nk))",
    re.IGNORECASE,
)
"""Names of files that hold secrets: untracked ones are not sent."""
IGNORED = frozenset(
    ".git .hg .svn .venv venv node_modules __pycache__ .mypy_cache .pytest_cache .ruff_cache .tox".split()
)
"""Left out of a folder that is in no repository."""
HARMLESS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C",
}


class Packed(msgspec.Struct, frozen=True, kw_only=True):
    """What was packed of a folder, and what was left out, with the reason."""

    files: int
    left_out: tuple[str, ...] = ()


def find_root(folder: Path) -> Path:
    """The folder that is sent for ``folder``: its repository, or else itself."""
    repository = find_repository(folder)
    return folder if repository is None or repository.bare else repository.top


def pack_folder(root: Path, out: BinaryIO) -> Packed:
    """Write the parcel of the folder ``root`` to ``out``.

    Raises MailroomError if it holds more than may be sent.
    """
    left_out: list[str] = []
    try:
        packer = Packer(out)
        with ConfinedFolder(root) as folder:
            for name, is_known in _list(root):
                if why := _reason(folder, name, is_known):
                    left_out.append(f"{_show(name)} ({why})")
                    continue
                try:
                    packer.add(folder, name, f"files/{name}")
                except ActionError as error:
                    if folder.stat(name) is None or not os.access(root / name, os.R_OK):
                        left_out.append(f"{_show(name)} (it cannot be read)")
                        continue
                    raise MailroomError(f"{root} cannot be sent: {error.cause}", error.cure) from None
        files = len(packer.entries)
        with tempfile.TemporaryDirectory(prefix="mailroom-history-") as aside:
            if why := _pack_history(root, Path(aside)):
                left_out.append(f"its history ({why})")
            else:
                with ConfinedFolder(Path(aside)) as folder:
                    for name, _ in folder.entries("."):
                        packer.add(folder, name, f"history/{name}")
        packer.finish()
    except OSError as error:
        raise MailroomError(f"{root} cannot be packed: {error.strerror}", "Free space on the disk") from None
    return Packed(files=files, left_out=tuple(left_out))


def _show(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace").replace("\n", "\\n")


def _reason(folder: ConfinedFolder, name: str, is_known: bool) -> str:
    """Why a file is left out; empty if it is not."""
    try:
        info = folder.stat(name)
    except ActionError:
        return "a link on the way leads elsewhere"
    if info is None:
        return ""  # deleted in the work tree
    if stat.S_ISLNK(info.st_mode):
        target = os.fsencode((folder.root / name).readlink())
        return "" if stays_inside(os.fsencode(name), target) else "a link that leads out of the folder"
    if not stat.S_ISREG(info.st_mode):
        return "" if stat.S_ISDIR(info.st_mode) else "neither a file nor a link"
    if is_known:
        return ""
    if info.st_size > MAX_FILE:
        return f"untracked, with more than {MAX_FILE:,} bytes"
    if SECRET_NAME.fullmatch(Path(name).name):
        return "untracked, and named as secrets are"
    try:
        with folder.open_file(name) as file:
            text = file.read(MAX_SCANNED).decode("utf-8", "replace")
    except ActionError:
        return "it cannot be read"
    found = find_secrets(text)
    return f"untracked, and it holds what looks like a secret: {found[0].kind}" if found else ""


def _list(root: Path, prefix: str = "") -> Iterator[tuple[str, bool]]:
    """The files of a folder, and whether git tracks them; without git, all that no tool makes."""
    repository = find_repository(root)
    if repository is None:
        for parent, folders, files in os.walk(root):
            links = [name for name in folders if Path(parent, name).is_symlink()]
            folders[:] = sorted(each for each in folders if each not in IGNORED and each not in links)
            yield from ((str(Path(parent, each).relative_to(root)), False) for each in sorted(files + links))
        return
    for is_known, options in ((True, ("--cached",)), (False, ("--others", "--exclude-standard"))):
        listed = _git(root, "ls-files", "-z", *options)
        for raw in dict.fromkeys(listed.split(b"\0")):
            name = os.fsdecode(raw).rstrip("/")
            if not raw or ".git" in Path(name).parts:
                continue
            inner = root / name
            if not inner.is_dir() or inner.is_symlink():
                yield prefix + name, is_known
            elif find_repository(inner) != repository:  # a submodule, or another repository
                yield from ((f"{name}/{each}", known) for each, known in _list(inner))


def _pack_history(root: Path, aside: Path) -> str:
    """Write what git knows up to HEAD into the folder ``aside``; returns why not, if it does not."""
    if find_repository(root) is None:
        return "it is in no git repository"
    head = _try(root, "rev-parse", "--quiet", "--verify", "HEAD^{commit}").decode().strip()
    if not head:
        return "nothing is committed"
    if len(head) != 40:
        return "its objects are named by SHA-256"
    if _try(root, "config", "--get-regexp", r"^(remote\..*\.promisor|extensions\.partialclone)$"):
        return "the clone is partial"
    sizes = dict(line.split(": ") for line in _git(root, "count-objects", "-v").decode().splitlines())
    too_large = f"it has more than {MAX_HISTORY:,} bytes"
    if (int(sizes["size-pack"]) + int(sizes["size"])) * 1024 > 4 * MAX_HISTORY:
        return too_large  # more than what leads to HEAD, but far more
    tags = _git(
        root,
        "for-each-ref",
        "--merged=HEAD",
        f"--count={MAX_TAGS}",
        "--format=%(objectname) %(refname)",
        "refs/tags",
    )
    wanted = "\n".join([head, *(line.split()[0] for line in tags.decode("utf-8", "replace").splitlines())])
    branch = _try(root, "symbolic-ref", "--quiet", "--short", "HEAD").decode("utf-8", "replace").strip()
    shallow = root / os.fsdecode(_git(root, "rev-parse", "--git-path", "shallow").strip())
    with (aside / "pack").open("wb") as pack:
        _git(root, "pack-objects", "--revs", "--stdout", "--quiet", given=f"{wanted}\n", to=pack)
    if (aside / "pack").stat().st_size > MAX_HISTORY:
        return too_large
    (aside / "head").write_text(f"{head} {branch or 'detached'}\n")
    (aside / "tags").write_bytes(tags)
    if shallow.is_file():
        (aside / "shallow").write_bytes(shallow.read_bytes())
    return ""


def _try(root: Path, *arguments: str) -> bytes:
    try:
        return _git(root, *arguments)
    except MailroomError:
        return b""


def _git(root: Path, *arguments: str, given: str = "", to: BinaryIO | None = None) -> bytes:
    environment = {k: v for k, v in settings.environment().items() if not k.startswith("GIT_")} | ENVIRONMENT
    command: Sequence[str] = ["git", *HARMLESS, *arguments]
    try:
        done = subprocess.run(
            command,
            cwd=root,
            env=environment,
            input=given.encode(),
            stdout=to or subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
            check=False,
        )
    except FileNotFoundError:
        raise StartError("git is not installed", "Install it: apt install git, or brew install git") from None
    except subprocess.TimeoutExpired:
        raise MailroomError(f"git {arguments[0]} took longer than {TIMEOUT:g} s in {root}") from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise MailroomError(f"git {arguments[0]} failed in {root}: {said[-1][:200]}")
    return done.stdout or b""
