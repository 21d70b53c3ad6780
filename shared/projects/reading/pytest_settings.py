"""The settings of pytest, and what a project's tests need of pytest that no manifest names."""

import re
from collections.abc import Iterator

import msgspec

from shared.projects.reading.ci import list_ci_files
from shared.projects.reading.project_files import ProjectFiles

PLACES = {
    "pytest.toml": ("pytest",),
    "pytest.ini": ("pytest",),
    ".pytest.ini": ("pytest",),
    "pyproject.toml": ("tool", "pytest"),
    "tox.ini": ("pytest",),
    "setup.cfg": ("tool:pytest",),
}
"""Where pytest looks for its settings, in its order: the file, and the table or section in it."""
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


class PytestSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of pytest as text; ``place`` is ``file:line``."""

    place: str
    options: dict[str, str] = {}


def read_pytest_settings(files: ProjectFiles) -> PytestSettings | None:
    """The settings that pytest finds in the folder; None if there are none."""
    for name, keys in PLACES.items():
        header = rf"^\[{re.escape('.'.join(keys))}(\.ini_options)?\]"
        if line := files.find_line(name, header):
            table = files.table(name, *keys)
            inner = table.get("ini_options")
            table = inner if isinstance(inner, dict) else table
            options = {
                key: " ".join(map(str, value)) if isinstance(value, list) else str(value)
                for key, value in table.items()
            }
            return PytestSettings(place=f"{name}:{line}", options=options)
    return None


def needs_pytest(files: ProjectFiles) -> bool:
    """Whether the tests are written for pytest: settings, a conftest.py or imports say so."""
    runs = (*list_ci_files(files), "tox.ini", "noxfile.py")
    if read_pytest_settings(files) or any(re.search(r"\bpytest\b", files.text(name)) for name in runs):
        return True
    unittest = False
    for name in _list_test_files(files):
        if name.endswith("conftest.py"):
            return True
        text = files.text(name)
        if re.search(r"(?m)^ *(import .*\bpytest\b|from pytest\b)", text):
            return True
        unittest = unittest or bool(re.search(r"(?m)^ *(import .*|from .*)\b(unittest|TestCase)\b", text))
        if not unittest and re.search(r"(?m)^(async )?def test_|^class Test\w*(\(object\))?:", text):
            return True
    return False


def list_plugins(files: ProjectFiles) -> tuple[str, ...]:
    """The plugins that pytest's settings presuppose."""
    found = read_pytest_settings(files)
    settings = found.options if found else {}
    options = settings.get("addopts", "")
    plugins = [name for pattern, name in OPTIONS.items() if re.search(pattern, options)]
    plugins += [name for setting, name in SETTINGS.items() if setting in settings]
    plugins += re.findall(r"pytest-[\w-]+", settings.get("required_plugins", ""))
    return tuple(dict.fromkeys(plugins))


def _list_test_files(files: ProjectFiles) -> Iterator[str]:
    """The test files of a project, those beside its manifest first."""
    patterns = ("conftest.py", "test_*.py", "*_test.py", "tests.py")
    below = (f"{place}/**/{pattern}" for place in FOLDERS for pattern in patterns)
    yield from files.glob(*patterns, *below)[:MOST]
