"""Prepares every project of a repository: what it says it needs is installed in an environment of its own."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path

import msgspec

from shared import settings
from shared.contracts import Preparation
from shared.errors import ActionError, ConfigError
from shared.gate.registries import PUBLIC
from shared.log import logger
from shared.projects.environment import Environment, Note, Request, format_path
from shared.projects.environments import LIMIT, clean
from shared.projects.fetched import prepare_go, prepare_java, prepare_rust
from shared.projects.reading.project_files import UNFORESEEN, ProjectFiles
from shared.projects.reading.recognition import FoundProject, find_projects
from shared.projects.steps import CURES, Steps
from shared.projects.toolchains import list_needs, require_programs
from shared.sandbox import Reach
from shared.settings import Settings

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
    config = _read_settings()
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
                reach=reach or _allow_hosts(config),
            )
            environments.append(await _prepare_one(project, request))
    if any(not each.preparation.cached for each in environments):
        bound = config.environments_limit if config else LIMIT
        await asyncio.to_thread(clean, cache, bound if limit is None else limit)
    return tuple(environments)


def _read_settings() -> Settings | None:
    try:
        return settings.load()
    except ConfigError:
        return None


def _allow_hosts(config: Settings | None) -> Reach:
    """The hosts that the person's settings allow every command."""
    names = [name.removeprefix("host:") for name in config.reach if name not in PUBLIC] if config else []
    return Reach(hosts=tuple(names), allow_private=tuple(names))


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
    preparation = Preparation(
        ecosystem=project.ecosystem, folder=project.folder, problem=error.cause, cure=cure
    )
    return Environment(
        preparation=preparation,
        folder=project.folder,
        ecosystem=project.ecosystem,
        env={"PATH": format_path()},
    )


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
    require_programs(names, f"the project ({project.kind})")
    preparation = Preparation(ecosystem=project.ecosystem, folder=project.folder, tool=", ".join(names))
    return Environment(
        preparation=preparation,
        folder=project.folder,
        ecosystem=project.ecosystem,
        env={"PATH": format_path()},
    )
