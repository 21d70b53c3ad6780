"""What a result says was done, held against what is on record; what a review came to, in a sentence."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from shared.contracts import Checked, Goal, Verdict

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
RAN = re.compile(
    r"\b(?:I|we)(?:['’]ve| have)?\s+(?:\w+\s+)?(?:ran|executed)\b(?P<what>[^.;\n]{0,200})", re.IGNORECASE
)
QUOTED = re.compile(r"`([^`\n]{2,200})`")
CHANGED = re.compile(
    r"\bI(?:['’]ve| have)?\s+(?:\w+\s+)?"
    r"(?:fixed|changed|patched|edited|modified|corrected|repaired|rewrote)\b"
    r"|\b(?:patch|diff)\b[^.;\n]{0,30}\b(?:attached|delivered|handed over|ready|applied|produced|created)\b",
    re.IGNORECASE,
)
"""Sentences that promise a changed file or a patch."""
UNCERTAIN = re.compile(
    r"\b(?:no|none|not|never|cannot|could|would|should|if|unless)\b|n't\b|\?", re.IGNORECASE
)
ENDING = re.compile(r"\n\n(?:Handed over|Not handed over|Commands that were run):")
"""What the agent itself appends to a model's words."""


def find_unproved(
    output: str, metadata: Mapping[str, Any], agent: str, paths: Sequence[str] = ()
) -> tuple[str, ...]:
    """What a result claims and nothing on record bears out, a sentence each.

    Checked are results of thinking by agents that change code: the engineer, and those with a record of
    commands. The last run of tests by an action is in the metadata as ``tests``; ``paths`` are the result's
    files.
    """
    if "commands" not in metadata and not ("steps" in metadata and agent == CODER):
        return ()
    own = ENDING.split(output, maxsplit=1)[0]
    commands = [each for each in _list(metadata.get("commands")) if isinstance(each, Mapping)]
    tests = metadata.get("tests")
    tests = tests if isinstance(tests, Mapping) else {}
    found = [_untested(own, commands, tests), *_never_ran(own, commands, tests)]
    made = metadata.get("patches") or [path for path in paths if not path.endswith(".log")]
    found.append("" if made else _unpatched(own))
    return tuple(dict.fromkeys(filter(None, found)))


def _untested(own: str, commands: Sequence[Mapping[str, Any]], tests: Mapping[str, Any]) -> str:
    said = next(_test_claims(own), "")
    if not said:
        return ""
    if "exit_code" in tests:
        if tests.get("incomplete"):
            return f"it says {said!r}, but its last run of them is incomplete: {tests.get('problem')}"
        ended = tests["exit_code"]
        return f"it says {said!r}, but its last run of them ended with exit code {ended}" if ended else ""
    runs = [run for run in commands if TESTING.search(str(run.get("command", "")))]
    if not runs:
        return f"it says {said!r}, and no run of them is on record"
    command, ended = str(runs[-1]["command"])[:120], runs[-1].get("exit_code")
    return f"it says {said!r}, but {command} ended with exit code {ended}" if ended else ""


def _test_claims(own: str) -> Iterator[str]:
    for sentence in _sentences(own):
        if (found := PASSING.search(sentence)) and not DOUBT.search(sentence):
            yield found[0][:80]


def _never_ran(own: str, commands: Sequence[Mapping[str, Any]], tests: Mapping[str, Any]) -> Iterator[str]:
    """The commands that it says it ran, in backticks or by the name of a test runner, and that nobody ran."""
    recorded = [_plain(str(run.get("command", ""))) for run in commands]
    recorded.append(_plain(str(tests.get("command", ""))))
    tested = bool(tests.get("command")) or any(map(TESTING.search, recorded))
    for sentence in _sentences(own):
        said = RAN.search(sentence)
        if said is None or UNCERTAIN.search(sentence):
            continue
        quoted = [each for each in QUOTED.findall(said["what"]) if not re.fullmatch(r"\w+_\w+", each)]
        for command in quoted:
            known = any(_plain(command) in each for each in recorded)
            if not known and not (tested and TESTING.search(command)):
                yield f"it says that it ran {command!r}, which is not on record"
        if not quoted and not tested and (runner := TESTING.search(said["what"])):
            yield f"it says that it ran {runner[0]!r}, which is not on record"


def _unpatched(own: str) -> str:
    for sentence in _sentences(own):
        if (found := CHANGED.search(sentence)) and not UNCERTAIN.search(sentence):
            return f"it says {found[0][:80]!r}, and there is neither a patch nor a file"
    return ""


def _sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?;])\s+|\n+", text)


def _plain(command: str) -> str:
    return " ".join(command.split())


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


SHOWN = 3  # Reasons that the sentence names; the others are counted


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
