"""Prepares a JavaScript project: its packages are installed in the working copy by the manager it names."""

import asyncio
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from shared.contracts import Preparation
from shared.errors import ActionError
from shared.gate import PORT
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
    open_slot,
)
from shared.projects.reading.manifests import NODE_DEPENDENCIES
from shared.projects.reading.node_scripts import Manager, choose_manager
from shared.projects.reading.project_files import ProjectFiles, get_table, read_text
from shared.projects.steps import StepFailedError, Steps
from shared.projects.toolchains import find_program, format_package
from shared.sandbox import remove_tree
from shared.source import as_mapping


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
            await _install_manager(steps, slot, wanted, manager)
    program = slot.folder / "node_modules/.bin" / manager.name
    modules = slot.folder / "node_modules" / manager.package
    version = str(ProjectFiles(modules).table("package.json").get("version", manager.version))
    return Program(words=(str(program),), version=version, folder=slot.folder, path=(program.parent,))


async def _install_manager(steps: Steps, slot: Slot, wanted: str, manager: Manager) -> None:
    slot.begin()
    scripts = [] if manager.name == "bun" else ["--ignore-scripts"]  # bun's puts its binary in place
    quiet = ("--no-save", "--no-audit", "--no-fund")
    words = ["npm", "install", *quiet, *scripts, "--prefix", str(slot.folder), wanted]
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
    joined = (re.sub(r"([<>=~^]+)\s+", r"\1", each.strip()) for each in wanted.split("||"))
    ranges = (re.sub(r"^(\S+)\s+-\s+(\S+)$", r">=\1 <=\2", each).split() for each in joined)
    return any(all(_fits(own, part) for part in each) for each in ranges)


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


SCRIPTS = ("preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare")
"""Scripts of the project that an installation runs: what they build depends on all of its sources."""
HARMLESS = re.compile(
    r"(husky|lefthook|simple-git-hooks|is-ci|node_modules/\.bin/husky|patch-package|\|\||&&|\s|-\w+)+"
)
"""Scripts of the project that build nothing."""
READ = (
    *("package.json", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock"),
    *("bun.lockb", "pnpm-workspace.yaml", ".npmrc", ".yarnrc", ".yarnrc.yml", "lerna.json"),
    *(".node-version", ".nvmrc"),
)
SCRIPT_FAILED = re.compile(
    r"npm (error|ERR!) command (failed|sh -c)|ELIFECYCLE|Command failed\.|couldn't be built"
)
"""What is printed if a script of a package failed, and not the installation itself."""
QUIET = {
    "HUSKY": "0",
    "ADBLOCK": "1",
    "DISABLE_OPENCOLLECTIVE": "1",
    "npm_config_audit": "false",
    "npm_config_fund": "false",
    "npm_config_progress": "false",
    "npm_config_update_notifier": "false",
    "YARN_ENABLE_TELEMETRY": "0",
    "YARN_ENABLE_GLOBAL_CACHE": "false",
    "YARN_ENABLE_PROGRESS_BARS": "false",
    # Browsers come from other hosts than packages, and no jail could show one.
    "PUPPETEER_SKIP_DOWNLOAD": "1",
    "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD": "1",
    "CYPRESS_INSTALL_BINARY": "0",
    "ELECTRON_SKIP_BINARY_DOWNLOAD": "1",
    "CHROMEDRIVER_SKIP_DOWNLOAD": "true",
}


async def prepare_javascript(request: Request, steps: Steps) -> Environment:
    """The environment of a JavaScript project; raises ActionError if none can be made."""
    files = ProjectFiles(request.place)
    manifest = files.table("package.json")
    manager = choose_manager(files)
    program = await find_manager(steps, manager)
    read = await asyncio.to_thread(_list_read, request.place)
    needed = any(manifest.get(name) for name in (*NODE_DEPENDENCIES, "workspaces"))
    if not needed and not files.has("pnpm-workspace.yaml"):
        steps.notes.append("The project has no dependencies")
        return _describe(request, manager, program, await _ask_node(steps, manifest), read, cached=True)
    sources = await asyncio.to_thread(_list_sources, request.place, manifest)
    # The program that node is: to ask it for its version takes longer than all else of a second run.
    node = Path(find_program("node")).resolve()
    made_by = (f"{node} {node.stat().st_size} {node.stat().st_mtime_ns}", manager.name, manager.version)
    slot = await asyncio.to_thread(request.slot, (*read, *sources), made_by)
    async with hold(slot):
        record = await asyncio.to_thread(slot.reuse, request.root, locked=bool(manager.lock))
        cached = record is not None
        if record is None:
            version = await _ask_node(steps, manifest)
            record = await _make(request, steps, manager, program, slot, version)
    steps.notes[:] = record.notes
    return _describe(request, manager, program, record.interpreter, read, cached=cached)


def replaces_modules(folder: Path) -> bool:
    """Whether the node_modules of ``folder`` in a working copy are replaced when that is prepared."""
    files = ProjectFiles(folder)
    manifest = files.table("package.json")
    needs = manifest.get("dependencies") or manifest.get("devDependencies")
    # Other managers may have to be fetched: without them, what is there is used as it is.
    return bool(needs) and choose_manager(files).name == "npm"


async def _ask_node(steps: Steps, manifest: Mapping[str, Any]) -> str:
    """Such as ``Node 22.1.0``; if the project asks for another, a note says so."""
    node = (await steps.ask(["node", "--version"])).removeprefix("v")
    wanted = get_table(manifest, "engines").get("node")
    if isinstance(wanted, str) and not fits_engines(node, wanted):
        steps.notes.append(
            f"The project asks for Node {wanted}, and Node {node} is here; tests may fail for that"
        )
    return f"Node {node}"


def _list_read(folder: Path) -> tuple[str, ...]:
    """The manifests and locks, those of the members of a workspace too, and patches of packages."""
    files = list_files(folder)
    own = [name for name in READ if name in files]
    inner = (name for name in sorted(files) if name.endswith("/package.json"))
    nested = [name for name in inner if "node_modules/" not in name]
    patches = [name for name in sorted(files) if re.match(r"(\.yarn/)?patches/", name)]
    return (*own, *nested[:500], *patches)


def _list_sources(folder: Path, manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """All files, if the project builds something when it is installed."""
    scripts = get_table(manifest, "scripts")
    built = [script for name in SCRIPTS if (script := str(scripts.get(name) or ""))]
    if all(HARMLESS.fullmatch(script) for script in built):
        return ()
    return tuple(sorted(name for name in list_files(folder) if "node_modules/" not in name))


async def _make(
    request: Request, steps: Steps, manager: Manager, program: Program, slot: Slot, node: str
) -> Record:
    await asyncio.to_thread(slot.begin)
    fault = await asyncio.to_thread(find_fault, request.origin, manager)
    there = await asyncio.to_thread(list_files, request.root)
    before = {name: there[name] for name in there if "node_modules" not in name.split("/")}
    if fault:
        if fault != "-":
            steps.notes.append(f"The node_modules that are there are not used: {fault}")
        await asyncio.to_thread(_remove_modules, request)
        await _install(request, steps, manager, program, slot)
    else:
        target = request.place / "node_modules"
        if not target.exists():
            source, left_out = request.origin / "node_modules", shutil.ignore_patterns(".cache")
            await asyncio.to_thread(shutil.copytree, source, target, symlinks=True, ignore=left_out)
        steps.notes.append("The node_modules that are there fit the lock, and are used")
    made = await asyncio.to_thread(keep_made, request.root, before, slot.folder / "made")
    size = await asyncio.to_thread(measure, slot.folder)
    notes = tuple(steps.notes)
    record = Record(root=str(request.root), size=size, made=made, interpreter=node, notes=notes)
    slot.complete(record)
    return record


def _remove_modules(request: Request) -> None:
    modules = request.place / "node_modules"
    if modules.is_symlink():
        modules.unlink()
    elif modules.is_dir():
        remove_tree(modules)


async def _install(request: Request, steps: Steps, manager: Manager, program: Program, slot: Slot) -> None:
    """Install; npm once more as its users do if packages disagree on their peers, or a script failed."""
    words = _list_words(manager)
    try:
        await _run(request, steps, program, slot, words, manager)
    except StepFailedError as error:
        if "ERESOLVE" in error.output:
            await _run(request, steps, program, slot, [*words, "--legacy-peer-deps"], manager)
            steps.notes.append("Packages disagree on their peers: installed with --legacy-peer-deps")
        elif manager.name == "npm" and "can only install packages when" in error.output:
            await _run(request, steps, program, slot, ["install", *words[1:]], manager)
            steps.notes.append(f"{manager.lock} does not fit package.json: npm install was used for npm ci")
        elif SCRIPT_FAILED.search(error.output):
            await asyncio.to_thread(_remove_modules, request)
            words.append("--mode=skip-build" if manager.is_berry else "--ignore-scripts")
            await _run(request, steps, program, slot, words, manager)
            steps.notes.append(f"Installed without the packages' scripts, because one failed: {error.cause}")
        else:
            raise


def _list_words(manager: Manager) -> list[str]:
    """The words after the manager's name that install exactly what the lock says."""
    if manager.name == "npm":
        return ["ci"] if manager.lock else ["install", "--no-package-lock"]
    if manager.is_berry:
        return ["install", "--immutable" if manager.lock else "--no-immutable"]
    if manager.name == "yarn":
        return ["install", "--frozen-lockfile", "--non-interactive"]
    return ["install", "--frozen-lockfile"] if manager.lock else ["install"]


async def _run(
    request: Request, steps: Steps, program: Program, slot: Slot, words: list[str], manager: Manager
) -> None:
    downloads = slot.downloads
    headers = Path(find_program("node")).resolve().parents[1]
    env = {
        **QUIET,
        "PATH": format_path(*program.path),
        "npm_config_cache": str(downloads / "npm"),
        "npm_config_store_dir": str(downloads / "pnpm"),
        # Yarn since 2 does not read the variables that all others read.
        **dict.fromkeys(("YARN_HTTP_PROXY", "YARN_HTTPS_PROXY"), f"http://127.0.0.1:{PORT}"),
        "YARN_CACHE_FOLDER": ".yarn/cache" if manager.is_berry else str(downloads / "yarn"),
        "BUN_INSTALL_CACHE_DIR": str(downloads / "bun"),
    }
    if (headers / "include/node/node.h").is_file():
        env["npm_config_nodedir"] = str(headers)  # node-gyp fetches them from another host otherwise
    if manager.name == "pnpm":
        # Through a proxy it reads such a file again for each connection, which takes longer than the rest.
        # The certificates are in NODE_EXTRA_CA_CERTS.
        env["npm_config_cafile"] = "null"
    await steps.run(
        [*program.words, *words],
        writable=[request.root, slot.folder, downloads],
        readable=[program.folder] if program.folder else [],
        env=env,
        doing=f"installs {manager.lock or 'package.json'} with {manager.name}",
    )


def _describe(
    request: Request, manager: Manager, program: Program, node: str, read: tuple[str, ...], *, cached: bool
) -> Environment:
    path = (request.place / "node_modules/.bin", *program.path)
    return Environment(
        preparation=Preparation(
            ecosystem="javascript",
            folder=request.folder,
            tool=f"{manager.name} {program.version}".strip(),
            interpreter=node,
            read=read,
            cached=cached,
        ),
        env={
            "PATH": format_path(*path),
            "npm_config_update_notifier": "false",
            "COREPACK_ENABLE_STRICT": "0",
            "YARN_ENABLE_TELEMETRY": "0",
        },
        path=path,
        readable=(program.folder,) if program.folder else (),
    )


# --- the person's node_modules ----------------------------------------------------------------------


def find_fault(folder: Path, manager: Manager) -> str:
    """Why the node_modules in ``folder`` are not used, ``-`` for none there; empty if they fit the lock."""
    modules = folder / "node_modules"
    if not modules.is_dir() or modules.is_symlink():
        return "-"
    files = ProjectFiles(folder)
    if files.table("package.json").get("workspaces") or files.has("pnpm-workspace.yaml"):
        return "those of a workspace are spread over its members"
    if manager.name == "npm" and manager.lock:
        return _compare_npm(files, manager.lock)
    if manager.name == "pnpm" and manager.lock:
        same = read_text(modules / ".pnpm/lock.yaml") == files.text(manager.lock)
        return "" if same else "they are of another lock"
    return "there is no lock to compare them with"


def _compare_npm(files: ProjectFiles, lock: str) -> str:
    installed = files.table("node_modules/.package-lock.json", "packages")
    if not installed:
        return "npm has not noted what it installed"
    locked = files.table(lock, "packages")
    for name, package in locked.items():
        if not name or not isinstance(package, dict) or package.get("optional") or package.get("devOptional"):
            continue
        if as_mapping(installed.get(name)).get("version", "-") != package.get("version"):
            return f"{name.removeprefix('node_modules/')} is not the one in the lock"
    return ""
