"""Code that results bring, checked for what cannot work at all: compiled, linted and parsed, not run."""

import asyncio
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from services.critic.claims import Claims, NamedFile, read_file
from services.critic.docket import Docket, last_line
from services.critic.drift import check_drift
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
"""Where code breaks the rules its repository states, by rule and message."""


async def check_files(docket: Docket, claim: Claims, folder: Path) -> None:
    """Check the files that ``claim`` names, in copies beneath ``folder``."""
    names = []
    for number, file in enumerate(claim.files):
        place = folder / str(number) / Path(file.name).name
        await asyncio.to_thread(_copy_file, file, place)
        names.append(str(place.relative_to(folder)))
    if names:
        await check_code(docket, claim.task, folder, names)


async def apply_patch(
    docket: Docket,
    task: str,
    patch: str,
    *,
    copy: Path,
    renew: Callable[[Path], None],
    trial: Path,
    number: int,
    sure: bool,
) -> Path:
    """The copy with ``patch``: on top of those before, or by itself where it holds them already.

    One that does not apply is a fault where it is ``sure`` that it is meant for the repository, of which
    ``renew`` makes another copy.
    """
    file = trial / f"{number}.patch"
    whole = patch if patch.endswith("\n") else patch + "\n"
    await asyncio.to_thread(file.write_bytes, whole.encode("utf-8", "surrogateescape"))
    command = ["git", "apply", "--whitespace=nowarn", str(file)]
    result = await docket.execute(task, command, copy, readable=[trial])
    if result is not None and result.exit_code:
        copy = trial / f"copy-{number}" / copy.name
        await asyncio.to_thread(renew, copy)
        result = await docket.execute(task, command, copy, readable=[trial])
    if result is None:
        return copy
    if result.exit_code:
        tell = docket.refute if sure else docket.leave
        tell(task, f"its patch does not apply: {last_line(result)}")
    else:
        await check_code(docket, task, copy, [name for name in changed(patch) if (copy / name).is_file()])
    return copy


async def check_code(docket: Docket, task: str, folder: Path, names: Sequence[str]) -> None:
    """Compile and lint the Python among ``names``, and parse shell and JSON; the first fault is noted."""
    for command in _checks(names):
        result = await docket.execute(task, command, folder)
        if result is not None and result.exit_code:
            docket.refute(task, f"its code does not hold: {last_line(result)}")
            return


def _checks(names: Sequence[str]) -> list[list[str]]:
    python = [name for name in names if name.endswith((".py", ".pyi"))]
    checks = [[*OWN_PYTHON, "-m", "compileall", "-q", "-f", *python], [*RUFF, *python]] if python else []
    checks += [["bash", "-n", name] for name in names if name.endswith((".sh", ".bash"))]
    return checks + [[*OWN_PYTHON, "-c", LOAD_JSON, name] for name in names if name.endswith(".json")]


def find_violations(root: Path) -> Violations:
    """Where the code beneath ``root`` breaks the rules that are stated there."""
    return {
        (rule.source, broken.message): (
            f"it breaks the rule {rule.rule!r} [{rule.source}]: {broken.message} [{broken.source}]"
        )
        for rule in check_drift(read_tree(root)).rules
        for broken in rule.violations
    }


def changed(patch: str) -> list[str]:
    """The files that a unified diff leaves behind."""
    found = re.findall(r"^\+\+\+ (?:b/)?([^\t\n]+)", patch, re.MULTILINE)
    return [name for name in found if name != "/dev/null" and ".." not in Path(name).parts][:200]


def _copy_file(file: NamedFile, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(read_file(file))
