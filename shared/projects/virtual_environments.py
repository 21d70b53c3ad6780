"""Virtual environments: one that the person has made for the project, and how one is shown to a working copy.

An editable installation names the folder it was made from. The view of an environment has links to what is
kept, and copies of the few files that name that folder, with the folder of the working copy in its place.
"""

import asyncio
import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from packaging.markers import UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from shared.errors import ActionError
from shared.projects.environments import Request
from shared.projects.reading import read_project
from shared.projects.reading.project_files import ProjectFiles
from shared.projects.reading.python_manifest import REBUILT, PythonPlan, normalise
from shared.projects.reading.test_environments import list_plugins
from shared.sandbox import remove_tree, run_command
from shared.sandbox.confined import ConfinedFolder

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
    lacking = []
    for line in _list_direct(files, plan):
        with contextlib.suppress(UndefinedEnvironmentName):
            there = packages.get(normalise(line.name))
            is_met = there is not None and line.specifier.contains(there[0], prereleases=True)
            if not is_met and (not line.marker or line.marker.evaluate({"extra": ""})):
                lacking.append(str(line))
    tools = ("pytest", *list_plugins(files)) if await asyncio.to_thread(runs_pytest, request) else ()
    if any(normalise(name) not in packages for name in tools):
        lacking.append("pytest")
    return f"it lacks {', '.join(dict.fromkeys(lacking[:3]))}" if lacking else ""


def runs_pytest(request: Request) -> bool:
    """Whether pytest runs the tests in the folder, or above it."""
    with contextlib.suppress(ActionError):
        commands = read_project(request.root).tests.commands
        place = Path(request.folder)
        return any(each.runner == "pytest" and place.is_relative_to(each.folder) for each in commands)
    return False


def _list_direct(project: ProjectFiles, plan: PythonPlan) -> Iterator[Requirement]:
    """The requirements that the project states itself, of those that would be installed."""
    lines = [*plan.declared, *plan.requirements]
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


# --- showing an environment to a working copy -------------------------------------------------------

LARGEST = 1 << 20  # The most bytes of a file that is copied: scripts and lists of paths are small


def make_view(kept: Path, view: Path, old: Path, new: Path) -> None:
    """Make ``view`` of the environment ``kept``, with ``new`` for ``old`` in the files that name that folder.

    Files of the environment are read without following links: code of a stranger made it.
    """
    if view.exists():
        remove_tree(view)
    view.mkdir(parents=True, mode=0o700)
    texts = {str(kept): str(view), str(old): str(new), quote(str(old)): quote(str(new))}
    changes = {was.encode(): now.encode() for was, now in texts.items()}
    with ConfinedFolder(kept) as folder:
        builder = _ViewBuilder(kept, view, folder, changes)
        for name, mode in folder.entries("."):
            if name == "bin" and stat.S_ISDIR(mode):
                builder.add_folder("bin", every=True)
            elif name == "lib" and stat.S_ISDIR(mode):
                builder.add_library()
            elif name == "pyvenv.cfg":
                builder.copy(name)
            elif name != "lib64":
                builder.link(name, mode)
    if (kept / "lib64").is_symlink():
        (view / "lib64").symlink_to("lib")


class _ViewBuilder:
    def __init__(self, kept: Path, view: Path, folder: ConfinedFolder, changes: dict[bytes, bytes]) -> None:
        self.kept = kept
        self.view = view
        self.folder = folder
        self.changes = changes

    def add_library(self) -> None:
        """The packages: links to them, and copies of the files that name a changed folder."""
        (self.view / "lib").mkdir()
        for python, _ in self.folder.entries("lib"):
            (self.view / "lib" / python).mkdir()
            for name, mode in self.folder.entries(f"lib/{python}"):
                if name == "site-packages" and stat.S_ISDIR(mode):
                    self.add_folder(f"lib/{python}/{name}", every=False)
                else:
                    self.link(f"lib/{python}/{name}", mode)

    def add_folder(self, place: str, *, every: bool) -> None:
        """A folder: its small files are copied, all or (not ``every``) those that name a changed folder."""
        (self.view / place).mkdir()
        for name, mode in self.folder.entries(place):
            path = f"{place}/{name}"
            origin = self._read(f"{path}/direct_url.json") if name.endswith(".dist-info") else None
            if stat.S_ISDIR(mode) and origin is not None and self._change(origin) != origin:
                self.add_folder(path, every=True)
            elif stat.S_ISREG(mode) and (every or name.endswith((".pth", ".py", ".egg-link"))):
                self.copy(path, only_changed=not every)
            else:
                self.link(path, mode)

    def link(self, path: str, mode: int) -> None:
        """A link to the kept file or folder; a link is repeated as it is."""
        target = os.readlink(self.kept / path) if stat.S_ISLNK(mode) else str(self.kept / path)  # noqa: PTH115
        (self.view / path).symlink_to(target)

    def copy(self, path: str, *, only_changed: bool = False) -> None:
        """A copy with the folders changed; of a large file, or one that names none, a link."""
        data = self._read(path)
        changed = self._change(data) if data is not None else None
        if changed is None or (only_changed and changed == data):
            self.link(path, 0)
            return
        target = self.view / path
        target.write_bytes(changed)
        target.chmod(0o755 if changed.startswith(b"#!") else 0o644)

    def _read(self, path: str) -> bytes | None:
        try:
            return self.folder.read(path, LARGEST)
        except ActionError:
            return None

    def _change(self, data: bytes) -> bytes:
        if b"\0" in data:
            return data
        for was, now in self.changes.items():
            data = data.replace(was, now)
        return data


def list_installed(environment: Path) -> dict[str, str]:
    """The installed packages by normalised name, with their versions."""
    found = {}
    for path in environment.glob("lib/python3*/site-packages/*.dist-info"):
        name, _, version = path.name.removesuffix(".dist-info").partition("-")
        found[normalise(name)] = version
    return found
