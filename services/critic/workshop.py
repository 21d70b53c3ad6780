"""A working copy of a repository in which its projects are prepared, for checkers that need that."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from services.critic.project_tools import Prepared
from services.critic.rerun import copy_tree, review_folder
from shared.projects.environment import Note
from shared.projects.preparation import prepare
from shared.settings import Settings


@asynccontextmanager
async def open_workshop(repo: Path, settings: Settings, note: Note) -> AsyncIterator[Prepared]:
    """A copy of ``repo`` with an environment for each of its projects; the copy is removed at the end.

    What is being prepared goes to ``note``. Raises ActionError if no copy can be made.
    """
    async with review_folder(settings.workspaces) as folder:
        copy = folder / "copy" / (repo.name or "root")
        await asyncio.to_thread(copy_tree, repo, copy, settings)
        environments = await prepare(
            copy,
            source=repo,
            cache=settings.environments,
            note=note,
            timeout=settings.command_timeout,
            log=folder / "preparing.log",
        )
        yield Prepared(root=copy.resolve(), environments=environments)
