"""Which packages a Python project's tests need although no manifest names them."""

import re
from collections.abc import Iterator
from pathlib import Path

from shared.projects.manifests import get_table, parse_ini, read_text, read_toml
from shared.projects.test_environments import list_ci_files

FOLDERS = ("tests", "test", "testing", "src")
OPTIONS = {
    r"--cov\b|--cov[-=]": "pytest-cov",
    r"(^|\s)-n[ =]?(\d|auto|logical)|--dist\b|--numprocesses": "pytest-xdist",
    r"--asyncio-mode": "pytest-asyncio",
    r"--timeout\b": "pytest-timeout",
    r"--ds=|--reuse-db|--nomigrations|--no-migrations": "pytest-django",
    r"--benchmark-": "pytest-benchmark",
    r"--reruns\b": "pytest-rerunfailures",
    r"--mypy-": "pytest-mypy-plugins",
    r"--randomly-|-p randomly": "pytest-randomly",
    r"--snapshot-": "syrupy",
}
"""Options of pytest that a plugin brings: a run without the plugin ends with a usage error."""
SETTINGS = {
    "asyncio_mode": "pytest-asyncio",
    "asyncio_default_fixture_loop_scope": "pytest-asyncio",
    "timeout": "pytest-timeout",
    "DJANGO_SETTINGS_MODULE": "pytest-django",
}
MOST = 400
"""The most test files that are looked at."""


def needs_pytest(folder: Path) -> bool:
    """Whether the tests in ``folder`` are written for pytest: settings, a conftest.py or imports say so."""
    if read_pytest_settings(folder) or any(
        re.search(r"\bpytest\b", read_text(path)) for path in _list_runs(folder)
    ):
        return True
    unittest = False
    for path in list_test_files(folder):
        if path.name == "conftest.py":
            return True
        text = read_text(path)
        if re.search(r"(?m)^ *(import .*\bpytest\b|from pytest\b)", text):
            return True
        unittest = unittest or bool(re.search(r"(?m)^ *(import .*|from .*)\b(unittest|TestCase)\b", text))
        if not unittest and re.search(r"(?m)^(async )?def test_|^class Test\w*(\(object\))?:", text):
            return True
    return False


def _list_runs(folder: Path) -> list[Path]:
    """The files that say how the tests are run."""
    return [*list_ci_files(folder), folder / "tox.ini", folder / "noxfile.py"]


def list_plugins(folder: Path) -> tuple[str, ...]:
    """The plugins that pytest's settings in ``folder`` presuppose."""
    settings = read_pytest_settings(folder)
    options = settings.get("addopts", "")
    found = [name for pattern, name in OPTIONS.items() if re.search(pattern, options)]
    found += [name for setting, name in SETTINGS.items() if setting in settings]
    found += re.findall(r"pytest-[\w-]+", settings.get("required_plugins", ""))
    return tuple(dict.fromkeys(found))


def read_pytest_settings(folder: Path) -> dict[str, str]:
    """pytest's settings as text; empty if there are none."""
    for name in ("pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg"):
        section = "tool:pytest" if name == "setup.cfg" else "pytest"
        sections = parse_ini(read_text(folder / name))
        if section in sections:
            return {"": "", **sections[section]}
    pytest = get_table(read_toml(folder / "pyproject.toml"), "tool", "pytest")
    options = get_table(pytest, "ini_options") or {
        key: value for key, value in pytest.items() if key != "ini_options"
    }
    if not pytest:
        return {}
    texts = {
        name: " ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in options.items()
    }
    return {"": "", **texts}


def list_test_files(folder: Path) -> Iterator[Path]:
    """The test files of a project, those beside its manifest first."""
    count = 0
    for place in (folder, *(folder / name for name in FOLDERS)):
        for pattern in ("conftest.py", "test_*.py", "*_test.py", "tests.py"):
            for path in place.glob(pattern) if place == folder else place.rglob(pattern):
                if count == MOST:
                    return
                count += 1
                yield path
