"""Python linted by ruff: by the project's own rules where it has any, else by those that find real bugs."""

import re
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from services.critic.findings import Check, clean, conclude, find, installed, skip
from shared.contracts.checkup import Finding, Severity
from shared.sandbox import CommandResult, run_command
from shared.source.places import is_shown, is_test, is_vendored
from shared.source.tree import Tree, read_text

SELECTED = "E9,F,B,PLE,ASYNC210,ASYNC220,ASYNC221,ASYNC222,ASYNC251,RUF006"
"""What a project without rules of its own is held to: syntax, undefined and unused names, likely bugs,
coroutines that block the event loop (ASYNC2), background tasks that may be collected (RUF006)."""

IGNORED = "B007,B008,B009,B010,B011,B028,B903,B904,B905,B027,F403,F405"
"""Left out of them: matters of taste, or of what a framework wants (B008)."""

LIKELY = frozenset(
    f"B{n:03}" for n in (2, 3, 4, 5, 6, 12, 15, 16, 17, 20, 21, 22, 23, 25, 26, 29, 30, 31, 32, 35, 39, 909)
)
"""The rules of flake8-bugbear that find wrong behaviour rather than doubtful style."""

WITH_CONFIG = (".ruff.toml", "ruff.toml", "pyproject.toml")
VERSIONS = ("py37", "py38", "py39", "py310", "py311", "py312", "py313", "py314")


class _Place(msgspec.Struct):
    row: int = 0


class _Line(msgspec.Struct):
    """A line of ruff's JSON output; what a later version adds is left out."""

    filename: str
    message: str
    code: str | None = None
    location: _Place | None = None


async def lint(tree: Tree, *, timeout: float) -> Check:
    """Run ruff over the Python files of ``tree`` for at most ``timeout`` seconds; it writes nothing there."""
    if not any(path.endswith((".py", ".pyi")) for path in tree.files):
        return skip("ruff", "there are no Python files")
    problem = ""
    config, options = own_config(tree)
    if config:
        result, findings = await _run(tree, options, timeout)
        if result.exit_code in (0, 1) and not result.timed_out:
            return conclude("ruff", f"{installed('ruff')} as {config} says", findings)
        problem = (
            f"what {config} says cannot be used ({_reason(result, timeout)}), so Mailroom's own rules were"
        )
    chosen = ["--isolated", "--select", SELECTED, "--ignore", IGNORED, "--target-version", _oldest(tree)]
    chosen += ["--per-file-ignores", "__init__.py:F401"]
    result, findings = await _run(tree, chosen, timeout)
    if result.exit_code not in (0, 1) or result.timed_out:
        return skip("ruff", f"it did not finish: {_reason(result, timeout)}")
    return conclude(
        "ruff", f"{installed('ruff')} with Mailroom's selection of likely bugs", findings, problem
    )


def own_config(tree: Tree) -> tuple[str, list[str]]:
    """The file at the root that configures ruff ("" for none), and the options that complete it.

    A project that selects no rules of its own has not asked for the ever growing default set: it is
    held to our selection, and to what it adds.
    """
    for name in WITH_CONFIG:
        if name not in tree.files:
            continue
        try:
            data = tomllib.loads(read_text(tree.root, name))
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
        ruff = data if name != "pyproject.toml" else _table(_table(data, "tool"), "ruff")
        if not ruff:
            continue
        rules = {**ruff, **_table(ruff, "lint")}
        if "select" in rules or "extend" in rules:
            return name, []
        added = [rule for rule in rules.get("extend-select", []) if re.fullmatch(r"[A-Z]+\d*", str(rule))]
        return name, ["--select", ",".join([SELECTED, *added]), "--extend-ignore", IGNORED]
    return "", []


def _table(data: dict[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


async def _run(tree: Tree, options: list[str], timeout: float) -> tuple[CommandResult, list[Finding]]:
    with tempfile.TemporaryDirectory(prefix="mailroom-") as folder:
        output = Path(folder, "ruff.jsonl")
        # A project's configuration may ask ruff to repair the files: these flags win over it.
        safe = ["--no-fix", "--no-fix-only", "--no-unsafe-fixes", "--no-cache", "--no-show-fixes"]
        result = await run_command(
            [
                *(sys.executable, "-I", "-m", "ruff", "check", *safe, *options),
                *(
                    "--extend-exclude",
                    "*.ipynb",
                    "--output-format",
                    "json-lines",
                    "--output-file",
                    str(output),
                    ".",
                ),
            ],
            cwd=tree.root,
            timeout=timeout,
            writable=[Path(folder)],
        )
        return result, list(_read(tree, output))


def _read(tree: Tree, output: Path) -> list[Finding]:
    files = set(tree.files)
    findings = []
    for row in output.read_bytes().splitlines() if output.exists() else []:
        try:
            line = msgspec.json.decode(row, type=_Line)
        except msgspec.MsgspecError:
            continue
        path = Path(line.filename)
        file = str(path.relative_to(tree.root)) if path.is_relative_to(tree.root) else line.filename
        if file in files and not is_vendored(file):
            code = line.code or "invalid-syntax"
            severity = _severity(code, file)
            findings.append(
                find("ruff", code, severity, file, line.location.row if line.location else 0, line.message)
            )
    return findings


def _severity(code: str, file: str) -> Severity:
    aside = is_test(file) or is_shown(file)
    if code in ("invalid-syntax", "E902") or code.startswith("E9"):
        return "low" if aside else "high"  # tests keep broken files on purpose
    if re.match(r"F7|F82|F50|F52|F63|PLE", code):
        return "medium" if aside else "high"
    if code in LIKELY or re.match(r"F811|F6|ASYNC2|RUF006|S\d", code):
        return "low" if aside else "medium"
    return "low"


def _oldest(tree: Tree) -> str:
    """The oldest Python the project supports, as ruff names it; the newest one where it does not say."""
    text = read_text(tree.root, "pyproject.toml") if "pyproject.toml" in tree.files else ""
    try:
        wanted = tomllib.loads(text).get("project", {}).get("requires-python", "")
    except (tomllib.TOMLDecodeError, AttributeError, RecursionError):
        wanted = ""
    match = re.search(r"(?:>=|~=|==)\s*3\.(\d+)", str(wanted))
    name = f"py3{match[1]}" if match else VERSIONS[-1]
    return name if name in VERSIONS else VERSIONS[-1]


def _reason(result: CommandResult, timeout: float) -> str:
    if result.timed_out:
        return f"it took longer than {timeout:g} s"
    words = clean(result.output, 200)
    return words or f"exit code {result.exit_code}"
