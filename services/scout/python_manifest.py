"""What a Python project declares in pyproject.toml, setup.cfg or setup.py."""

import ast
import re
from typing import Any

from services.scout.manifest import Manifest, ManifestText, table
from services.scout.statements import cite, format_code
from shared.contracts.checkup import Statement
from shared.source.syntax import parse_ini, parse_module, parse_toml
from shared.text.phrases import format_list
from shared.web.quoting import clean


def read_pyproject(path: str, text: str) -> Manifest:
    """pyproject.toml: the project table, or Poetry's own."""
    data = parse_toml(text)
    lines = ManifestText(path, text)
    project = table(data, "project") or table(data, "tool", "poetry")
    python = project.get("requires-python") or table(project, "dependencies").get("python")
    key = "requires-python" if "requires-python" in project else "python"
    build = _backend(data, lines) + _needs(project, lines) + _settings(data, lines)
    if isinstance(python, str):
        build.insert(0, lines.cite(f"Needs Python {python}", key))
    entries = _commands(table(project, "scripts"), lines)
    return lines.manifest(project, build=tuple(build), entries=entries, python=lines.declared(key, python))


def read_setup_cfg(path: str, text: str) -> Manifest:
    """setup.cfg as setuptools reads it; a version that is read from elsewhere is left out."""
    sections = parse_ini(text)
    lines = ManifestText(path, text)
    data = sections.get("metadata", {})
    if str(data.get("version")).startswith(("attr:", "file:")):
        del data["version"]
    python = sections.get("options", {}).get("python_requires", "")
    build = [cite("Built by setuptools: `pip install .`", path, lines.find(r"^\[metadata\]"))] if data else []
    if python:
        build.append(lines.cite(f"Needs Python {python}", "python_requires"))
    scripts = sections.get("options.entry_points", {}).get("console_scripts", "")
    pairs = [row.split("=", 1) for row in scripts.splitlines() if "=" in row]
    return lines.manifest(
        data,
        build=tuple(build),
        entries=_commands({name.strip(): target.strip() for name, target in pairs}, lines),
        python=lines.declared("python_requires", python),
    )


def read_setup_py(path: str, text: str) -> Manifest:
    """setup.py: the literal arguments of its call of setup(); it is parsed, never run."""
    lines = ManifestText(path, text)
    found: dict[str, Statement] = {}
    for node in ast.walk(parse_module(text)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) == "setup":
            for keyword in node.keywords:
                if (
                    keyword.arg
                    and isinstance(keyword.value, ast.Constant)
                    and isinstance(keyword.value.value, str)
                ):
                    words = clean(keyword.value.value)
                    if words:
                        found[keyword.arg] = cite(words, path, keyword.value.lineno)
    python = found.get("python_requires")
    build = [cite("Built by setuptools: `pip install .`", path, lines.find(r"setup\("))]
    if python:
        build.append(Statement(text=f"Needs Python {python.text}", source=python.source))
    return Manifest(
        path=path,
        name=found["name"].text if "name" in found else "",
        description=found.get("description"),
        version=found.get("version"),
        licence=found.get("license"),
        build=tuple(build),
        python=python,
    )


def lowest_python(specifier: str) -> tuple[int, int] | None:
    """The lowest version that ``>=3.11`` or ``^3.11`` allows; None if it sets no lower bound."""
    match = re.search(r"(?:>=|\^|~=?|==)\s*(\d+)\.(\d+)", specifier)
    return (int(match[1]), int(match[2])) if match else None


def _backend(data: dict[str, Any], lines: ManifestText) -> list[Statement]:
    backend = table(data, "build-system").get("build-backend")
    if not isinstance(backend, str):
        return []
    return [lines.cite(f"Built by {backend}: `pip install .`", "build-backend")]


def _needs(project: dict[str, Any], lines: ManifestText) -> list[Statement]:
    matches = [re.match(r"[\w.-]+", str(need)) for need in project.get("dependencies") or []]
    names = [match[0] for match in matches if match and match[0] != "python"]
    return [lines.cite(f"Depends on {format_list(names, 8)}", "dependencies")] if names else []


def _settings(data: dict[str, Any], lines: ManifestText) -> list[Statement]:
    known = ("pytest", "tox", "mypy", "pyright", "ruff", "coverage")
    tools = [tool for tool in known if tool in table(data, "tool")]
    if not tools:
        return []
    return [cite(f"Configures {format_list(tools, 8)}", lines.path, lines.find(rf"^\[tool\.{tools[0]}\b"))]


def _commands(scripts: dict[str, Any], lines: ManifestText) -> tuple[Statement, ...]:
    return tuple(
        lines.cite(f"Installs the command {format_code(name)} ({format_code(str(target))})", name)
        for name, target in list(scripts.items())[:8]
    )
