"""The checks of code that results hand over: compiled, linted and parsed, and held against stated rules."""

import asyncio
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from services.critic.claims import CODE, Claims, NamedFile, ReviewRecord, last_line, read_file
from services.critic.drift import check_drift
from shared.contracts import Checked
from shared.source.tree import read_tree

BROKEN = "E9,F63,F7,F82"
"""The rules of ruff that find code that cannot work: syntax, undefined names."""
OWN_PYTHON = (sys.executable, "-I")
RUFF = (
    *(*OWN_PYTHON, "-m", "ruff", "check", "--isolated", "--no-cache", "--quiet"),
    *("--output-format", "concise", "--select", BROKEN),
)
LOAD_JSON = "import json, sys; json.load(open(sys.argv[1]))"

Violations = dict[tuple[str, str], str]
"""The places where code breaks the rules its repository states, by rule and message."""


async def check_files(record: ReviewRecord, claim: Claims, folder: Path) -> None:
    """Check the files that ``claim`` names, in copies beneath ``folder``."""
    names = []
    for number, file in enumerate(claim.files):
        place = folder / str(number) / Path(file.name).name
        await asyncio.to_thread(_copy_file, file, place)
        names.append(str(place.relative_to(folder)))
    if names:
        await check_code(record, claim.task, folder, names)


async def check_code(record: ReviewRecord, task: str, folder: Path, names: Sequence[str]) -> None:
    """Compile and lint the Python among ``names``, and parse shell and JSON; the first fault is noted."""
    for command in _checks(names):
        result = await record.execute(task, command, folder)
        if result is None:
            return
        if result.timed_out or result.problem:
            record.skip(task, f"its code: {Path(command[0]).name} {result.find_failure()}")
            return
        if result.exit_code:
            record.refute(task, f"its code does not hold: {last_line(result)}")
            return
    record.count(Checked(code=sum(name.endswith(CODE) for name in names)))


def _checks(names: Sequence[str]) -> list[list[str]]:
    python = [name for name in names if name.endswith((".py", ".pyi"))]
    checks = [[*OWN_PYTHON, "-m", "compileall", "-q", "-f", *python], [*RUFF, *python]] if python else []
    checks += [["bash", "-n", name] for name in names if name.endswith((".sh", ".bash"))]
    return checks + [[*OWN_PYTHON, "-c", LOAD_JSON, name] for name in names if name.endswith(".json")]


def find_violations(root: Path) -> Violations:
    """The places where the code beneath ``root`` breaks the rules that are stated there."""
    return {
        (rule.source, broken.message): (
            f"it breaks the rule {rule.rule!r} [{rule.source}]: {broken.message} [{broken.source}]"
        )
        for rule in check_drift(read_tree(root)).rules
        for broken in rule.violations
    }


def changed_files(patch: str) -> list[str]:
    """The files that a unified diff leaves behind."""
    found = re.findall(r"^\+\+\+ (?:b/)?([^\t\n]+)", patch, re.MULTILINE)
    return [name for name in found if name != "/dev/null" and ".." not in Path(name).parts][:200]


def _copy_file(file: NamedFile, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(read_file(file))
