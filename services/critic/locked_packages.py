"""The packages, with versions, that the lock files of a repository name."""

import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

import msgspec

from services.critic.claims import as_list, as_mapping
from shared.source.places import is_shown, is_test, is_vendored
from shared.source.tree import Tree, read_text

MAX_BYTES = 20_000_000
"""The most of a lock file that is read; those of large JavaScript projects have some megabytes."""
MAX_PACKAGES = 5_000


class Locked(msgspec.Struct, frozen=True):
    """A package at a version, of an ecosystem as OSV calls it, and where it is locked."""

    ecosystem: str
    name: str
    version: str
    file: str
    line: int = 0


Row = tuple[str, str]
"""Name and version."""


def read_locked(tree: Tree) -> list[Locked]:
    """What the lock files outside of tests and examples name: each version of a package once."""
    found: dict[tuple[str, str, str], Locked] = {}
    for path in tree.files:
        parser = find_parser(path)
        if parser is None or is_test(path) or is_vendored(path) or (is_shown(path) and "/" in path):
            continue
        ecosystem, parse = parser
        text = read_text(tree.root, path, MAX_BYTES)
        try:
            rows = list(parse(text))
        except (ValueError, RecursionError, msgspec.MsgspecError):
            continue
        lines = text.splitlines()
        for name, version in rows:
            place = _line(lines, name)
            found.setdefault((ecosystem, name, version), Locked(ecosystem, name, version, path, place))
    return list(found.values())[:MAX_PACKAGES]


def find_parser(path: str) -> tuple[str, Callable[[str], Iterator[Row]]] | None:
    """The ecosystem and the reader of a lock file by its name; None for other files."""
    name = PurePosixPath(path).name
    if re.fullmatch(r"(?:.*[-_.])?requirements(?:[-_.].*)?\.(?:txt|lock)|constraints.*\.txt", name):
        return "PyPI", _pins
    return PARSERS.get(name)


def _line(lines: list[str], name: str) -> int:
    form = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE)
    return next(
        (number for number, line in enumerate(lines, start=1) if name in line and form.search(line)), 0
    )


def _pins(text: str) -> Iterator[Row]:
    """``name==1.2``, as requirements files pin."""
    for match in re.finditer(
        r"^\s*([A-Za-z][\w.-]*)(?:\[[\w,. -]*\])?\s*===?\s*([\w.!+-]+)", text, re.MULTILINE
    ):
        yield match[1], match[2]


def _toml(text: str) -> Iterator[Row]:
    """``[[package]]`` with name and version, as uv, Poetry and PDM write; the project's own are left out."""
    for package in map(as_mapping, as_list(tomllib.loads(text).get("package"))):
        source = package.get("source")
        is_local = isinstance(source, dict) and bool({"editable", "virtual", "directory"} & set(source))
        if package.get("version") and not is_local:
            yield str(package.get("name")), str(package["version"])


def _crates(text: str) -> Iterator[Row]:
    for package in map(as_mapping, as_list(tomllib.loads(text).get("package"))):
        if package.get("source"):
            yield str(package.get("name")), str(package.get("version"))


def _pipfile(text: str) -> Iterator[Row]:
    document = _json(text)
    for section in ("default", "develop"):
        for name, package in as_mapping(document.get(section)).items():
            yield name, str(as_mapping(package).get("version", "")).lstrip("=")


def _npm(text: str) -> Iterator[Row]:
    document = _json(text)
    for path, package in as_mapping(document.get("packages")).items():
        if "node_modules/" in path and not as_mapping(package).get("link"):
            yield path.rpartition("node_modules/")[2], str(as_mapping(package).get("version", ""))
    waiting = [as_mapping(document.get("dependencies"))] if "packages" not in document else []
    while waiting:
        for name, package in waiting.pop().items():
            yield name, str(as_mapping(package).get("version", ""))
            waiting.append(as_mapping(as_mapping(package).get("dependencies")))


def _yarn(text: str) -> Iterator[Row]:
    form = r'^"?(@?[^@\s"]+)@[^\n]*:\n(?:\s+resolution:[^\n]*\n)?\s+version:?\s+"?([^"\s]+)"?'
    for match in re.finditer(form, text, re.MULTILINE):
        yield match[1], match[2]


def _pnpm(text: str) -> Iterator[Row]:
    for match in re.finditer(r"^  '?/?(@?[^@\s'(]+)@(\d[^:('\s]*)[^:\n]*:", text, re.MULTILINE):
        yield match[1], match[2]


def _go(text: str) -> Iterator[Row]:
    for match in re.finditer(r"^(?:require\s+|\t)([\w.-]+\.[\w./~-]+)\s+v([\w.+-]+)", text, re.MULTILINE):
        yield match[1], match[2]


def _json(text: str) -> dict[str, Any]:
    return dict(as_mapping(msgspec.json.decode(text.encode())))


PARSERS: dict[str, tuple[str, Callable[[str], Iterator[Row]]]] = {
    "uv.lock": ("PyPI", _toml),
    "poetry.lock": ("PyPI", _toml),
    "pdm.lock": ("PyPI", _toml),
    "Pipfile.lock": ("PyPI", _pipfile),
    "package-lock.json": ("npm", _npm),
    "npm-shrinkwrap.json": ("npm", _npm),
    "yarn.lock": ("npm", _yarn),
    "pnpm-lock.yaml": ("npm", _pnpm),
    "Cargo.lock": ("crates.io", _crates),
    "go.mod": ("Go", _go),
}
"""Lock files by name."""
