"""The table of checkers: which tool looks at which files, and running them side by side."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Literal

import msgspec

from services.critic import file_tools
from services.critic.file_tools import ANY, KINDS, FileTool, Sources, missed
from services.critic.findings import Check
from services.critic.project_tools import REPLACED, TOOLS, Workshop, check_projects, is_replaced, kinds_of
from services.critic.scans import lint, scan_secrets, scan_security
from services.critic.vulnerabilities import NAME, look_up
from shared.contracts.checkup import NotChecked
from shared.errors import ActionError
from shared.text.display import format_list

Topic = Literal["lint", "security", "secrets", "dependencies"]
TOPICS: tuple[Topic, ...] = ("lint", "security", "secrets", "dependencies")
AT_ONCE = 2  # Checkers that run at the same time: each may use a core and some hundred megabytes


class Checker(msgspec.Struct, frozen=True, kw_only=True):
    """A tool, its topic, the kinds of files it looks at, and its run within ``timeout`` seconds."""

    name: str
    topic: Topic
    kinds: tuple[str, ...]
    check: Callable[..., Awaitable[Check]]


def _row(tool: FileTool, topic: Topic, *kinds: str) -> Checker:
    return Checker(name=tool.name, topic=topic, kinds=kinds, check=partial(tool.check, kinds=kinds))


CHECKERS = (
    Checker(name="ruff", topic="lint", kinds=("Python",), check=lint),
    Checker(name="bandit", topic="security", kinds=("Python",), check=scan_security),
    Checker(name="secret scan", topic="secrets", kinds=(ANY,), check=scan_secrets),
    _row(file_tools.OXLINT, "lint", "JavaScript", "TypeScript"),
    _row(file_tools.SHELLCHECK, "lint", "shell"),
    _row(file_tools.HADOLINT, "lint", "Dockerfile"),
    _row(file_tools.ZIZMOR, "security", "workflow"),
)


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What the checkers of some topics did, and what of the repository was looked at, and what was not."""

    checks: tuple[Check, ...] = ()
    looked_at: tuple[str, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()


async def run_checkers(
    sources: Sources,
    topics: Collection[Topic],
    *,
    timeout: float,
    granted: Collection[str] = (),
    workshop: Workshop | None = None,
) -> Checked:
    """Run every checker of ``topics`` for whose kind there are files, at most AT_ONCE at the same time.

    ``granted`` is the reach that they may use, ``workshop`` prepares the projects for those that need it.
    """
    wider = Checker(name=NAME, topic="dependencies", kinds=(ANY,), check=partial(look_up, granted=granted))
    wanted = [row for row in (*CHECKERS, wider) if row.topic in topics and sources.files(row.kinds)]
    places = asyncio.Semaphore(AT_ONCE)

    async def run(row: Checker) -> Check:
        async with places:
            try:
                return await row.check(sources, timeout=timeout)
            except ActionError as error:
                return missed(row.name, sources, row.kinds, error.cause, error.cure)

    async def run_projects() -> list[Check]:
        async with places:
            return await check_projects(sources, workshop, timeout=timeout) if "lint" in topics else []

    projects, done = await asyncio.gather(run_projects(), asyncio.gather(*map(run, wanted)))
    pairs = [(row.kinds, check) for row, check in zip(wanted, done, strict=True)]
    pairs += [(kinds_of(check), check) for check in projects]
    replaced = is_replaced(projects)
    told = [
        (kinds, check)
        for kinds, check in pairs
        if (check.tool.files or check.not_checked) and not (replaced and check.tool.name == REPLACED)
    ]
    checks = [check for _, check in told]
    seen = {kind for kinds, check in told if check.tool.files for kind in kinds}
    gaps = [gap for check in checks for gap in check.not_checked]
    gaps += _without_checker(sources, topics)
    gaps += sources.gaps
    return Checked(
        checks=tuple(checks), looked_at=_looked_at(sources, seen, checks), not_checked=_joined(gaps)
    )


def _looked_at(sources: Sources, done: Collection[str], checks: Sequence[Check]) -> tuple[str, ...]:
    """What was looked at, as a person counts it: ``41 Python files``, ``120 files for secrets``."""
    found = [
        KINDS[kind].count(len(sources.kinds[kind]))
        for kind in KINDS
        if kind in done and kind in sources.kinds
    ]
    return (*found, *(check.looked for check in checks if check.looked))


def _without_checker(sources: Sources, topics: Collection[Topic]) -> list[NotChecked]:
    """The kinds of code that no checker looks at: at all, or for security if only that is asked for."""
    if not {"lint", "security"} & set(topics):
        return []
    covered = {kind for row in CHECKERS if "lint" in topics or row.topic in topics for kind in row.kinds}
    covered |= {kind for tool in TOOLS for kind in tool.kinds} if "lint" in topics else set()
    asked = "no checker" if "lint" in topics else "no security checker"
    return [
        NotChecked(what=KINDS[kind].count(len(files)), why=f"Mailroom has {asked} for them")
        for kind, files in sources.kinds.items()
        if kind in KINDS and kind not in covered
    ]


def _joined(gaps: Sequence[NotChecked]) -> tuple[NotChecked, ...]:
    """Each reason once, with all that was not checked for it."""
    groups: dict[tuple[str, str], list[str]] = {}
    for gap in gaps:
        groups.setdefault((gap.why, gap.cure), []).append(gap.what)
    return tuple(
        NotChecked(what=format_list(list(dict.fromkeys(what)), 12), why=why, cure=cure)
        for (why, cure), what in groups.items()
    )
