"""The outcomes of the engineer's work."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from services.engineer.delivery import Delivery
from services.engineer.summary import cite_tests, tell_tests
from shared.actions import Outcome
from shared.contracts import HistoryReading, TestRun
from shared.skills.changing import RanCommand

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
    outcome: Outcome, delivery: Delivery, commands: Sequence[RanCommand], workspace: Path
) -> Outcome:
    """``outcome`` with what was changed and run for it, as it is on the disk and not as it is claimed."""
    parts = [outcome.output]
    if delivery.patches or delivery.files:
        parts.append(
            "\n".join(["Handed over:", *(f"- {path}" for path in delivery.patches + delivery.files)])
        )
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


def _tell(ran: RanCommand) -> str:
    line = " ".join(ran.command.split())
    end = "stopped, its time was up" if ran.timed_out else f"exit code {ran.exit_code}"
    return f"- {line if len(line) <= 120 else line[:119] + '…'} ({end})"


def _join(*groups: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for group in groups for each in group))
