"""What ``go test -json`` prints: one JSON object a line."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from services.engineer.results import Results, failure, tally
from shared.contracts import TestFailure

ENDS = {"pass": "passed", "fail": "failed", "skip": "skipped"}
PLACE = re.compile(r"^\s+([\w./-]+\.go:\d+): (.*)", re.MULTILINE)


class Line(msgspec.Struct, frozen=True, rename="pascal"):
    """One line: what happened (``action``) to a test of a package, or to the package itself."""

    action: str
    package: str = ""
    test: str = ""
    output: str = ""


def parse_json(text: str) -> list[Line]:
    """The lines of ``go test -json`` in ``text``; others, such as those of the compiler, are left out."""
    decoder, found = msgspec.json.Decoder(Line), []
    for row in text.splitlines():
        if row.startswith("{"):
            try:
                found.append(decoder.decode(row))
            except (msgspec.MsgspecError, ValueError):
                continue
    return found


def read_results(lines: list[Line], root: Path) -> Results | None:
    """The results; a test with subtests is not counted beside them."""
    ends = {(each.package, each.test): each.action for each in lines if each.test and each.action in ENDS}
    broken = [each.package for each in lines if not each.test and each.action == "fail"]
    parents = {(package, name.rpartition("/")[0]) for package, name in ends}
    broken = [package for package in broken if not any(of == package for of, _ in ends)]
    if not ends and not broken:
        return None
    # The test program of each package says that it ended; one that ends its process with 0 passes without it.
    begun = {each.package for each in lines if each.test or each.output.startswith("ok  \t")}
    said = {each.package for each in lines if not each.test and each.output in ("PASS\n", "FAIL\n")}
    silent = sorted(begun - said - set(broken))
    cut = f"The run ended early in the package {silent[0]}" if silent else ""
    counts = [(ENDS[action], 1) for key, action in ends.items() if key not in parents]
    failed = _read_failures(lines, {key for key, end in ends.items() if end == "fail"} - parents)
    failures = [*failed, *(failure(package, "the package was not tested", "") for package in broken)]
    return tally([*counts, ("errors", len(broken))], failures, cut)


def _read_failures(lines: list[Line], failed: set[tuple[str, str]]) -> Iterator[TestFailure]:
    said: dict[tuple[str, str], str] = {}
    for each in lines:
        if (each.package, each.test) in failed and each.action == "output":
            said[each.package, each.test] = said.get((each.package, each.test), "") + each.output
    for package, name in sorted(failed):
        text = said.get((package, name), "")
        spoken = PLACE.search(text)
        folder = "/".join(package.split("/")[3:])
        place = f"{folder}/{spoken[1]}".lstrip("/") if spoken else ""
        message = spoken[2] if spoken else (re.findall(r"^panic: .*", text, re.MULTILINE) or [""])[0]
        yield failure(f"{package}.{name}", message, place)


def running(lines: list[Line]) -> list[str]:
    """The tests that had started and not ended."""
    open_tests: dict[str, None] = {}
    for each in lines:
        name = f"{each.package}.{each.test}"
        if each.test and each.action == "run":
            open_tests[name] = None
        elif each.test and each.action in ENDS:
            open_tests.pop(name, None)
    return [name for name in open_tests if not any(other.startswith(f"{name}/") for other in open_tests)]


def as_text(lines: list[Line]) -> str:
    """What ``go test`` would have printed for people."""
    return "".join(each.output for each in lines)
