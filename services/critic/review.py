"""The review of a goal's results, without a model: what was claimed is held against what can be looked up."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from services.critic.claims import Rerun, as_list, as_mapping, as_texts
from services.critic.findings import clean
from shared.contracts.checkup import Inspection, TestRun, Verdict
from shared.contracts.task import TaskStatus

PLACE = re.compile(r"(?P<path>[^:\s][^:\n]*?)(?::(?P<line>\d+)(?::\d+)?)?")
ENDED = frozenset(str(status) for status in TaskStatus if status.final)
SHOWN = 3
"""Sources that cannot be found which a reason names; the rest is counted."""

CODER = "engineer"
PASSING = re.compile(
    r"\btests?(?: suite| cases?)?\b[^.;\n]{0,40}?\b(?:pass(?:es|ed|ing)?|green|succeed(?:s|ed)?)\b",
    re.IGNORECASE,
)
DOUBT = re.compile(
    r"\b(?:no|none|not|never|nor|cannot|could|would|should|may|might|must|if|once|when|until|unless|make|get|"
    r"so that|\d+ failed|fails?|failed|failing|failures?|errors?)\b|n't\b|\?",
    re.IGNORECASE,
)
"""A sentence with one of these does not claim that the tests pass."""
TESTING = re.compile(
    r"\b(?:pytest|py\.test|unittest|nosetests|tox|nox|ctest|jest|vitest|mocha|phpunit|rspec)\b|"
    r"\b(?:npm|yarn|pnpm|cargo|go|make|just|mvn|gradle|gradlew|dotnet|mix|rake|bazel|swift|deno|bun)\b.*\btest|"
    r"\btest_\w+\.py\b",
)
"""Commands that run tests."""


def review(results: Mapping[str, Any], repo: Path | None = None) -> Verdict:
    """Judge the results of a goal's tasks by name; each is a dict as a TaskResult travels.

    Approved if every task ended, none that completed is empty, every ``file:line`` it names exists beneath
    ``repo`` (not checked without one), counts agree with exit codes, and tests that are said to pass were
    run. A task that failed and says why is accepted as a finding. The score starts at 10: each failed task
    costs 2, each fault 3.
    """
    if not results:
        return Verdict(approved=False, score=1, reasons=("There are no results to review.",))
    reasons: list[str] = []
    redo: list[str] = []
    score = 10
    for name, result in results.items():
        faults, note = _judge(as_mapping(result), repo)
        reasons += [f"{name}: {words}" for words in (*faults, *filter(None, [note]))]
        redo += [name] if faults else []
        score -= 3 * len(faults) + 2 * bool(note)
    if not reasons:
        many = f"All {len(results)} tasks ended, and what they claim"
        one = "The task ended, and what it claims"
        reasons = [f"{one if len(results) == 1 else many} can be looked up."]
    cleaned = tuple(map(clean, reasons))
    return Verdict(approved=not redo, score=max(1, score), reasons=cleaned, redo=tuple(redo))


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
    return [*unfound, *_miscounted(metadata), *filter(None, [find_untested_claim(result)])], ""


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
    """``verdict`` with what running claims again showed: a fault costs 3, what was not run 1."""
    reasons = [f"{task}: {words}" for task, words in rerun.faults]
    reasons += [f"{task}: not run: {words}" for task, words in rerun.unrun]
    if not reasons:
        return verdict
    redo = tuple(dict.fromkeys((*verdict.redo, *(task for task, _ in rerun.faults))))
    kept = () if verdict.approved and verdict.score == 10 else verdict.reasons
    return Verdict(
        approved=verdict.approved and not rerun.faults,
        score=max(1, verdict.score - 3 * len(rerun.faults) - len(rerun.unrun)),
        reasons=(*kept, *(clean(reason, 600) for reason in reasons)),
        redo=redo,
    )


def refuse(verdict: Verdict, reason: str) -> Verdict:
    """``verdict`` that does not approve, whatever it says, for ``reason``."""
    return Verdict(approved=False, score=1, reasons=(clean(reason), *verdict.reasons), redo=verdict.redo)


def is_all_own(results: Mapping[str, Any], own_name: str) -> bool:
    """Whether every result is by the agent of that name."""
    return {result.get("agent") for result in results.values() if isinstance(result, Mapping)} == {own_name}


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


def find_untested_claim(result: Mapping[str, Any]) -> str:
    """Why a result that says its tests pass is not believed; empty if it is, or says no such thing.

    Checked are results of thinking by agents that change code: the engineer, and those with a record of
    commands. The last run by an action is in the metadata as ``tests``; that it passed is rerun elsewhere.
    """
    metadata = as_mapping(result.get("metadata"))
    changes_code = "commands" in metadata or ("steps" in metadata and result.get("agent") == CODER)
    said = next(_test_claims(str(result.get("output") or "")), "") if changes_code else ""
    if not said:
        return ""
    tests = as_mapping(metadata.get("tests"))
    if "exit_code" in tests:
        ended = tests["exit_code"]
        return f"it says {said!r}, but its last run of them ended with exit code {ended}" if ended else ""
    commands = map(as_mapping, as_list(metadata.get("commands")))
    runs = [run for run in commands if TESTING.search(str(run.get("command", "")))]
    if not runs:
        return f"it says {said!r}, and no run of them is on record"
    command, ended = str(runs[-1]["command"])[:120], runs[-1].get("exit_code")
    return f"it says {said!r}, but {command} ended with exit code {ended}" if ended else ""


def _test_claims(output: str) -> Iterator[str]:
    own = output.partition("\n\nCommands that were run:")[0]
    for sentence in re.split(r"(?<=[.!?;])\s+|\n+", own):
        if (found := PASSING.search(sentence)) and not DOUBT.search(sentence):
            yield found[0][:80]
