"""What a Python project declares in pyproject.toml, setup.cfg or setup.py."""

import ast
import configparser
import re
import tomllib
from typing import Any

from services.scout.manifest import Lines, Manifest, table
from services.scout.statements import cite, format_code, format_list
from shared.contracts.checkup import Statement
from shared.source.syntax import parse_module
from shared.web.quoting import clean


def read_pyproject(path: str, text: str) -> Manifest:
    """pyproject.toml: the project table, or Poetry's own."""
    data = tomllib.loads(text)
    lines = Lines(path, text)
    project = table(data, "project") or table(data, "tool", "poetry")
    licence = project.get("license")
    python = project.get("requires-python") or table(project, "dependencies").get("python")
    key = "requires-python" if "requires-python" in project else "python"
    build = _backend(data, lines) + _needs(project, lines) + _settings(data, lines)
    if isinstance(python, str):
        build.insert(0, cite(f"Needs Python {python}", path, lines.key(key)))
    return Manifest(
        path=path,
        name=clean(str(project.get("name", "")), 100),
        description=lines.statement("description", project.get("description")),
        version=lines.statement("version", project.get("version")),
        licence=lines.statement(
            "license", licence if isinstance(licence, str) else table(licence).get("text")
        ),
        build=tuple(build),
        entries=tuple(_commands(table(project, "scripts"), lines)),
        python=lines.statement(key, python),
    )


def read_setup_cfg(path: str, text: str) -> Manifest:
    """setup.cfg as setuptools reads it."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error)) from None
    lines = Lines(path, text)
    data = (
        {key: value or "" for key, value in parser["metadata"].items()}
        if parser.has_section("metadata")
        else {}
    )
    python = parser.get("options", "python_requires", fallback="")
    build = [cite("Built by setuptools: `pip install .`", path, lines.find(r"^\[metadata\]"))] if data else []
    if python:
        build.append(cite(f"Needs Python {python}", path, lines.key("python_requires")))
    scripts = parser.get("options.entry_points", "console_scripts", fallback="") or ""
    pairs = dict(row.split("=", 1) for row in scripts.splitlines() if "=" in row)
    version = data.get("version", "")
    return Manifest(
        path=path,
        name=clean(data.get("name", ""), 100),
        description=lines.statement("description", data.get("description")),
        version=None if version.startswith(("attr:", "file:")) else lines.statement("version", version),
        licence=lines.statement("license", data.get("license")),
        build=tuple(build),
        entries=tuple(_commands({name.strip(): target.strip() for name, target in pairs.items()}, lines)),
        python=lines.statement("python_requires", python),
    )


def read_setup_py(path: str, text: str) -> Manifest:
    """setup.py: the literal arguments of its call of setup(); it is parsed, never run."""
    lines = Lines(path, text)
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
    """The lowest version that ``>=3.11`` or ``^3.11`` allows; None where it sets none."""
    match = re.search(r"(?:>=|\^|~=?|==)\s*(\d+)\.(\d+)", specifier)
    return (int(match[1]), int(match[2])) if match else None


def _backend(data: dict[str, Any], lines: Lines) -> list[Statement]:
    backend = table(data, "build-system").get("build-backend")
    if not isinstance(backend, str):
        return []
    return [cite(f"Built by {backend}: `pip install .`", lines.path, lines.key("build-backend"))]


def _needs(project: dict[str, Any], lines: Lines) -> list[Statement]:
    needs = project.get("dependencies") or []
    names = [
        match[0] for need in needs if (match := re.match(r"[\w.-]+", str(need))) and match[0] != "python"
    ]
    if not names:
        return []
    return [cite(f"Depends on {format_list(names, 8)}", lines.path, lines.key("dependencies"))]


def _settings(data: dict[str, Any], lines: Lines) -> list[Statement]:
    known = ("pytest", "tox", "mypy", "pyright", "ruff", "coverage")
    tools = [tool for tool in known if tool in table(data, "tool")]
    if not tools:
        return []
    return [cite(f"Configures {format_list(tools, 8)}", lines.path, lines.find(rf"^\[tool\.{tools[0]}\b"))]


def _commands(scripts: dict[str, Any], lines: Lines) -> list[Statement]:
    return [
        cite(
            f"Installs the command {format_code(name)} ({format_code(str(target))})",
            lines.path,
            lines.key(name),
        )
        for name, target in list(scripts.items())[:8]
    ]
