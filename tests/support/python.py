"""Python environments for tests: small ones, made of what is installed here, without a network."""

import importlib.metadata
import re
import shutil
import sys
import sysconfig
import venv
from importlib.util import cache_from_source
from pathlib import Path

UNNEEDED = re.compile(r"extra ==|python_version <|win32")


def make_environment(folder: Path, *names: str) -> Path:
    """A virtual environment in ``folder`` with the distributions ``names`` and what they need, compiled.

    What runs in the jail cannot keep what it compiles: each pytest would compile pytest again, for 0.5 s.
    """
    place = folder / "venv"
    venv.create(place, symlinks=True)
    inside = place / Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    waiting, done = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name in done:
            continue
        done.add(name)
        found = importlib.metadata.distribution(name)
        for file in found.files or ():
            source, target = Path(str(found.locate_file(file))), inside / str(file)
            if ".." not in file.parts and source.suffix != ".pyc":
                _copy(source, target)
                if source.suffix == ".py" and (compiled := Path(cache_from_source(str(source)))).exists():
                    _copy(compiled, Path(cache_from_source(str(target))))
        for script in (entry for entry in found.entry_points if entry.group == "console_scripts"):
            module, _, function = script.value.partition(":")
            path = place / "bin" / script.name
            path.write_text(
                f"#!{place}/bin/python\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
            )
            path.chmod(0o755)
        needs = [re.match(r"[\w.-]+", need) for need in found.requires or () if not UNNEEDED.search(need)]
        waiting += [match[0] for match in needs if match]
    return place


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
