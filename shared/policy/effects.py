"""The effects of reading, writing and deleting a path, by the place of the path."""

import re
from typing import TYPE_CHECKING

from shared.policy import secrets
from shared.policy.expansion import UNKNOWN
from shared.policy.paths import (
    Place,
    is_hidden_home,
    is_public,
    is_readable,
    is_table,
    place,
    resolve,
)

if TYPE_CHECKING:
    from shared.policy.interpreter import Interpreter
    from shared.policy.scope import Scope
    from shared.policy.words import Word

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_SOCKET = re.compile(r"^/dev/(tcp|udp)(/|$)")
_DERIVED = re.compile(
    r"(^|/)(build|dist|out|target|node_modules|__pycache__|\.?venv|\.virtualenv|env|htmlcov|coverage"
    r"|\.coverage[^/]*|[^/]*\.egg-info|\.eggs|\.?cache|[^/]*[._-]cache|te?mp|\.next|\.nuxt|\.turbo|\.gradle"
    r"|\.tox|\.nox|obj|_build|artifacts|test-results|reports|\.nyc_output|\.terraform|\.ipynb_checkpoints"
    r"|\.parcel-cache|wheelhouse|_site|[^/]*[_-](build|out|tmp|temp|output)|(tmp|temp|build)[_.-][^/]*"
    r"|[^/]*\.(pyc|pyo|o|obj|log|tmp|bak|swp|orig|class))(/|$)"
)
_CACHES = re.compile(
    r"(^|/)(__pycache__|\.[\w-]*cache|\.(tox|nox|eggs|ipynb_checkpoints|coverage[^/]*)|htmlcov|coverage"
    r"|[^/]*\.(egg-info|pyc|pyo|tmp|bak|swp|log|o))(/|$)"
)
_SOURCES = re.compile(
    r"\.(py|pyi|js|jsx|mjs|ts|tsx|go|rs|c|h|cc|cpp|hpp|java|kt|rb|php|swift|scala|cs|sh|sql|md|rst"
    r"|toml|ya?ml|json|html|css|vue|ipynb|tex|\*)$"
)
_EVERYTHING = re.compile(r"^/(home(/[^/]+)?|root|etc|var|usr|boot|Users(/[^/]+)?)?/?\**$")


def is_derived(path: str) -> bool:
    """Whether a tool made it and makes it again: build products, caches, environments."""
    return bool(_DERIVED.search(path))


def read(shell: "Interpreter", scope: "Scope", word: "Word", deep: bool = False) -> None:
    """Its content is read; ``deep``: that of everything beneath it too."""
    text = word.text
    if text == "-" or not text or _ADDRESS.match(text):
        return
    if word.obfuscated:
        shell.find("unclear.spelling", text)
    path = resolve(text, scope.cwd)
    shown = _within(path or text, shell.workspace)
    if secrets.is_private(shown):
        shell.find("secret.file", shown)
    elif secrets.is_likely_secret(shown):
        shell.find("secret.workspace", shown)
    if path is None or (path == "/" and ".." in text and not deep):
        return
    where = place(path, shell.workspace)
    if where is Place.WORKSPACE:
        if shell.is_guarded(path):
            shell.find("secret.workspace", path)
        return
    if (deep or word.glob) and _EVERYTHING.match(path):
        shell.find("read.everything", path)
    elif _is_shut(where, path, word.hidden) or "../.." in text:
        shell.find("read.system", path)


def query(shell: "Interpreter", scope: "Scope", word: "Word") -> bool:
    """Some lines or columns of it are read; whether it is a table of the system's, open to that alone."""
    path = resolve(word.text, scope.cwd) or ""
    if is_table(path) and "../.." not in word.text and not (word.hidden or word.obfuscated or word.glob):
        return True
    read(shell, scope, word)
    return False


def _is_shut(where: Place, path: str, hidden: bool) -> bool:
    """Whether content outside the workspace is asked after; what is open needs no variable before it."""
    if where is Place.HOME:
        return hidden or (is_hidden_home(path) and not path.endswith(".pub"))
    if where in {Place.KERNEL, Place.DEVICE, Place.SYSTEM}:
        return hidden or not (is_public(path) or is_readable(path))
    return False


def stat(shell: "Interpreter", scope: "Scope", word: "Word") -> None:
    """Its name, size and dates are looked at."""
    path = resolve(word.text, scope.cwd)
    shown = path or word.text
    if secrets.is_private(shown):
        shell.find("secret.search", shown)


def is_endless(scope: "Scope", word: "Word", workspace: str) -> bool:
    """Whether reading it never ends."""
    return word.text.startswith("/dev/") and place(resolve(word.text, scope.cwd), workspace) is Place.ENDLESS


def write(shell: "Interpreter", scope: "Scope", word: "Word", create: bool = False) -> None:
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
    if where is Place.NOWHERE or where is Place.ENDLESS:
        return
    if secrets.runs_later(
        _within(shown, shell.workspace) if inside else shown, inside or where is Place.UNKNOWN
    ):
        shell.find("persist.startup", shown)
    if not inside and secrets.is_private(shown):
        shell.find("secret.file", shown)
    _judge_written(shell, where, shown, create)


def _judge_written(shell: "Interpreter", where: Place, shown: str, create: bool) -> None:
    if where is Place.WORKSPACE:
        if shell.is_guarded(shown):
            shell.find("guard.tamper", shown)
        elif secrets.is_repository(_within(shown, shell.workspace)):
            shell.find("write.repository", shown)
        elif secrets.may_guard(shown) and not create:
            shell.find("guard.file", shown)
    elif where is Place.DEVICE:
        shell.find("destroy.device", f"Writing to {shown}")
    elif where in {Place.KERNEL, Place.SYSTEM} or shown.startswith("/root"):
        shell.find("guard.tamper" if secrets.guards(shown) else "write.system", shown)
    elif where is Place.UNKNOWN:
        if not create:
            shell.find("write.unknown", shown)
    elif where is Place.HOME and secrets.may_guard(shown):
        shell.find("guard.tamper", shown)
    elif (where is Place.HOME and not (create and not is_hidden_home(shown))) or (
        where is Place.ELSEWHERE and not create
    ):
        shell.find("write.outside-workspace", shown)


def delete(
    shell: "Interpreter", scope: "Scope", word: "Word", deep: bool = False, force: bool = False
) -> None:
    """It is deleted, ``deep``: with everything beneath it, ``force``: without a question."""
    if word.obfuscated:
        shell.find("unclear.spelling", word.text)
    path = resolve(word.text, scope.cwd)
    where = place(path, shell.workspace)
    if path is None:
        rule = "secret.file" if secrets.is_private(word.text) else "destroy.unknown"
        shell.find(rule, word.text)
        return
    top = path.rstrip("*").rstrip("/")
    if top != shell.workspace and shell.workspace.startswith(f"{top}/"):
        shell.find("destroy.outside-workspace", path)
    elif where is Place.SCRATCH:
        if path.strip("/*") in {"tmp", "dev/shm", "var/tmp"}:
            shell.find("destroy.workspace", path)
        elif UNKNOWN in path and deep:
            shell.find("destroy.unknown", path)
    elif where is not Place.WORKSPACE:
        shell.find("guard.tamper" if secrets.guards(path) else "destroy.outside-workspace", path)
    else:
        _judge_deleted(shell, path, deep, force)


def _judge_deleted(shell: "Interpreter", path: str, deep: bool, force: bool) -> None:
    inner = _within(path, shell.workspace)
    if shell.is_guarded(path):
        shell.find("guard.tamper", path)
    elif secrets.is_repository(inner) or not inner.strip("*.?/"):
        shell.find("destroy.workspace", path)
    elif secrets.may_guard(inner) or secrets.is_likely_secret(inner):
        shell.find("guard.file", path)
    elif UNKNOWN in inner and (deep or "/" not in inner):
        shell.find("destroy.unknown", path)
    elif is_derived(inner):
        if deep and force and not _CACHES.search(inner):
            shell.drop(path)
    elif (deep and force) or inner.endswith("/*") or ("*" in inner and (deep or _SOURCES.search(inner))):
        shell.find("destroy.workspace", path)


def empty(shell: "Interpreter", path: str) -> None:
    """Its content is removed: a loss if it is a source of the workspace."""
    inner = _within(path, shell.workspace)
    if inner != path and (_SOURCES.search(inner) or inner.endswith("*")) and not is_derived(inner):
        shell.find("destroy.workspace", path)


def _within(path: str, workspace: str) -> str:
    return path[len(workspace) + 1 :] if path.startswith(f"{workspace}/") else path
