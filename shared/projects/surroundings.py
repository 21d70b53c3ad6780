"""Where the tests of a project run: the environment that was prepared for it, never Mailroom's own."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from shared.errors import ActionError
from shared.projects import Environment
from shared.projects.environment import format_path
from shared.sandbox import run_command


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a test command is run with.

    ``path`` are folders of programs, first ones first; ``interpreter`` says which runs the tests, ``problem``
    why nothing was prepared for them and ``cure`` what to do then.
    """

    path: tuple[Path, ...] = ()
    env: dict[str, str] = {}
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    interpreter: str = ""
    problem: str = ""
    cure: str = ""


async def find_surroundings(
    prepared: Sequence[Environment], ecosystem: str, repo: Path, root: Path, folder: str
) -> Surroundings:
    """What the tests in ``folder`` of ``root``, the copy of the project ``repo``, run with.

    All that was prepared for a folder above them is there, the nearest and those of their own ``ecosystem``
    first. Without any for Python, an environment in the project is used, else the machine's Python.
    """
    above = [each for each in prepared if Path(folder).is_relative_to(each.folder)]
    above.sort(key=lambda each: (each.ecosystem != ecosystem, -len(Path(each.folder).parts)))
    mine = next((each for each in above if each.ecosystem == ecosystem), None)
    failed = [each.preparation for each in above if each.preparation.problem]
    broken = mine.preparation if mine and mine.preparation.problem else None
    if not ecosystem and failed and len(failed) == len(above):
        broken = failed[0]
    if broken:
        return Surroundings(problem=broken.problem, cure=broken.cure, interpreter=broken.interpreter)
    joined = Surroundings(
        path=tuple(path for each in above for path in each.path),
        env={key: value for each in reversed(above) for key, value in each.env.items()},
        readable=tuple(path for each in above for path in each.readable),
        writable=tuple(path for each in above for path in each.writable),
        interpreter=mine.preparation.interpreter if mine else "",
    )
    if mine or ecosystem not in ("python", ""):
        return joined
    return await _with_python(joined, repo, root, folder)


async def _with_python(joined: Surroundings, repo: Path, root: Path, folder: str) -> Surroundings:
    places = [repo / folder / name for name in (".venv", "venv", "env")] + [repo / ".venv", repo / "venv"]
    own = next((place for place in places if (place / "bin" / "python").exists()), None)
    found = str(own / "bin" / "python") if own else shutil.which("python3", path=format_path(*joined.path))
    if not found:
        return joined
    # What is installed there may be a link to the project itself; the tests are to import its copy.
    places = [root / folder / "src", root / folder, root]
    paths = dict.fromkeys(str(path) for path in places if path.is_dir())
    return msgspec.structs.replace(
        joined,
        path=(*joined.path, Path(found).parent),
        env={**joined.env, "PYTHONPATH": os.pathsep.join(paths)},
        readable=(*joined.readable, *([own] if own else [])),
        interpreter=await _name_python(found, own),
    )


async def _name_python(python: str, own: Path | None) -> str:
    probe = "import platform as p; print(p.python_implementation(), p.python_version())"
    try:
        answer = await run_command(
            [python, "-I", "-c", probe], cwd=Path("/"), timeout=20, readable=[own] if own else []
        )
    except ActionError:
        return ""
    return answer.output.strip() if answer.exit_code == 0 else ""
