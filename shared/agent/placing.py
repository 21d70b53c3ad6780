"""Which process of an agent a task belongs to: one on a host that has what the task works with.

In an office of one host none of this happens.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from shared.agent.context import AgentContext
from shared.agent.executor import time_left
from shared.bus import Delivery
from shared.bus.consumer import yield_slot
from shared.bus.records import read_task
from shared.contracts import TOKEN, Task, decode
from shared.errors import ActionError, Postponed, TakenOver
from shared.sandbox import run_command
from shared.tasks.context import goal_of, workspace_name
from shared.tasks.said import PATH, words_in

ASK_EVERY = 0.5  # Seconds between two questions whether a process that has what is needed has a free slot
MOST = 16  # How much of what a task names is asked for
VERSIONS = {"go": "version", "cargo": "--version", "node": "--version"}
"""The argument with which a program tells its version; others are not asked for one."""
AWAY = 10.0  # Seconds for which a host is waited for that alone has what is needed: it may start again

Offer = Callable[[Delivery, str], Awaitable[bool | None]]


class Placing:
    """Hands tasks to the processes that have what they need; ``offer`` asks the others, see Peers.offer."""

    def __init__(self, context: AgentContext, offer: Offer) -> None:
        self._context, self._offer = context, offer
        self._bus = context.bus
        self._versions: dict[tuple[str, int], str] = {}

    async def place(self, delivery: Delivery, task: Task) -> str:
        """Why nobody can do ``task``, empty if this process is to do it.

        Raises TakenOver if another process has it now. While that has no free slot it is waited for, without
        a slot of this one; Postponed if it is gone then.
        """
        if delivery.adopted or self._bus.name not in self._context.travelling.roles():
            return ""
        travelling, began = self._context.travelling, time.monotonic()
        lost = await travelling.kept_elsewhere(goal_of(task), {workspace_name(task), *task.starts_from})
        needs = [*lost, *await self._list_missing(task)][:MOST]
        alone = [f"{name}, which is on the host {host} alone" for name, host in lost.items() if host]
        found = await self._hand_over(delivery, needs)
        if found is False and not alone:
            return ""  # what nobody has may be no path at all, or not be needed; or its older state is here
        async with yield_slot(unbegun=True):
            while found is None or (alone and time.monotonic() < began + AWAY):
                await asyncio.sleep(ASK_EVERY)
                state = await read_task(self._bus, task)
                if state is None or state.status.final or time_left(task) <= 0:
                    return ""
                found = await self._hand_over(delivery, needs)
        if not alone:
            raise Postponed("the process that has what it needs is gone")
        return (
            f"No process of {self._bus.name} has {', '.join(alone)}: it was too large to travel. "
            "Start that host again and retry the goal, or have it work on less"
        )

    async def _hand_over(self, delivery: Delivery, needs: Iterable[str]) -> bool | None:
        """None if a process that has something of it has no free slot, False if none has."""
        for need in needs:
            found = await self._offer(delivery, need)
            if found:
                raise TakenOver(f"another process has {need[:300]}")
            if found is None:
                return None
        return False

    async def fits(self, data: bytes, need: str) -> bool:
        """Whether this process has what another one lacks for the task in ``data``.

        It is not said of paths that the task does not name.
        """
        task = decode(data)
        if not isinstance(task, Task):
            return False
        if need.startswith("/"):
            return need in _paths(task) and _exists(need)
        goal, is_workspace, name = need.partition("/")
        if is_workspace:
            there = self._context.settings.workspaces / goal / name
            return bool(TOKEN.fullmatch(goal) and TOKEN.fullmatch(name)) and there.is_dir()
        return await self._has_tool(need)

    async def _list_missing(self, task: Task) -> list[str]:
        """The paths that a task names and this host lacks, and the tool chains that the others need."""
        state = f"{self._context.settings.state_dir.resolve()}/"

        def look() -> tuple[list[str], list[str]]:
            paths = [path for path in _paths(task) if "/inputs/" not in path and not path.startswith(state)]
            tools = [need for path in _paths(task) if _exists(path) for need in list_tools(Path(path))]
            return [path for path in paths if not _exists(path)], tools

        missing, tools = await asyncio.to_thread(look)
        return [*missing, *[each for each in tools if not await self._has_tool(each)]]

    async def _has_tool(self, need: str) -> bool:
        """Whether a program is on this host, in the version that ``need`` asks for if it names one."""
        from shared.projects.javascript import fits_engines
        from shared.projects.toolchains import find_interpreters, find_program

        program, wanted = re.split(r"(?=[^a-z]|$)", need, maxsplit=1)
        if program == "python":
            return any(each.fits(wanted) for each in await asyncio.to_thread(find_interpreters))
        path = find_program(program)
        if not path or not wanted or program not in VERSIONS:
            return bool(path)
        version = await self._ask_version(path, VERSIONS[program])
        return not version or fits_engines(version, wanted)

    async def _ask_version(self, path: str, argument: str) -> str:
        """The version that a program tells, in the jail as any other; empty if it tells none."""
        key, folder = (path, Path(path).stat().st_mtime_ns), self._context.settings.workspaces
        if key not in self._versions:
            folder.mkdir(parents=True, exist_ok=True)
            try:
                env = {"GOTOOLCHAIN": "local"}
                told = await run_command([path, argument], cwd=folder, timeout=10.0, env=env)
            except ActionError:
                return ""
            found = re.search(r"\d+\.\d+(?:\.\d+)?", told.output)
            self._versions[key] = found[0] if found else ""
        return self._versions[key]


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
    go = re.search(r"(?m)^go\s+(\S+)", files.text("go.mod"))
    stated = {
        "go": ("go>=", go and go[1]),
        "rust": ("cargo>=", get_table(files.table("Cargo.toml"), "package").get("rust-version")),
        "javascript": ("node", get_table(files.table("package.json"), "engines").get("node")),
        "python": ("python", get_table(files.table("pyproject.toml"), "project").get("requires-python")),
    }
    tools: list[str] = []
    for kind in [each for each in kinds if each not in OTHERS] or kinds:
        program, version = stated.get(kind, ("", None))
        known = (f"{program}{version}" if isinstance(version, str) else program.rstrip(">="),)
        tools += known if program else list_needs(kind, folder)
    return tools
