"""Known vulnerabilities of the packages that lock files name, where a host that knows them was granted."""

import asyncio
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from services.critic import vulnerability_scan
from services.critic.claims import as_list, as_mapping
from services.critic.file_tools import Sources
from services.critic.findings import Check, clean, completed_check, make_finding, rate
from shared.contracts.checkup import Finding, NotChecked, ToolRun
from shared.errors import ActionError
from shared.sandbox import run_command
from shared.source import Tree, is_shown, is_test, is_vendored, parse_json, parse_toml, read_text
from shared.text.display import count, format_list

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


Row = tuple[str, str]  # Name and version


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
        except ValueError:
            continue
        lines = text.splitlines()
        for name, version in rows:
            form = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE)
            place = next(
                (number for number, line in enumerate(lines, start=1) if name in line and form.search(line)),
                0,
            )
            found.setdefault((ecosystem, name, version), Locked(ecosystem, name, version, path, place))
    return list(found.values())[:MAX_PACKAGES]


def find_parser(path: str) -> tuple[str, Callable[[str], Iterator[Row]]] | None:
    """The ecosystem and the reader of a lock file by its name; None for other files."""
    name = PurePosixPath(path).name
    if re.fullmatch(r"(?:.*[-_.])?requirements(?:[-_.].*)?\.(?:txt|lock)|constraints.*\.txt", name):
        return "PyPI", _pins
    return PARSERS.get(name)


def _pins(text: str) -> Iterator[Row]:
    """``name==1.2``, as requirements files pin."""
    for match in re.finditer(
        r"^\s*([A-Za-z][\w.-]*)(?:\[[\w,. -]*\])?\s*===?\s*([\w.!+-]+)", text, re.MULTILINE
    ):
        yield match[1], match[2]


def _toml(text: str) -> Iterator[Row]:
    """``[[package]]`` with name and version, as uv, Poetry and PDM write; the project's own are left out."""
    for package in map(as_mapping, as_list(parse_toml(text).get("package"))):
        source = package.get("source")
        is_local = isinstance(source, dict) and bool({"editable", "virtual", "directory"} & set(source))
        if package.get("version") and not is_local:
            yield str(package.get("name")), str(package["version"])


def _crates(text: str) -> Iterator[Row]:
    for package in map(as_mapping, as_list(parse_toml(text).get("package"))):
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
    return dict(as_mapping(parse_json(text)))


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


# --- what is known of them --------------------------------------------------------------------------

NAME = "vulnerabilities"
OSV = "api.osv.dev"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A database of vulnerabilities: the entry of reach that opens it, and whose packages it knows."""

    name: str
    entry: str
    address: str
    ecosystems: tuple[str, ...]


SOURCES = (
    Source(
        name="osv",
        entry=f"host:{OSV}",
        address=f"https://{OSV}",
        ecosystems=("PyPI", "npm", "crates.io", "Go"),
    ),
    Source(name="npm", entry="javascript", address="https://registry.npmjs.org", ecosystems=("npm",)),
    Source(name="pypi", entry="python", address="https://pypi.org", ecosystems=("PyPI",)),
)
"""Whom to ask, in this order: the first that is granted and knows a package's ecosystem."""


async def look_up(
    sources: Sources, *, timeout: float, granted: Collection[str] = (), known: Sequence[Source] = SOURCES
) -> Check:
    """Ask for the vulnerabilities of every locked package, as far as ``granted`` reach allows."""
    packages = await asyncio.to_thread(read_locked, sources.tree)
    findings: list[Finding] = []
    gaps: list[NotChecked] = []
    asked = 0
    told: list[str] = []
    for ecosystem in dict.fromkeys(package.ecosystem for package in packages):
        wanted = [package for package in packages if package.ecosystem == ecosystem]
        source = next((s for s in known if s.entry in granted and ecosystem in s.ecosystems), None)
        what = f"known vulnerabilities of {count(len(wanted), f'{ecosystem} package')}"
        if source is None:
            cure = f"Allow a host that does, as MAILROOM_REACH={OSV} or as reach in mailroom.toml"
            gaps.append(NotChecked(what=what, why="no host that knows them may be reached", cure=cure))
            continue
        try:
            findings += await _ask(source, wanted, timeout)
        except ActionError as error:
            gaps.append(NotChecked(what=what, why=clean(error.cause), cure=error.cure))
            continue
        asked += len(wanted)
        told.append(source.name)
    if not asked:
        return Check(tool=ToolRun(name=NAME, problem=gaps[0].why if gaps else ""), not_checked=tuple(gaps))
    files = len({package.file for package in packages})
    done = completed_check(NAME, f"as {format_list(list(dict.fromkeys(told)))} knows", findings, files=files)
    looked = f"{count(asked, 'locked package')} looked up"
    return msgspec.structs.replace(done, not_checked=tuple(gaps), looked=looked)


async def _ask(source: Source, packages: Sequence[Locked], timeout: float) -> list[Finding]:
    from shared.gate.registries import open_reach

    registry = await asyncio.to_thread(open_reach, [source.entry])
    with tempfile.TemporaryDirectory(prefix="mailroom-") as name:
        folder = Path(name)
        body = {
            "source": source.name,
            "address": source.address,
            "packages": [[each.ecosystem, each.name, each.version] for each in packages],
        }
        (folder / "request").write_bytes(msgspec.json.encode(body))
        script = Path(vulnerability_scan.__file__)
        result = await run_command(
            [sys.executable, "-I", str(script), str(folder / "request"), str(folder / "report")],
            cwd=folder,
            timeout=timeout,
            writable=[folder],
            readable=[script.parent, *registry.readable],
            env=registry.environment,
            reach=registry.reach,
        )
        if result.timed_out or result.exit_code:
            said = result.output.strip().splitlines()[-1:] or [f"exit code {result.exit_code}"]
            why = f"{source.address} did not answer in {timeout:g} s" if result.timed_out else said[0]
            raise ActionError(clean(why, 200), "Check that this machine can reach it, and try again")
        rows = (folder / "report").read_bytes().splitlines()
    return [_finding(packages, row) for row in rows]


def _finding(packages: Sequence[Locked], row: bytes) -> Finding:
    index, label, level, summary, fixes = msgspec.json.decode(row, type=tuple[int, str, str, str, list[str]])
    package = packages[index]
    fixed = f"; fixed in {format_list(list(dict.fromkeys(fixes)), 3)}" if fixes else ""
    head = f"{package.name} {package.version}: {clean(summary, 200) or label}{fixed}"
    severity = rate(NAME, label, level or "unknown", package.file)
    return make_finding(NAME, label, severity, package.file, package.line, head)
