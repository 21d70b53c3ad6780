import asyncio
import contextlib
import os
import re
import shlex
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from services.engineer import report
from services.engineer.git import read_history
from services.engineer.report import deliver, make_patch, read_patch
from services.engineer.testing import Limits, Site, discover, prepare_tests, run_tests
from services.engineer.working_copy import (
    COPIES,
    WorkingCopy,
    list_tree,
    remove_without_end,
    require_folder,
    tell_rules,
    working_copy,
)
from shared import subjects
from shared.agent.base import Agent
from shared.agent.process import run
from shared.bus import Bus
from shared.contracts import HistoryReading, Task, TestRun
from shared.errors import ActionError
from shared.files import write_atomically
from shared.gate.registries import open_reach
from shared.projects.environments import find_surroundings, format_path
from shared.projects.reading.discovery import Discovery
from shared.sandbox.confined import ConfinedFolder
from shared.settings import Settings
from shared.skills.clones import Base
from shared.skills.files import apply_patch
from shared.skills.git import new_folder
from shared.skills.origins import Origin, bases_path, note_origin, read_origins
from shared.skills.shell import require_command, shell
from shared.skills.workspace import (
    OK_CODES,
    ExitCodes,
    changing,
    commands_of,
    open_workspace,
    origin_of,
    outputs_path,
    records_path,
    require_source,
    run_recorded,
    shorten,
    slug,
)
from shared.tasks.actions import Outcome, register_action
from shared.tasks.context import inputs_path, telling, workspace_path
from shared.tasks.profiles import Profile
from shared.text.display import quote
from shared.text.prose import PATH_IN_TEXT

REPO = {"repo": "Absolute path of the repository"}
PERIOD_LIMIT = 50  # The most commits of a period that are listed
FOLDER = {"folder": "Name of the project's folder in the workspace"}


class Engineer(Agent):
    """Works with files, the shell and git, on copies: what it changes it hands over as a patch."""

    def __init__(self, profile: Profile, settings: Settings, bus: Bus) -> None:
        super().__init__(profile, settings, bus)
        self._cores = asyncio.Semaphore(max(1, int(profile.options.get("tests_at_once", 2))))
        self._before: tuple[str, Path, TestRun] = ("", Path(), TestRun())

    async def on_start(self) -> None:
        """Begin to remove what is kept no longer."""
        self.context.spawn(remove_without_end(self.context.bus, self.context.settings))

    async def on_task(self, task: Task) -> Outcome:
        """Do a task; the result of one given as text ends with what was changed and which commands were run.

        If it fails, what was changed until then is kept as partial, and the reason says where.
        """
        workspace = workspace_path(self.context.settings, task)
        if not task.context.get("action"):
            await asyncio.to_thread(self._recall_tests, task.task_id)
        try:
            outcome = await super().on_task(task)
        except ActionError as error:
            if task.context.get("action") or not workspace.is_dir():
                raise
            with contextlib.suppress(ActionError):  # why the task failed matters more
                unfinished = await self._deliver(self._changes() / "partial")
                made = (*unfinished.patches, *unfinished.files)
                self.context.current_task.record_partial(0, (), made)
                error = report.add_partial(error, made, workspace)
            raise error from None
        if task.context.get("action"):
            return outcome
        if workspace.is_dir():
            delivery = await self._deliver(self._changes())
            commands = commands_of(self.context)
            # Where a review's objections changed nothing, what was run before it still holds.
            if bool(task.continues) and await asyncio.to_thread(
                self._is_unchanged, delivery.patches, task.continues
            ):
                commands = [*commands_of(self.context, task.continues), *commands]
                await asyncio.to_thread(self._recall_tests, task.continues)
            origin = partial(origin_of, self.context)
            outcome = report.report_delivery(outcome, delivery, commands, workspace, origin)
            self.context.current_task.add_changes(outcome.data["patch_targets"])
        outcome = report.judge_words(outcome, self.context.current_task.facts)
        return report.judge_merge(outcome, await asyncio.to_thread(self._find_conflicts, workspace))

    def _recall_tests(self, task_id: str) -> None:
        """Count the last run of the tests for a task, unless this attempt has run them."""
        with contextlib.suppress(OSError, ValueError):
            known = records_path(self.context, task_id).with_suffix(".tests").read_bytes()
            self.context.current_task.facts.setdefault("tests", TestRun.from_json(known).to_dict())

    def _is_unchanged(self, patches: Sequence[str], task_id: str) -> bool:
        """Whether ``patches`` are those of an earlier task, by name and content."""
        earlier = sorted((self._changes().parent / task_id).glob("*.patch"))
        now = sorted(map(Path, patches))
        return [each.name for each in earlier] == [each.name for each in now] and all(
            a.read_bytes() == b.read_bytes() for a, b in zip(earlier, now, strict=True)
        )

    async def prepare(self, task: Task) -> str:
        """Copy the project that the task names into the workspace, if it names one that may be read."""
        found = PATH_IN_TEXT.finditer(task.text)
        # A home that nobody has, and a name that no file can have, are no folders, and no error.
        named = {os.path.expanduser(each["quoted"] or each["bare"].rstrip(".,;:!?)")) for each in found}  # noqa: PTH111
        folders = [path for path in named if await asyncio.to_thread(os.path.isdir, path)]
        if len(folders) != 1:
            return ""
        try:
            copied = await self.copy_project(folders[0])
        except ActionError as error:  # the model is told when it tries
            self.context.log.info("not_copied", folder=folders[0], reason=str(error))
            return ""
        name = str(copied.data["folder"])
        place = workspace_path(self.context.settings, task) / name
        files = quote("Its files", await asyncio.to_thread(list_tree, place), "repository")
        told = f"{copied.output}. Paths in it begin with {name}/.\n{files}"
        return "\n\n".join(filter(None, (told, await asyncio.to_thread(tell_rules, place, name))))

    @register_action("Find out how a project is tested, and run its tests in a copy of it", REPO)
    async def run_tests(self, repo: str) -> Outcome:
        """A TestRun in data key ``tests``; failing tests, or none that can be run, are findings."""
        return report.report_tests(*await self._test(require_folder(repo)))

    @register_action(
        "Apply a patch to a copy of a project and run its tests there; the project itself is left alone",
        {**REPO, "patch": "The patch, as a unified diff"},
    )
    async def try_patch(self, repo: str, patch: str) -> Outcome:
        """A TestRun in data key ``tests``; raises ActionError if the patch does not fit.

        It is delivered as the goal's patch, unless it was tried for another agent, such as for a review.
        """
        if not patch.strip():
            raise ActionError("The patch is empty", "Give a unified diff, as 'git diff' prints it")
        source = await require_source(self.context, repo)
        outcome = await self._try(source, f"{patch}\n".encode("utf-8", "replace"))
        if self.context.task.requester not in (subjects.CONDUCTOR, subjects.USER):
            return outcome
        path = outcome.output_paths[-1]
        delivered = {"patches": [path], "patch_targets": [{"path": path, "folder": str(source)}]}
        return msgspec.structs.replace(outcome, data={**outcome.data, **delivered})

    @register_action(
        "Copy a project into the workspace, uncommitted changes included, to work on it there",
        {**REPO, "folder": "Name of its folder in the workspace; empty for the project's own name"},
    )
    async def copy_project(self, repo: str, folder: str = "") -> Outcome:
        """The copy has a history of one commit; what it lacks is in data key ``not_copied``.

        All tasks of a goal begin with the same state of it. One that a task has is not copied again, unless
        to another folder.
        """
        source = await require_source(self.context, repo)
        workspace, task = await open_workspace(self.context), self.context.task
        known = read_origins(self.context.settings, task).folders
        for name, origin in known.items():
            # This task made it and wants no second one, another did, or an attempt that was killed afterwards
            earlier = origin.by != task.task_id or self.context.current_task.attempt > 1
            is_given = earlier or folder in ("", name)
            is_whole = not origin.unfinished and (workspace / name).is_dir()
            if origin.source == str(source) and is_given and is_whole:
                output = f"{name} in the workspace is a copy of {source} already, with what was done to it"
                return Outcome(output=output, data={"folder": name, "not_copied": []})
        name = folder or slug(source.name)
        if name not in known or not known[name].unfinished:
            new_folder(workspace, name)
        what = f"copy {source} as {name}"
        async with (
            changing(self.context, what, repeatable=True),
            self._copy(source, self._base(source)) as copy,
        ):
            await self._move_in(copy, name, source)
        note = f"; {len(copy.skipped)} files were left out" if copy.skipped else ""
        return Outcome(
            output=f"Copied {source} to {name} in the workspace{note}",
            data={"folder": name, "not_copied": list(copy.skipped[:200])},
        )

    @register_action("Run the tests of a project in the workspace, as it is now", FOLDER)
    async def test_changes(self, folder: str) -> Outcome:
        """As ``try_patch`` with what was changed: in a fresh copy, with the tools of the original."""
        source = self._require_copy(folder)
        _, patch = await self._changed(await open_workspace(self.context), folder, whole=True)
        # A loop goes on to change what it tried: its patch is what there is in the end.
        keep = bool(self.context.task.context.get("action"))
        return await self._try(source, patch, keep=keep)

    def _require_copy(self, folder: str) -> Path:
        """The project of which ``folder`` of the workspace is a copy; raises ActionError."""
        source = origin_of(self.context, folder)
        if source is None:
            raise ActionError(f"{folder[:80]!r} is not the copy of a project", "Make one with copy_project")
        return require_folder(str(source))

    @register_action(
        "Run a shell command in a throw-away copy of a project in the workspace as it is now, with the "
        "project's dependencies installed",
        {
            **FOLDER,
            "command": "The command, as for bash -c, in the project's folder",
            "timeout": "Seconds it may take; 0 for the most that is allowed",
            "ok_codes": OK_CODES,
        },
        planned=False,
    )
    async def try_command(
        self, folder: str, command: str, timeout: float = 0.0, ok_codes: ExitCodes = (0,)
    ) -> Outcome:
        """As ``run_shell``; what the command changes is lost with the copy.

        Raises ActionError if ``folder`` is no copy of a project, or it cannot be prepared.
        """
        source = self._require_copy(folder)
        network = await require_command(self.context, command, timeout)
        _, patch = await self._changed(await open_workspace(self.context), folder, whole=True)
        async with (
            self._copy(source) as copy,
            self._cores,
            self.context.effect(f"try: {shorten(command)}", repeatable=True),
        ):
            if patch:
                await apply_patch(copy.root, copy.root, patch)
            found = await asyncio.to_thread(discover, copy.root)
            if isinstance(found, TestRun):
                found = Discovery()
            site = await prepare_tests(found, self._site(source, copy), self.context.settings.environments)
            around = await find_surroundings(site.prepared, "", source, copy.root, "")
            if around.problem:
                raise ActionError(around.problem, around.cure)
            await self.context.progress(f"tries {shorten(command)}")
            return await run_recorded(
                self.context,
                shell(command),
                command,
                cwd=copy.root,
                timeout=timeout,
                env={**around.env, "PATH": format_path(*around.path)},
                network=network,
                ok_codes=ok_codes,
                writable=(copy.root, copy.results, *around.writable),
                readable=around.readable,
            )

    @register_action("Show a git repository's branch and its uncommitted changes", REPO)
    async def git_status(self, repo: str) -> Outcome:
        """A HistoryReading in data key ``history``."""
        history = await self._read(repo, 1)
        return report.report_history(history, report.format_changes(history))

    @register_action(
        "Show a git repository's latest commits", {**REPO, "limit": "How many commits at most, 1 to 1000"}
    )
    async def git_log(self, repo: str, limit: int = 10) -> Outcome:
        """A HistoryReading in data key ``history``, its commits as evidence."""
        if not 1 <= limit <= 1000:
            raise ActionError(f"limit must be between 1 and 1000, not {limit}")
        history = await self._read(repo, limit)
        return report.report_history(history, report.format_log(history))

    @register_action(
        "Show the state of a git repository: branch, changes, and its latest commits or those of a time",
        {
            **REPO,
            "since": "First day, such as 2026-01-31, or a tag; empty: any",
            "until": "Last day, or a tag; empty: today",
            "author": "A part of the name or address of whose commits they are; empty: anybody's",
        },
    )
    async def read_history(self, repo: str, since: str = "", until: str = "", author: str = "") -> Outcome:
        """A HistoryReading in data key ``history``; for a folder without git its ``problem`` says so."""
        limit = PERIOD_LIMIT if since or until or author else 10
        history = await read_history(require_folder(repo), limit, since=since, until=until, author=author)
        return report.report_history(history, report.format_history(history))

    async def _read(self, repo: str, limit: int) -> HistoryReading:
        history = await read_history(require_folder(repo), limit)
        if history.problem:
            raise ActionError(history.problem, "Name a folder that lies in a git repository")
        return history

    async def _try(self, folder: Path, patch: bytes, *, keep: bool = True) -> Outcome:
        """The tests with a change, beside those without it (``tests_before``); the patch to ``keep``."""
        task_id, facts = self.context.task.task_id, self.context.current_task.facts
        known = self._before if self._before[:2] == (task_id, folder) else None
        before = known[2] if known else (await self._test(folder))[0]
        tests, skipped = await self._test(folder, patch)
        facts["tests_before"] = before.to_dict()
        outcome = report.report_tests(tests, skipped, before)
        if not keep:
            return outcome
        path = self._changes() / "tried.patch"
        await asyncio.to_thread(write_atomically, path, patch)
        return msgspec.structs.replace(outcome, output_paths=(*outcome.output_paths, str(path)))

    async def _test(self, folder: Path, patch: bytes = b"") -> tuple[TestRun, tuple[str, ...]]:
        """Test a copy of ``folder``, changed by ``patch``: how that went, and what the copy lacks."""
        await self.context.progress(f"copies {folder}")
        async with self._copy(folder) as copy:
            if patch:
                await apply_patch(copy.root, copy.root, patch)
            found = await asyncio.to_thread(discover, copy.root)
            tests = found if isinstance(found, TestRun) else await self._run(found, folder, copy)
        # What a task given as text reports, whatever its answer says.
        self.context.current_task.facts["tests"] = tests.to_dict()
        record = records_path(self.context).with_suffix(".tests")
        with contextlib.suppress(OSError):  # on a full disk another attempt runs them again
            await asyncio.to_thread(write_atomically, record, tests.to_json())
        if not patch:
            self._before = (self.context.task.task_id, folder, tests)
        return tests, copy.skipped

    async def _run(self, found: Discovery, folder: Path, copy: WorkingCopy) -> TestRun:
        settings, lines = self.context.settings, ", ".join(shlex.join(each.argv) for each in found.commands)
        site = self._site(folder, copy)
        async with self._cores, self.context.effect(f"run the tests in a copy: {lines}", repeatable=True):
            async with telling(self.context.progress, "the environment is prepared"):
                prepared = await prepare_tests(found, site, settings.environments)
            return await run_tests(found, prepared)

    def _site(self, folder: Path, copy: WorkingCopy) -> Site:
        settings = self.context.settings
        # The hosts that the settings or the profile allow; tests reach no others.
        hosts = [entry for entry in self.context.allowed_reach() if entry.startswith("host:")]
        trusted = [entry.removeprefix("host:") for entry in hosts]
        return Site(
            repo=folder,
            copy=copy,
            log=outputs_path(self.context) / "tests.log",
            limits=Limits(whole=settings.test_timeout, one=settings.test_limit),
            note=self.context.progress,
            reach=open_reach(hosts, trusted=trusted).reach if hosts else None,
            record=self.context.record_connections,
        )

    @register_action(
        "For the conductor: make one of the patches of a goal's tasks for a project, and run its tests",
        {
            **REPO,
            "patches": "Paths of the patches, in the order of the plan",
            "test": "Whether to run the tests",
        },
        planned=False,
    )
    async def merge_changes(self, repo: str, patches: tuple[str, ...], test: bool = True) -> Outcome:
        """The merged patch as the goal's, a TestRun in data key ``tests``.

        Where two do not go together it fails; the workspace has both sides then, and data key ``conflicts``
        names the patch and the files.
        """
        source = await require_source(self.context, repo)
        base = self._base(source)
        contents = {
            path: await asyncio.to_thread(read_patch, self._changes().parent, path) for path in patches
        }
        # The name that the first of the tasks gave it
        name = next((Path(path).stem for path in patches if base.tip_of(Path(path))), slug(source.name))
        await open_workspace(self.context)
        what = f"merge {len(patches)} patches for {source}"
        async with changing(self.context, what, repeatable=True), self._copy(source, base) as copy:
            if not base.start:
                raise ActionError(f"{source} cannot be committed to git", "See whether git is installed")
            tips = {base.tip_of(Path(p)) or await base.adopt(text): p for p, text in contents.items()}
            merged = await base.merge(copy.root, list(tips))
            joined = list(tips)
            if merged.conflicts:
                joined = joined[: joined.index(merged.tip) + 1]
                patch = b""
            else:
                commit, patch = await base.record(copy.root, base.start, joined=joined)
            made = {"joined": tuple(joined), "conflicts": merged.conflicts}
            await self._move_in(copy, name, source, **made)
        if merged.conflicts:
            return report.report_conflict(tips[merged.tip], merged.conflicts, source, name)
        delivered = self._changes() / f"{name}.patch"
        if patch:
            await asyncio.to_thread(write_atomically, delivered, patch)
            await asyncio.to_thread(base.note_tip, delivered, commit)
        tests = None
        if test and patch:
            try:
                tests, _ = await self._test(require_folder(str(source)), patch)
            except ActionError as error:  # the project is no longer what it was when it was copied
                tests = TestRun(problem=error.cause, cure=error.cure)
        return report.report_merge(source, patches, delivered if patch else None, tests)

    def _base(self, source: Path) -> Base:
        return Base.of(bases_path(self.context.settings, self.context.task), source)

    async def _move_in(self, copy: WorkingCopy, name: str, source: Path, **more: Any) -> None:
        """Put a copy into the workspace as ``name``, in the place of an unfinished one.

        It is made elsewhere, so that no program in the workspace can redirect it meanwhile.
        """
        settings, task = self.context.settings, self.context.task
        start = self._base(source).start if (copy.root / ".git").is_dir() else ""
        origin = Origin(source=str(source), by=task.task_id, start=start, **more)

        def move() -> None:
            with ConfinedFolder(workspace_path(settings, task)) as confined:
                note_origin(settings, task, name, msgspec.structs.replace(origin, unfinished=True))
                confined.remove(name)
                confined.move_in(copy.root, name)
                note_origin(settings, task, name, origin)

        await asyncio.to_thread(move)

    async def _changed(self, workspace: Path, folder: str, *, whole: bool = False) -> tuple[str, bytes]:
        """The commit (empty without a base) and the patch of what the task changed in a project's copy.

        As a ``whole`` it has what those changed too that the task builds on.
        """
        origin = read_origins(self.context.settings, self.context.task).folders.get(folder)
        if origin is None or not origin.start:
            return "", await make_patch(workspace, folder)
        base = self._base(Path(origin.source))
        since = base.start if whole else origin.start
        return await base.record(workspace / folder, origin.start, since=since, joined=origin.joined)

    async def _deliver(self, outputs: Path) -> report.Delivery:
        """Put what the task changed into ``outputs``, and remember of which commit each patch is made."""
        workspace, commits = await open_workspace(self.context), dict[str, str]()

        async def make(folder: str) -> bytes:
            commits[folder], patch = await self._changed(workspace, folder)
            return patch

        delivery = await deliver(workspace, outputs, make)
        for path in map(Path, delivery.patches):
            if (source := origin_of(self.context, path.stem)) and commits[path.stem]:
                await asyncio.to_thread(self._base(source).note_tip, path, commits[path.stem])
        return delivery

    def _find_conflicts(self, workspace: Path) -> list[str]:
        """The files of the workspace in which both sides of a merge still stand between git's marks."""
        folders = read_origins(self.context.settings, self.context.task).folders.items()
        disputed = [f"{name}/{each}" for name, origin in folders for each in origin.conflicts]
        found = []
        for path in disputed:
            with contextlib.suppress(ActionError), ConfinedFolder(workspace) as confined:
                text = confined.read(path, report.MAX_FILE)  # if it was removed, that settles it
                found += [path] if re.search(rb"^(?:<{7}|>{7}) ", text, re.MULTILINE) else []
        return found

    def _copy(self, folder: Path, base: Base | None = None) -> AbstractAsyncContextManager[WorkingCopy]:
        settings, task = self.context.settings, self.context.current_task
        place = settings.workspaces / f"{task.task.task_id}{COPIES}" / f"attempt-{task.attempt}"
        keep = bool(self.context.profile.options.get("keep_workspaces", False))
        own = None if inputs_path(settings) in folder.parents else settings.state_dir.resolve()
        return working_copy(folder, place, keep=keep, exclude=own, base=base, to_prepare=base is None)

    def _changes(self) -> Path:
        return outputs_path(self.context) / "changes" / self.context.task.task_id


if __name__ == "__main__":
    run(Engineer, __file__)
