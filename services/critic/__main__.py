"""Critic: checks code and results."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from services.critic import inspection, scans
from services.critic.claims import find_recorded_runs, tester_of
from services.critic.drift import find_rules
from services.critic.file_tools import sort_files
from services.critic.inspection import TOPICS, Topic
from services.critic.project_tools import clean_review_folders, open_workshop
from services.critic.rerun import Rerunner
from services.critic.review import add_reruns, by_repository, leave_open, review, settle
from services.critic.reviewer import judge_results, kinds_of
from shared.agent.base import Agent
from shared.agent.process import run
from shared.bus import Bus
from shared.bus.consumer import yield_slot
from shared.errors import NotApproved
from shared.projects.reading import ProjectFiles
from shared.projects.reading.locks import read_locked
from shared.settings import Settings
from shared.skills.workspace import require_readable
from shared.source import read_tree
from shared.tasks.actions import Outcome, register_action
from shared.tasks.context import telling
from shared.tasks.evidence import format_verdict
from shared.tasks.profiles import Profile
from shared.text.display import count, format_list

WHOLE = 2  # Inspections by every checker that run at the same time
REPO = {"repo": "Absolute path of the repository"}


class Critic(Agent):
    """Lints, scans, checks drift and reviews; it never changes what it looks at."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        super().__init__(profile, settings, bus)
        # Fewer than its tasks at once: a question about one thing does not wait for whole inspections.
        self._whole = asyncio.Semaphore(WHOLE)

    async def on_start(self) -> None:
        """Remove copies that a crash left behind."""
        await asyncio.to_thread(clean_review_folders, self.context.settings.workspaces)

    @register_action(
        "Lint a repository, scan it for vulnerabilities and secrets, and check its import rules", REPO
    )
    async def inspect_repository(self, repo: str) -> Outcome:
        """The Inspection in data key ``inspection``."""
        return await self._inspect(repo, TOPICS, drift=True)

    @register_action("Lint the code of a repository", REPO)
    async def lint(self, repo: str) -> Outcome:
        """The Inspection in data key ``inspection``, for lint alone; so are the others named below."""
        return await self._inspect(repo, ["lint"])

    @register_action("Scan the code and the workflows of a repository for vulnerabilities", REPO)
    async def scan_security(self, repo: str) -> Outcome:
        """What may be attacked in its own code; its dependencies are looked up by scan_dependencies."""
        return await self._inspect(repo, ["security"])

    @register_action("Scan the files of a repository for secrets", REPO)
    async def scan_secrets(self, repo: str) -> Outcome:
        """Where secrets are, never a secret itself."""
        return await self._inspect(repo, ["secrets"])

    @register_action("Look up known vulnerabilities of the dependencies that a repository locks", REPO)
    async def scan_dependencies(self, repo: str) -> Outcome:
        """Asks a person once for the registries that know them, unless they are granted."""
        return await self._inspect(repo, ["dependencies"])

    @register_action("Compare the dependencies that a repository locks with their newest releases", REPO)
    async def find_outdated(self, repo: str) -> Outcome:
        """Asks a person once for the registries that know them, unless they are granted."""
        sources = await asyncio.to_thread(lambda: sort_files(read_tree(Path(repo))))
        granted = await self._ask_for_registries(repo)
        return await scans.find_outdated(
            sources, timeout=self.context.settings.command_timeout, granted=granted
        )

    @register_action(
        "Read a text file of a repository, whole or some of its lines",
        {
            **REPO,
            "path": "Path of the file, relative to the repository",
            "start": "First line, from 1",
            "end": "Last line; 0 for the end of the file",
        },
    )
    async def read_source(self, repo: str, path: str, start: int = 1, end: int = 0) -> Outcome:
        """The lines with their numbers, at most 500; fails for what is no text, or not beneath the folder.

        What the policy would not let a command read needs a person too, or is denied.
        """
        found = await asyncio.to_thread(inspection.read_source, Path(repo), path, start, end)
        await require_readable(self.context, repo, path)
        return found

    @register_action("Check a repository's imports against the rules that it states about itself", REPO)
    async def check_drift(self, repo: str) -> Outcome:
        """The rules with their violations, and what was not checked."""
        return await self._inspect(repo, [], drift=True)

    @register_action(
        "Review the results of a goal's tasks: approve them, or name those to be done again",
        {
            "results": "The results by task name, each with status, output, metadata and evidence_refs; "
            "perhaps repo, task (the words), success_criteria and journal of the task, and judged: whether a "
            "model is to judge it (default: where there is something to judge)",
            "repo": "Absolute path of the repository they are about, to look up and run what they claim",
            "goal": "What was asked for",
        },
    )
    async def review(self, results: dict[str, Any], repo: str = "", goal: str = "") -> Outcome:
        """The Verdict in data key ``verdict``, what was run again in ``runs``.

        Claims are looked up, and run again in the jail if possible; the verdict says what could not be run.
        A model judges what that leaves open, by the patch and the record. The critic approves nothing at its
        own request.
        """
        own = self.context.profile.name
        root = Path(repo) if repo else None
        asked = goal or self.context.task.text
        recorded = await asyncio.to_thread(find_recorded_runs, results)
        settings = self.context.settings
        async with telling(self.context.progress, "the claims are checked"), AsyncExitStack() as kept:
            rerunner = Rerunner(settings, own_name=own, tester=tester_of(self.context), kept=kept)
            for place, sure, group in await asyncio.to_thread(by_repository, results, root, asked):
                if place is not None:  # else there is little to look up, which takes no time
                    await self.context.progress("looks up what is claimed, and runs it again")
                folders = (settings.outputs, settings.workspaces, *((place,) if place and sure else ()))
                await rerunner.run(group, place, folders, is_target_sure=sure, recorded=recorded)
            verdict = add_reruns(await asyncio.to_thread(review, results, root), rerunner.record)
            verdict = await judge_results(self.context, results, asked, verdict, rerunner)
        verdict = settle(verdict, results, has_model=self.context.models.model.available)
        kinds = {*kinds_of(results), *self.context.current_task.facts.get("kinds", ())}
        verdict = msgspec.structs.replace(verdict, kinds=tuple(sorted(kinds)))
        if self.context.task.requester == own:
            verdict = leave_open(verdict, f"{own} asks for it itself, and approves nothing of its own")
        data = {"verdict": verdict.to_dict(), "runs": rerunner.record.runs}
        said = "\n".join([format_verdict(verdict), *(f"- {reason}" for reason in verdict.reasons)])
        return Outcome(output=said, data=data)

    async def _ask_for_registries(self, repo: str) -> frozenset[str]:
        """What may be reached, after a person was asked for all registries of the locked packages at once."""
        tree = await asyncio.to_thread(read_tree, Path(repo))
        packages = await asyncio.to_thread(read_locked, ProjectFiles(tree.root), tree.files)
        granted = await self.context.granted_reach()
        if lacking := scans.list_lacking(packages, granted):
            hosts = format_list([source.address.removeprefix("https://") for source in lacking])
            with suppress(NotApproved):  # what is not looked up for that is named in the result
                granted |= await self.context.approvals.require(
                    f"Ask {hosts} about the {count(len(packages), 'package')} that {repo} locks",
                    rule="dependencies",
                    why="they know newest releases and vulnerabilities; names and versions are sent",
                    reach=[source.entry for source in lacking],
                )
        return granted

    @asynccontextmanager
    async def _take_turn(self) -> AsyncIterator[None]:
        """A whole inspection's turn; one that waits for it takes no place of a question's."""
        if self._whole.locked():
            async with yield_slot():
                await self._whole.acquire()
        else:
            await self._whole.acquire()
        try:
            yield
        finally:
            self._whole.release()

    async def _inspect(self, repo: str, topics: Collection[Topic], *, drift: bool = False) -> Outcome:
        # A whole check-up waits for nobody: it uses what is granted.
        asks = [*topics] == ["dependencies"]
        granted = await (self._ask_for_registries(repo) if asks else self.context.granted_reach())
        place = self._take_turn() if len(topics) > 1 else nullcontext()
        async with telling(self.context.progress, "the checkers run"), place:
            found = await inspection.inspect_repository(
                Path(repo),
                timeout=self.context.settings.command_timeout,
                topics=topics,
                drift=drift,
                granted=granted,
                workshop=partial(open_workshop, Path(repo), self.context.settings, self.context.progress),
                reader=partial(find_rules, self.context) if self.context.models.model.available else None,
            )
        return inspection.conclude(found)


if __name__ == "__main__":
    run(Critic, __file__)
