"""What a project's manifest declares: name, version, licence, description, how it is built."""

import json
import re
import tomllib
from typing import Any

import msgspec

from services.scout.statements import cite, format_code, format_count, format_list
from shared.contracts.checkup import Statement
from shared.web.quoting import clean

USUAL = frozenset("build test tests start dev serve lint typecheck check format docs prepare".split())
"""Scripts of npm that people run; the others are steps of these."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest; ``version`` and ``licence`` state the bare value, None where none is declared."""

    path: str
    name: str = ""
    description: Statement | None = None
    version: Statement | None = None
    licence: Statement | None = None
    build: tuple[Statement, ...] = ()
    entries: tuple[Statement, ...] = ()
    scripts: tuple[str, ...] = ()
    python: Statement | None = None
    problem: str = ""


class Lines:
    """Finds where a key stands in the text of a manifest."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.rows = text.splitlines()

    def find(self, pattern: str) -> int:
        """The number of the first line that ``pattern`` matches; 1 where none does."""
        return next((number for number, row in enumerate(self.rows, start=1) if re.search(pattern, row)), 1)

    def key(self, key: str, *, below: str = "") -> int:
        """The line of ``key = value`` or ``"key": value``, the first after that of ``below``; 1 for none."""
        start = self.key(below) if below else 0
        pattern = re.compile(rf"""^\s*["']?{re.escape(key)}["']?\s*[:=]""")
        rows = enumerate(self.rows[start:], start=start + 1)
        return next((number for number, row in rows if pattern.match(row)), start or 1)

    def statement(self, key: str, text: object) -> Statement | None:
        """A statement of ``text`` from the line of ``key``; None where there is nothing to say."""
        words = clean(text) if isinstance(text, str) else ""
        return cite(words, self.path, self.key(key)) if words else None


def table(value: Any, *keys: str) -> dict[str, Any]:
    """The mapping at ``keys`` inside ``value``; empty where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def read_package_json(path: str, text: str) -> Manifest:
    """npm's package.json."""
    data = _object(json.loads(text))
    lines = Lines(path, text)
    scripts = {name: body for name, body in table(data, "scripts").items() if isinstance(body, str)}
    usual = [name for name in scripts if name.partition(":")[0] in USUAL] or list(scripts)
    needs = {**table(data, "dependencies"), **table(data, "peerDependencies")}
    build = [
        cite(
            f"{format_code(f'npm run {name}')}: {format_code(scripts[name])}",
            path,
            lines.key(name, below="scripts"),
        )
        for name in usual[:8]
    ]
    if engine := table(data, "engines").get("node"):
        build.append(cite(f"Needs Node.js {engine}", path, lines.key("engines")))
    if needs:
        build.append(cite(f"Depends on {format_list(list(needs), 8)}", path, lines.key("dependencies")))
    commands = data.get("bin")
    names = list(commands) if isinstance(commands, dict) else [data.get("name", "")] if commands else []
    entries = [
        cite(f"Installs the command {format_code(str(name))}", path, lines.key("bin"))
        for name in names
        if name
    ]
    if isinstance(data.get("main"), str):
        entries.append(cite(f"Is imported through {format_code(data['main'])}", path, lines.key("main")))
    licence = data.get("license")
    return Manifest(
        path=path,
        name=_text(data, "name"),
        description=lines.statement("description", data.get("description")),
        version=lines.statement("version", data.get("version")),
        licence=lines.statement(
            "license", licence if isinstance(licence, str) else table(licence).get("type")
        ),
        build=tuple(build),
        entries=tuple(entries[:8]),
        scripts=tuple(scripts),
    )


def read_cargo(path: str, text: str) -> Manifest:
    """Rust's Cargo.toml, of a package or of a workspace."""
    data = tomllib.loads(text)
    lines = Lines(path, text)
    package = table(data, "package") or table(data, "workspace", "package")
    build = [
        cite(
            "Built and tested by Cargo: `cargo build`, `cargo test`",
            path,
            lines.find(r"^\[(package|workspace)"),
        )
    ]
    if members := table(data, "workspace").get("members"):
        names = [str(member) for member in members] if isinstance(members, list) else []
        build.append(
            cite(
                f"A workspace of {format_count(len(names), 'member')}: {format_list(names)}",
                path,
                lines.key("members"),
            )
        )
    if isinstance(edition := package.get("edition"), str):
        version = package.get("rust-version")
        needs = f", needs Rust {version}" if isinstance(version, str) else ""
        build.append(cite(f"Rust edition {edition}{needs}", path, lines.key("edition")))
    return Manifest(
        path=path,
        name=_text(package, "name"),
        description=lines.statement("description", package.get("description")),
        version=lines.statement("version", package.get("version")),
        licence=lines.statement("license", package.get("license")),
        build=tuple(build),
    )


def read_go_mod(path: str, text: str) -> Manifest:
    """Go's go.mod."""
    lines = Lines(path, text)
    module = re.search(r"^module\s+(\S+)", text, re.MULTILINE)
    version = re.search(r"^go\s+(\S+)", text, re.MULTILINE)
    build = [
        cite("Built and tested by Go: `go build ./...`, `go test ./...`", path, lines.find(r"^module\s"))
    ]
    if version:
        build.append(cite(f"Needs Go {version[1]}", path, lines.find(r"^go\s")))
    name = re.sub(r"/v\d+$", "", module[1]).rsplit("/", 1)[-1] if module else ""
    return Manifest(path=path, name=name, build=tuple(build))


def read_composer(path: str, text: str) -> Manifest:
    """PHP's composer.json."""
    data = _object(json.loads(text))
    lines = Lines(path, text)
    scripts = list(table(data, "scripts"))
    build = [cite("Installed by Composer: `composer install`", path)]
    build += [
        cite(f"`composer {name}` is a script of the project", path, lines.key(name)) for name in scripts[:8]
    ]
    licence = data.get("license")
    return Manifest(
        path=path,
        name=_text(data, "name"),
        description=lines.statement("description", data.get("description")),
        version=lines.statement("version", data.get("version")),
        licence=lines.statement("license", licence),
        build=tuple(build),
    )


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def _text(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    return clean(value, 100) if isinstance(value, str) else ""
