"""Reading what JavaScript's test runners print: node:test and other TAP, Jest, Vitest, Mocha."""

import re
from collections.abc import Iterator
from pathlib import Path

from services.engineer.results import Results, count, distinct, failure, place
from shared.contracts import TestFailure

FRAME = re.compile(
    r"(?:[('\s]|^)(?P<file>(?:file://)?[\w./@+-]+\.[cm]?[jt]sx?):(?P<line>\d+):\d+", re.MULTILINE
)


def _locate(text: str, root: Path) -> str:
    """The first place in a stack that is the project's own."""
    places = (place(frame["file"], frame["line"], root) for frame in FRAME.finditer(text))
    return next((each for each in places if each), "")


def read_tap(text: str, root: Path) -> Results | None:
    """The results of node:test (both its reporters) or of any other producer of TAP."""
    summary = dict(
        re.findall(r"^(?:#|ℹ) (tests|pass|fail|cancelled|skipped|todo) (\d+)$", text, re.MULTILINE)
    )
    numbers = {key: int(value) for key, value in summary.items()}
    failures = distinct([*_read_tap_failures(text, root), *_read_spec_failures(text, root)])
    if "pass" in numbers:
        return Results(
            passed=numbers["pass"],
            failed=numbers.get("fail", 0) + numbers.get("cancelled", 0),
            skipped=numbers.get("skipped", 0) + numbers.get("todo", 0),
            failures=failures,
        )
    points = re.findall(r"^(not ok|ok) \d+\b(.*)$", text, re.MULTILINE)
    if not points:
        return None
    skipped = sum(bool(re.search(r"# (?:SKIP|TODO)", rest, re.IGNORECASE)) for _, rest in points)
    failed = sum(kind == "not ok" and "# TODO" not in rest.upper() for kind, rest in points)
    return Results(passed=len(points) - skipped - failed, failed=failed, skipped=skipped, failures=failures)


def _read_tap_failures(text: str, root: Path) -> Iterator[TestFailure]:
    notes_form = r"(?P<notes>\1  ---\n(?:.*\n){0,200}?\1  \.\.\.\n)"
    form = rf"^( *)not ok \d+(?: - )?(?P<name>.*)\n{notes_form}?"
    for point in re.finditer(form, text, re.MULTILINE):
        notes, name = point["notes"] or "", point["name"].strip()
        if "subtestsFailed" in notes or re.search(r"# TODO", name, re.IGNORECASE):
            continue
        reason = re.search(r"^ *(?:error|message): (?:\|-\n)?(.*)$", notes, re.MULTILINE)
        stack = notes.partition("stack:")[2]
        source = _locate(stack, root) or _locate(notes, root)
        yield failure(name, reason[1].strip(" '\"") if reason else "", source)


def _read_spec_failures(text: str, root: Path) -> Iterator[TestFailure]:
    listing = text.rpartition("\n✖ failing tests:\n")
    if not listing[1]:
        return
    for block in re.split(r"^test at ", listing[2], flags=re.MULTILINE)[1:]:
        form = r"(.+):(\d+):\d+\n✖ (.+?)(?: \([\d.]+ms\))?\n\s*(.*)"
        if told := re.match(form, block):
            file, line, name, reason = told.groups()
            yield failure(name, reason, _locate(block[told.end() :], root) or place(file, line, root))


def read_jest(text: str, root: Path) -> Results | None:
    """The results of Jest, by its ``Tests:`` line."""
    lines = re.findall(r"^Tests: +(.*total)$", text, re.MULTILINE)
    if not lines:
        return None
    numbers = count(r"(\d+) (\w+)", lines[-1])
    broken = len(re.findall(r"^  ● Test suite failed to run$", text, re.MULTILINE))
    return Results(
        passed=numbers.get("passed", 0),
        failed=numbers.get("failed", 0),
        skipped=numbers.get("skipped", 0) + numbers.get("todo", 0),
        errors=broken,
        failures=distinct(_read_jest_failures(text, root)),
    )


def _read_jest_failures(text: str, root: Path) -> Iterator[TestFailure]:
    for suite in re.split(r"^FAIL +", text, flags=re.MULTILINE)[1:]:
        file = suite.split(maxsplit=1)[0]
        for block in re.split(r"^  ● ", suite, flags=re.MULTILINE)[1:]:
            name, _, rest = block.partition("\n")
            yield failure(f"{file} › {name}", _first_line(rest), _locate(rest, root) or file)


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


def read_vitest(text: str, root: Path) -> Results | None:
    """The results of Vitest, by its ``Tests`` line."""
    lines = re.findall(r"^ *Tests  ?(\d+ \w+.*\(\d+\))$", text, re.MULTILINE)
    if not lines:
        return None
    numbers = count(r"(\d+) (\w+)", lines[-1])
    failures = []
    for block in re.split(r"^ *FAIL +", text, flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition("\n")
        failures.append(failure(name.partition(" [ ")[0], _first_line(rest), _locate(rest, root)))
    return Results(
        passed=numbers.get("passed", 0),
        failed=numbers.get("failed", 0),
        skipped=numbers.get("skipped", 0) + numbers.get("todo", 0),
        errors=len(re.findall(r"^ *FAIL +\S+ \[ .+ \]$", text, re.MULTILINE)),
        failures=distinct(failures),
    )


def read_mocha(text: str, root: Path) -> Results | None:
    """The results of Mocha's spec reporter."""
    numbers = count(r"(?m)^ +(\d+) (passing|failing|pending)\b", text)
    if "passing" not in numbers:
        return None
    details = re.split(r"^ +\d+ failing$", text, flags=re.MULTILINE)[-1] if numbers.get("failing") else ""
    failures = []
    for block in re.split(r"^  \d+\) ", details, flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition(":\n")
        failures.append(failure(" ".join(name.split()), _first_line(rest), _locate(rest, root)))
    return Results(
        passed=numbers["passing"],
        failed=numbers.get("failing", 0),
        skipped=numbers.get("pending", 0),
        failures=distinct(failures),
    )
