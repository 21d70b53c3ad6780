"""The package managers of JavaScript: how the one of a project is started; the versions of Node."""

import re
from pathlib import Path

import msgspec

from shared.errors import ActionError
from shared.projects.environment import format_path
from shared.projects.environments import Slot, hold, open_slot
from shared.projects.reading.node_scripts import Manager
from shared.projects.reading.project_files import ProjectFiles
from shared.projects.steps import StepFailedError, Steps
from shared.projects.toolchains import find_program, format_package


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """How a manager is started: ``words``, and where it lies, for the PATH and to be shown in the jail."""

    words: tuple[str, ...]
    version: str = ""
    folder: Path | None = None
    path: tuple[Path, ...] = ()


async def find_manager(steps: Steps, manager: Manager) -> Program:
    """The program of ``manager``: the project's own, this machine's, else one from the npm registry.

    Raises ActionError with the cure if it cannot be got.
    """
    if not find_program("node"):
        raise ActionError("node is not installed, which the project needs", format_package("node"))
    if manager.release:
        return Program(words=("node", str(steps.request.place / manager.release)), version=manager.version)
    if manager.name == "npm":
        if not find_program("npm"):
            raise ActionError("npm is not installed, which the project needs", format_package("npm"))
        return Program(words=("npm",))
    here = await _find_here(steps, manager)
    return here or await _fetch(steps, manager)


async def _find_here(steps: Steps, manager: Manager) -> Program | None:
    """The machine's own program, if it has the major version that is wanted."""
    if not find_program(manager.name):
        return None
    try:
        result = await steps.run(
            [manager.name, "--version"], online=False, env={"COREPACK_ENABLE_STRICT": "0"}
        )
    except ActionError:
        return None  # a shim of Corepack, which has to fetch the program first
    version = result.output.strip().splitlines()[-1:] or [""]
    same = version[0].split(".")[0] == manager.version.split(".")[0]
    return Program(words=(manager.name,), version=version[0]) if same or not manager.version else None


async def _fetch(steps: Steps, manager: Manager) -> Program:
    """The program from the npm registry: its own scripts are not run, and nothing of the project is there."""
    wanted = f"{manager.package}@{manager.version or 'latest'}"
    slot = open_slot(steps.request.cache, Path("/package-managers"), ".", (wanted,))
    async with hold(slot):
        if not slot.read():
            await _install(steps, slot, wanted, manager)
    program = slot.folder / "node_modules/.bin" / manager.name
    modules = slot.folder / "node_modules" / manager.package
    version = str(ProjectFiles(modules).table("package.json").get("version", manager.version))
    return Program(words=(str(program),), version=version, folder=slot.folder, path=(program.parent,))


async def _install(steps: Steps, slot: Slot, wanted: str, manager: Manager) -> None:
    from shared.projects.environments import Record, measure

    slot.begin()
    scripts = [] if manager.name == "bun" else ["--ignore-scripts"]  # bun's puts its binary in place
    words = [
        "npm",
        "install",
        "--no-save",
        "--no-audit",
        "--no-fund",
        *scripts,
        "--prefix",
        str(slot.folder),
        wanted,
    ]
    env = {"npm_config_cache": str(slot.folder / "cache"), "PATH": format_path()}
    try:
        await steps.run(words, cwd=slot.folder, writable=[slot.folder], env=env, doing=f"fetches {wanted}")
    except StepFailedError as error:
        cause = f"{manager.name} is not installed, and could not be fetched: {error.cause}"
        raise ActionError(cause, format_package(manager.name)) from None
    slot.complete(Record(root="", size=measure(slot.folder)))


# --- versions of Node -------------------------------------------------------------------------------

Version = tuple[int, int, int]


def fits_engines(version: str, wanted: str) -> bool:
    """Whether ``version`` is in the range ``wanted``; one that is not understood allows all."""
    own = _parse(version)[0]
    return any(all(_fits(own, part) for part in _split(each)) for each in wanted.split("||"))


def _split(text: str) -> list[str]:
    text = re.sub(r"([<>=~^]+)\s+", r"\1", text.strip())
    if match := re.fullmatch(r"(\S+)\s+-\s+(\S+)", text):
        return [f">={match[1]}", f"<={match[2]}"]
    return text.split()


def _fits(own: Version, part: str) -> bool:
    match = re.fullmatch(r"([<>=~^]*)v?(\d.*)", part)
    if not match:
        return True
    sign, (low, count) = match[1], _parse(match[2])
    if sign in (">=", "<", ">"):
        high = _next(low, count)
        return {">=": own >= low, "<": own < low, ">": own >= high if count < 3 else own > low}[sign]
    if sign == "<=":
        return own < _next(low, count)
    if sign == "^":
        place = next((at for at, number in enumerate(low[:count]) if number), count - 1)
        return low <= own < _next(low, place + 1)
    return low <= own < _next(low, min(count, 2) if sign.startswith("~") else count)


def _parse(text: str) -> tuple[Version, int]:
    """The three numbers of a version, and how many of them it names."""
    numbers = [int(number) for number in re.findall(r"\d+", re.split(r"[-+xX*]", text)[0])][:3]
    padded = (*numbers, 0, 0, 0)
    return (padded[0], padded[1], padded[2]), len(numbers)


def _next(version: Version, count: int) -> Version:
    """The first version after all that begin with the first ``count`` numbers."""
    major, minor, patch = version
    return {0: (10**9, 0, 0), 1: (major + 1, 0, 0), 2: (major, minor + 1, 0)}.get(
        count, (major, minor, patch + 1)
    )
