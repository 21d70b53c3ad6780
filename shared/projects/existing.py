"""A virtual environment that the person has already made for the project."""

import asyncio
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from shared.errors import ActionError
from shared.projects.environment import Request
from shared.projects.reading.project_files import ProjectFiles, get_table, list_texts
from shared.projects.reading.pytest_settings import list_plugins, needs_pytest
from shared.projects.reading.python_manifest import REBUILT, PythonPlan, list_group, normalise
from shared.sandbox import run_command

NAMES = (".venv", "venv", "env")
PROBE = """
import importlib.metadata, json, platform, sys
found = {}
for each in importlib.metadata.distributions():
    direct = json.loads(each.read_text("direct_url.json") or "{}")
    editable = direct.get("dir_info", {}).get("editable", False)
    found[each.metadata["Name"]] = [each.version, direct.get("url", ""), editable]
print(json.dumps({"version": platform.python_version(), "packages": found}))
"""


async def find_existing(request: Request, files: ProjectFiles, plan: PythonPlan) -> tuple[Path | None, str]:
    """The project's own environment if it fits; else None, and why the one that is there does not."""
    for name in NAMES:
        environment = request.origin / name
        if (environment / "pyvenv.cfg").is_file() and (environment / "bin/python").exists():
            why = await _find_fault(request, files, plan, environment)
            return (None, f"The environment {name} is not used: {why}") if why else (environment, "")
    return None, ""


async def _find_fault(request: Request, files: ProjectFiles, plan: PythonPlan, environment: Path) -> str:
    """Why ``environment`` does not fit; empty if it does."""
    if plan.is_package and (plan.sources or plan.backend.startswith(REBUILT)):
        return "the project has parts that are compiled for each copy"
    python = environment / "bin/python"
    try:
        result = await run_command(
            [str(python), "-I", "-c", PROBE],
            cwd=request.root,
            timeout=min(20.0, request.remaining()),
            readable=[environment, python.resolve().parents[1]],
        )
        answer = json.loads(result.output) if result.exit_code == 0 else {}
    except (ActionError, ValueError) as error:
        return f"its interpreter does not start ({error})"
    if not isinstance(answer, dict) or "packages" not in answer:
        return "its interpreter does not start in the jail"
    try:
        if not SpecifierSet(plan.requires_python).contains(answer["version"], prereleases=True):
            return f"it has Python {answer['version']}, and the project needs {plan.requires_python}"
    except InvalidSpecifier:
        pass
    packages = {normalise(str(name)): details for name, details in answer["packages"].items()}
    if plan.is_package:
        _, url, editable = packages.get(normalise(plan.name), ("", "", False))
        if not editable or url.removeprefix("file://").rstrip("/") != str(request.origin):
            return "the project is not installed in it in place (pip install -e .)"
    lacking = [str(line) for line in _list_direct(files, plan) if not _is_met(line, packages)]
    if await asyncio.to_thread(_lacks_pytest, files, packages):
        lacking.append("pytest")
    return f"it lacks {', '.join(dict.fromkeys(lacking[:3]))}" if lacking else ""


def _lacks_pytest(files: ProjectFiles, packages: Mapping[str, Any]) -> bool:
    wanted = ("pytest", *list_plugins(files)) if needs_pytest(files) else ()
    return any(normalise(name) not in packages for name in wanted)


def _is_met(requirement: Requirement, packages: Mapping[str, Any]) -> bool:
    try:
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            return True
    except UndefinedEnvironmentName:
        return True
    found = packages.get(normalise(requirement.name))
    return found is not None and requirement.specifier.contains(found[0], prereleases=True)


def _list_direct(project: ProjectFiles, plan: PythonPlan) -> Iterator[Requirement]:
    """The requirements that the project states itself, of those that would be installed."""
    tables = project.table("pyproject.toml")
    table = get_table(tables, "project")
    lines: list[str] = [*list_texts(table.get("dependencies")), *plan.requirements]
    for name in plan.extras:
        lines += list_texts(get_table(table, "optional-dependencies").get(name))
    for name in plan.groups:
        lines += list_group(tables, name)
    for name in plan.files:
        lines += _list_file(project, name)
    for line in lines:
        try:
            yield Requirement(re.sub(r"\s+(#|--hash).*$", "", line).strip())
        except InvalidRequirement:
            continue


def _list_file(project: ProjectFiles, name: str, depth: int = 0) -> list[str]:
    lines: list[str] = []
    for line in project.text(name).replace("\\\n", " ").splitlines():
        if match := re.match(r"\s*(?:-r|--requirement)[ =]?\s*(\S+)", line):
            if depth < 5:
                lines += _list_file(project, os.path.normpath(Path(name).parent / match[1]), depth + 1)
        elif line.strip() and not line.strip().startswith(("#", "-")):
            lines.append(line)
    return lines
