"""How much a finding of a foreign tool matters: one table of the tools' own levels, and the exceptions."""

import re

from services.critic.findings import milder
from shared.contracts.checkup import Severity
from shared.source.places import is_shown, is_test

LEVELS: dict[str, dict[str, Severity]] = {
    "actionlint": {"error": "medium"},
    "biome": {"fatal": "high", "error": "medium", "warning": "low", "information": "low"},
    "clippy": {"error": "high", "warning": "low"},
    "eslint": {"error": "medium", "warning": "low"},
    "go vet": {"error": "medium"},
    "hadolint": {"error": "medium", "warning": "low", "info": "low", "style": "low"},
    "oxlint": {"error": "medium", "warning": "medium", "advice": "low"},
    "shellcheck": {"error": "medium", "warning": "low", "info": "low", "style": "low"},
    "staticcheck": {"error": "medium", "warning": "low"},
    "tsc": {"error": "medium"},
    "vulnerabilities": {"critical": "high", "high": "high", "moderate": "medium", "unknown": "medium"},
    "zizmor": {"high": "high", "medium": "medium", "low": "low", "informational": "low"},
}
"""What each tool calls a level, in lower case, and what it is here: high is wrong or dangerous as it stands,
medium is likely wrong, low is a habit or a matter of taste. A level that is not listed is low."""

EXCEPTIONS: tuple[tuple[str, Severity], ...] = (
    (r"shellcheck SC1\d+", "medium"),  # it cannot be parsed, at least not by shellcheck
    (r"shellcheck SC2115", "high"),  # rm -rf "$x/" with an empty x
    (r"shellcheck SC(?:2164|2068|2144|2145|2242|2259|2260|2261|2257|2283)", "medium"),
    (r"hadolint DL1000", "high"),  # it cannot be parsed
    (r"hadolint SC.*", "low"),
    (r"oxlint syntax", "high"),
    (r"oxlint eslint\((?:no-unused-\w+|no-eval|no-empty.*|no-useless-.*|no-extra-.*)\)", "low"),
    (r"oxlint .*prefer-.*", "low"),
    (r"clippy clippy::(?:eq_op|never_loop|out_of_bounds_indexing|invalid_regex)", "high"),
    (r"clippy (?:unused_must_use|unconditional_recursion|unreachable_code|dead_code)", "medium"),
    # nearly every workflow has these: worth a line, not a place at the top
    (
        r"zizmor (?:unpinned-uses|excessive-permissions|artipacked|secrets-inherit|anonymous-definition)",
        "low",
    ),
    (r"zizmor .*-(?:syntax|schema)", "high"),
)
"""Rules, as ``tool rule``, that matter more or less than their level says; the first that matches counts."""


def rate(tool: str, rule: str, level: str, file: str, *, sure: bool = True) -> Severity:
    """How severe a finding is; one step milder if the tool is not ``sure``, and in tests and examples."""
    severity = next(
        (found for form, found in EXCEPTIONS if re.fullmatch(form, f"{tool} {rule}")),
        LEVELS.get(tool, {}).get(level.lower(), "low"),
    )
    # requirements.txt shows nothing: it is what is installed
    aside = is_test(file) or (is_shown(file) and tool != "vulnerabilities")
    for mild in (not sure, aside):
        severity = milder(severity) if mild else severity
    return severity
