"""Parsers of what test runners print; each returns None if the output is not its runner's.

The proof that a run ended is its runner's closing line, with as many tests as were announced. Without it the
results are ``cut``: those of what ran.

Python: pytest, unittest. JavaScript: node:test and other TAP, Jest, Vitest, Mocha. Perl: prove. Compiled
languages: cargo, go, CTest. Maven, Gradle and Meson are counted by the reports that they always leave.
"""

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from services.engineer.results import (
    OUTCOMES,
    UNPROVED,
    Results,
    failure,
    format_cut,
    format_place,
    parse_counts,
    script_place,
    tally,
)
from shared.contracts import TestFailure

PYTEST_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+\.py\S*)(?: - (.*))?$", re.MULTILINE)
PYTEST_SIGNS = re.compile(r"^(?:\S+\.py )?([.FEsxX]{2,}|[.FEsxX](?= +\[))(?: +\[ *\d+%\])?$", re.MULTILINE)
SIGNS = {".": "passed", "X": "passed", "F": "failed", "s": "skipped", "x": "skipped", "E": "errors"}
UNITTEST_ENDS = {"ok": "passed", "FAIL": "failed", "skipped": "skipped", "ERROR": "errors"}
CARGO = ("passed", "failed", "ignored")
GO_ENDS = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
AVA_FAILURE = r"^  (\S[^\n]{0,300})\n\n  (\S+\.[cm]?[jt]sx?:\d+)\n\n((?:.*\n){0,14})"


def parse_pytest(text: str, root: Path) -> Results | None:
    """The results of pytest: from its closing line, else from the signs it printed until it was stopped."""
    closing = re.findall(r"^=* ?(?=\d+ \w)(.*?) in [\d.]+s\b.*$", text, re.MULTILINE)
    form = r"(\d+) (passed|failed|skipped|xfailed|xpassed|errors?)"
    if closing and (counts := parse_counts(form, closing[-1])):
        failures = (failure(name, message, "") for name, message in PYTEST_FAILED.findall(text))
        collected = re.findall(r"^collected (\d+) items?(?: / .*?(\d+) selected)?", text, re.MULTILINE)
        expected = int(collected[-1][1] or collected[-1][0]) if collected else 0
        stopped = re.findall(r"^!+ (.+?) !+$", text, re.MULTILINE)
        cut = f"The run ended early: {stopped[-1]}" if stopped else ""
        return tally(counts.items(), failures, cut or _cut(expected - sum(counts.values())))
    signs = "".join(PYTEST_SIGNS.findall(text))
    return tally(((SIGNS[sign], 1) for sign in signs), cut=UNPROVED) if signs else None


def _cut(missing: int) -> str:
    """Why results are not those of a whole run that lacks the ends of so many tests."""
    return format_cut((), missing) if missing > 0 else ""


def parse_unittest(text: str, root: Path) -> Results | None:
    """The results of unittest (and Django) with ``-v``, complete or stopped on its way."""
    ran = re.findall(r"^Ran (\d+) tests? in ", text, re.MULTILINE)
    if not ran:
        ends = re.findall(r"^.* \.\.\. (ok$|FAIL$|ERROR$|skipped\b)", text, re.MULTILINE)
        return tally(((UNITTEST_ENDS[end], 1) for end in ends), cut=UNPROVED) if ends else None
    closing = re.findall(r"^(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$", text, re.MULTILINE)
    numbers = re.findall(r"([a-z ]+)=(\d+)", closing[-1] if closing else "")
    counts = {key.strip(): int(number) for key, number in numbers if key.strip() in OUTCOMES}
    passed = max(0, int(ran[-1]) - sum(counts.values()))
    found = re.findall(r"^Found (\d+) test\(s\)", text, re.MULTILINE)  # Django
    cut = _cut(int(found[-1]) - int(ran[-1])) if found else ""
    cut = cut if closing else UNPROVED
    return tally([*counts.items(), ("passed", passed)], _unittest_failures(text, root), cut)


def _unittest_failures(text: str, root: Path) -> Iterator[TestFailure]:
    for block in re.split(r"^={70}\n", text, flags=re.MULTILINE)[1:]:
        head = re.match(r"(?:FAIL|ERROR): (\S+)(?: \((.+?)\))?", block)
        if head is None:
            continue
        body = re.split(r"^-{70}\n", block, flags=re.MULTILINE)[1]
        lines = re.findall(r'File "(.+?)", line (\d+)', body)
        places = [format_place(file, line, root) for file, line in lines]
        reasons = re.findall(r"^(\w[\w.]*(?:: .*)?)$", body.split("Traceback", 1)[-1], re.MULTILINE)
        name, case = head.groups()
        test = case if case and case.endswith(f".{name}") else ".".join(part for part in (case, name) if part)
        yield failure(test, reasons[-1] if reasons else "", next((p for p in reversed(places) if p), ""))


def parse_tap(text: str, root: Path) -> Results | None:
    """The results of node:test (both its reporters) or of any other producer of TAP."""
    words = re.findall(r"^(?:#|ℹ) (tests|pass|fail|cancelled|skipped|todo) (\d+)$", text, re.MULTILINE)
    summary = dict(words)  # the last of each
    failures = (*_tap_failures(text, root), *_spec_failures(text, root))
    if "pass" in summary:
        return tally(summary.items(), failures)
    points = re.findall(r"^(not ok|ok) \d+\b(.*)$", text, re.MULTILINE)
    if not points:
        return None
    skipped = sum(bool(re.search(r"# (?:SKIP|TODO)", rest, re.IGNORECASE)) for _, rest in points)
    failed = sum(kind == "not ok" and "# TODO" not in rest.upper() for kind, rest in points)
    passed = len(points) - skipped - failed
    plans = re.findall(r"^1\.\.(\d+)", text, re.MULTILINE)
    cut = _cut(sum(map(int, plans)) - len(points)) if plans else UNPROVED
    return tally([("passed", passed), ("failed", failed), ("skipped", skipped)], failures, cut)


def _tap_failures(text: str, root: Path) -> Iterator[TestFailure]:
    notes_form = r"(?P<notes>\1  ---\n(?:.*\n){0,200}?\1  \.\.\.\n)"
    form = rf"^( *)not ok \d+(?: - )?(?P<name>.*)\n{notes_form}?"
    for point in re.finditer(form, text, re.MULTILINE):
        notes, name = point["notes"] or "", point["name"].strip()
        if "subtestsFailed" in notes or re.search(r"# TODO", name, re.IGNORECASE):
            continue
        reason = re.search(r"^ *(?:error|message): (?:\|-\n)?(.*)$", notes, re.MULTILINE)
        source = script_place(notes.partition("stack:")[2], root) or script_place(notes, root)
        yield failure(name, reason[1].strip(" '\"") if reason else "", source)


def _spec_failures(text: str, root: Path) -> Iterator[TestFailure]:
    listing = text.rpartition("\n✖ failing tests:\n")
    blocks = re.split(r"^test at ", listing[2], flags=re.MULTILINE)[1:] if listing[1] else []
    for block in blocks:
        if match := re.match(r"(.+):(\d+):\d+\n✖ (.+?)(?: \([\d.]+ms\))?\n\s*(.*)", block):
            file, line, name, reason = match.groups()
            place = script_place(block[match.end() :], root) or format_place(file, line, root)
            yield failure(name, reason, place)


def parse_jest(text: str, root: Path) -> Results | None:
    """The results of Jest, from its ``Tests:`` line."""
    lines = re.findall(r"^Tests: +(.*total)$", text, re.MULTILINE)
    if not lines:
        return None
    broken = len(re.findall(r"^  ● Test suite failed to run$", text, re.MULTILINE))
    counts = parse_counts(r"(\d+) (\w+)", lines[-1]) | {"errors": broken}
    stopped = re.search(r"^Test Suites: .*\d+ of (\d+) total$", text, re.MULTILINE)
    cut = f"The run ended early: not all of {stopped[1]} files were run" if stopped else ""
    failures = []
    for suite in re.split(r"^FAIL +", text, flags=re.MULTILINE)[1:]:
        file = suite.split(maxsplit=1)[0]
        for block in re.split(r"^  ● ", suite, flags=re.MULTILINE)[1:]:
            name, _, rest = block.partition("\n")
            place = script_place(rest, root) or file
            failures.append(failure(f"{file} › {name}", _first_line(rest), place))
    return tally(counts.items(), failures, cut)


def parse_vitest(text: str, root: Path) -> Results | None:
    """The results of Vitest, from its ``Tests`` line."""
    lines = re.findall(r"^ *Tests  ?(\d+ \w+.*\(\d+\))$", text, re.MULTILINE)
    if not lines:
        return None
    broken = len(re.findall(r"^ *FAIL +\S+ \[ .+ \]$", text, re.MULTILINE))
    blocks = (block.partition("\n") for block in re.split(r"^ *FAIL +", text, flags=re.MULTILINE)[1:])
    failures = (
        failure(name.partition(" [ ")[0], _first_line(rest), script_place(rest, root))
        for name, _, rest in blocks
    )
    counts = parse_counts(r"(\d+) (\w+)", lines[-1])
    total = int(lines[-1].rpartition("(")[2].rstrip(")"))
    return tally((counts | {"errors": broken}).items(), failures, _cut(total - sum(counts.values())))


def parse_mocha(text: str, root: Path) -> Results | None:
    """The results of Mocha's spec reporter."""
    counts = parse_counts(r"(?m)^ +(\d+) (passing|failing|pending)\b", text)
    if "passing" not in counts:
        return None
    details = re.split(r"^ +\d+ failing$", text, flags=re.MULTILINE)[-1] if counts.get("failing") else ""
    blocks = (block.partition(":\n") for block in re.split(r"^  \d+\) ", details, flags=re.MULTILINE)[1:])
    failures = (
        failure(" ".join(name.split()), _first_line(rest), script_place(rest, root))
        for name, _, rest in blocks
    )
    return tally(counts.items(), failures)


def _first_line(text: str) -> str:
    return next((line for line in text.splitlines() if line.strip()), "")


def parse_cargo(text: str, root: Path) -> Results | None:
    """The results of ``cargo test``, summed over its test programs."""
    form = r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;"
    sums = [row for found in re.findall(form, text, re.MULTILINE) for row in zip(CARGO, found, strict=True)]
    if not sums:
        return None
    # The place and the message moved to lines of their own in Rust 1.73.
    form = r"^thread '(.+?)' .*panicked at (?:'(?P<old>.*)', )?(\S+?):(\d+):\d+:?(?:\n(?P<new>.*))?$"
    panics = {
        m[1]: (m["new"] or m["old"] or "", format_place(m[3], m[4], root))
        for m in re.finditer(form, text, re.MULTILINE)
    }
    names = re.findall(r"^test (.+?) \.\.\. FAILED$", text, re.MULTILINE)
    failures = (failure(name, *panics.get(name.removesuffix(" - should panic"), ("", ""))) for name in names)
    begun = [int(number) for number in re.findall(r"^running (\d+) tests?$", text, re.MULTILINE)]
    lost = sum(begun) - sum(int(number) for _, number in sums)
    cut = format_cut((), max(lost, 0)) if len(begun) > len(sums) // len(CARGO) else ""
    ended = len(re.findall(r"(?: \.\.\. |^)(?:ok|FAILED|ignored)(?=$|,| <)", text, re.MULTILINE))
    cut = cut or (_cut(sum(int(number) for _, number in sums) - ended) if ended else "")
    return tally(sums, failures, cut)


def parse_go(text: str, root: Path) -> Results | None:
    """The results of ``go test -v``; a test with subtests is not counted beside them."""
    ends = re.findall(r"^ *--- (PASS|FAIL|SKIP): (\S+)", text, re.MULTILINE)
    broken = re.findall(r"^FAIL\t(\S+) \[(.+ failed)\]$", text, re.MULTILINE)
    if not ends and not broken:
        return None
    parents = {name.rpartition("/")[0] for _, name in ends}
    counts = [(GO_ENDS[kind], 1) for kind, name in ends if name not in parents]
    failures = [each for each in _go_failures(text) if each.test not in parents]
    failures += [failure(package, reason, "") for package, reason in broken]
    begun = dict.fromkeys(re.findall(r"^=== RUN +(\S+)", text, re.MULTILINE))
    running = [name for name in begun if name not in {ended for _, ended in ends}]
    said = len(re.findall(r"^(?:PASS|FAIL)$", text, re.MULTILINE))
    packages = len(re.findall(r"^(?:ok  |FAIL)\t\S+\t[\d(]", text, re.MULTILINE))
    lost = begun and said < packages  # without -v the test programs do not say that they ended
    cut = format_cut(running, 0) if running else UNPROVED if lost else ""
    return tally([*counts, ("errors", len(broken))], failures, cut)


def _go_failures(text: str) -> Iterator[TestFailure]:
    said: dict[str, tuple[str, str]] = {}
    current = ""
    for line in text.splitlines():
        if started := re.match(r"=== (?:RUN|NAME|CONT)\s+(\S+)", line):
            current = started[1]
        elif spoken := re.match(r"\s+(\w[\w.-]*\.go:\d+): (.*)", line):
            said[current] = (spoken[2], spoken[1])
        elif failed := re.match(r"\s*--- FAIL: (\S+)", line):
            yield failure(failed[1], *said.get(failed[1], ("", "")))


def parse_ctest(text: str, root: Path) -> Results | None:
    """The results of CTest, from its closing line."""
    closing = re.findall(r"^\d+% tests passed, (\d+) tests? failed out of (\d+)", text, re.MULTILINE)
    if not closing:
        return None
    failed, total = map(int, closing[-1])
    names = re.findall(r"^[ \t]+\d+ - (.+) \((.+)\)$", text, re.MULTILINE)
    failures = (failure(name, reason, "") for name, reason in names)
    return tally([("passed", total - failed), ("failed", failed)], failures)


def parse_ava(text: str, root: Path) -> Results | None:
    """The results of AVA, which counts what passed only if nothing failed."""
    counts = parse_counts(
        r"(?m)^ +(\d+) (?:tests? |known |uncaught )?(passed|failed|skipped|todo|failures|exceptions?)$", text
    )
    lines = re.findall(r"^ +(✔|✘|✖) (.+)$", text, re.MULTILINE)
    if not counts or not (lines or "passed" in counts):
        return None
    counts["skipped"] = counts.get("skipped", 0) + counts.pop("todo", 0) + counts.pop("failures", 0)
    counts["error"] = counts.pop("exception", 0) + counts.pop("exceptions", 0)
    counts.setdefault("passed", sum(sign == "✔" for sign, _ in lines))
    failures = [
        failure(name, _first_line(re.sub(r"(?m)^ *\d+:.*$", "", said)).strip(), place)
        for name, place, said in re.findall(AVA_FAILURE, text, re.MULTILINE)
    ]
    if len(failures) > counts.get("failed", 0) + counts["error"]:
        failures = []  # known failures are shown in the same form
    remaining = re.findall(r"(\d+) tests? (?:remaining|remained pending|still pending)\b", text)
    cut = _cut(sum(map(int, remaining)))
    cut = cut or ("The run ended early: a test ended the process" if "due to process.exit()" in text else "")
    return tally(counts.items(), failures, cut)


PROVE_REPORT = r"^(\S+\.t)\s+\(Wstat: .*Tests: (\d+) Failed: (\d+)\)\n((?:  .*\n)*)"


def parse_prove(text: str, root: Path) -> Results | None:
    """The results of Perl's Test::Harness, summed over its runs; a program that died is an error."""
    closing = re.findall(r"^Files=\d+, Tests=(\d+),", text, re.MULTILINE)
    if not closing:
        return None
    report = re.findall(PROVE_REPORT, text, re.MULTILINE)
    failed = sum(int(number) for _, _, number, _ in report)
    died = sum("Parse errors" in said or number == "0" for _, _, number, said in report)
    skipped = len(re.findall(r"^\S+\.t \.+ skipped\b", text, re.MULTILINE))
    failures = (failure(name, " ".join(said.split()), name) for name, _, _, said in report)
    cut = "" if re.search(r"^Result: \w+", text, re.MULTILINE) else UNPROVED
    passed = sum(map(int, closing)) - failed
    counts = [("passed", passed), ("failed", failed), ("errors", died), ("skipped", skipped)]
    return tally(counts, failures, cut)


PLAIN = (
    # Counts beside their words, each on a line of its own: uvu, automake, Meson and many small runners.
    r"(?im)^[ \t#]*(?:tests? )?(?P<word>passed|pass|ok|failed|fail|skipped|skip|errors?|xfail|expected fail)"
    r"[ \t]*[:=][ \t]*(?P<number>\d+)\b",
    # The same the other way round: bun.
    r"(?m)^ *(?P<number>\d+) (?P<word>pass|fail|skip)$",
    # The numbers before the words: "32 tests, 0 failures", "10 passed, 1 failed".
    r"(?i)(?P<number>\d+) (?:tests? |specs? |examples? )?"
    r"(?P<word>passed|failed|failures?|skipped|pending|errors?|skips)\b",
)
TOTAL = re.compile(
    r"(?im)^[ \t#]*total[ \t]*[:=][ \t]*(\d+)\b"
    r"|(?:^|[^.\d])(\d+) (?:tests|runs|examples?|specs?|test cases|test)\b(?=[,:;. ]|$)"
)
SENTENCE = re.compile(
    r"(?i)\b(?:all )?(\d+)(?:/\1)? (?:tests?|checks|assertions)(?: have| are)? (?:passed|pass|ok|succeeded)\b"
)
PLAIN_WORDS = {
    **dict.fromkeys(("passed", "pass", "ok"), "passed"),
    **dict.fromkeys(("failed", "fail", "failure", "failures"), "failed"),
    **dict.fromkeys(("skipped", "skip", "skips", "pending", "xfail", "expected fail"), "skipped"),
    **dict.fromkeys(("error", "errors"), "errors"),
}


def _add_summaries(text: str) -> Results | None:
    """The sum of several programs' results, on a line or a few each; None unless they are those of several.

    Counts that always grow may be those of one program as it goes on, and the last may be the sum.
    """
    found: list[dict[str, int]] = [{}]
    for match in re.finditer(PLAIN[0], text):
        word = PLAIN_WORDS[match["word"].lower()]
        found += [{}] if word in found[-1] else []
        found[-1][word] = int(match["number"])
    found = [each for each in found if "passed" in each and len(each) > 1]
    for line in text.splitlines():
        numbers = {PLAIN_WORDS[m["word"].lower()]: int(m["number"]) for m in re.finditer(PLAIN[-1], line)}
        found += [numbers] if "passed" in numbers and len(numbers) > 1 else []
    totals = [sum(each.values()) for each in found]
    is_growing = all(one < other for one, other in itertools.pairwise(totals))
    if len(found) < 2 or is_growing or totals[-1] >= sum(totals[:-1]):
        return None
    return tally(pair for each in found for pair in each.items())


def parse_plain(text: str, root: Path) -> Results | None:
    """The results of a runner that is not known, from the last lines that count tests in words."""
    tail = text[-200_000:]
    if summed := _add_summaries(tail):
        return summed
    progress = re.findall(r"(\d+) / (\d+) \( *\d+%\)", tail)  # PHPUnit
    cut = _cut(int(progress[-1][1]) - int(progress[-1][0])) if progress else ""
    for form in PLAIN:
        counts: dict[str, int] = {}
        for match in re.finditer(form, tail):
            counts[PLAIN_WORDS[match["word"].lower()]] = int(match["number"])
        total = [int(one or other) for one, other in TOTAL.findall(tail)]
        if "passed" not in counts and counts and total:
            counts["passed"] = max(0, total[-1] - sum(counts.values()))
        if "passed" in counts and (len(counts) > 1 or total):
            return tally(counts.items(), cut=cut)
    phrase = SENTENCE.findall(tail)
    phpunit = re.findall(r"^OK \((\d+) tests?, ", tail, re.MULTILINE)
    last = phpunit or phrase
    return tally([("passed", last[-1])], cut=cut) if last else None
