"""How Python projects are tested: pytest, unittest, Django."""

from collections.abc import Iterator
from pathlib import Path

from services.engineer.clues import TestCommand, find_line, read

PYTEST_SETTINGS = {
    "pytest.toml": r"^\[pytest\]",
    "pytest.ini": r"^\[pytest\]",
    ".pytest.ini": r"^\[pytest\]",
    "pyproject.toml": r"^\[tool\.pytest(\.ini_options)?\]",
    "tox.ini": r"^\[pytest\]",
    "setup.cfg": r"^\[tool:pytest\]",
}
PYTHON_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")


def find_python_project(folder: Path) -> TestCommand | None:
    """Pytest where it is configured, else what the test files of a Python project are written for."""
    for name, pattern in PYTEST_SETTINGS.items():
        if line := find_line(read(folder / name), pattern):
            return _pytest(f"{name}:{line} (settings of pytest)")
    if any((folder / name).is_file() for name in PYTHON_PROJECT):
        return find_loose_python(folder)
    return None


def configures_pytest(folder: Path) -> bool:
    """Whether pytest, started in ``folder``, finds settings there."""
    return any(find_line(read(folder / name), pattern) for name, pattern in PYTEST_SETTINGS.items())


def find_loose_python(folder: Path) -> TestCommand | None:
    """What the test files in ``folder`` are written for: Django, pytest or unittest."""
    django = read(folder / "manage.py")
    if line := find_line(django, r"DJANGO_SETTINGS_MODULE"):
        return TestCommand(
            runner="unittest",
            argv=("python", "manage.py", "test"),
            found=f"manage.py:{line} (a Django project)",
        )
    unittest = None
    for path in _test_files(folder):
        text, place = read(path), path.relative_to(folder)
        if line := find_line(text, r"^ *(import .*\bpytest\b|from pytest\b)"):
            return _pytest(f"{place}:{line} (imports pytest)")
        if unittest is None and (line := find_line(text, r"^ *(import .*|from )\bunittest\b(?!\.mock)")):
            unittest = _unittest(folder, path, f"{place}:{line} (imports unittest)")
    if unittest:
        return unittest
    for path in _test_files(folder):
        if line := find_line(read(path), r"^(async )?def test_|^class Test"):
            return _pytest(f"{path.relative_to(folder)}:{line} (a test function)")
    return None


def _test_files(folder: Path) -> Iterator[Path]:
    places = (folder, *(folder / name for name in ("tests", "test", "src") if (folder / name).is_dir()))
    for place in places:
        for pattern in ("conftest.py", "test*.py", "*_test.py"):
            yield from sorted(place.glob(pattern) if place == folder else place.rglob(pattern))


def _pytest(found: str) -> TestCommand:
    return TestCommand(runner="pytest", argv=("python", "-m", "pytest"), found=found)


def _unittest(folder: Path, path: Path, found: str) -> TestCommand:
    argv: tuple[str, ...] = ("python", "-m", "unittest", "discover", "-v")
    if path.parent != folder and not (path.parent / "__init__.py").exists():
        argv += ("-s", str(path.parent.relative_to(folder)))
    return TestCommand(runner="unittest", argv=argv, found=found)
