"""Texts, findings and results as Markdown that shows exactly what it is given, and stays valid."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from shared.contracts import Finding, Statement, TestRun
from shared.text.shorten import shorten


def escape(text: str) -> str:
    """``text`` on one line as Markdown that shows exactly it."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    line = re.sub(r"[\\`*\[\]<>|~&]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", line)
    return re.sub(
        r"^(?:[#+=:-]|\d+(?=[.)]))", lambda m: f"\\{m[0]}" if not m[0].isdigit() else f"{m[0]}\\", line
    )


def code(text: str, *, table: bool = False) -> str:
    """``text`` on one line as a code span; in a table its pipes are escaped."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split()) or " "
    fence = "`" * (max((len(run) for run in re.findall(r"`+", line)), default=0) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line.replace('|', chr(92) + '|') if table else line}{pad}{fence}"


def prose(text: str, *, table: bool = False) -> str:
    """``text`` escaped, but for what it puts between single backticks: that stays code."""
    split = re.split(r"(?<!`)`([^`\n]+)`(?!`)", text)
    parts = [code(part, table=table) if at % 2 else _part(part, at) for at, part in enumerate(split)]
    return "".join(parts).strip()


def _part(text: str, at: int) -> str:
    # the text after a code span does not begin a line
    words = escape(f"({text}(" if at else f"{text}(")
    return words[1:-1] if at else words[:-1]


def short(text: str, limit: int = 120) -> str:
    """``text`` on one line of at most ``limit`` characters."""
    return shorten(" ".join(text.split()).rstrip("."), limit)


def embedded(text: str) -> str:
    """Markdown of another agent below our headings: its own two levels deeper, no block left open."""
    rows, fence = [], ""
    for row in text.splitlines():
        mark = re.match(r" {0,3}(`{3,}|~{3,})", row)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not row.strip(" `~"):
            fence = ""
        rows.append(f"##{row}" if not fence and re.match(r"#{1,4}\s", row) else row)
    return "\n".join([*rows, *([fence] if fence else [])])


def cite(statement: Statement) -> str:
    """A statement with its source."""
    return f"{prose(statement.text)} ({place(statement.source)})"


def place(source: str, *, table: bool = False) -> str:
    """Where something was found: a file and line, or the whole repository."""
    return "the repository as a whole" if source == "." else code(source, table=table)


def brief(finding: Finding) -> str:
    """A finding and its place, shortened to one line."""
    return f"{prose(short(finding.message))} ({place(finding.source)})"


def severities(findings: Iterable[Finding]) -> dict[str, int]:
    """How many findings there are of each severity that occurs, worst first."""
    counts = Counter(finding.severity for finding in findings)
    return {severity: counts[severity] for severity in ("high", "medium", "low") if counts[severity]}


def count_broken(tests: TestRun) -> int:
    """How many tests failed or could not be run."""
    return max(tests.failed, 0) + max(tests.errors, 0)


def result_text(result: Mapping[str, Any]) -> str:
    """The error and the output of a task's result; empty if it has neither."""
    parts = (str(result.get(key) or "").strip() for key in ("error_message", "output"))
    return "\n\n".join(filter(None, parts))
