"""Findings as the tools report them: made safe to show, rated, ranked, each once."""

import re
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import msgspec

from shared.contracts.checkup import Finding, NotChecked, Severity, ToolRun
from shared.source import is_shown, is_test
from shared.text.display import flatten

LONGEST = 300  # Characters of a message: a sentence, not the code it is about

WEIGHT: dict[str, int] = {"high": 0, "medium": 1, "low": 2}
TOOLS = ("secrets", "vulnerabilities", "bandit", "ruff")
"""The order in which findings of equal severity are listed."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One tool's run, all it found, and what it was to look at and did not.

    ``looked`` says what it looked at if that is not files of a kind.
    """

    tool: ToolRun
    findings: tuple[Finding, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    looked: str = ""


def clean(text: str, limit: int = LONGEST) -> str:
    """``text`` on one line, without control characters and broken surrogates, cut at ``limit``."""
    return flatten(text, limit)


def make_finding(tool: str, rule: str, severity: Severity, file: str, line: int, message: str) -> Finding:
    """A finding whose texts can be shown anywhere."""
    return Finding(
        tool=tool,
        rule=clean(rule, 60),
        severity=severity,
        file=file,
        line=max(line, 0),
        message=clean(message),
    )


def completed_check(
    name: str, version: str, findings: Iterable[Finding], problem: str = "", *, files: int = 0
) -> Check:
    """The check of a tool that ran over ``files``: its findings ranked and counted."""
    ranked = rank(findings)
    run = ToolRun(name=name, version=version, findings=len(ranked), problem=clean(problem), files=files)
    return Check(tool=run, findings=ranked)


def skipped_check(name: str, problem: str) -> Check:
    """The check of a tool that did not run, and why."""
    return Check(tool=ToolRun(name=name, problem=clean(problem)))


def installed_version(package: str) -> str:
    """The version of an installed package; empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def rank(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Worst first: by severity, then what runs before what tests or shows, then tool and place; each once.

    If a secret was found, another tool's guess at the same line is left out; rules that ruff took over from
    bandit are reported by bandit.
    """
    first: dict[tuple[str, int, str], Finding] = {}
    for finding in sorted(findings, key=lambda finding: _order(finding, Counter())):
        # What it is about: bandit's B602 is ruff's S602.
        own = finding.rule if finding.tool == "ruff" else f"{finding.tool} {finding.rule}"
        about = f"S{finding.rule[1:4]}" if finding.tool == "bandit" else own
        first.setdefault((finding.file, finding.line, about), finding)
    keyed = first.values()
    often = Counter(finding.rule for finding in keyed)
    every = sorted(keyed, key=lambda finding: _order(finding, often))
    secret = {finding.source for finding in every if finding.tool == "secrets"}
    return tuple(
        finding
        for finding in every
        if not (finding.source in secret and re.fullmatch(r"[BS]10[567]", finding.rule.split(" ")[0]))
    )


def _order(finding: Finding, often: Counter[str]) -> tuple[int, bool, int, int, str, int, str]:
    aside = is_test(finding.file) or is_shown(finding.file)
    tool = TOOLS.index(finding.tool) if finding.tool in TOOLS else len(TOOLS)
    # what matters little and is everywhere is a habit of the project: the rare comes first
    habit = often[finding.rule] if finding.severity == "low" else 0
    return (WEIGHT[finding.severity], aside, habit, tool, finding.file, finding.line, finding.rule)


def milder(severity: Severity) -> Severity:
    """One step less severe."""
    steps: dict[Severity, Literal["medium", "low"]] = {"high": "medium", "medium": "low", "low": "low"}
    return steps[severity]


# --- severities -------------------------------------------------------------------------------------


class Knowledge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``tools.toml`` says of tools: see there."""

    exceptions: tuple[tuple[str, Severity], ...]
    settings: tuple[tuple[str, str, str], ...]
    levels: dict[str, dict[str, Severity]]


KNOWN = msgspec.toml.decode(Path(__file__).with_name("tools.toml").read_bytes(), type=Knowledge)


def rate(tool: str, rule: str, level: str, file: str, *, sure: bool = True) -> Severity:
    """How severe a finding is; one step milder if the tool is not ``sure``, and in tests and examples."""
    severity = next(
        (found for form, found in KNOWN.exceptions if re.fullmatch(form, f"{tool} {rule}")),
        KNOWN.levels.get(tool, {}).get(level.lower(), "low"),
    )
    # requirements.txt shows nothing: it is what is installed
    aside = is_test(file) or (is_shown(file) and tool != "vulnerabilities")
    for mild in (not sure, aside):
        severity = milder(severity) if mild else severity
    return severity
