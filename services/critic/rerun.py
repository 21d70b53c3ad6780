"""Running again what results claim: in the jail, on a copy, so that nobody's word is taken for it."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from services.critic.claims import Claims, read_claims
from services.critic.code_check import apply_patch, check_files, find_violations
from services.critic.copying import copy_tree, trial_folder
from services.critic.docket import Docket, Rerun
from services.critic.lint import lint
from services.critic.repetition import Judge, repeat_tests
from shared.contracts import TaskStatus
from shared.errors import ActionError
from shared.settings import Settings
from shared.source.tree import read_tree


class Rerunner:
    """Runs claims again in copies among the workspaces, each for at most the setting ``command_timeout``."""

    def __init__(self, settings: Settings, judge: Judge, *, own_name: str) -> None:
        self._settings = settings
        self._judge = judge
        self._own_name = own_name
        self._docket = Docket(settings.command_timeout)

    async def run(
        self,
        results: Mapping[str, Any],
        repo: Path | None,
        folders: tuple[Path, ...],
        *,
        sure: bool = True,
    ) -> Rerun:
        """Run again what the completed among ``results`` claim; what cannot be run is said.

        Files count where they lie beneath ``folders``; without a ``repo`` no test and no patch is run.
        Whether that is what patches are for may not be ``sure``.
        """
        claims = [
            await asyncio.to_thread(read_claims, name, result, folders)
            for name, result in results.items()
            if isinstance(result, Mapping) and result.get("status") == TaskStatus.COMPLETED
        ]
        for claim in claims:
            for path in claim.missing:
                self._docket.refute(claim.task, f"it names a file that is not there: {path}")
            if claim.author == self._own_name:
                await self._repeat_own(claim, repo)
        try:
            if any(claim.tests or claim.patches or claim.files for claim in claims):
                async with trial_folder(self._settings.workspaces) as trial:
                    await self._run_all(claims, repo, trial, sure)
        except ActionError as error:
            for claim in _runnable(claims):
                self._docket.leave(claim.task, str(error))
        return self._docket.close()

    async def _run_all(self, claims: Sequence[Claims], repo: Path | None, trial: Path, sure: bool) -> None:
        for number, claim in enumerate(claims):
            await check_files(self._docket, claim, trial / f"files-{number}")
        if not _runnable(claims):
            return
        if repo is None:
            for claim in _runnable(claims):
                self._docket.leave(claim.task, "there is no repository to run it on")
            return
        copy = trial / "copy" / (repo.name or "root")
        await asyncio.to_thread(copy_tree, repo, copy, self._settings)
        left = self._docket.left
        copy = await self._apply_all(claims, repo, copy, trial, sure)
        if self._docket.left > left:
            # Without the changes they were made with, tests tell nothing.
            for claim in claims:
                if claim.tests:
                    self._docket.leave(claim.task, "what was changed could not be put in place")
            return
        for claim in claims:
            if claim.tests:
                await repeat_tests(self._docket, claim, self._judge, repo, copy)

    async def _apply_all(
        self, claims: Sequence[Claims], repo: Path, copy: Path, trial: Path, sure: bool
    ) -> Path:
        """The copy with every patch, each checked, also for rules that it is the first to break."""
        patches = [(claim.task, patch) for claim in claims for patch in claim.patches]
        before = await asyncio.to_thread(find_violations, copy) if patches else {}
        renew = partial(copy_tree, repo, settings=self._settings)
        for number, (task, patch) in enumerate(patches):
            copy = await apply_patch(
                self._docket, task, patch, copy=copy, renew=renew, trial=trial, number=number, sure=sure
            )
            after = await asyncio.to_thread(find_violations, copy)
            for key in after.keys() - before.keys():
                self._docket.refute(task, after[key])
            before |= after
        return copy

    async def _repeat_own(self, claim: Claims, repo: Path | None) -> None:
        """Nobody vouches for the critic's own work either: its lint is done again and counted."""
        if claim.linted < 0 or repo is None:
            self._docket.leave(claim.task, "it is the critic's own, which it does not vouch for")
            return
        again = await lint(await asyncio.to_thread(read_tree, repo), timeout=self._docket.timeout)
        self._docket.note(claim.task, "ruff", findings=again.tool.findings)
        if again.tool.version and again.tool.findings != claim.linted:
            counts = f"{claim.linted} findings of ruff are claimed, {again.tool.findings} were made again"
            self._docket.refute(claim.task, counts)


def _runnable(claims: Sequence[Claims]) -> list[Claims]:
    """Those that claim what needs a repository to be run."""
    return [claim for claim in claims if claim.tests or claim.patches]
