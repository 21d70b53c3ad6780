"""The effects of reading, writing and deleting a path, by the place of the path."""

import re

from shared.policy.expansion import UNKNOWN
from shared.policy.paths import (
    Place,
    guards,
    is_hidden_home,
    is_likely_secret,
    is_private,
    is_public,
    is_repository,
    may_guard,
    place,
    resolve,
    runs_later,
)
from shared.policy.scope import NOTHING, UNREAD, Scope, Stream, Word
from shared.policy.shell import Shell

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SOCKET = re.compile(r"^/dev/(tcp|udp)(/|$)")
_EVERYTHING = re.compile(r"^/(home(/[^/]+)?|root|etc|var|usr|boot|Users(/[^/]+)?)?/?\**$")
_ALL = re.compile(r"[*.?/{},]*|\[[^]]*\]\*")  # A name or a pattern that stands for all there is


def read(shell: Shell, scope: Scope, word: Word, deep: bool = False) -> None:
    """Its content is read; ``deep``: that of everything beneath it too."""
    text = word.text
    if text == "-" or not text or _ADDRESS.match(text):
        return
    if word.obfuscated:
        shell.find("unclear.spelling", text)
    path = resolve(text, scope.cwd)
    if path is None:
        if is_private(text):
            shell.find("secret.file", text)
        return
    read_path(shell, path, deep=deep or word.glob, hidden=word.hidden or "../.." in text)


def feed(shell: Shell, scope: Scope, word: Word) -> Stream:
    """Its content is fed to a program; the stream it gives."""
    read(shell, scope, word)
    path = resolve(word.text, scope.cwd)
    if path is not None and path in scope.files:
        return scope.files[path]
    return NOTHING if path == "/dev/null" else UNREAD


def read_path(shell: Shell, path: str, *, deep: bool = False, hidden: bool = False) -> None:
    """The content of the absolute ``path`` is read; ``hidden``: by way of variables or folders above."""
    shown = _within(path, shell.workspace)
    where = place(path, shell.workspace)
    if is_private(shown):
        shell.find("secret.file", shown)
    elif is_likely_secret(shown) or (where is Place.WORKSPACE and shell.is_guarded(path)):
        shell.find("secret.workspace", shown)
    elif deep and _EVERYTHING.match(path) and path != "/workspace":
        shell.find("read.everything", path)
    elif _is_shut(where, path, hidden) and (
        deep or not f"{shell.workspace}/".startswith(path.rstrip("/") + "/")
    ):
        shell.find("read.system", path)


def _is_shut(where: Place, path: str, hidden: bool) -> bool:
    if where is Place.HOME:
        return is_hidden_home(path) and not path.endswith(".pub")
    return where in {Place.KERNEL, Place.DEVICE, Place.SYSTEM} and (hidden or not is_public(path))


def stat(shell: Shell, scope: Scope, word: Word) -> None:
    """Its name, size and dates are looked at."""
    shown = resolve(word.text, scope.cwd) or word.text
    if is_private(shown):
        shell.find("secret.search", shown)


def write(shell: Shell, scope: Scope, word: Word, create: bool = False) -> None:
    """Its content is written or it is made; ``create``: nothing that is there is lost (mkdir, touch)."""
    text = word.text
    if _ADDRESS.match(text):
        return
    if _SOCKET.match(text):
        shell.find("network.shell", text)
        return
    if word.obfuscated:
        shell.find("unclear.spelling", text)
    path = resolve(text, scope.cwd)
    shown = path or text
    where = place(path, shell.workspace)
    inside = where is Place.WORKSPACE
    if where is Place.NOWHERE:
        return
    if runs_later(_within(shown, shell.workspace) if inside else shown, inside or where is Place.UNKNOWN):
        shell.find("persist.startup", shown)
    if not inside and is_private(shown):
        shell.find("secret.file", shown)
    _judge_written(shell, where, shown, create)


def _judge_written(shell: Shell, where: Place, shown: str, create: bool) -> None:
    if where is Place.WORKSPACE:
        if shell.is_guarded(shown):
            shell.find("guard.tamper", shown)
        elif is_repository(_within(shown, shell.workspace)):
            shell.find("write.repository", shown)
        elif may_guard(shown) and not create:
            shell.find("guard.file", shown)
    elif where is Place.DEVICE:
        shell.find("destroy.device", f"Writing to {shown}")
    elif where in {Place.KERNEL, Place.SYSTEM} or shown.startswith("/root"):
        shell.find("guard.tamper" if guards(shown) else "write.system", shown)
    elif where is Place.HOME and (may_guard(shown) or guards(shown)):
        shell.find("guard.tamper", shown)
    elif where in {Place.HOME, Place.ELSEWHERE} and not (create and not is_hidden_home(shown)):
        shell.find("write.outside-workspace", shown)


def delete(shell: Shell, scope: Scope, word: Word, deep: bool = False) -> None:
    """It is deleted, ``deep``: with everything beneath it."""
    if word.obfuscated:
        shell.find("unclear.spelling", word.text)
    path = resolve(word.text, scope.cwd)
    if path is None:
        if is_private(word.text):
            shell.find("secret.file", word.text)
        elif deep or word.text.startswith(f"{UNKNOWN}/"):
            shell.find("destroy.unknown", word.text)
        return
    where = place(path, shell.workspace)
    top = path.rstrip("*").rstrip("/")
    if where is Place.DEVICE:
        shell.find("destroy.device", path)
    elif where is Place.WORKSPACE:
        inner = _within(path, shell.workspace)
        if shell.is_guarded(path):
            shell.find("guard.tamper", path)
        elif is_repository(inner):
            shell.find("write.repository", path)
        elif path == shell.workspace or _ALL.fullmatch(inner):
            shell.find("destroy.workspace", path)
        elif may_guard(inner) or is_likely_secret(inner):
            shell.find("guard.file", path)
        elif deep and inner.startswith(UNKNOWN):
            shell.find("destroy.unknown", path)
    elif where is not Place.SCRATCH or (top != shell.workspace and shell.workspace.startswith(f"{top}/")):
        shell.find("guard.tamper" if guards(path) else "destroy.outside-workspace", path)


def _within(path: str, workspace: str) -> str:
    return path[len(workspace) + 1 :] if path.startswith(f"{workspace}/") else path
