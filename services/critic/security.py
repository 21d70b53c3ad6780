"""Python scanned by bandit for what makes it vulnerable."""

import re
import sys
import tempfile
import time
import tomllib
from pathlib import Path, PurePosixPath

import msgspec

from services.critic.findings import Check, conclude, find, installed, milder, skip
from shared.contracts.checkup import Finding, Severity
from shared.sandbox import run_command
from shared.source.places import is_shown, is_test, is_vendored
from shared.source.tree import Tree, read_text

SKIPPED = (*(f"B{number}" for number in range(401, 413)), "B603", "B607")
"""Rules that report a mere import (the use has a rule of its own), or every call of a program."""

IN_TESTS = ("B101", "B105", "B106", "B107", "B108", "B110", "B112", "B113", "B311")
"""Rules that report what tests do on purpose: assert, invented passwords, temporary files, chance."""

BATCH = 400
"""Files a run: their names must fit on one command line."""


class _Issue(msgspec.Struct):
    """One entry of bandit's JSON output."""

    filename: str
    line_number: int
    test_id: str
    test_name: str
    issue_text: str
    issue_severity: str
    issue_confidence: str


class _Output(msgspec.Struct):
    results: list[_Issue] = []


async def scan_security(tree: Tree, *, timeout: float) -> Check:
    """Run bandit over the Python files of ``tree`` for at most ``timeout`` seconds in all.

    Severity is bandit's own, one step milder where its confidence is low and in tests and examples. The
    project's own list of skipped rules in pyproject.toml holds; no other configuration is read, because
    it could name a file to be written.
    """
    files = [path for path in tree.files if path.endswith(".py") and not is_vendored(path)]
    if not files:
        return skip("bandit", "there are no Python files")
    findings: list[Finding] = []
    problems = []
    ends = time.monotonic() + timeout
    for start in range(0, len(files), BATCH):
        found, problem = await _run(tree, files[start : start + BATCH], max(0.0, ends - time.monotonic()))
        findings += found
        problems += [problem] if problem else []
    return conclude("bandit", installed("bandit"), findings, problems[0] if problems else "")


async def _run(tree: Tree, files: list[str], timeout: float) -> tuple[list[Finding], str]:
    with tempfile.TemporaryDirectory(prefix="mailroom-") as folder:
        output = Path(folder, "bandit.json")
        # Files, not a folder: in a folder bandit looks for a .bandit file, which may name an output file.
        result = await run_command(
            [
                *(sys.executable, "-I", "-m", "bandit", "-q", "--exit-zero", "-f", "json", "-o", str(output)),
                *("--skip", ",".join(SKIPPED), "--", *(f"./{path}" for path in files)),
            ],
            cwd=tree.root,
            timeout=timeout,
            writable=[Path(folder)],
        )
        if result.timed_out:
            return [], f"{len(files)} files were not scanned: the time was up"
        try:
            issues = msgspec.json.decode(output.read_bytes(), type=_Output).results
        except (OSError, msgspec.MsgspecError):
            return [], f"bandit ended with exit code {result.exit_code} and without a report"
    own = _own_skips(tree)
    return [finding for issue in issues if issue.test_id not in own and (finding := _judge(issue))], ""


def _own_skips(tree: Tree) -> list[object]:
    if "pyproject.toml" not in tree.files:
        return []
    try:
        skips = tomllib.loads(read_text(tree.root, "pyproject.toml"))["tool"]["bandit"]["skips"]
    except (tomllib.TOMLDecodeError, KeyError, TypeError, RecursionError):
        return []
    return skips if isinstance(skips, list) else []


def _judge(issue: _Issue) -> Finding | None:
    file = str(PurePosixPath(issue.filename))
    aside = is_test(file) or is_shown(file)
    if aside and issue.test_id in IN_TESTS:
        return None
    severity: Severity = {"HIGH": "high", "MEDIUM": "medium"}.get(issue.issue_severity, "low")  # type: ignore[assignment]
    for mild in (issue.issue_confidence == "LOW", aside):
        severity = milder(severity) if mild else severity
    # these three quote the password they found
    message = (
        re.sub(r"'.*'", "(not shown)", issue.issue_text)
        if issue.test_id in ("B105", "B106", "B107")
        else issue.issue_text
    )
    return find("bandit", f"{issue.test_id} {issue.test_name}", severity, file, issue.line_number, message)
