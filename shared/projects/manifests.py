"""Reading manifests: bounded, and empty if they are missing or malformed, because a stranger wrote them."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from shared.source import syntax
from shared.source.syntax import parse_json, parse_toml, parse_yaml

LARGEST = 20_000_000
"""The most bytes of a manifest or a lock that are read; a lock of a large monorepo has about 5 MB."""
UNFORESEEN = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    MemoryError,
)
"""What a reader raises that meets a file of a form nobody thought of: it ends no run, and is logged."""


def read_text(path: Path) -> str:
    """The text of a regular file; empty if there is none or it is larger than LARGEST."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return ""
        return path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return ""


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    return as_table(_read(path, parse_toml))


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    return as_table(_read(path, parse_json))


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    return as_table(_read(path, parse_yaml))


def _read(path: Path, parse: Callable[[str], Any]) -> Any:
    with contextlib.suppress(ValueError):
        return parse(read_text(path))
    return {}


def parse_ini(text: str) -> dict[str, dict[str, str]]:
    """The sections of an INI file, names as they are written."""
    with contextlib.suppress(ValueError):
        return syntax.parse_ini(text)
    return {}


FORMATS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("pyproject.toml", "tox.toml", "uv.toml", "uv.lock", "poetry.lock"), parse_toml),
    **dict.fromkeys(("pdm.lock", "pylock.toml", "Pipfile", "Cargo.toml", "Cargo.lock"), parse_toml),
    **dict.fromkeys(("package.json", "package-lock.json", "Pipfile.lock", "composer.json"), parse_json),
    **dict.fromkeys(("tox.ini", "setup.cfg", "pytest.ini"), syntax.parse_ini),
    **dict.fromkeys(("setup.py", "noxfile.py"), syntax.parse_module),
    **dict.fromkeys((".gitlab-ci.yml", ".travis.yml", ".circleci/config.yml", ".mailroom.yaml"), parse_yaml),
    **dict.fromkeys(("pnpm-workspace.yaml", "pnpm-lock.yaml", ".yarnrc.yml"), parse_yaml),
    **dict.fromkeys(("requirements.txt", "Makefile", "go.mod", "pom.xml", "build.gradle"), str),
    **dict.fromkeys(("CMakeLists.txt", "meson.build", "Gemfile"), str),
}
"""The manifests and how they are parsed."""


def find_unreadable(folder: Path) -> Iterator[tuple[str, str]]:
    """Each manifest in ``folder`` that cannot be read, and why: readers go on as if it were empty."""
    workflows = sorted((folder / ".github/workflows").glob("*.y*ml"))
    known = {str(path.relative_to(folder)): parse_yaml for path in workflows}
    for name, parse in (FORMATS | known).items():
        path = folder / name
        try:
            if not path.is_symlink() and not path.exists():
                continue
            if not path.is_file():
                raise ValueError("it is no file")
            if path.stat().st_size > LARGEST:
                raise ValueError(f"it is larger than {LARGEST:,} bytes")
            data = path.read_bytes()
            if b"\0" in data:
                raise ValueError("it is not text")
            parse(data.decode("utf-8-sig", "replace"))
        except (OSError, ValueError) as error:
            yield name, " ".join((getattr(error, "strerror", "") or str(error)).split())[:160]


def as_table(value: object) -> dict[str, Any]:
    """``value`` if it is a table, else an empty one."""
    return value if isinstance(value, dict) else {}


def get_table(tables: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The table at ``names``, empty if there is none."""
    value: object = tables
    for name in names:
        value = as_table(value).get(name)
    return as_table(value)


def list_texts(value: object) -> tuple[str, ...]:
    """The texts in a list, or one text as a list; empty for anything else."""
    if isinstance(value, str):
        return (value,)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
