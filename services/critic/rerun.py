"""Checking again what results claim, so that no claim is believed: patches and code in the jail, on a copy.

Tests are run again by the engineer.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from services.critic.claims import (
    CODE,
    Claims,
    Rerun,
    Tester,
    judge_tests,
    last_line,
    read_claims,
    read_file,
)
from services.critic.drift import check_drift
from services.critic.file_tools import sort_files
from services.critic.inspection import CHECKERS
from services.critic.patch import FileChange, Weakening, find_weakened, is_asked_for, parse_patch
from services.critic.project_tools import copy_tree, review_folder
from services.critic.review import is_by_model
from shared.contracts import Checked, TaskStatus, TestRun
from shared.errors import ActionError
from shared.settings import Settings
from shared.source import read_tree
from shared.text.display import count

NO_RECORDS: Mapping[str, str] = MappingProxyType({})


class Rerunner:
    """Runs claims again in copies among the workspaces, each for at most the setting ``command_timeout``.

    ``record`` has what that showed; by task, ``changes`` has what the patches change, ``weakened`` the tests
    that they weaken, ``tests`` the runs of tests, and ``trees`` the projects with the patches applied, which
    are there until ``kept`` is closed.
    """

    def __init__(self, settings: Settings, *, own_name: str, tester: Tester, kept: AsyncExitStack) -> None:
        self._settings = settings
        self._tester = tester
        self._own_name = own_name
        self._kept = kept
        self.record = Rerun(timeout=settings.command_timeout)
        self.changes: dict[str, list[FileChange]] = {}
        self.weakened: dict[str, list[Weakening]] = {}
        self.tests: dict[str, TestRun] = {}
        self.trees: dict[str, Path] = {}

    async def run(
        self,
        results: Mapping[str, Any],
        repo: Path | None,
        folders: tuple[Path, ...],
        *,
        is_target_sure: bool = True,
        recorded: Mapping[str, str] = NO_RECORDS,
    ) -> Rerun:
        """Run again what the completed among ``results`` claim; the record says what could not be run.

        Files count if they lie beneath ``folders``; without a ``repo`` no test and no patch is run. A patch
        that does not apply refutes its claim only if it ``is_target_sure`` that it was made for ``repo``.
        Tests whose run is ``recorded``, by task, are not run again unless something was changed.
        """
        claims = [
            await asyncio.to_thread(read_claims, name, result, folders)
            for name, result in results.items()
            if isinstance(result, Mapping) and result.get("status") == TaskStatus.COMPLETED
        ]
        alone = all(claim.author == self._own_name for claim in claims)
        self.trees |= {claim.task: repo for claim in claims} if repo is not None else {}
        for claim in claims:
            if claim.made or claim.patches:
                await asyncio.to_thread(self._read_changes, claim, results[claim.task])
            self.record.count(Checked(files=claim.there))
            for path in claim.missing:
                self.record.refute(claim.task, f"it names a file that is not there: {path}")
            if claim.author == self._own_name:
                await repeat_inspection(self.record, claim, repo, alone=alone)
        if not any(claim.patches for claim in claims):
            for at, claim in enumerate(claims):
                if claim.task in recorded:
                    self.record.confirm(claim.task, recorded[claim.task], Checked(records=1))
                    claims[at] = msgspec.structs.replace(claim, tests=False)
        try:
            if any(claim.tests or claim.patches or claim.files for claim in claims):
                folder = await self._kept.enter_async_context(review_folder(self._settings.workspaces))
                await self._run_all(claims, repo, folder, is_target_sure)
        except ActionError as error:
            self._skip(claims, str(error))
        return self.record

    def tests_of(self, tree: Path | None) -> TestRun | None:
        """The run of the tests of ``tree``, if there was one."""
        there = (name for name, each in self.trees.items() if each == tree)
        return next((self.tests[name] for name in there if name in self.tests), None)

    async def run_tests(self, tree: Path) -> TestRun:
        """The tests of ``tree``: the run that was made, else one by the engineer; raises ActionError."""
        if known := self.tests_of(tree):
            return known
        if any(self.changes.get(name) for name, each in self.trees.items() if each == tree):
            raise ActionError("The tests cannot be run with the patch", "What programs found says why")
        return (await self._tester(tree, "")).after

    def _read_changes(self, claim: Claims, result: Mapping[str, Any]) -> None:
        """Read what the patches of ``claim`` change; tests that they weaken refute it.

        Not those that the words of the task may ask for, nor those of a patch that a person made.
        """
        changes = [change for patch in claim.made or claim.patches for change in parse_patch(patch)]
        weakened = find_weakened(changes)
        self.changes[claim.task], self.weakened[claim.task] = changes, weakened
        words = f"{result.get('task') or ''}\n{result.get('success_criteria') or ''}"
        for each in weakened:
            said = f"its patch weakens a test: {each.how} [{each.place}]"
            if each.certain and is_by_model(result) and not is_asked_for(words):
                self.record.refute(claim.task, said)
            elif each.certain:
                self.record.confirmed.append((claim.task, said))

    def _skip(self, claims: Sequence[Claims], why: str) -> None:
        """Note that nothing could be run of the claims that need a repository."""
        for claim in claims:
            if claim.tests or claim.patches:
                self.record.skip(claim.task, why)

    async def _run_all(
        self, claims: Sequence[Claims], repo: Path | None, folder: Path, is_target_sure: bool
    ) -> None:
        for number, claim in enumerate(claims):
            await check_files(self.record, claim, folder / f"files-{number}")
        if not any(claim.tests or claim.patches for claim in claims):
            return
        if repo is None:
            self._skip(claims, "there is no repository to run it on")
            return
        tested = [claim for claim in claims if claim.tests]
        patched = [claim for claim in claims if claim.patches]
        skipped, faults = len(self.record.unrun), len(self.record.faults)
        patches: list[str] = []
        if patched:
            copy = folder / "copy" / (repo.name or "root")
            await asyncio.to_thread(copy_tree, repo, copy, self._settings)
            patches, copy = await self._apply_all(claims, repo, copy, folder, is_target_sure)
            self.trees |= {claim.task: copy for claim in claims}
        if len(self.record.unrun) > skipped:
            # Tests run without the changes they were made with show nothing.
            for claim in tested:
                self.record.skip(claim.task, "what was changed could not be put in place")
        elif tested or len(self.record.faults) == faults:
            concerned = tested if len(self.record.faults) > faults else [*tested, *patched]
            await self._test(list({each.task: each for each in concerned}.values()), patches, repo)

    async def _test(self, concerned: Sequence[Claims], patches: Sequence[str], repo: Path) -> None:
        """Have the tests run with ``patches``, and note what that shows about the claims ``concerned``."""
        try:
            tested = await self._tester(repo, "\n".join(patches))
        except ActionError as error:
            for claim in concerned:
                if claim.tests:
                    self.record.skip(claim.task, f"its tests were not run again: {error}")
            return
        judge_tests(self.record, concerned, tested)
        for claim in concerned:
            self.tests[claim.task] = tested.after
            self.record.add_run(claim.task, tested.after.command, exit_code=tested.after.exit_code)

    async def _apply_all(
        self, claims: Sequence[Claims], repo: Path, copy: Path, folder: Path, is_target_sure: bool
    ) -> tuple[list[str], Path]:
        """Apply every patch to the copy, each checked, also for rules that it is the first to break.

        Returns the last copy, and the patches that make it: one that was applied by itself takes the place of
        those before.
        """
        applied: list[str] = []
        patches = [(claim.task, patch) for claim in claims for patch in claim.patches]
        before = await asyncio.to_thread(find_violations, copy) if patches else {}
        for number, (task, patch) in enumerate(patches):
            file = folder / f"{number}.patch"
            whole = patch if patch.endswith("\n") else patch + "\n"
            await asyncio.to_thread(file.write_bytes, whole.encode("utf-8", "surrogateescape"))
            fresh = folder / f"copy-{number}" / copy.name
            copy, problem = await self._apply(task, file, repo, copy, fresh)
            if problem:
                note = self.record.refute if is_target_sure else self.record.skip
                note(task, f"its patch does not apply: {problem}")
            elif problem is not None:
                applied = [patch] if copy == fresh else [*applied, patch]
                self.record.confirm(task, "its patch applies", Checked(patches=1))
                changes = await asyncio.to_thread(parse_patch, patch)
                left = [change.path for change in changes if not change.deleted][:200]
                inside = [name for name in left if not name.startswith("/") and ".." not in Path(name).parts]
                names = [name for name in inside if (copy / name).is_file()]
                await check_code(self.record, task, copy, names)
            after = await asyncio.to_thread(find_violations, copy)
            for key in after.keys() - before.keys():
                self.record.refute(task, after[key])
            before |= after
        return applied, copy

    async def _apply(
        self, task: str, patch: Path, repo: Path, copy: Path, fresh: Path
    ) -> tuple[Path, str | None]:
        """The copy with the patch, and why it does not apply: empty if it does, None if git did not run.

        It is applied on top of those before, else by itself to a ``fresh`` copy, as it may hold them already.
        """
        command = ["git", "apply", "--whitespace=nowarn", str(patch)]
        result = await self.record.execute(task, command, copy, readable=[patch.parent])
        if result is not None and result.exit_code:
            copy = fresh
            await asyncio.to_thread(copy_tree, repo, copy, self._settings)
            result = await self.record.execute(task, command, copy, readable=[patch.parent])
        if result is None:
            return copy, None
        return copy, last_line(result) if result.exit_code else ""


# --- the critic's own inspections -------------------------------------------------------------------

LINT = "ruff"  # The check that is repeated where an inspection is one result among others


async def repeat_inspection(record: Rerun, claim: Claims, repo: Path | None, *, alone: bool) -> None:
    """Run the checks of an inspection again, and note what differs: all of them if it stands ``alone``.

    Among other results its lint is enough. A check that is not repeated, such as one that needs a network,
    counts by the places it names.
    """
    wanted = set(claim.tools) if alone else {LINT} & set(claim.tools)
    confirmed = []
    try:
        if repo is not None and (wanted or (alone and claim.rules)):
            confirmed = await _repeat(record, claim, repo, wanted, with_drift=alone)
    except ActionError as error:
        record.skip(claim.task, f"it could not be repeated: {error}")
        return
    if confirmed:
        record.confirm(
            claim.task, f"run again with the same result: {', '.join(confirmed)}", Checked(inspections=1)
        )
    elif claim.tools or claim.rules:
        record.confirm(claim.task, "its counts agree with each other; its checks were not repeated")


async def _repeat(
    record: Rerun, claim: Claims, repo: Path, wanted: set[str], *, with_drift: bool
) -> list[str]:
    """What came out the same; what did not is noted as a fault."""
    sources = await asyncio.to_thread(lambda: sort_files(read_tree(repo)))
    same = []
    for checker in CHECKERS:
        if checker.name not in wanted:
            continue
        again = (await checker.check(sources, timeout=record.timeout)).tool
        record.add_run(claim.task, checker.name, findings=again.findings)
        version, claimed = claim.tools[checker.name]
        if again.version != version:
            continue  # another one than it was then
        if again.findings != claimed:
            counts = f"{claimed} findings of {checker.name} are claimed, {again.findings} were made again"
            record.refute(claim.task, counts)
        else:
            same.append(f"{checker.name} ({count(claimed, 'finding')})")
    if with_drift and claim.rules:
        # Those that can be checked without a model and the project's own tools
        drift = (await asyncio.to_thread(check_drift, sources.tree)).rules
        held = [rule for rule in drift if (rule.rule, rule.source) in claim.rules and not rule.not_checked]
        for rule in held:
            claimed = claim.rules[rule.rule, rule.source]
            if len(rule.violations) != claimed:
                counts = f"{claimed} violations are claimed, {len(rule.violations)} were found again"
                record.refute(claim.task, f"the rule {rule.rule!r}: {counts}")
        broken = sum(bool(rule.violations) for rule in held)
        same += [f"{count(len(held), 'stated rule')} ({broken} broken)"] if held else []
    return same


# --- code that results hand over --------------------------------------------------------------------

BROKEN = "E9,F63,F7,F82"  # The rules of ruff that find code that cannot work: syntax, undefined names
OWN_PYTHON = (sys.executable, "-I")
RUFF = (
    *(*OWN_PYTHON, "-m", "ruff", "check", "--isolated", "--no-cache", "--quiet"),
    *("--output-format", "concise", "--select", BROKEN),
)
LOAD_JSON = "import json, sys; json.load(open(sys.argv[1]))"


async def check_files(record: Rerun, claim: Claims, folder: Path) -> None:
    """Check the files that ``claim`` names, in copies beneath ``folder``."""
    names = [f"{number}/{Path(file.name).name}" for number, file in enumerate(claim.files)]
    for file, name in zip(claim.files, names, strict=True):
        await asyncio.to_thread((folder / name).parent.mkdir, parents=True, exist_ok=True)
        await asyncio.to_thread((folder / name).write_bytes, await asyncio.to_thread(read_file, file))
    if names:
        await check_code(record, claim.task, folder, names)


async def check_code(record: Rerun, task: str, folder: Path, names: Sequence[str]) -> None:
    """Compile and lint the Python among ``names``, and parse shell and JSON; the first fault is noted."""
    python = [name for name in names if name.endswith((".py", ".pyi"))]
    checks = [[*OWN_PYTHON, "-m", "compileall", "-q", "-f", *python], [*RUFF, *python]] if python else []
    checks += [["bash", "-n", name] for name in names if name.endswith((".sh", ".bash"))]
    checks += [[*OWN_PYTHON, "-c", LOAD_JSON, name] for name in names if name.endswith(".json")]
    for command in checks:
        result = await record.execute(task, command, folder)
        if result is None:
            return
        if result.timed_out or result.problem:
            record.skip(task, f"its code: {Path(command[0]).name} {result.find_failure()}")
            return
        if result.exit_code:
            record.refute(task, f"its code does not hold: {last_line(result)}")
            return
    record.count(Checked(code=sum(name.endswith(CODE) for name in names)))


def find_violations(root: Path) -> dict[tuple[str, str], str]:
    """The places where the code beneath ``root`` breaks the rules stated there, by rule and message."""
    return {
        (rule.source, broken.message): (
            f"it breaks the rule {rule.rule!r} [{rule.source}]: {broken.message} [{broken.source}]"
        )
        for rule in check_drift(read_tree(root)).rules
        for broken in rule.violations
    }
