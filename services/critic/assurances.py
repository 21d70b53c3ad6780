"""That tests pass, said in words: held against what is on record of their being run."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

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
"""In a sentence with one of these nobody claims that the tests pass."""
TESTING = re.compile(
    r"\b(?:pytest|py\.test|unittest|nosetests|tox|nox|ctest|jest|vitest|mocha|phpunit|rspec)\b|"
    r"\b(?:npm|yarn|pnpm|cargo|go|make|just|mvn|gradle|gradlew|dotnet|mix|rake|bazel|swift|deno|bun)\b.*\btest|"
    r"\btest_\w+\.py\b",
)
"""Commands that run tests."""


def find_empty_assurance(result: Mapping[str, Any]) -> str:
    """Why nobody needs to believe a result that says its tests pass; empty where it says no such thing.

    Looked at is what somebody thought out who changes code: the engineer, and who has a record of commands.
    The last run by an action stands in the metadata as ``tests``; that it passed is tried again elsewhere.
    """
    metadata = result.get("metadata")
    if not isinstance(metadata, Mapping) or not (
        "commands" in metadata or ("steps" in metadata and result.get("agent") == CODER)
    ):
        return ""
    said = next(_assurances(str(result.get("output") or "")), "")
    if not said:
        return ""
    tests = metadata.get("tests")
    if isinstance(tests, Mapping) and "exit_code" in tests:
        ended = tests["exit_code"]
        return f"it says {said!r}, but its last run of them ended with exit code {ended}" if ended else ""
    runs = [run for run in _runs(metadata) if TESTING.search(str(run.get("command", "")))]
    if not runs:
        return f"it says {said!r}, and no run of them is on record"
    ended = runs[-1].get("exit_code")
    return (
        f"it says {said!r}, but {str(runs[-1]['command'])[:120]} ended with exit code {ended}"
        if ended
        else ""
    )


def _assurances(output: str) -> Iterator[str]:
    own = output.partition("\n\nCommands that were run:")[0]
    for sentence in re.split(r"(?<=[.!?;])\s+|\n+", own):
        if (found := PASSING.search(sentence)) and not DOUBT.search(sentence):
            yield found[0][:80]


def _runs(metadata: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    commands = metadata.get("commands")
    return [run for run in commands if isinstance(run, Mapping)] if isinstance(commands, list | tuple) else []
