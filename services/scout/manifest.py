"""What a project's manifest declares: name, version, licence, description, how it is built."""

import re
from typing import Any

import msgspec

from services.scout.statements import cite, format_code
from shared.contracts.checkup import Statement
from shared.source.syntax import parse_json, parse_toml
from shared.text.phrases import count, format_list
from shared.web.quoting import clean

USUAL = frozenset("build test tests start dev serve lint typecheck check format docs prepare".split())
"""npm scripts that people run; others are steps of these."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest; ``version`` and ``licence`` have the bare value, None if it is not declared."""

    path: str
    name: str = ""
    description: Statement | None = None
    version: Statement | None = None
    licence: Statement | None = None
    build: tuple[Statement, ...] = ()
    entries: tuple[Statement, ...] = ()
    python: Statement | None = None
    problem: str = ""


class ManifestText:
    """The text of a manifest, in which the lines of keys are found."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.rows = text.splitlines()

    def find(self, pattern: str) -> int:
        """The number of the first line that ``pattern`` matches; 1 if none does."""
        return next((number for number, row in enumerate(self.rows, start=1) if re.search(pattern, row)), 1)

    def key(self, key: str, *, below: str = "") -> int:
        """The line of ``key = value`` or ``"key": value``, the first after that of ``below``; 1 if none."""
        start = self.key(below) if below else 0
        pattern = re.compile(rf"""^\s*["']?{re.escape(key)}["']?\s*[:=]""")
        rows = enumerate(self.rows[start:], start=start + 1)
        return next((number for number, row in rows if pattern.match(row)), start or 1)

    def cite(self, text: str, key: str, *, below: str = "") -> Statement:
        """A statement from the line of ``key``."""
        return cite(text, self.path, self.key(key, below=below))

    def declared(self, key: str, value: object) -> Statement | None:
        """A statement of the bare ``value`` of ``key``; None if it is no text or blank."""
        words = clean(value) if isinstance(value, str) else ""
        return self.cite(words, key) if words else None

    def manifest(self, data: dict[str, Any], **others: Any) -> Manifest:
        """The manifest with what ``data`` declares under the usual keys, and ``others`` of its fields."""
        licence, name = data.get("license"), data.get("name")
        if isinstance(licence, dict):
            licence = licence.get("type") or licence.get("text")
        return Manifest(
            path=self.path,
            name=clean(name, 100) if isinstance(name, str) else "",
            description=self.declared("description", data.get("description")),
            version=self.declared("version", data.get("version")),
            licence=self.declared("license", licence),
            **others,
        )


def table(value: Any, *keys: str) -> dict[str, Any]:
    """The mapping at ``keys`` inside ``value``; empty if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def read_package_json(path: str, text: str) -> Manifest:
    """npm's package.json."""
    data = _object(parse_json(text))
    lines = ManifestText(path, text)
    scripts = {name: body for name, body in table(data, "scripts").items() if isinstance(body, str)}
    usual = [name for name in scripts if name.partition(":")[0] in USUAL] or list(scripts)
    needs = {**table(data, "dependencies"), **table(data, "peerDependencies")}
    build = []
    for name in usual[:8]:
        command = f"{format_code(f'npm run {name}')}: {format_code(scripts[name])}"
        build.append(lines.cite(command, name, below="scripts"))
    if engine := table(data, "engines").get("node"):
        build.append(lines.cite(f"Needs Node.js {engine}", "engines"))
    if needs:
        build.append(lines.cite(f"Depends on {format_list(list(needs), 8)}", "dependencies"))
    commands = data.get("bin")
    names = list(commands) if isinstance(commands, dict) else [data.get("name", "")] if commands else []
    entries = [lines.cite(f"Installs the command {format_code(str(name))}", "bin") for name in names if name]
    if isinstance(data.get("main"), str):
        entries.append(lines.cite(f"Is imported through {format_code(data['main'])}", "main"))
    return lines.manifest(data, build=tuple(build), entries=tuple(entries[:8]))


def read_cargo(path: str, text: str) -> Manifest:
    """Rust's Cargo.toml, of a package or of a workspace."""
    data = parse_toml(text)
    lines = ManifestText(path, text)
    package = table(data, "package") or table(data, "workspace", "package")
    first = lines.find(r"^\[(package|workspace)")
    build = [cite("Built and tested by Cargo: `cargo build`, `cargo test`", path, first)]
    if members := table(data, "workspace").get("members"):
        names = [str(member) for member in members] if isinstance(members, list) else []
        size = count(len(names), "member")
        build.append(lines.cite(f"A workspace of {size}: {format_list(names)}", "members"))
    if isinstance(edition := package.get("edition"), str):
        version = package.get("rust-version")
        needs = f", needs Rust {version}" if isinstance(version, str) else ""
        build.append(lines.cite(f"Rust edition {edition}{needs}", "edition"))
    return lines.manifest(package, build=tuple(build))


def read_go_mod(path: str, text: str) -> Manifest:
    """Go's go.mod."""
    lines = ManifestText(path, text)
    module = re.search(r"^module\s+(\S+)", text, re.MULTILINE)
    version = re.search(r"^go\s+(\S+)", text, re.MULTILINE)
    first = lines.find(r"^module\s")
    build = [cite("Built and tested by Go: `go build ./...`, `go test ./...`", path, first)]
    if version:
        build.append(cite(f"Needs Go {version[1]}", path, lines.find(r"^go\s")))
    name = re.sub(r"/v\d+$", "", module[1]).rsplit("/", 1)[-1] if module else ""
    return Manifest(path=path, name=name, build=tuple(build))


def read_composer(path: str, text: str) -> Manifest:
    """PHP's composer.json."""
    data = _object(parse_json(text))
    lines = ManifestText(path, text)
    build = [cite("Installed by Composer: `composer install`", path)]
    names = list(table(data, "scripts"))[:8]
    build += [lines.cite(f"`composer {name}` is a script of the project", name) for name in names]
    return lines.manifest(data, build=tuple(build))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value
