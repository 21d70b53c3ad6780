"""Prepares a JavaScript project: its packages are installed in the working copy by the manager it names."""

import asyncio
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from shared.contracts import Preparation
from shared.gate import PORT
from shared.projects.environment import Environment, Request, format_path
from shared.projects.environments import Record, Slot, hold, keep_made, list_files, measure, restore_made
from shared.projects.node_managers import Program, find_manager, fits_engines
from shared.projects.reading.node_scripts import Manager, choose_manager
from shared.projects.reading.project_files import ProjectFiles, get_table, read_text
from shared.projects.steps import StepFailedError, Steps
from shared.projects.toolchains import find_program

STALE = 7 * 86_400.0
"""Seconds after which an installation without a lock is made again: newer versions may be out."""
SCRIPTS = ("preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare")
"""Scripts of the project that an installation runs: what they build depends on all of its sources."""
HARMLESS = re.compile(
    r"(husky|lefthook|simple-git-hooks|is-ci|node_modules/\.bin/husky|patch-package|\|\||&&|\s|-\w+)+"
)
"""Scripts of the project that build nothing."""
READ = (
    *("package.json", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock"),
    *(
        "bun.lockb",
        "pnpm-workspace.yaml",
        ".npmrc",
        ".yarnrc",
        ".yarnrc.yml",
        "lerna.json",
        ".node-version",
        ".nvmrc",
    ),
)
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
    if not _has_dependencies(files):
        steps.notes.append("The project has no dependencies")
        return _describe(request, manager, program, await _ask_node(steps, manifest), read, cached=True)
    sources = await asyncio.to_thread(_list_sources, request.place, manifest)
    made_by = (_identify_node(), manager.name, manager.version)
    slot = await asyncio.to_thread(request.slot, (*read, *sources), made_by)
    async with hold(slot):
        record = await asyncio.to_thread(_reuse, request, manager, slot)
        cached = record is not None
        if record is None:
            node = await _ask_node(steps, manifest)
            record = await _make(request, steps, manager, program, slot, node)
    steps.notes[:] = record.notes
    return _describe(request, manager, program, record.interpreter, read, cached=cached)


def replaces_modules(folder: Path) -> bool:
    """Whether the node_modules of ``folder`` in a working copy are replaced when that is prepared."""
    files = ProjectFiles(folder)
    manifest = files.table("package.json")
    needs = manifest.get("dependencies") or manifest.get("devDependencies")
    # Other managers may have to be fetched: without them, what is there is used as it is.
    return bool(needs) and choose_manager(files).name == "npm"


def _reuse(request: Request, manager: Manager, slot: Slot) -> Record | None:
    record = slot.read()
    if not record or (not manager.lock and slot.is_older(STALE)):
        return None
    return record if restore_made(slot.folder / "made", request.root, record.made) else None


def _identify_node() -> str:
    """The program that ``node`` is: to ask it for its version takes longer than all else of a second run."""
    program = Path(find_program("node")).resolve()
    info = program.stat()
    return f"{program} {info.st_size} {info.st_mtime_ns}"


async def _ask_node(steps: Steps, manifest: Mapping[str, Any]) -> str:
    """Such as ``Node 22.1.0``; if the project asks for another, a note says so."""
    result = await steps.run(["node", "--version"], online=False, doing="asks node for its version")
    steps.records.pop()
    node = result.output.strip().removeprefix("v")
    wanted = get_table(manifest, "engines").get("node")
    if isinstance(wanted, str) and not fits_engines(node, wanted):
        steps.notes.append(
            f"The project asks for Node {wanted}, and Node {node} is here; tests may fail for that"
        )
    return f"Node {node}"


def _has_dependencies(files: ProjectFiles) -> bool:
    manifest = files.table("package.json")
    names = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
    return any(manifest.get(name) for name in (*names, "workspaces")) or files.has("pnpm-workspace.yaml")


def _list_read(folder: Path) -> tuple[str, ...]:
    """The manifests and locks, those of the members of a workspace too, and patches of packages."""
    files = list_files(folder)
    own = [name for name in READ if name in files]
    nested = [
        name for name in sorted(files) if name.endswith("/package.json") and "node_modules/" not in name
    ]
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
    before = {
        name: details
        for name, details in (await asyncio.to_thread(list_files, request.root)).items()
        if "node_modules" not in name.split("/")
    }
    if fault:
        if fault != "-":
            steps.notes.append(f"The node_modules that are there are not used: {fault}")
        await asyncio.to_thread(_remove_modules, request)
        await _install(request, steps, manager, program, slot)
    else:
        await asyncio.to_thread(copy_modules, request.origin, request.place)
        steps.notes.append("The node_modules that are there fit the lock, and are used")
    made = await asyncio.to_thread(keep_made, request.root, before, slot.folder / "made")
    size = await asyncio.to_thread(measure, slot.folder)
    notes = tuple(steps.notes)
    record = Record(root=str(request.root), size=size, made=made, interpreter=node, notes=notes)
    slot.complete(record)
    return record


def _remove_modules(request: Request) -> None:
    from shared.sandbox import remove_tree

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
        elif _failed_in_script(error.output):
            await asyncio.to_thread(_remove_modules, request)
            await _run(request, steps, program, slot, [*words, *_without_scripts(manager)], manager)
            steps.notes.append(f"Installed without the packages' scripts, because one failed: {error.cause}")
        else:
            raise


def _failed_in_script(output: str) -> bool:
    """Whether a script of a package failed, and not the installation itself."""
    return bool(
        re.search(
            r"npm (error|ERR!) command (failed|sh -c)|ELIFECYCLE|Command failed\.|couldn't be built", output
        )
    )


def _without_scripts(manager: Manager) -> list[str]:
    return ["--mode=skip-build"] if manager.is_berry else ["--ignore-scripts"]


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
        folder=request.folder,
        ecosystem="javascript",
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
        if not isinstance(there := installed.get(name), dict) or there.get("version") != package.get(
            "version"
        ):
            return f"{name.removeprefix('node_modules/')} is not the one in the lock"
    return ""


def copy_modules(source: Path, target: Path) -> None:
    """Copy the node_modules of ``source`` into ``target``, with links as they are."""
    place = target / "node_modules"
    if not place.exists():
        shutil.copytree(
            source / "node_modules", place, symlinks=True, ignore=shutil.ignore_patterns(".cache")
        )
