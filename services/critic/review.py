"""The review of a goal's results: what is claimed is looked up and held against what is on record."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from services.critic.claims import Rerun, as_texts, find_named_folder
from services.critic.findings import clean
from shared.contracts.checkup import Checked, Decision, Inspection, TestRun, Verdict
from shared.contracts.task import ResultOutcome, TaskStatus
from shared.source import as_list, as_mapping
from shared.tasks.evidence import find_unproved, list_checks

PLACE = re.compile(r"(?P<path>[^:\s][^:\n]*?)(?::(?P<line>\d+)(?::\d+)?)?")
ENDED = frozenset(str(status) for status in TaskStatus if status.final)
SHOWN = 3  # Sources that cannot be found which a reason names; the rest is counted
WORDS_ALONE = "a model wrote it, and nothing that it names can be looked up or run again"


def review(results: Mapping[str, Any], repo: Path | None = None) -> Verdict:
    """Judge the results of a goal's tasks by name; each is a dict as a TaskResult travels.

    Approved if every task ended, none that completed is empty, every ``file:line`` it names exists beneath
    its ``repo`` (not checked without one), counts agree with exit codes, and what is said to have been run
    is on record. A task that failed and says why is no fault; without any that completed there is nothing to
    approve. See ``settle`` for results that name nothing that can be checked.
    """
    if not results:
        return leave_open(Verdict(approved=True), "there are no results to review")
    reasons: list[str] = []
    objections: list[str] = []
    redo: list[str] = []
    checked = Checked()
    for name, result in results.items():
        judged = _judge(as_mapping(result), repository_of(result) or repo)
        reasons += [f"{name}: {words}" for words in (*judged.faults, *judged.notes)]
        objections += [f"{name}: {words}" for words in judged.faults]
        redo += [name] if judged.faults else []
        unjudged = tuple(clean(f"{name}: {words}") for words in judged.unjudged)
        checked = checked.plus(msgspec.structs.replace(judged.checked, unjudged=unjudged))
    done = any(
        each.get("status") == TaskStatus.COMPLETED and each.get("outcome") != ResultOutcome.NOT_CHECKED
        for each in map(as_mapping, results.values())
    )
    if not done and not checked.unjudged:
        checked = checked.plus(Checked(unjudged=("no task completed",)))
    decision: Decision = "sent_back" if redo else "approved" if done else "not_checked"
    return Verdict(
        approved=decision == "approved",
        decision=decision,
        reasons=tuple(map(clean, reasons)),
        redo=tuple(redo),
        checked=checked,
        objections=tuple(map(clean, objections)),
    )


def settle(verdict: Verdict, results: Mapping[str, Any], *, has_model: bool = False) -> Verdict:
    """``verdict``, which approves only if something was checked.

    What a program found is not doubted, though nothing of it can be checked. What a model says is open,
    unless the critic ``has_model`` itself, which found nothing in it to judge.
    """
    if verdict.decision != "approved" or list_checks(verdict.checked):
        return verdict
    wrote = [name for name, result in completed(results).items() if is_by_model(result)]
    if wrote and not has_model:
        return leave_open(verdict, *(f"{name}: {WORDS_ALONE}" for name in wrote))
    return msgspec.structs.replace(verdict, approved=False, decision="nothing_checked")


def completed(results: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Those of the results whose task completed."""
    found = {name: as_mapping(result) for name, result in results.items()}
    return {name: each for name, each in found.items() if each.get("status") == TaskStatus.COMPLETED}


def is_by_model(result: Mapping[str, Any]) -> bool:
    """Whether a model worked on the task, rather than that an action was run as it was named."""
    metadata = as_mapping(result.get("metadata"))
    return "steps" in metadata or bool(as_mapping(metadata.get("usage")).get("calls"))


def repository_of(result: Any) -> Path | None:
    """The repository that the requester says a result is about, if it is there."""
    named = as_mapping(result).get("repo")
    path = Path(named) if isinstance(named, str) and named else None
    return path if path and path.is_absolute() and path.is_dir() else None


def by_repository(
    results: Mapping[str, Any], repo: Path | None, goal: str
) -> list[tuple[Path | None, bool, dict[str, Any]]]:
    """The results by the repository they are about, and whether that is sure.

    It is the result's own ``repo``, else ``repo``; else the folder that the task's words name, or the goal's,
    which may be another one than is meant.
    """
    given = repo if repo and repo.is_absolute() and repo.is_dir() else None
    groups: dict[tuple[Path | None, bool], dict[str, Any]] = {}
    for name, result in results.items():
        sure = repository_of(result) or given
        words = str(as_mapping(result).get("task") or "")
        place = sure or find_named_folder(words) or find_named_folder(goal)
        groups.setdefault((place, sure is not None), {})[name] = result
    return [(place, sure, group) for (place, sure), group in groups.items()]


class Judged(NamedTuple):
    """A result: faults, which send its task back, notes, what is left open, and what was checked."""

    faults: Sequence[str] = ()
    notes: Sequence[str] = ()
    unjudged: Sequence[str] = ()
    checked: Checked = Checked()


def _judge(result: Mapping[str, Any], repo: Path | None) -> Judged:
    status = str(result.get("status", ""))
    output = str(result.get("output") or "").strip()
    reason = str(result.get("error_message") or "").strip() or output
    if status not in ENDED:
        return Judged([f"it has not ended (it is {status or 'without a status'})"])
    if status != TaskStatus.COMPLETED:
        if not reason:
            return Judged([f"it ended as {status} and does not say why"])
        return Judged(notes=[f"it ended as {status}: {reason}"])
    if not output:
        return Judged(["it completed without any output"])
    metadata = as_mapping(result.get("metadata"))
    # A test may have failed in a file that the run itself wrote, which is gone with its copy.
    failures = as_list(as_mapping(metadata.get("tests")).get("failures"))
    doubtful = [as_mapping(failure).get("source") for failure in failures]
    paths = as_texts(result.get("output_paths"))
    claimed = dict.fromkeys([*as_texts(result.get("evidence_refs")), *_sources(metadata)])
    sources = [claim for claim in claimed if claim not in doubtful and claim not in paths]
    # Those that are not beneath the repository, and how many are; others, such as web pages, are neither
    missing, found = list[str](), 0
    if repo is not None and repo.is_dir():
        root, lengths = repo.resolve(), dict[Path, int]()
        there = {source: _exists(source, root, lengths) for source in sources}
        missing, found = (
            [source for source in there if there[source] is False],
            sum(map(bool, there.values())),
        )
    more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
    unfound = f"it names sources that cannot be found: {', '.join(missing[:SHOWN])}{more}"
    unproved = find_unproved(output, metadata, str(result.get("agent") or ""), paths)
    unchecked = result.get("outcome") == ResultOutcome.NOT_CHECKED
    return Judged(
        [*([unfound] if missing else []), *_miscounted(metadata), *unproved],
        unjudged=[output.splitlines()[0]] if unchecked else [],
        checked=Checked(sources=len(sources), found=found) if found or missing else Checked(),
    )


def _sources(value: Any, depth: int = 0) -> Iterator[str]:
    """Every ``source`` in what a task hands on, and every finding's file and line."""
    if depth > 8:
        return
    if isinstance(value, Mapping):
        if isinstance(value.get("source"), str):
            yield value["source"]
        if isinstance(value.get("file"), str) and "rule" in value:
            yield f"{value['file']}:{value['line']}" if value.get("line") else value["file"]
        for inner in value.values():
            yield from _sources(inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _sources(inner, depth + 1)


def is_found(source: str, repo: Path | None) -> bool:
    """Whether ``source`` is a file, perhaps with a line, that is there beneath ``repo``."""
    if repo is None or not repo.is_dir() or not PLACE.fullmatch(source):
        return False
    root = repo.resolve()
    path, _, line = source.partition(":")
    return (root / path).is_file() and _exists(source if line else f"{source}:1", root, {}) is True


def extend(
    verdict: Verdict,
    decision: Decision,
    reasons: Iterable[str],
    redo: Iterable[str],
    checked: Checked,
    *,
    objections: Iterable[str] = (),
) -> Verdict:
    """``verdict`` with another ``decision``, and more reasons, tasks to be done again, things checked."""
    return Verdict(
        approved=decision == "approved",
        decision=decision,
        reasons=(*verdict.reasons, *reasons),
        redo=tuple(dict.fromkeys((*verdict.redo, *redo))),
        checked=verdict.checked.plus(checked),
        objections=(*verdict.objections, *objections),
    )


def add_reruns(verdict: Verdict, rerun: Rerun) -> Verdict:
    """``verdict`` with what checking again showed: a fault sends back, what was not run leaves open."""
    faults = [clean(f"{task}: {words}", 600) for task, words in rerun.faults]
    reasons = [f"{task}: not run: {words}" for task, words in rerun.unrun]
    reasons += [f"{task}: {words}" for task, words in rerun.confirmed]
    unjudged = tuple(clean(f"{task}: not run: {words}", 600) for task, words in rerun.unrun)
    decision = verdict.decision
    if rerun.faults:
        decision = "sent_back"
    elif rerun.unrun and decision == "approved":
        decision = "not_checked"
    said, redo = [*faults, *(clean(reason, 600) for reason in reasons)], (task for task, _ in rerun.faults)
    checked = rerun.checked.plus(Checked(unjudged=unjudged))
    return extend(verdict, decision, said, redo, checked, objections=faults)


def leave_open(verdict: Verdict, *reasons: str) -> Verdict:
    """``verdict`` that approves nothing, for ``reasons``; what it sends back, it still does."""
    unjudged = Checked(unjudged=tuple(map(clean, reasons)))
    return msgspec.structs.replace(
        verdict,
        approved=False,
        decision="sent_back" if verdict.decision == "sent_back" else "not_checked",
        checked=unjudged.plus(verdict.checked),
    )


def _exists(claim: str, root: Path, lengths: dict[Path, int]) -> bool | None:
    """Whether a claim's file is there and long enough; None for what names no file, which is not doubted."""
    match = PLACE.fullmatch(claim.partition("::")[0])
    if "://" in claim or claim.startswith("git:") or not match:
        return None
    path = (root / match["path"]).resolve()
    # A path of the repository, not the name of a test, a log or a place inside a program
    named = match["path"]
    beneath = "/" in named and (root / named.split("/", maxsplit=1)[0]).exists()
    absolute = named.startswith(("<", "/"))
    if not (named.startswith(f"{root}/") if absolute else match["line"] or beneath):
        return True if path.is_relative_to(root) and path.exists() else None
    if not path.is_relative_to(root) or not path.exists():
        return False
    if not match["line"] or not path.is_file():
        return True
    if path not in lengths:
        with path.open("rb") as file:
            lengths[path] = sum(1 for _ in file)
    # an empty file has a first line too
    return 1 <= int(match["line"]) <= max(1, lengths[path])


def _miscounted(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Where the counts of tests or findings in ``metadata`` contradict each other."""
    for value in metadata.values():
        try:
            if isinstance(value, Mapping) and {"exit_code", "passed", "failed"} <= set(value):
                yield from _miscounted_tests(msgspec.convert(value, TestRun))
            elif isinstance(value, Mapping) and {"findings", "total", "tools"} <= set(value):
                found = msgspec.convert(value, Inspection)
                if found.total < len(found.findings):
                    yield f"{len(found.findings)} findings are listed, but {found.total} are counted"
                if found.total > sum(tool.findings for tool in found.tools):
                    yield f"{found.total} findings are counted, but the tools report fewer"
        except (msgspec.ValidationError, ValueError):
            yield f"its account of the {'tests' if 'exit_code' in value else 'findings'} cannot be read"


def _miscounted_tests(run: TestRun) -> Iterator[str]:
    broken = run.broken
    if run.exit_code == 0 and broken and not run.problem:
        yield f"the tests ended with exit code 0, but {broken} are said to have failed"
    if run.exit_code > 0 and run.passed > 0 and not broken and not run.timed_out and not run.problem:
        ended = f"the tests ended with exit code {run.exit_code}"
        yield f"{ended}, but none is said to have failed, and no reason is given"
    if run.failed >= 0 and len(run.failures) > broken:
        yield f"{len(run.failures)} failures are listed, but {broken} are counted"
