"""Reading what the test runners of compiled languages print: cargo, go, CTest, Maven, Gradle."""

import re
from collections.abc import Iterator
from pathlib import Path

from services.engineer.results import Results, distinct, failure, place
from shared.contracts import TestFailure


def read_cargo(text: str, root: Path) -> Results | None:
    """The results of ``cargo test``, summed over its test programs."""
    sums = re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", text, re.MULTILINE)
    if not sums:
        return None
    passed, failed, skipped = (sum(map(int, column)) for column in zip(*sums, strict=True))
    # The place and the message moved to lines of their own in Rust 1.73.
    form = r"^thread '(.+?)' .*panicked at (?:'(?P<old>.*)', )?(\S+?):(\d+):\d+:?(?:\n(?P<new>.*))?$"
    panics = {
        m[1]: (m["new"] or m["old"] or "", place(m[3], m[4], root))
        for m in re.finditer(form, text, re.MULTILINE)
    }
    names = re.findall(r"^test (.+?) \.\.\. FAILED$", text, re.MULTILINE)
    return Results(
        passed=passed,
        failed=failed,
        skipped=skipped,
        failures=distinct(
            failure(name, *panics.get(name.removesuffix(" - should panic"), ("", ""))) for name in names
        ),
    )


def read_go(text: str, root: Path) -> Results | None:
    """The results of ``go test -v``; a test with subtests is not counted beside them."""
    ends = re.findall(r"^ *--- (PASS|FAIL|SKIP): (\S+)", text, re.MULTILINE)
    broken = re.findall(r"^FAIL\t(\S+) \[(.+ failed)\]$", text, re.MULTILINE)
    if not ends and not broken:
        return None
    parents = {name.rpartition("/")[0] for _, name in ends}
    kinds = [kind for kind, name in ends if name not in parents]
    failures = [each for each in _read_go_failures(text) if each.test not in parents]
    return Results(
        passed=kinds.count("PASS"),
        failed=kinds.count("FAIL"),
        skipped=kinds.count("SKIP"),
        errors=len(broken),
        failures=distinct([*failures, *(failure(package, reason, "") for package, reason in broken)]),
    )


def _read_go_failures(text: str) -> Iterator[TestFailure]:
    said: dict[str, tuple[str, str]] = {}
    current = ""
    for line in text.splitlines():
        if started := re.match(r"=== (?:RUN|NAME|CONT)\s+(\S+)", line):
            current = started[1]
        elif spoken := re.match(r"\s+(\w[\w.-]*\.go:\d+): (.*)", line):
            said[current] = (spoken[2], spoken[1])
        elif failed := re.match(r"\s*--- FAIL: (\S+)", line):
            yield failure(failed[1], *said.get(failed[1], ("", "")))


def read_ctest(text: str, root: Path) -> Results | None:
    """The results of CTest, by its closing line."""
    closing = re.findall(r"^\d+% tests passed, (\d+) tests? failed out of (\d+)", text, re.MULTILINE)
    if not closing:
        return None
    failed, total = map(int, closing[-1])
    names = re.findall(r"^[ \t]+\d+ - (.+) \((.+)\)$", text, re.MULTILINE)
    return Results(
        passed=total - failed,
        failed=failed,
        failures=distinct(failure(name, reason, "") for name, reason in names),
    )


def read_maven(text: str, root: Path) -> Results | None:
    """The results of Maven's Surefire, summed over the modules."""
    form = r"^\S* ?Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)$"
    sums = re.findall(form, text, re.MULTILINE)
    if not sums:
        return None
    run, failed, errors, skipped = (sum(map(int, column)) for column in zip(*sums, strict=True))
    failing = re.findall(r"^\[ERROR\]   (\w[\w.]*)(?::(\d+))?(?:->\S+)? (.*)$", text, re.MULTILINE)
    return Results(
        passed=run - failed - errors - skipped,
        failed=failed,
        errors=errors,
        skipped=skipped,
        failures=distinct(
            failure(name, reason, f"{name.split('.')[0]}.java:{line}" if line else "")
            for name, line, reason in failing
        ),
    )


def read_gradle(text: str, root: Path) -> Results | None:
    """The results of Gradle, which only counts where something failed."""
    closing = re.findall(r"^(\d+) tests completed, (\d+) failed(?:, (\d+) skipped)?$", text, re.MULTILINE)
    if not closing:
        return None
    total, failed, skipped = (int(number or 0) for number in closing[-1])
    names = re.findall(r"^(\w\S*) > (.+) FAILED\n +(.*)$", text, re.MULTILINE)
    return Results(
        passed=total - failed - skipped,
        failed=failed,
        skipped=skipped,
        failures=distinct(failure(f"{group}.{name}", reason, "") for group, name, reason in names),
    )
