"""Prepares every project of a repository: what it says it needs is installed in an environment of its own."""

import asyncio
import contextlib
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from shared import settings
from shared.contracts import Preparation
from shared.errors import ActionError, ConfigError
from shared.gate.registries import PUBLIC, Registry
from shared.log import logger
from shared.projects.environments import (
    LIMIT,
    Environment,
    Note,
    Record,
    Request,
    clean,
    format_path,
    hold,
    keep_made,
    list_files,
    measure,
    open_slot,
)
from shared.projects.reading import read_project
from shared.projects.reading.locks import list_packages
from shared.projects.reading.project import FoundProject, find_projects
from shared.projects.reading.project_files import UNFORESEEN, ProjectFiles, get_table
from shared.projects.steps import CURES, Steps
from shared.projects.toolchains import choose_interpreter, find_program, list_needs, require_programs
from shared.sandbox import Reach
from shared.source import as_mapping

DEPENDENCIES = ("dependencies", "dev-dependencies", "build-dependencies")
OFFLINE_GRADLE = "gradle.startParameter.offline = true\n"


class Fetching(msgspec.Struct, frozen=True, kw_only=True):
    """What fetches the dependencies of a project into ``home``: a command, empty if there are none to fetch.

    ``fetching`` and ``offline`` are the variables while that runs and afterwards; ``{home}`` stands for the
    folder. ``is_writable``: the tool writes there when it is used too. ``settings`` is the file of that name
    there which leads to the person's mirrors, its text in the registry.
    """

    ecosystem: str
    tool: str
    read: tuple[str, ...]
    command: tuple[str, ...] = ()
    fetching: Mapping[str, str] = {}
    offline: Mapping[str, str] = {}
    settings: str = ""
    is_writable: bool = False


async def prepare_rust(request: Request, steps: Steps) -> Environment:
    """Cargo's packages in a home of the project's own; raises ActionError."""
    require_programs(("cargo", "cc"), "the project (Rust)")
    tool = " ".join((await steps.ask(["cargo", "--version"])).split()[:3])
    read = _list_named(request, ("Cargo.toml", "Cargo.lock", "rust-toolchain", "rust-toolchain.toml"))
    files = ProjectFiles(request.place)
    vendored = "replace-with" in files.text(".cargo/config.toml")
    locked = ("--locked",) if files.has("Cargo.lock") else ()
    fetching = Fetching(
        ecosystem="rust",
        tool=tool,
        read=read,
        command=("cargo", "fetch", *locked) if _has_crates(files, read) and not vendored else (),
        fetching={"CARGO_HOME": "{home}", "CARGO_NET_RETRY": "1", "CARGO_TERM_COLOR": "never"},
        offline={"CARGO_HOME": "{home}", "CARGO_NET_OFFLINE": "true", "CARGO_TERM_COLOR": "never"},
        settings="config.toml",
    )
    return await _prepare(request, steps, fetching)


def _has_crates(files: ProjectFiles, read: Sequence[str]) -> bool:
    """Whether a manifest names a package of a registry or of git; without one no network is needed."""
    if lock := files.table("Cargo.lock"):
        return any(package.get("source") for package in list_packages(lock))
    for manifest in (files.table(name) for name in read if name.endswith("Cargo.toml")):
        targets = [as_mapping(table) for table in get_table(manifest, "target").values()]
        for table in (manifest, get_table(manifest, "workspace"), *targets):
            for package in (each for name in DEPENDENCIES for each in get_table(table, name).values()):
                if not as_mapping(package).get("path") and not as_mapping(package).get("workspace"):
                    return True
    return False


async def prepare_go(request: Request, steps: Steps) -> Environment:
    """Go's modules in a cache of the project's own; raises ActionError."""
    require_programs(("go",), "the project (Go)")
    tool = " ".join((await steps.ask(["go", "version"])).split()[:3])
    read = _list_named(request, ("go.mod", "go.sum", "go.work", "go.work.sum"))
    files = ProjectFiles(request.place)
    text = files.text("go.mod") + files.text("go.work")
    wanted = re.search(r"(?m)^go\s+(\d+(?:\.\d+)*)", text)
    here = re.search(r"go(\d+(?:\.\d+)*)", tool)
    if wanted and here and _number(here[1]) < _number(wanted[1]):
        old = f"The project needs Go {wanted[1]} (go.mod), and Go {here[1]} is here"
        if _number(here[1]) >= STRICT_GO:  # an older one tries what it is given
            raise ActionError(old, "Install that version (https://go.dev/dl)")
        steps.notes.append(f"{old}; the build may fail for that")
    needs = re.search(r"(?m)^\s*(require|use)\b", text) and not files.has("vendor/modules.txt")
    offline = {"GOPROXY": "off", "GOTOOLCHAIN": "local", "GOTELEMETRY": "off", "GOSUMDB": "off"}
    fetching = Fetching(
        ecosystem="go",
        tool=tool,
        read=read,
        command=("go", "mod", "download") if needs else (),
        fetching={"GOMODCACHE": "{home}", "GOTOOLCHAIN": "local", "GOFLAGS": "-modcacherw"},
        offline={**offline, "GOMODCACHE": "{home}"} if needs else offline,
    )
    return await _prepare(request, steps, fetching)


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


STRICT_GO = (1, 21)
"""The first release of Go that refuses a module which asks for a newer one."""


async def prepare_java(request: Request, steps: Steps) -> Environment:
    """Maven's or Gradle's packages in a home of the project's own; raises ActionError."""
    require_programs(("java",), "the project (Java)")
    is_maven = (request.place / "pom.xml").is_file()
    wrapper, program = ("mvnw", "mvn") if is_maven else ("gradlew", "gradle")
    if (request.place / wrapper).is_file() and (find_program(program) == "" or not is_maven):
        start: tuple[str, ...] = ("sh", f"./{wrapper}")
    else:
        require_programs((program,), "the project (Java)")
        start = (program,)
    names = ("pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts")
    more = (
        "gradle.properties",
        "libs.versions.toml",
        "gradle-wrapper.properties",
        "maven-wrapper.properties",
    )
    read = _list_named(request, (*names, *more))
    steps_of = _describe_maven if is_maven else _describe_gradle
    return await _prepare(request, steps, steps_of(start, read, steps.registry))


def _describe_maven(start: tuple[str, ...], read: tuple[str, ...], registry: Registry) -> Fetching:
    # No test is run, but surefire decides only then which of its parts it needs.
    none = ("-Dtest=NoSuchTest", "-DfailIfNoTests=false", "-Dsurefire.failIfNoSpecifiedTests=false")
    # Maven looks for its settings there, and takes what it has offline only by the mirror that it came from.
    own = "-Dmaven.repo.local={home}/repository" + (" -Duser.home={home}" if registry.settings else "")
    home = {"MAVEN_USER_HOME": "{home}"}
    return Fetching(
        ecosystem="java",
        tool="Maven",
        read=read,
        command=(*start, "--batch-mode", "--no-transfer-progress", "test", *none),
        fetching={**home, "MAVEN_OPTS": f"{registry.environment['MAVEN_OPTS']} {own}"},
        offline={**home, "MAVEN_OPTS": own, "MAVEN_ARGS": "--offline"},
        settings=".m2/settings.xml",
        is_writable=True,
    )


def _describe_gradle(start: tuple[str, ...], read: tuple[str, ...], registry: Registry) -> Fetching:
    return Fetching(
        ecosystem="java",
        tool="Gradle",
        read=read,
        command=(*start, "--no-daemon", "--console=plain", "testClasses"),
        fetching={"GRADLE_USER_HOME": "{home}"},
        offline={"GRADLE_USER_HOME": "{home}"},
        is_writable=True,
    )


async def _prepare(request: Request, steps: Steps, fetching: Fetching) -> Environment:
    if not fetching.command:
        steps.notes.append("There is nothing to fetch")
        return _describe(request, fetching, None, cached=True)
    parts = (fetching.tool, *fetching.command, steps.registry.settings if fetching.settings else "")
    slot = await asyncio.to_thread(request.slot, fetching.read, parts)
    async with hold(slot):
        cached = slot.reuse(request.root) is not None
        if not cached:
            slot.begin()
            home = slot.folder / "home"
            home.mkdir()
            if fetching.settings and steps.registry.settings:
                place = home / fetching.settings
                place.parent.mkdir(exist_ok=True)
                place.write_text(steps.registry.settings, encoding="utf-8")
            before = await asyncio.to_thread(list_files, request.root)
            await steps.run(
                fetching.command,
                writable=[request.root, slot.folder],
                env=_fill(fetching.fetching, home),
                doing=f"fetches what {', '.join(fetching.read[:3])} names",
            )
            if fetching.tool == "Gradle":
                (home / "init.d").mkdir(exist_ok=True)
                (home / "init.d/offline.gradle").write_text(OFFLINE_GRADLE)
            # The lock that fetching wrote is kept; what it compiled belongs to this copy alone.
            after = await asyncio.to_thread(list_files, request.root)
            others = {name: after[name] for name in after if not name.endswith((".lock", ".sum"))}
            kept = slot.folder / "made"
            locks = await asyncio.to_thread(keep_made, request.root, {**others, **before}, kept)
            slot.complete(Record(root=str(request.root), size=measure(slot.folder), made=locks))
    made = _describe(request, fetching, slot.folder / "home", cached=cached)
    return msgspec.structs.replace(made, readable=(*made.readable, *steps.registry.readable))


def _describe(request: Request, fetching: Fetching, home: Path | None, *, cached: bool) -> Environment:
    env = {name: value for name, value in fetching.offline.items() if home or "{home}" not in value}
    shown = (home,) if home else ()
    return Environment(
        preparation=Preparation(
            ecosystem=fetching.ecosystem,
            folder=request.folder,
            tool=fetching.tool,
            read=fetching.read,
            cached=cached,
        ),
        env={"PATH": format_path(), **(_fill(env, home) if home else env)},
        readable=() if fetching.is_writable else shown,
        writable=shown if fetching.is_writable else (),
    )


def _fill(variables: Mapping[str, str], home: Path) -> dict[str, str]:
    return {name: value.replace("{home}", str(home)) for name, value in variables.items()}


def _list_named(request: Request, names: Sequence[str]) -> tuple[str, ...]:
    """The files of these names anywhere in the project: members of a workspace have their own."""
    return tuple(sorted(name for name in list_files(request.place) if Path(name).name in names)[:2_000])


Preparer = Callable[[Request, Steps], Awaitable[Environment]]

FETCHED: dict[str, Preparer] = {"rust": prepare_rust, "go": prepare_go, "java": prepare_java}


async def prepare(
    root: Path,
    *,
    source: Path,
    cache: Path,
    note: Note,
    timeout: float,
    log: Path,
    folders: Collection[str] | None = None,
    reach: Reach | None = None,
    limit: int | None = None,
) -> tuple[Environment, ...]:
    """The environments of the projects in ``root``, a working copy of ``source``; ``cache`` keeps them.

    ``folders`` (relative to the repository) bounds which. What is being done goes to ``note``, what the
    steps print to ``log``. All together have ``timeout`` seconds. The steps reach the registries and
    ``reach``; the caches have ``limit`` bytes at most afterwards; both are as in the settings by default.
    What an ecosystem installs in place is installed in ``root``; a virtual environment is put beside it. A
    failure is in the preparation's ``problem``.
    """
    root, source = root.resolve(), source.resolve()
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"")
    deadline = time.monotonic() + timeout
    config = None
    with contextlib.suppress(ConfigError):
        config = settings.load()
    if reach is None and config:  # the hosts that the person's settings allow every command
        names = tuple(name.removeprefix("host:") for name in config.reach if name not in PUBLIC)
        reach = Reach(hosts=names, allow_private=names)
    projects = await asyncio.to_thread(find_projects, ProjectFiles(root))
    environments = []
    for project in projects:
        if folders is None or project.folder in folders:
            request = Request(
                root=root,
                source=source,
                folder=project.folder,
                cache=cache,
                note=note,
                deadline=deadline,
                log=log,
                reach=reach or Reach(),
            )
            environments.append(await _prepare_one(project, request))
    if any(not each.preparation.cached for each in environments):
        bound = config.environments_limit if config else LIMIT
        await asyncio.to_thread(clean, cache, bound if limit is None else limit)
    return tuple(environments)


async def _prepare_one(project: FoundProject, request: Request) -> Environment:
    started = time.monotonic()
    steps = Steps(request, project.ecosystem)
    try:
        environment = await _find_preparer(project)(request, steps)
    except ActionError as error:
        environment = _report_failure(project, steps, error)
    except (OSError, *UNFORESEEN) as error:
        logger(__name__).warning(
            "not_prepared", project=project.folder, exc_info=not isinstance(error, OSError)
        )
        environment = _report_failure(project, steps, ActionError(f"The environment cannot be made: {error}"))
    preparation = msgspec.structs.replace(
        environment.preparation,
        steps=tuple(steps.records),
        refused=steps.refused,
        notes=tuple(steps.notes),
        seconds=round(time.monotonic() - started, 3),
        log_path=str(request.log) if request.log.stat().st_size else "",
    )
    return msgspec.structs.replace(environment, preparation=preparation)


def _report_failure(project: FoundProject, steps: Steps, error: ActionError) -> Environment:
    cure = error.cure or (CURES.get(project.ecosystem, "") if steps.refused else "")
    made = Preparation(ecosystem=project.ecosystem, folder=project.folder, problem=error.cause, cure=cure)
    return Environment(preparation=made, env={"PATH": format_path()})


def _find_preparer(project: FoundProject) -> Preparer:
    """The preparer of a kind, imported when it is needed."""
    if project.kind == "python":
        from shared.projects.python import prepare_python

        return prepare_python
    if project.kind == "javascript":
        from shared.projects.javascript import prepare_javascript

        return prepare_javascript
    if project.kind in FETCHED:
        return FETCHED[project.kind]
    return lambda request, steps: _prepare_other(request, steps, project)


async def _prepare_other(request: Request, steps: Steps, project: FoundProject) -> Environment:
    """The environment of a project whose tools are only checked; raises ActionError if one is missing."""
    names = list_needs(project.kind, request.place)
    if project.kind == "c" and "meson" not in names and await asyncio.to_thread(_uses_meson, request.root):
        names = (*names, "meson", "ninja")
    missing = tuple(name for name in names if name in FROM_PYPI and not find_program(name))
    require_programs((name for name in names if name not in missing), f"the project ({project.kind})")
    fetched = await _fetch_tools(request, missing) if missing else None
    made = Preparation(ecosystem=project.ecosystem, folder=project.folder, tool=", ".join(names))
    if fetched is None:
        return Environment(preparation=made, env={"PATH": format_path()})
    steps.notes.append(f"{', '.join(missing)} came from the Python index, since this machine has none")
    venv, prefix = fetched
    path = (venv / "bin",)
    return Environment(preparation=made, env={"PATH": format_path(*path)}, path=path, readable=(venv, prefix))


def _uses_meson(root: Path) -> bool:
    """Whether the tests are those of Meson, although the project can be built otherwise too."""
    with contextlib.suppress(ActionError):
        return any(each.argv[0] == "meson" for each in read_project(root).tests.commands)
    return False


FROM_PYPI = {"meson": "meson", "ninja": "ninja", "cmake": "cmake"}
"""Programs that the Python index has too, by its name for them."""


async def _fetch_tools(request: Request, names: tuple[str, ...]) -> tuple[Path, Path]:
    """A virtual environment with the programs ``names``, and the prefix of its interpreter.

    Projects share it: none of their code runs while it is made. Raises ActionError.
    """
    import uv

    interpreter, _ = choose_interpreter("", "")
    slot = open_slot(request.cache, Path("/"), "tools", (*names, str(interpreter.path)))
    venv = slot.folder / "venv"
    async with hold(slot):
        if slot.read() is None:
            slot.begin()
            steps = Steps(request, "python")
            words = [FROM_PYPI[name] for name in names]
            env = {"UV_CACHE_DIR": str(slot.folder / "cache"), "UV_PYTHON_DOWNLOADS": "never"}
            make = ("venv", "--python", str(interpreter.path), "--no-project", str(venv))
            for arguments in (make, ("pip", "install", "--python", str(venv), *words)):
                await steps.run(
                    [uv.find_uv_bin(), *arguments],
                    cwd=slot.folder,
                    writable=[slot.folder],
                    readable=[interpreter.prefix],
                    env=env,
                    online=arguments is not make,
                    doing=f"installs {', '.join(words)}",
                )
            slot.complete(Record(root="", size=measure(slot.folder)))
    return venv, interpreter.prefix
