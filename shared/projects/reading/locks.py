"""Locks: those of Poetry, PDM and Pipenv as uv understands them, and every package that any lock names."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from shared.projects.reading.project_files import ProjectFiles, get_table, list_texts
from shared.source import (
    as_list,
    as_mapping,
    is_shown,
    is_test,
    is_vendored,
)


class Lock(msgspec.Struct, frozen=True, kw_only=True):
    """The lock that is followed: the versions it fixes, and what it wants installed beyond the manifests."""

    name: str = ""
    constraints: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    requires_python: str = ""


def read_lock(files: ProjectFiles) -> Lock:
    """The lock of a Python project; one without a name if there is none."""
    if files.has("uv.lock") or read_workspace_lock(files.folder):
        return Lock(name="uv.lock")
    if files.has("Pipfile.lock"):
        return _read_pipfile_lock(files.table("Pipfile.lock"))
    if files.has("Pipfile"):
        pipfile = files.table("Pipfile")
        sections = (get_table(pipfile, "packages"), get_table(pipfile, "dev-packages"))
        return Lock(requirements=tuple(line for table in sections for line in _list_pipfile(table)))
    for name in ("poetry.lock", "pdm.lock"):
        if files.has(name):
            lock = files.table(name)
            python = get_table(lock, "metadata").get("python-versions", "")
            wanted = convert_version(python) if isinstance(python, str) and name == "poetry.lock" else ""
            return Lock(name=name, constraints=tuple(_list_pinned(lock)), requires_python=wanted)
    return Lock()


def read_workspace_lock(folder: Path) -> Path | None:
    """The uv.lock above ``folder`` if that is a member of a uv workspace, relative to it."""
    for number, above in enumerate(list(folder.parents)[:4], start=1):
        members = ProjectFiles(above).table("pyproject.toml", "tool", "uv", "workspace").get("members")
        if (above / "uv.lock").is_file() and any(
            folder in above.glob(pattern) for pattern in list_texts(members) if not pattern.startswith("/")
        ):
            return Path(*[".."] * number, "uv.lock")
        if (above / ".git").exists():
            return None
    return None


def _list_pinned(lock: Mapping[str, Any]) -> Iterator[str]:
    """Each package of the lock with its version; one that is there in several versions is left open."""
    packages = list_packages(lock)
    times = Counter(str(package.get("name", "")).lower() for package in packages if not package.get("extras"))
    for package in packages:
        name, version = package.get("name"), package.get("version")
        is_elsewhere = any(package.get(key) for key in ("source", "path", "git", "url"))
        if name and version and not is_elsewhere and times[str(name).lower()] == 1:
            yield f"{name}=={version}"


def list_packages(lock: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tables ``[[package]]`` of uv, Poetry, PDM and Cargo."""
    return [as_mapping(package) for package in as_list(lock.get("package"))]


def _read_pipfile_lock(lock: Mapping[str, Any]) -> Lock:
    sections = (get_table(lock, "default"), get_table(lock, "develop"))
    wanted = get_table(lock, "_meta", "requires")
    python = wanted.get("python_full_version") or wanted.get("python_version") or ""
    return Lock(
        name="Pipfile.lock",
        requirements=tuple(dict.fromkeys(line for table in sections for line in _list_pipfile(table))),
        requires_python=f"=={python}.*" if re.fullmatch(r"\d+\.\d+", str(python)) else "",
    )


def _list_pipfile(table: Mapping[str, Any]) -> Iterator[str]:
    for name, value in table.items():
        details = as_mapping(value)
        extras = f"[{','.join(list_texts(details.get('extras')))}]" if details.get("extras") else ""
        markers = f" ; {details['markers']}" if isinstance(details.get("markers"), str) else ""
        if isinstance(details.get("git"), str):
            yield f"{name}{extras} @ git+{details['git']}@{details.get('ref', 'HEAD')}{markers}"
        elif not any(key in details for key in ("path", "file", "editable")):
            version = value if isinstance(value, str) else str(details.get("version", ""))
            yield f"{name}{extras}{'' if version == '*' else version}{markers}"


def read_poetry(poetry: Mapping[str, Any]) -> tuple[str, ...]:
    """The dependencies in a table of Poetry as requirement lines; those at a path are left out."""
    found = []
    for name, value in get_table(poetry, "dependencies").items():
        for each in value if isinstance(value, list) else [value]:
            details = each if isinstance(each, dict) else {"version": each}
            if name.lower() != "python" and not details.get("optional") and "path" not in details:
                found.append(_format_poetry(name, details))
    return tuple(found)


def _format_poetry(name: str, details: Mapping[str, Any]) -> str:
    extras = f"[{','.join(list_texts(details.get('extras')))}]" if details.get("extras") else ""
    conditions = [str(details["markers"])] if details.get("markers") else []
    if isinstance(details.get("python"), str):
        bounds = filter(None, convert_version(details["python"]).split(","))
        conditions += [re.sub(r"^([<>=!~]+)(.*)$", r"python_version \1 '\2'", bound) for bound in bounds]
    markers = f" ; {' and '.join(f'({each})' for each in conditions)}" if conditions else ""
    if isinstance(details.get("git"), str):
        ref = details.get("rev") or details.get("tag") or details.get("branch") or "HEAD"
        return f"{name}{extras} @ git+{details['git']}@{ref}{markers}"
    if isinstance(details.get("url"), str):
        return f"{name}{extras} @ {details['url']}{markers}"
    return f"{name}{extras}{convert_version(str(details.get('version', '*')))}{markers}"


def convert_version(text: str) -> str:
    """A version in Poetry's form (``^1.2``, ``~1.2``, ``1.*``, ``1.2``) as PEP 440 has it.

    Alternatives (``||``) are given up for the widest of them: the lower bound of the first.
    """
    first, *others = re.split(r"\s*\|\|?\s*", text.strip())
    bounds = [_convert_bound(part) for part in re.split(r"\s*,\s*|(?<=[\w.*])\s+(?=[<>=!~^])", first) if part]
    joined = ",".join(bound for bound in bounds if bound)
    return ",".join(bound for bound in joined.split(",") if bound.startswith(">")) if others else joined


def _convert_bound(part: str) -> str:
    part = part.strip()
    match = re.fullmatch(r"([\^~]?)v?(\d+(?:\.\d+)*)(\S*)", part)
    if part in ("", "*"):
        return ""
    if not match:
        return part.replace(" ", "")
    sign, numbers, rest = match[1], [int(number) for number in match[2].split(".")], match[3]
    if not sign:
        return f"=={match[2]}{rest}"
    if sign == "~":
        at = min(1, len(numbers) - 1)
    else:
        at = next((place for place, number in enumerate(numbers) if number), len(numbers) - 1)
    upper = [*numbers[:at], numbers[at] + 1]
    return f">={match[2]}{rest},<{'.'.join(map(str, upper))}"


def list_conda(packages: Mapping[str, Any]) -> list[str]:
    """Requirements as pip takes them, of packages that conda and PyPI know by the same name."""
    lines = []
    for name, stated in packages.items():
        table = as_mapping(stated)
        extras = list_texts(table.get("extras"))
        if table.get("path") == ".":
            lines.append(f".[{','.join(extras)}]")
        elif name not in ("python", "pip") and not {"path", "git", "url"} & set(table):
            version = str(table.get("version", "") if table else stated).split(" ")[0]
            version = re.sub(r"^(?=\d)|^=(?=\d)", "==", version) if version != "*" else ""
            options = f"[{','.join(extras)}]" if extras else ""
            lines.append(f"{name}{options}{version}")
    return lines


# --- every package that the locks name ------------------------------------------------------------

MAX_PACKAGES = 5_000
ECOSYSTEMS = {
    **dict.fromkeys(("uv.lock", "poetry.lock", "pdm.lock", "Pipfile.lock"), "PyPI"),
    **dict.fromkeys(("package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml"), "npm"),
    "Cargo.lock": "crates.io",
    "go.mod": "Go",
}
"""Locks by name, and the ecosystem of their packages as OSV calls it."""
PINS = re.compile(r"(?:.*[-_.])?requirements(?:[-_.].*)?\.(?:txt|lock)|constraints.*\.txt")
"""Requirement files, which may pin."""
PINNED = r"^\s*([A-Za-z][\w.-]*)(?:\[[\w,. -]*\])?\s*===?\s*([\w.!+-]+)"
PATTERNS = {
    "yarn.lock": r'^"?(@?[^@\s"]+)@[^\n]*:\n(?:\s+resolution:[^\n]*\n)?\s+version:?\s+"?([^"\s]+)"?',
    "pnpm-lock.yaml": r"^  '?/?(@?[^@\s'(]+)@(\d[^:('\s]*)[^:\n]*:",
    "go.mod": r"^(?:require\s+|\t)([\w.-]+\.[\w./~-]+)\s+v([\w.+-]+)",
}
"""Name and version of a package in locks that are read as text."""


class Locked(msgspec.Struct, frozen=True):
    """A package at a version, of an ecosystem as OSV calls it, and where it is locked."""

    ecosystem: str
    name: str
    version: str
    file: str
    line: int = 0


def read_locked(files: ProjectFiles, paths: Iterable[str]) -> list[Locked]:
    """What the locks among ``paths`` name, outside of tests and examples: each version of a package once."""
    found: dict[tuple[str, str, str], Locked] = {}
    for path in paths:
        kind = PurePosixPath(path).name
        ecosystem = ECOSYSTEMS.get(kind) or ("PyPI" if PINS.fullmatch(kind) else "")
        if not ecosystem or is_test(path) or is_vendored(path) or (is_shown(path) and "/" in path):
            continue
        lines = files.text(path).splitlines()
        for name, version in _list_locked(files, path, kind):
            form = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", re.IGNORECASE)
            rows = enumerate(lines, start=1)
            place = next((number for number, line in rows if name in line and form.search(line)), 0)
            found.setdefault((ecosystem, name, version), Locked(ecosystem, name, version, path, place))
    return list(found.values())[:MAX_PACKAGES]


def _list_locked(files: ProjectFiles, path: str, kind: str) -> Iterator[tuple[str, str]]:
    """Name and version of each package in a lock; the project's own are left out."""
    if kind not in ECOSYSTEMS or kind in PATTERNS:
        yield from re.findall(PATTERNS.get(kind, PINNED), files.text(path), re.MULTILINE)
        return
    lock = files.table(path)
    for package in list_packages(lock):
        source = package.get("source")
        is_own = (
            not source
            if kind == "Cargo.lock"
            else {"editable", "virtual", "directory"} & {*as_mapping(source)}
        )
        if package.get("version") and not is_own:
            yield str(package.get("name")), str(package["version"])
    for section in ("default", "develop"):  # of a Pipfile.lock
        for name, package in get_table(lock, section).items():
            yield name, str(as_mapping(package).get("version", "")).lstrip("=")
    for place, package in get_table(lock, "packages").items():  # of npm
        if "node_modules/" in place and not as_mapping(package).get("link"):
            yield place.rpartition("node_modules/")[2], str(as_mapping(package).get("version", ""))
    waiting = [get_table(lock, "dependencies")] if "packages" not in lock else []
    while waiting:
        for name, package in waiting.pop().items():
            yield name, str(as_mapping(package).get("version", ""))
            waiting.append(get_table(package, "dependencies"))
