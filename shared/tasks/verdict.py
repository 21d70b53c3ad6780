"""What the review of a goal came to, in a sentence that says what was checked."""

from collections.abc import Sequence

from shared.contracts import Checked, Goal, Verdict

SHOWN = 3
"""Reasons that the sentence names; the others are counted."""


def verdict_of(goal: Goal) -> Verdict | None:
    """The last verdict about ``goal``; None if it was not reviewed."""
    return Verdict.from_dict(goal.verdict) if goal.verdict else None


def format_verdict(verdict: Verdict) -> str:
    """``Checked: the tests were run again; 3 of 4 sources were found.``, or why that is not known."""
    checks = "; ".join(list_checks(verdict.checked))
    why = _join(verdict.checked.unjudged)
    if verdict.decision == "nothing_checked":
        return "Nothing was checked: nothing that the results name can be looked up or run again here."
    if verdict.decision == "sent_back":
        faults = [each for each in verdict.reasons if each.partition(":")[0] in verdict.redo]
        return f"Refuted: {_join(faults or verdict.reasons) or 'not all that the results say is true'}."
    if verdict.decision == "not_checked":
        said = f"Not judged: {why or _join(verdict.reasons) or 'the review gives no reason'}"
        return f"{said}; checked: {checks}." if checks else f"{said}."
    said = f"Checked: {checks}" if checks else "Nothing was checked"
    return f"{said}; not checked: {why}." if why else f"{said}."


def list_checks(checked: Checked) -> list[str]:
    """What was checked, each in a few words; empty if that is nothing."""
    counted = (
        (checked.tests, "the tests were run again", "the tests of {:,} tasks were run again"),
        (
            checked.records,
            "the run of the tests agrees with its record",
            "{:,} runs of tests agree with their record",
        ),
        (checked.patches, "the patch was applied to a copy", "{:,} patches were applied to a copy"),
        (checked.inspections, "the inspection was repeated", "{:,} inspections were repeated"),
        (checked.code, "the file of code parses", "{:,} files of code parse"),
        (checked.files, "the delivered file is there", "{:,} delivered files are there"),
        (
            checked.sources,
            f"{checked.found:,} of 1 source was found",
            f"{checked.found:,} of {{:,}} sources were found",
        ),
        (
            checked.criteria,
            f"{checked.met:,} of 1 criterion is met",
            f"{checked.met:,} of {{:,}} criteria are met",
        ),
        (checked.content, "a model judged the content", ""),
    )
    return [one if number == 1 else several.format(number) for number, one, several in counted if number]


def _join(reasons: Sequence[str]) -> str:
    shown = [reason.rstrip(".") for reason in reasons[:SHOWN]]
    more = [f"{len(reasons) - SHOWN:,} more"] if len(reasons) > SHOWN else []
    return "; ".join([*shown, *more])
