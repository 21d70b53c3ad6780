"""What a project's manifests declare: name, version, licence, how it is built."""

import ast
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from shared.contracts.checkup import Statement
from shared.projects.reading.project_files import ProjectFiles, get_table, list_texts
from shared.source import as_mapping
from shared.text.display import count, format_list
from shared.web.quoting import clean

USUAL = frozenset("build test tests start dev serve lint typecheck check format docs prepare".split())
"""npm scripts that people run; others are steps of these."""
CONFIGURED = ("pytest", "tox", "mypy", "pyright", "ruff", "coverage")  # Tools that are named if they are set


NODE_DEPENDENCIES = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")


def cite(text: str, source: str, line: int = 0) -> Statement:
    """A statement with its source; ``line`` is 1-based, 0 for the whole of ``source``."""
    return Statement(text=clean(text), source=f"{source}:{line}" if line else source)


def format_code(text: str, limit: int = 100) -> str:
    """``text`` between backticks, without any of its own."""
    return f"`{clean(text, limit).replace('`', chr(39))}`"


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


def read_package_json(lines: ManifestText, data: Any) -> Manifest:
    """npm's package.json."""
    scripts = {name: body for name, body in get_table(data, "scripts").items() if isinstance(body, str)}
    usual = [name for name in scripts if name.partition(":")[0] in USUAL] or list(scripts)
    needs = {**get_table(data, "dependencies"), **get_table(data, "peerDependencies")}
    build = []
    for name in usual[:8]:
        command = f"{format_code(f'npm run {name}')}: {format_code(scripts[name])}"
        build.append(lines.cite(command, name, below="scripts"))
    if engine := get_table(data, "engines").get("node"):
        build.append(lines.cite(f"Needs Node.js {engine}", "engines"))
    if needs:
        build.append(lines.cite(f"Depends on {format_list(list(needs), 8)}", "dependencies"))
    commands = data.get("bin")
    names = list(commands) if isinstance(commands, dict) else [data.get("name", "")] if commands else []
    entries = [lines.cite(f"Installs the command {format_code(str(name))}", "bin") for name in names if name]
    if isinstance(data.get("main"), str):
        entries.append(lines.cite(f"Is imported through {format_code(data['main'])}", "main"))
    return lines.manifest(as_mapping(data), build=tuple(build), entries=tuple(entries[:8]))


def read_cargo(lines: ManifestText, data: Any) -> Manifest:
    """Rust's Cargo.toml, of a package or of a workspace."""
    package = get_table(data, "package") or get_table(data, "workspace", "package")
    first = lines.find(r"^\[(package|workspace)")
    build = [cite("Built and tested by Cargo: `cargo build`, `cargo test`", lines.path, first)]
    if members := get_table(data, "workspace").get("members"):
        names = [str(member) for member in members] if isinstance(members, list) else []
        size = count(len(names), "member")
        build.append(lines.cite(f"A workspace of {size}: {format_list(names)}", "members"))
    for key, words in (("edition", "Rust edition"), ("rust-version", "Needs Rust")):
        stated = (package.get(key), get_table(data, "workspace", "package").get(key))  # its own, or inherited
        if value := next((each for each in stated if isinstance(each, str)), ""):
            build.append(lines.cite(f"{words} {value}", key))
    return lines.manifest(package, build=tuple(build))


def read_go_mod(lines: ManifestText, text: Any) -> Manifest:
    """Go's go.mod."""
    text = text or ""
    module = re.search(r"^module\s+(\S+)", text, re.MULTILINE)
    version = re.search(r"^go\s+(\S+)", text, re.MULTILINE)
    first = lines.find(r"^module\s")
    build = [cite("Built and tested by Go: `go build ./...`, `go test ./...`", lines.path, first)]
    if version:
        build.append(cite(f"Needs Go {version[1]}", lines.path, lines.find(r"^go\s")))
    name = re.sub(r"/v\d+$", "", module[1]).rsplit("/", 1)[-1] if module else ""
    return Manifest(path=lines.path, name=name, build=tuple(build))


def read_composer(lines: ManifestText, data: Any) -> Manifest:
    """PHP's composer.json."""
    build = [cite("Installed by Composer: `composer install`", lines.path)]
    names = list(get_table(data, "scripts"))[:8]
    build += [lines.cite(f"`composer {name}` is a script of the project", name) for name in names]
    return lines.manifest(as_mapping(data), build=tuple(build))


def read_pyproject(lines: ManifestText, data: Any) -> Manifest:
    """pyproject.toml: the project table, or Poetry's own."""
    project = get_table(data, "project") or get_table(data, "tool", "poetry")
    python = project.get("requires-python") or get_table(project, "dependencies").get("python")
    key = "requires-python" if "requires-python" in project else "python"
    build = [lines.cite(f"Needs Python {python}", key)] if isinstance(python, str) else []
    backend = get_table(data, "build-system").get("build-backend")
    if isinstance(backend, str):
        build.append(lines.cite(f"Built by {backend}: `pip install .`", "build-backend"))
    matches = [re.match(r"[\w.-]+", str(need)) for need in project.get("dependencies") or []]
    if names := [match[0] for match in matches if match and match[0] != "python"]:
        build.append(lines.cite(f"Depends on {format_list(names, 8)}", "dependencies"))
    if tools := [tool for tool in CONFIGURED if tool in get_table(data, "tool")]:
        at = lines.find(rf"^\[tool\.{tools[0]}\b")
        build.append(cite(f"Configures {format_list(tools, 8)}", lines.path, at))
    entries = _commands(get_table(project, "scripts"), lines)
    return lines.manifest(project, build=tuple(build), entries=entries, python=lines.declared(key, python))


def read_setup_cfg(lines: ManifestText, data: Any) -> Manifest:
    """setup.cfg as setuptools reads it; a version that is read from elsewhere is left out."""
    sections = as_mapping(data)
    stated = dict(sections.get("metadata", {}))
    if str(stated.get("version")).startswith(("attr:", "file:")):
        del stated["version"]
    python = sections.get("options", {}).get("python_requires", "")
    built = cite("Built by setuptools: `pip install .`", lines.path, lines.find(r"^\[metadata\]"))
    build = [built] if stated else []
    if python:
        build.append(lines.cite(f"Needs Python {python}", "python_requires"))
    scripts = sections.get("options.entry_points", {}).get("console_scripts", "")
    pairs = [row.split("=", 1) for row in scripts.splitlines() if "=" in row]
    return lines.manifest(
        stated,
        build=tuple(build),
        entries=_commands({name.strip(): target.strip() for name, target in pairs}, lines),
        python=lines.declared("python_requires", python),
    )


def read_setup_py(lines: ManifestText, module: Any) -> Manifest:
    """setup.py: the literal arguments of its call of setup(); it is parsed, never run."""
    found: dict[str, Statement] = {}
    for node in ast.walk(module or ast.Module(body=[], type_ignores=[])):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "setup":
            for keyword in node.keywords:
                value = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
                if keyword.arg and isinstance(value, str) and (words := clean(value)):
                    found[keyword.arg] = cite(words, lines.path, keyword.value.lineno)
    python = found.get("python_requires")
    build = [cite("Built by setuptools: `pip install .`", lines.path, lines.find(r"setup\("))]
    if python:
        build.append(Statement(text=f"Needs Python {python.text}", source=python.source))
    return Manifest(
        path=lines.path,
        name=found["name"].text if "name" in found else "",
        description=found.get("description"),
        version=found.get("version"),
        licence=found.get("license"),
        build=tuple(build),
        python=python,
    )


def _commands(scripts: dict[str, Any], lines: ManifestText) -> tuple[Statement, ...]:
    return tuple(
        lines.cite(f"Installs the command {format_code(name)} ({format_code(str(target))})", name)
        for name, target in list(scripts.items())[:8]
    )


READERS: dict[str, Callable[[ManifestText, Any], Manifest]] = {
    "pyproject.toml": read_pyproject,
    "setup.cfg": read_setup_cfg,
    "setup.py": read_setup_py,
    "package.json": read_package_json,
    "Cargo.toml": read_cargo,
    "go.mod": read_go_mod,
    "composer.json": read_composer,
}


def read_manifests(files: ProjectFiles, paths: Iterable[str]) -> tuple[Manifest, ...]:
    """The manifests among ``paths`` at the top; if it has none, at most six in the folders below it."""
    every = tuple(paths)
    found = [path for path in every if path in READERS]
    if not found:
        found = [path for path in every if path.count("/") == 1 and path.split("/")[1] in READERS][:6]
    manifests = []
    for path in sorted(found, key=lambda path: list(READERS).index(path.split("/")[-1])):
        data = files.parse(path)
        why = files.explain(path)
        if not why and path.endswith(".json") and not isinstance(data, dict):
            why = "it is not a JSON object"
        if why:
            manifests.append(Manifest(path=path, problem=f"{path} cannot be read: {clean(why, 160)}"))
        else:
            manifests.append(READERS[path.split("/")[-1]](ManifestText(path, files.text(path)), data))
    return tuple(manifests)


def declared_packages(files: ProjectFiles) -> frozenset[str]:
    """The packages that pyproject.toml and package.json name, for tests and development too, as imported."""
    tables = files.table("pyproject.toml")
    project, poetry = get_table(tables, "project"), get_table(tables, "tool", "poetry")
    groups = [project.get("dependencies"), *get_table(project, "optional-dependencies").values()]
    lines = [
        line
        for group in (*groups, *get_table(tables, "dependency-groups").values())
        for line in list_texts(group)
    ]
    names = {match[0] for line in lines if (match := re.match(r"[\w.-]+", line))}
    for table in (poetry, *get_table(poetry, "group").values()):
        names.update(*(get_table(table, key) for key in ("dependencies", "dev-dependencies")))
    names.update(*(files.table("package.json", key) for key in NODE_DEPENDENCIES))
    return frozenset(names | {name.replace("-", "_") for name in names})
