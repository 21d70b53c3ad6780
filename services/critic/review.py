"""The review of a goal's results, without a model: what was claimed is held against what can be looked up."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from services.critic.claims import Rerun, as_list, as_mapping, as_texts, find_named_folder
from services.critic.findings import clean
from shared.contracts.checkup import Decision, Inspection, TestRun, Verdict
from shared.contracts.task import ResultOutcome, TaskStatus
from shared.tasks.evidence import find_unproved
from shared.text.phrases import format_list

PLACE = re.compile(r"(?P<path>[^:\s][^:\n]*?)(?::(?P<line>\d+)(?::\d+)?)?")
ENDED = frozenset(str(status) for status in TaskStatus if status.final)
UNCHECKED = "it says that it could not be checked"
SHOWN = 3
"""Sources that cannot be found which a reason names; the rest is counted."""


HEADS = {
    "approved": "Approved: the results are true.",
    "sent_back": "Sent back: not all that the results say is true.",
    "not_checked": "Not checked: whether the results are true could not be found out.",
}


def review(results: Mapping[str, Any], repo: Path | None = None) -> Verdict:
    """Judge the results of a goal's tasks by name; each is a dict as a TaskResult travels.

    Approved if every task ended, none that completed is empty, every ``file:line`` it names exists beneath
    its ``repo`` (not checked without one), counts agree with exit codes, and what is said to have been run
    is on record. A task that failed and says why is no fault; without any that completed there is nothing to
    approve.
    """
    if not results:
        return Verdict(approved=False, decision="not_checked", reasons=("There are no results to review.",))
    reasons: list[str] = []
    redo: list[str] = []
    for name, result in results.items():
        faults, note = _judge(as_mapping(result), repository_of(result) or repo)
        reasons += [f"{name}: {words}" for words in (*faults, *filter(None, [note]))]
        redo += [name] if faults else []
    if not reasons:
        many = f"All {len(results)} tasks ended, and what they claim"
        one = "The task ended, and what it claims"
        reasons = [f"{one if len(results) == 1 else many} can be looked up."]
    done = any(map(_says_something, results.values()))
    decision: Decision = "sent_back" if redo else "approved" if done else "not_checked"
    return Verdict(
        approved=decision == "approved",
        decision=decision,
        reasons=tuple(map(clean, reasons)),
        redo=tuple(redo),
    )


def _says_something(result: Any) -> bool:
    """Whether a task completed, and its result says more than that nothing could be checked."""
    values = as_mapping(result)
    return values.get("status") == TaskStatus.COMPLETED and values.get("outcome") != ResultOutcome.NOT_CHECKED


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


def format_verdict(verdict: Verdict) -> str:
    """The text of a verdict: the decision, and what it rests on."""
    head = HEADS[verdict.decision]
    unchecked = [reason.partition(":")[0] for reason in verdict.reasons if f": {UNCHECKED}" in reason]
    if unchecked and verdict.decision == "approved":
        head = f"Approved what could be checked; not checked: {format_list(unchecked, SHOWN)}."
    return "\n".join([head, *(f"- {reason}" for reason in verdict.reasons)])


def _judge(result: Mapping[str, Any], repo: Path | None) -> tuple[list[str], str]:
    """The faults that send a task back, and a note that does not."""
    status = str(result.get("status", ""))
    output = str(result.get("output") or "").strip()
    reason = str(result.get("error_message") or "").strip() or output
    if status not in ENDED:
        return [f"it has not ended (it is {status or 'without a status'})"], ""
    if status != TaskStatus.COMPLETED:
        if not reason:
            return [f"it ended as {status} and does not say why"], ""
        return [], f"it ended as {status}: {reason}"
    if not output:
        return ["it completed without any output"], ""
    metadata = as_mapping(result.get("metadata"))
    # A test may have failed in a file that the run itself wrote, which is gone with its copy.
    failures = as_list(as_mapping(metadata.get("tests")).get("failures"))
    doubtful = [as_mapping(failure).get("source") for failure in failures]
    claimed = [*as_texts(result.get("evidence_refs")), *_sources(metadata)]
    unfound = _unfound([claim for claim in claimed if claim not in doubtful], repo)
    paths = as_texts(result.get("output_paths"))
    unproved = find_unproved(output, metadata, str(result.get("agent") or ""), paths)
    unchecked = result.get("outcome") == ResultOutcome.NOT_CHECKED
    note = f"{UNCHECKED}: {output.splitlines()[0]}" if unchecked else ""
    return [*unfound, *_miscounted(metadata), *unproved], note


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


def _unfound(claimed: list[str], repo: Path | None) -> list[str]:
    if repo is None or not repo.is_dir():
        return []
    lengths: dict[Path, int] = {}
    root = repo.resolve()
    missing = [claim for claim in dict.fromkeys(claimed) if not _exists(claim, root, lengths)]
    if not missing:
        return []
    more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
    return [f"it names sources that cannot be found: {', '.join(missing[:SHOWN])}{more}"]


def is_found(source: str, repo: Path | None) -> bool:
    """Whether ``source`` is a file, perhaps with a line, that is there beneath ``repo``."""
    if repo is None or not repo.is_dir() or not PLACE.fullmatch(source):
        return False
    root = repo.resolve()
    path, _, line = source.partition(":")
    return (root / path).is_file() and _exists(source if line else f"{source}:1", root, {})


def add_reruns(verdict: Verdict, rerun: Rerun) -> Verdict:
    """``verdict`` with what checking again showed: a fault sends back, what was not run leaves open."""
    reasons = [f"{task}: {words}" for task, words in rerun.faults]
    reasons += [f"{task}: not run: {words}" for task, words in rerun.unrun]
    reasons += [f"{task}: {words}" for task, words in rerun.confirmed]
    if not reasons:
        return verdict
    decision = verdict.decision
    if rerun.faults:
        decision = "sent_back"
    elif rerun.unrun and decision == "approved":
        decision = "not_checked"
    filler = len(verdict.reasons) == 1 and verdict.reasons[0].endswith("can be looked up.")
    return Verdict(
        approved=decision == "approved",
        decision=decision,
        reasons=(*(() if filler else verdict.reasons), *(clean(reason, 600) for reason in reasons)),
        redo=tuple(dict.fromkeys((*verdict.redo, *(task for task, _ in rerun.faults)))),
    )


def leave_open(verdict: Verdict, reason: str) -> Verdict:
    """``verdict`` that approves nothing, for ``reason``; what it sends back, it still does."""
    decision: Decision = "sent_back" if verdict.decision == "sent_back" else "not_checked"
    return Verdict(
        approved=False, decision=decision, reasons=(clean(reason), *verdict.reasons), redo=verdict.redo
    )


def _exists(claim: str, root: Path, lengths: dict[Path, int]) -> bool:
    """Whether a claim's file is there and long enough; what names no file is not doubted."""
    match = PLACE.fullmatch(claim.partition("::")[0])
    if "://" in claim or claim.startswith("git:") or not match:
        return True
    if not _is_path(match["path"], match["line"], root):
        return True
    path = (root / match["path"]).resolve()
    if not path.is_relative_to(root) or not path.exists():
        return False
    if not match["line"] or not path.is_file():
        return True
    if path not in lengths:
        with path.open("rb") as file:
            lengths[path] = sum(1 for _ in file)
    # an empty file has a first line too
    return 1 <= int(match["line"]) <= max(1, lengths[path])


def _is_path(path: str, line: str | None, root: Path) -> bool:
    """Whether it is a path of the repository, not the name of a test, a log or a place inside a program."""
    if path.startswith(("<", "/")):
        return path.startswith(f"{root}/")
    return bool(line) or ("/" in path and (root / path.split("/", maxsplit=1)[0]).exists())


def _miscounted(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Where the counts of tests or findings in ``metadata`` contradict each other."""
    for value in metadata.values():
        try:
            if isinstance(value, Mapping) and {"exit_code", "passed", "failed"} <= set(value):
                yield from _miscounted_tests(msgspec.convert(value, TestRun))
            elif isinstance(value, Mapping) and {"findings", "total", "tools"} <= set(value):
                yield from _miscounted_findings(msgspec.convert(value, Inspection))
        except (msgspec.ValidationError, ValueError):
            yield f"its account of the {'tests' if 'exit_code' in value else 'findings'} cannot be read"


def _miscounted_tests(run: TestRun) -> Iterator[str]:
    broken = max(run.failed, 0) + max(run.errors, 0)
    if run.exit_code == 0 and broken and not run.problem:
        yield f"the tests ended with exit code 0, but {broken} are said to have failed"
    if run.exit_code > 0 and run.passed > 0 and not broken and not run.timed_out and not run.problem:
        ended = f"the tests ended with exit code {run.exit_code}"
        yield f"{ended}, but none is said to have failed, and no reason is given"
    if run.failed >= 0 and len(run.failures) > broken:
        yield f"{len(run.failures)} failures are listed, but {broken} are counted"


def _miscounted_findings(found: Inspection) -> Iterator[str]:
    if found.total < len(found.findings):
        yield f"{len(found.findings)} findings are listed, but {found.total} are counted"
    if found.total > sum(tool.findings for tool in found.tools):
        yield f"{found.total} findings are counted, but the tools report fewer"
