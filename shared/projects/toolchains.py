"""The programs of this machine: those that a kind of project needs, their packages, and its Pythons."""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from shared.errors import ActionError
from shared.projects.reading.project_files import read_text
from shared.sandbox.jail import search_path


class Programs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``programs.toml`` says: see there."""

    packages: dict[str, tuple[str, str]]
    otherwise: dict[str, str]
    needs: dict[str, tuple[str, ...]]
    headers: dict[str, str]
    modules: dict[str, str]


PROGRAMS = msgspec.toml.decode(Path(__file__).with_name("programs.toml").read_bytes(), type=Programs)


def find_program(name: str) -> str:
    """Where ``name`` is on the PATH; empty if it is not."""
    return shutil.which(name, path=search_path()) or ""


def format_package(program: str) -> str:
    """How to install ``program``, as the cure of an error."""
    debian, brew = PROGRAMS.packages.get(program, ("", ""))
    ways = [
        f"apt install {debian}" if debian else "",
        f"brew install {brew}" if brew else "",
        PROGRAMS.otherwise.get(program, ""),
    ]
    known = " or ".join(way for way in ways if way)
    return f"Install {program} ({known})" if known else f"Install {program}, and have its folder on the PATH"


def require_programs(names: Iterable[str], needed_by: str) -> None:
    """Raise ActionError that names the first program that is missing, and the package that has it."""
    for name in names:
        if not find_program(name):
            raise ActionError(f"{name} is not installed, which {needed_by} needs", format_package(name))


def list_needs(kind: str, folder: Path) -> tuple[str, ...]:
    """The programs that a project of ``kind`` in ``folder`` needs."""
    if kind == "c":
        if (folder / "CMakeLists.txt").is_file():
            by_ninja = "Ninja" in read_text(folder / "CMakePresets.json")
            return ("cmake", "cc", "ninja" if by_ninja else "make")
        if (folder / "meson.build").is_file():
            return ("meson", "ninja", "cc")
        if (folder / "configure").is_file() or not (folder / "configure.ac").is_file():
            return ("make", "cc")
        return ("autoreconf", "make", "cc")
    if kind == "haskell":
        return ("stack",) if (folder / "stack.yaml").is_file() else ("cabal",)
    if kind == "clojure":
        return ("lein",) if (folder / "project.clj").is_file() else ("clojure",)
    return PROGRAMS.needs.get(kind, ())


# --- the Python interpreters of this machine --------------------------------------------------------

OLDEST = (3, 7)  # The oldest Python for which uv makes environments
UNKNOWN = 99  # Stands for a patch release that the name of a program does not tell


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """A CPython at ``path``; ``version`` as its name or folder tells it."""

    path: Path
    version: tuple[int, ...]

    @property
    def prefix(self) -> Path:
        """The folder it is installed in."""
        return self.path.parents[1]

    def fits(self, specifier: str) -> bool:
        """Whether ``requires-python`` allows it; a malformed one allows everything."""
        major, minor, *rest = self.version
        try:
            allowed = SpecifierSet(specifier)
        except InvalidSpecifier:
            return True
        patches = rest or [UNKNOWN, 0]
        return any(allowed.contains(f"{major}.{minor}.{patch}", prereleases=True) for patch in patches)


def find_interpreters() -> tuple[Interpreter, ...]:
    """All that are found, in order of preference: what ``python3`` means here first, then the newest."""
    found: dict[Path, Interpreter] = {}
    for path in _list_programs():
        real = Path(os.path.realpath(path))
        version = _read_version(real)
        if version >= OLDEST and not (path.parents[1] / "pyvenv.cfg").exists():
            found.setdefault(real, Interpreter(path=real, version=version))
    known = list(found.values())
    return (*known[:1], *sorted(known[1:], key=lambda each: each.version, reverse=True))


def _list_programs() -> Iterator[Path]:
    home = Path.home()
    pyenv = home / ".pyenv"
    for entry in search_path().split(os.pathsep):
        folder = Path(entry)
        if folder == pyenv / "shims":
            chosen = read_text(pyenv / "version").split()
            yield from (pyenv / "versions" / name / "bin" / "python3" for name in chosen)
        elif not (folder.parent / "pyvenv.cfg").exists():
            yield folder / "python3"
    yield Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    for folder in map(Path, search_path().split(os.pathsep)):
        if folder != pyenv / "shims" and not (folder.parent / "pyvenv.cfg").exists():
            yield from (path for path in folder.glob("python3.*") if re.fullmatch(r"python3\.\d+", path.name))
    places = (pyenv / "versions", home / ".local/share/uv/python", home / ".local/share/mise/installs/python")
    for place in (*places, home / ".asdf/installs/python"):
        yield from place.glob("*/bin/python3")


def _read_version(path: Path) -> tuple[int, ...]:
    """The version in the name of the folder it is installed in, else in its own; empty for neither."""
    try:
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                return ()
    except OSError:
        return ()
    own = re.fullmatch(r"python(3)\.(\d+)", path.name)
    installed = re.match(r"(?:cpython-)?(3)\.(\d+)\.(\d+)(?![\w.])", path.parents[1].name)
    match = installed if installed and (not own or own[2] == installed[2]) else own
    return tuple(map(int, match.groups())) if match else ()


def choose_interpreter(requires: str, wanted: str) -> tuple[Interpreter, str]:
    """The interpreter for a project, and a remark if it is not the ``wanted`` one.

    ``requires`` is the project's requires-python, ``wanted`` the version in its .python-version. Raises
    ActionError if no interpreter of this machine fits.
    """
    known = find_interpreters()
    fitting = [each for each in known if each.fits(requires)]
    if wanted:
        numbers = tuple(map(int, wanted.split(".")))
        for length in (len(numbers), 2):
            for each in known:
                if each.version[:length] == numbers[:length]:
                    return each, ""
    if fitting:
        used = format_version(fitting[0])
        remark = f"The project asks for Python {wanted}, which is not here; {used} is used"
        return fitting[0], remark if wanted else ""
    there = ", ".join(dict.fromkeys(".".join(map(str, each.version[:2])) for each in known)) or "none"
    lowest = re.search(r"3\.\d+", requires)
    version = lowest[0] if lowest else "3"
    raise ActionError(
        f"The project needs Python {requires}, and of CPython there is here: {there}",
        f"Install one (apt install python{version}, brew install python@{version}, "
        f"pyenv install {version}, or uv python install {version})",
    )


def format_version(interpreter: Interpreter) -> str:
    """Such as ``CPython 3.12.1``."""
    return f"CPython {'.'.join(map(str, interpreter.version))}"
