"""Which process of an agent a task belongs to: one on a host that has what the task works with.

In an office of one host none of this happens.
"""

import asyncio
import functools
import re
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from shared.agent.context import AgentContext
from shared.agent.executor import time_left
from shared.bus import Delivery
from shared.bus.consumer import yield_slot
from shared.bus.records import read_task
from shared.contracts import TOKEN, Task, decode
from shared.errors import Postponed, TakenOver
from shared.sandbox.jail import search_path
from shared.tasks.context import goal_of, workspace_name
from shared.tasks.said import PATH, words_in

ASK_EVERY = 0.5  # Seconds between two questions whether a process that has what is needed has a free slot
OTHER_SHORTCUTS = frozenset({"make", "just", "task"})
"""Beside the manifest of a language they are a shortcut to its own tools."""
MOST_FOLDERS = 8  # Of how many of the folders that a task names the tool chains are looked at

Offer = Callable[[Delivery, tuple[str, ...]], Awaitable[bool | None]]


class Placing:
    """Hands tasks to the processes that have what they need; ``offer`` asks the others, see Peers.offer."""

    def __init__(self, context: AgentContext, offer: Offer) -> None:
        self._context, self._offer = context, offer
        self._bus = context.bus

    async def place(self, delivery: Delivery, task: Task) -> str:
        """Why nobody can do ``task``, empty if this process is to do it.

        Raises TakenOver if another process has it now. While that has no free slot it is waited for, without
        a slot of this one; Postponed if it is gone then.
        """
        if delivery.adopted or self._bus.name not in self._context.travelling.roles():
            return ""
        lost = await self._context.travelling.kept_elsewhere(
            goal_of(task), {workspace_name(task), *task.starts_from}
        )
        needs = (*lost, *await asyncio.to_thread(lambda: tuple(self._list_missing(task))))
        if not needs:
            return ""
        found = await self._hand_over(delivery, needs)
        if found is None:
            async with yield_slot(unbegun=True):
                while found is None and time_left(task) > 0:
                    await asyncio.sleep(ASK_EVERY)
                    state = await read_task(self._bus, task)
                    found = False if state is None or state.status.final else None
                    if found is None:
                        found = await self._hand_over(delivery, needs)
            raise Postponed("the process that has what it needs is gone, or its time is up")
        gone = [f"{name}, which is on the host {host} alone" for name, host in lost.items() if host]
        if not gone:
            return ""  # what nobody has may be no path at all, or not be needed; or its older state is here
        return (
            f"No process of {self._bus.name} has {', '.join(gone)}: it was too large to travel. "
            "Start that host again and retry the goal, or have it work on less"
        )

    async def _hand_over(self, delivery: Delivery, needs: tuple[str, ...]) -> bool | None:
        """None if a process that has what it needs has no free slot, False if none has it."""
        paths = tuple(each for each in needs if each.startswith("/"))
        rest = tuple(each for each in needs if not each.startswith("/"))
        # What looks like a path may be none, or not be there yet.
        for wanted in (needs, *filter(None, (rest, paths) if paths and rest else ())):
            found = await self._offer(delivery, wanted)
            if found:
                raise TakenOver(f"another process has {', '.join(wanted)[:300]}")
            if found is None:
                return None
        return False

    async def fits(self, data: bytes, needs: tuple[str, ...]) -> bool:
        """Whether this process can do the task in ``data``, of which another one lacks ``needs``.

        It is not said of paths that the task does not name.
        """
        task = decode(data)
        if not isinstance(task, Task):
            return False
        known = set(_paths(task))
        paths = [each for each in needs if each.startswith("/")]
        rest = [each for each in needs if not each.startswith("/")]

        def check() -> bool:
            there = not paths or any(each in known and _exists(each) for each in paths)
            return there and all(map(self._has, rest))

        return await asyncio.to_thread(check)

    def _has(self, need: str) -> bool:
        if "/" in need:  # goal/workspace
            names = need.split("/")
            return (
                all(map(TOKEN.fullmatch, names))
                and self._context.settings.workspaces.joinpath(*names).is_dir()
            )
        return has_tool(need)

    def _list_missing(self, task: Task) -> Iterator[str]:
        """The paths that a task names and this host lacks, and the tool chains that the others need."""
        state = str(self._context.settings.state_dir.resolve())
        folders = 0
        for path in _paths(task):
            if "/inputs/" not in path and not path.startswith(state) and not _exists(path):
                yield path
            elif folders < MOST_FOLDERS and Path(path).is_dir():
                folders += 1
                yield from (need for need in list_tools(Path(path)) if not has_tool(need))


def _paths(task: Task) -> list[str]:
    found = PATH.findall(words_in(task.text, task.context))
    return list(dict.fromkeys(path.rstrip(".:") for path in found))


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):
        return False


# --- tool chains -------------------------------------------------------------------------------------


def list_tools(folder: Path) -> list[str]:
    """The programs that the project in ``folder`` needs, with versions as it says them: ``go>=1.22``."""
    from shared.projects.reading.project import KINDS, OTHERS
    from shared.projects.reading.project_files import ProjectFiles, get_table
    from shared.projects.toolchains import list_needs

    files = ProjectFiles(folder)
    kinds = [kind for kind, recognise in KINDS.items() if recognise(files)]
    if not set(kinds) <= OTHERS.keys():
        kinds = [kind for kind in kinds if kind not in OTHER_SHORTCUTS]
    cargo = files.table("Cargo.toml")
    stated = {
        "go": (
            "go",
            f">={found[1]}" if (found := re.search(r"(?m)^go\s+(\S+)", files.text("go.mod"))) else "",
        ),
        "rust": ("cargo", get_table(cargo, "package").get("rust-version")),
        "javascript": ("node", get_table(files.table("package.json"), "engines").get("node")),
        "python": ("python", get_table(files.table("pyproject.toml"), "project").get("requires-python")),
    }
    tools: list[str] = []
    for kind in kinds:
        if kind not in stated:
            tools += list_needs(kind, folder)
            continue
        program, version = stated[kind]
        wanted = version if isinstance(version, str) else ""
        tools.append(f"{program}>={wanted}" if kind == "rust" and wanted else f"{program}{wanted}")
    return tools


def has_tool(need: str) -> bool:
    """Whether a program is on this host, in the version that ``need`` asks for if it names one."""
    from shared.projects.javascript import fits_engines
    from shared.projects.toolchains import find_interpreters, find_program

    found = re.match(r"[a-z]+", need)
    program, wanted = (need[: found.end()], need[found.end() :]) if found else (need, "")
    if program == "python":
        return any(each.fits(wanted) for each in find_interpreters())
    path = find_program(program)
    if not path or not wanted:
        return bool(path)
    version = _ask_version(path, Path(path).stat().st_mtime_ns)
    return not version or fits_engines(version, wanted)


@functools.lru_cache(maxsize=64)
def _ask_version(path: str, _: int) -> str:
    """The version that a program tells; empty if it tells none."""
    words = [path, "version" if Path(path).name == "go" else "--version"]
    env = {"PATH": search_path(), "HOME": str(Path.home()), "GOTOOLCHAIN": "local"}
    try:
        told = subprocess.run(
            words, cwd="/", env=env, capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r"\d+\.\d+(?:\.\d+)?", told.stdout)
    return found[0] if found else ""
