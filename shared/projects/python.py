"""Prepares a Python project: a virtual environment with what its tests need, and the project itself."""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import msgspec
import uv
from packaging.version import InvalidVersion, Version

from shared.contracts import Preparation
from shared.errors import ActionError
from shared.projects.environments import (
    Environment,
    Record,
    Request,
    Slot,
    format_path,
    hold,
    keep_made,
    list_files,
    measure,
)
from shared.projects.reading import read_project
from shared.projects.reading.project_files import ProjectFiles, read_text
from shared.projects.reading.python_manifest import REBUILT, PythonPlan, normalise, read_python
from shared.projects.reading.test_environments import list_plugins
from shared.projects.steps import StepFailedError, Steps
from shared.projects.toolchains import Interpreter, choose_interpreter, format_version
from shared.projects.virtual_environments import find_existing, list_installed, make_view, runs_pytest
from shared.text.display import format_list

BUILD_TOOLS = {
    "pkg_resources": "setuptools<81",
    "setuptools": "setuptools",
    "Cython": "cython",
    "wheel": "wheel",
}
"""Modules that a setup.py imports although no manifest names them, by the package that has them."""

PYTHON = frozenset(("pytest", "unittest", "django", "any"))
"""Runners whose tests may be those of a Python project."""
UNREAD = re.compile(
    r"(?i)[^\n]*(?:toml parse error|failed to parse|couldn't parse|could not parse|cannot parse|not a valid"
    r"|invalid pyproject|must be (?:pep|one of)|setup command:|unexpected|did not contain valid utf-8)[^\n]*"
)
"""What uv and build backends say of a file that they cannot read."""


async def prepare_python(request: Request, steps: Steps) -> Environment:
    """The environment of a Python project; raises ActionError if none can be made."""
    files = ProjectFiles(request.place)
    plan = await asyncio.to_thread(_read_plan, request, files)
    existing, why = await find_existing(request, files, plan)
    if existing:
        found = re.search(r"(?m)^version(?:_info)? = ([\d.]+)", read_text(existing / "pyvenv.cfg"))
        name = f"CPython {found[1] if found else ''} in {existing}"
        return _show(request, plan, existing, request.source, name, cached=True)
    interpreter, remark = await asyncio.to_thread(
        choose_interpreter, plan.requires_python, plan.wanted_python
    )
    steps.notes += [note for note in (why, remark) if note]
    version = find_version(request.source)
    # What is compiled, and what is not installed in place, is made again when a source changes.
    sources = plan.sources if plan.is_package else ()
    if plan.backend.startswith(REBUILT):
        sources = tuple(sorted(await asyncio.to_thread(list_files, request.place)))
    # The plan is part of it: another release of Mailroom may read more out of the same files.
    made_by = (format_version(interpreter), str(interpreter.path), version, msgspec.json.encode(plan))
    slot = await asyncio.to_thread(request.slot, (*plan.read, *sources), made_by)
    async with hold(slot):
        record = await asyncio.to_thread(slot.reuse, request.root, locked=bool(plan.lock))
        cached = record is not None
        if record is None:
            record = await _Installation(request, files, plan, steps, slot, interpreter, version).run()
    steps.notes = list(record.notes)
    kept, root = slot.folder / "venv", Path(record.root)
    return _show(request, plan, kept, root, record.interpreter, cached=cached, prefix=interpreter.prefix)


def _read_plan(request: Request, files: ProjectFiles) -> PythonPlan:
    """What is installed: as the job of CI does it that runs the tests in this folder or above it."""
    installs: tuple[str, ...] = ()
    with contextlib.suppress(ActionError):
        commands = read_project(request.root).tests.commands
        place = Path(request.folder)
        near = (each for each in commands if each.runner in PYTHON and place.is_relative_to(each.folder))
        installs = tuple(line for each in near for line in each.installs)
    return read_python(files, dict.fromkeys(installs))


def _show(
    request: Request,
    plan: PythonPlan,
    kept: Path,
    old: Path,
    interpreter: str,
    *,
    cached: bool,
    prefix: Path | None = None,
) -> Environment:
    """The environment ``kept``, seen from the working copy."""
    place = request.folder.replace("/", "-").strip(".")
    view = request.root.with_name(f".{request.root.name}{f'-{place}' if place else ''}-python")
    make_view(kept, view, old, request.root)
    own = view / "bin/uv"
    if plan.lock == "uv.lock" and not own.exists():  # for scripts of the project that call it
        own.symlink_to(uv.find_uv_bin())
    prefix = prefix or (kept / "bin/python").resolve().parents[1]
    preparation = Preparation(
        ecosystem="python",
        folder=request.folder,
        tool=f"uv {metadata.version('uv')}",
        interpreter=interpreter,
        read=plan.read,
        cached=cached,
    )
    return Environment(
        preparation=preparation,
        env={
            "VIRTUAL_ENV": str(view),
            "UV_PROJECT_ENVIRONMENT": str(view),
            "UV_NO_SYNC": "1",
            "PATH": format_path(view / "bin"),
            "PYTHONNOUSERSITE": "1",
        },
        path=(view / "bin",),
        readable=tuple(dict.fromkeys((view, kept, prefix, Path(uv.find_uv_bin())))),
        python=str(view / "bin/python"),
    )


class _Installation:
    """Makes one environment in its slot."""

    def __init__(
        self,
        request: Request,
        files: ProjectFiles,
        plan: PythonPlan,
        steps: Steps,
        slot: Slot,
        interpreter: Interpreter,
        version: str,
    ) -> None:
        self.request = request
        self.files = files
        self.plan = plan
        self.steps = steps
        self.slot = slot
        self.interpreter = interpreter
        self.version = version
        self.venv = slot.folder / "venv"
        self.editable = not plan.backend.startswith(REBUILT)
        unreadable = (name for name, _ in files.list_unreadable())
        self.own = {"UV_NO_CONFIG": "1"} if "uv.toml" in unreadable else {}

    async def run(self) -> Record:
        """Install everything; raises ActionError."""
        request, plan = self.request, self.plan
        await asyncio.to_thread(self.slot.begin)
        before = await asyncio.to_thread(list_files, request.root)
        await self._uv(
            "venv", "--python", str(self.interpreter.path), "--no-project", str(self.venv), online=False
        )
        if plan.is_package:
            await self._tag()
        try:
            await self._install_plan()
        except StepFailedError as error:
            await self._install_less(plan, error)
        if plan.unread:
            self.steps.notes.append(f"Left out, since it is no requirement: {format_list(plan.unread, 8)}")
        await self._add_missing()
        code = "import platform; print(platform.python_implementation(), platform.python_version())"
        python = [str(self.venv / "bin/python"), "-I", "-c", code]
        made = await asyncio.to_thread(keep_made, request.root, before, self.slot.folder / "made")
        record = Record(
            root=str(request.root),
            size=await asyncio.to_thread(measure, self.slot.folder),
            made=made,
            interpreter=(await self.steps.ask(python, [self.venv, self.interpreter.prefix]))[:80],
            notes=tuple(self.steps.notes),
        )
        self.slot.complete(record)
        return record

    async def _install_less(self, plan: PythonPlan, error: StepFailedError) -> None:
        """Install the plan without what is loose, or what can be read of it; raises ``error`` for neither."""
        self.plan = plan.narrow()
        if self.plan != plan:
            try:
                await self._install_plan()
            except StepFailedError as other:
                error = other
            else:
                await self._add_loose(plan)
                return
        unread = UNREAD.search(error.output)
        lines = [line for name in plan.files for line in self.files.text(name).splitlines()]
        self.plan = plan.without_manifests(line.partition(" #")[0].strip() for line in lines)
        if unread is None or self.plan == plan:
            raise error
        self.steps.notes.append(f"Left out, since the installer cannot read it: {unread[0].strip()[:200]}")
        await self._install_plan()

    async def _tag(self) -> None:
        """Have tools that take the version from git find the latest one of the project's own repository.

        The working copy has a history of one commit.
        """
        if (self.request.root / ".git").is_dir():
            safe = ("-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null")
            tag = ("git", *safe, "tag", "--force", self.version)
            try:
                await self.steps.run(tag, cwd=self.request.root, writable=[self.request.root], online=False)
            except ActionError:
                self.steps.notes.append("The version of the project could not be set by a tag")
            else:
                self.steps.records.pop()

    async def _install_plan(self) -> None:
        if self.plan.lock == "uv.lock":
            named = [word for name in self.plan.groups for word in ("--group", name)]
            named += [word for name in self.plan.extras for word in ("--extra", name)]
            workspace = self.files.table("pyproject.toml", "tool", "uv", "workspace")
            members = ["--all-packages"] if workspace else []
            # A group for tests holds what they need; the default groups have linters and documentation.
            named += ["--no-default-groups"] if self.plan.groups else []
            editable = [] if self.editable else ["--no-editable"]
            await self._uv(
                "sync", "--frozen", "--inexact", *members, *named, *editable, doing="installs uv.lock"
            )
        await self._install_rest()

    async def _add_loose(self, plan: PythonPlan) -> None:
        """Install each line of ``plan`` for development by itself, and note what is left out."""
        left = list(plan.optional)
        for line in dict.fromkeys(plan.loose):
            words = ("--editable", line) if line.startswith(".") else (line,)
            try:
                await self._uv("pip", "install", *words, doing=f"installs {line}")
            except StepFailedError:
                left.append(line)
        if left:
            self.steps.notes.append(f"Left out, since it could not be installed: {format_list(left, 8)}")

    async def _install_rest(self) -> None:
        """Install what no lock of uv's covers: the project, its extras and groups, and requirement files."""
        plan = self.plan
        words: list[str] = []
        if plan.lock != "uv.lock":
            target = f".[{','.join(plan.extras)}]" if plan.extras else "."
            words += [*(["--editable"] if self.editable else []), target] if plan.is_package else []
            words += [word for name in plan.groups for word in ("--group", name)]
        words += [word for name in plan.files for word in ("--requirements", name)]
        if plan.requirements:
            words += ["--requirements", self._write("requirements.txt", plan.requirements)]
        if not words:
            return
        if plan.constraints:
            words += ["--constraints", self._write("constraints.txt", plan.constraints)]
        words += [word for name in plan.optional for word in ("--requirements", name)]
        main = plan.lock or ("pyproject.toml" if "pyproject.toml" in plan.read else "")
        named = ", ".join(filter(None, (main, *plan.files)))
        await self._install(*words, doing=f"installs {named or 'the project'}")

    async def _install(self, *words: str, doing: str) -> None:
        """Install; what the build lacks and nobody declares is added, as a person would, at most twice."""
        isolated: tuple[str, ...] = ()
        for _ in range(2):
            try:
                await self._uv("pip", "install", *isolated, *words, doing=doing)
                return
            except StepFailedError as error:
                module = re.search(r"ModuleNotFoundError: No module named '(\w+)'", error.output)
                if module and (self.request.place / "setup.py").is_file():
                    # It imports what it does not declare
                    package = BUILD_TOOLS.get(module[1], module[1])
                    said = f"The build imports {module[1]}, which nothing declares: {package} was installed"
                    self.steps.notes.append(said)
                    tools = dict.fromkeys(("setuptools<81", "wheel", package))
                    await self._uv("pip", "install", *tools, doing=f"installs {package}")
                    isolated = ("--no-build-isolation",)
                else:
                    raise
        await self._uv("pip", "install", *isolated, *words, doing=doing)

    async def _add_missing(self) -> None:
        """Install pytest and its plugins if the tests need them and no manifest names them."""
        if not await asyncio.to_thread(runs_pytest, self.request):
            return
        installed = list_installed(self.venv)
        lacking = [name for name in ("pytest", *list_plugins(self.files)) if normalise(name) not in installed]
        if lacking:
            names = ", ".join(lacking)
            self.steps.notes.append(f"The tests need {names}, which no manifest names: installed as well")
            await self._install(*lacking, doing=f"installs {names}")

    def _write(self, name: str, lines: tuple[str, ...]) -> str:
        path = self.slot.folder / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return str(path)

    async def _uv(self, *words: str, doing: str = "", online: bool = True) -> None:
        env = {
            "UV_CACHE_DIR": str(self.slot.downloads / "uv"),
            "UV_COMPILE_BYTECODE": "1",
            "UV_LINK_MODE": "copy",
            "UV_NO_PROGRESS": "1",
            "UV_PROJECT_ENVIRONMENT": str(self.venv),
            "UV_PYTHON_DOWNLOADS": "never",
            "VIRTUAL_ENV": str(self.venv),
            "PATH": format_path(self.venv / "bin"),
            "PYTHONNOUSERSITE": "1",
            **self.own,
        }
        if not (self.request.root / ".git").is_dir():
            env["SETUPTOOLS_SCM_PRETEND_VERSION"] = env["PBR_VERSION"] = self.version
        await self.steps.run(
            [uv.find_uv_bin(), *words],
            writable=[self.request.root, self.slot.folder, self.slot.downloads],
            readable=[self.interpreter.prefix],
            env=env,
            online=online,
            doing=doing,
        )


# --- versions from tags -----------------------------------------------------------------------------

UNKNOWN = "0.0.0"


def find_version(source: Path) -> str:
    """The latest version among the tags of the repository at ``source``, UNKNOWN if it has none."""
    found = []
    for tag in _list_tags(source):
        if match := re.search(r"(?:^|[^\w.])v?(\d+(?:\.\d+)+[\w.]*)$", f"/{tag}"):
            with contextlib.suppress(InvalidVersion):
                found.append(Version(match[1]))
    finished = [version for version in found if not version.is_prerelease] or found
    return str(max(finished)) if finished else UNKNOWN


def _list_tags(source: Path) -> Iterator[str]:
    folder = source / ".git"
    if folder.is_file():
        pointer = re.match(r"gitdir: (.+)", read_text(folder))
        folder = source / pointer[1].strip() if pointer else folder
        folder /= read_text(folder / "commondir").strip() or "."
    for line in read_text(folder / "packed-refs").splitlines():
        if match := re.match(r"[0-9a-f]+ refs/tags/(.+)", line):
            yield match[1]
    tags = folder / "refs/tags"
    yield from (str(path.relative_to(tags)) for path in tags.rglob("*") if path.is_file())
