"""The outcomes of the engineer's work."""

import shlex
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from services.engineer.delivery import Delivery
from services.engineer.summary import cite_tests, tell_tests
from shared.contracts import HistoryReading, TestRun
from shared.errors import ActionError
from shared.skills.changing import RanCommand
from shared.skills.repository import find_any
from shared.tasks.actions import Outcome

SHOWN = 20
"""How many commands are told in words; all of them, up to MOST, are in the data."""
MOST = 200


def report_tests(tests: TestRun, skipped: tuple[str, ...]) -> Outcome:
    """What a run of tests brought."""
    return Outcome(
        output=tell_tests(tests, skipped),
        data={"tests": tests.to_dict(), "not_copied": list(skipped)},
        evidence_refs=cite_tests(tests),
        output_paths=(tests.log_path,) if tests.log_path else (),
    )


def report_history(history: HistoryReading, output: str) -> Outcome:
    """What a repository's history tells."""
    sources = tuple(commit.source for commit in history.latest)
    return Outcome(output=output, data={"history": history.to_dict()}, evidence_refs=sources)


def report_delivery(
    outcome: Outcome,
    delivery: Delivery,
    commands: Sequence[RanCommand],
    workspace: Path,
    origin: Callable[[str], Path | None],
) -> Outcome:
    """``outcome`` with what was changed and run for it, as it is on the disk and not as it is claimed.

    ``origin`` says what a folder of the workspace is a copy of.
    """
    parts = [outcome.output]
    if delivery.patches or delivery.files:
        told = [f"- {path}{_tell_use(path, origin(Path(path).stem))}" for path in delivery.patches]
        parts.append("\n".join(["Handed over:", *told, *(f"- {path}" for path in delivery.files)]))
    if delivery.missing:
        parts.append("\n".join(["Not handed over:", *(f"- {what}" for what in delivery.missing)]))
    if commands:
        parts.append("\n".join(["Commands that were run:", *map(_tell, commands[-SHOWN:])]))
    return msgspec.structs.replace(
        outcome,
        output="\n\n".join(parts),
        data={
            **outcome.data,
            "commands": [msgspec.to_builtins(each) for each in commands[-MOST:]],
            "patches": list(delivery.patches),
            "workspace": str(workspace),
        },
        evidence_refs=_join(outcome.evidence_refs, (each.log for each in commands[-SHOWN:] if each.log)),
        output_paths=_join(delivery.patches, delivery.files, outcome.output_paths),
    )


def _tell_use(patch: str, origin: Path | None) -> str:
    """How a patch is applied to what it was made for: git leaves out, without a word, what lies beside."""
    if origin is None:
        return ""
    repository = find_any(origin)
    if repository and repository.bare:
        return ""
    top = repository.top if repository else origin
    within = [] if origin == top else [f"--directory={origin.relative_to(top)}"]
    return f", to apply: {shlex.join(['git', '-C', str(top), 'apply', *within, patch])}"


def add_partial(error: ActionError, made: Sequence[str], workspace: Path) -> ActionError:
    """``error`` with where the unfinished work is, and where it was done."""
    more = f" and {len(made) - 1} more" if len(made) > 1 else ""
    files = f"Unfinished: {made[0]}{more}. " if made else ""
    return ActionError(str(error).removesuffix("."), f"{files}The workspace is {workspace}")


def _tell(ran: RanCommand) -> str:
    line = " ".join(ran.command.split())
    end = "stopped, its time was up" if ran.timed_out else f"exit code {ran.exit_code}"
    return f"- {line if len(line) <= 120 else line[:119] + '…'} ({end})"


def _join(*groups: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for group in groups for each in group))
