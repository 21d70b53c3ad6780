"""What a project's tests need: what tox and nox install for them, and packages that no manifest names."""

import ast
import contextlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from shared.projects.manifests import get_table, list_texts, parse_ini, read_text, read_toml
from shared.source.syntax import parse_module

NAMES = ("testenv", "testenv:py", "testenv:test", "testenv:tests", "testenv:unit", "testenv:pytest")
"""Sections of tox.ini that describe the tests; the first that installs something counts."""
FACTORS = re.compile(r"^([\w!.,{}-]+):\s+(.*)$")
PUBLISHING = re.compile(
    r"(pip|setuptools|wheel|build|twine|tox|nox|uv|poetry|pdm|pipenv|hatch|codecov|coveralls|pre-commit"
    r"|cibuildwheel|virtualenv|sphinx|black|flake8|mypy|pylint|ruff|isort)\b(?!-)"
)
"""Requirements in CI that no test needs: what builds, publishes, lints and installs."""
ABOUT_TESTS = re.compile(r"(?<![\w!])(py\d*|tests?|pytest|unit|default)(?!\w)")
"""Factors whose lines are taken: those of the tests themselves, not of variants of the environment."""


class TestNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What tests need: names of extras and groups, requirement lines, and requirement files."""

    __test__ = False

    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.extras or self.groups or self.requirements or self.files)

    def join(self, other: "TestNeeds") -> "TestNeeds":
        """What either needs."""
        return TestNeeds(
            **{
                name: tuple(dict.fromkeys((*getattr(self, name), *getattr(other, name))))
                for name in self.__struct_fields__
            }
        )

    def keep(self, extras: Sequence[str], groups: Sequence[str]) -> "TestNeeds":
        """These needs without the extras and groups that the project does not have."""
        return msgspec.structs.replace(
            self,
            extras=tuple(name for name in self.extras if name in extras),
            groups=tuple(name for name in self.groups if name in groups),
        )


def read_tox(folder: Path, tables: Mapping[str, Any]) -> TestNeeds:
    """What tox installs in the environment of the tests."""
    tox = get_table(tables, "tool", "tox")
    native = read_toml(folder / "tox.toml") or {
        key: value for key, value in tox.items() if key != "legacy_tox_ini"
    }
    for names in (("env_run_base",), ("env", "test"), ("env", "tests"), ("env", "py")):
        table = get_table(native, *names)
        needs = TestNeeds(
            extras=list_texts(table.get("extras")), groups=list_texts(table.get("dependency_groups"))
        ).join(_sort(folder, list_texts(table.get("deps"))))
        if needs:
            return needs
    text = read_text(folder / "tox.ini") or str(tox.get("legacy_tox_ini") or "")
    sections = parse_ini(text) or parse_ini(read_text(folder / "setup.cfg"))
    for name in NAMES:
        section = sections.get(name, {})
        listed = {
            key: list(_list_lines(sections, section.get(key, ""))) for key in ("extras", "dependency_groups")
        }
        needs = TestNeeds(
            extras=tuple(word for line in listed["extras"] for word in re.split(r"[,\s]+", line) if word),
            groups=tuple(
                word for line in listed["dependency_groups"] for word in re.split(r"[,\s]+", line) if word
            ),
        ).join(_sort(folder, list(_list_lines(sections, section.get("deps", "")))))
        if needs:
            return needs
    return TestNeeds()


def _list_lines(sections: Mapping[str, Mapping[str, str]], value: str, depth: int = 0) -> Iterator[str]:
    """The lines of a value that apply to the tests, with references to other sections filled in."""
    for line in value.splitlines():
        line = line.strip()
        if match := FACTORS.match(line):
            if not ABOUT_TESTS.search(match[1]):
                continue
            line = match[2].strip()
        if reference := re.fullmatch(r"\{\[([^\]]+)\](\w+)\}", line):
            if depth < 5:
                yield from _list_lines(
                    sections, sections.get(reference[1], {}).get(reference[2], ""), depth + 1
                )
        elif line and not line.startswith("#"):
            yield re.sub(r"\{(toxinidir|tox_root)\}/?|\{/\}", "", line)


def _sort(folder: Path, lines: Sequence[str]) -> TestNeeds:
    """Lines as pip takes them, sorted into requirements, requirement files and extras of the project."""
    requirements, files, extras = [], [], []
    for line in lines:
        line = re.sub(r"\s+#.*$", "", line).strip()
        if match := re.match(r"(?:-r|--requirement)[ =]?\s*(\S+)$", line):
            name = match[1].removeprefix("./")
            if (folder / name).is_file() and ".." not in Path(name).parts:
                files.append(name)
        elif match := re.match(r"(?:-e\s*)?\.(?:\[([^\]]+)\])?$", line):
            extras += [name.strip() for name in (match[1] or "").split(",") if name.strip()]
        elif re.match(r"[A-Za-z0-9][\w.-]*\s*(\[[^\]]*\])?\s*([<>=!~;@,(]|$)", line) and not re.search(
            r"[{}]", line
        ):
            requirements.append(line)
    return TestNeeds(requirements=tuple(requirements), files=tuple(files), extras=tuple(extras))


def read_nox(folder: Path) -> TestNeeds:
    """What the nox session for tests installs, as far as it is written out in noxfile.py."""
    try:
        tree = parse_module(read_text(folder / "noxfile.py"))
    except ValueError:
        return TestNeeds()
    needs = TestNeeds()
    for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
        if not re.fullmatch(r"(unit_?)?tests?|pytest|unit", function.name):
            continue
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            name = getattr(call.func, "attr", "")
            words = [str(word.value) for word in call.args if isinstance(word, ast.Constant)]
            if name in ("install", "run_install"):
                needs = needs.join(_sort(folder, _join_options(words)))
            elif name == "dependency_groups":
                needs = needs.join(TestNeeds(groups=tuple(words)))
    return needs


def read_ci(folder: Path) -> TestNeeds:
    """What the project's CI (else its Makefile) installs by pip, but for tools that build and publish."""
    for text in map(read_text, list_ci_files(folder)):
        needs = TestNeeds()
        for line in re.findall(r"(?m)\bpip3? install ([^\n]+)", text.replace("\\\n", " ")):
            with contextlib.suppress(ValueError):
                needs = needs.join(_sort(folder, _join_options(_split_command(line))))
        wanted = (line for line in needs.requirements if not PUBLISHING.match(line))
        needs = msgspec.structs.replace(needs, requirements=tuple(wanted))
        if needs:
            return needs
    return TestNeeds()


def _split_command(line: str) -> list[str]:
    """The words of the first command in a line of shell, without what redirects its output."""
    words: list[str] = []
    redirected = False
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for word in lexer:
        if set(word) <= set("<>&") and set(word) != {"&"}:
            words = words[:-1] if words and words[-1].isdigit() else words
            redirected = True
        elif set(word) <= set(";|&()"):
            break
        elif redirected:
            redirected = False
        else:
            words.append(word)
    return words


def list_ci_files(folder: Path) -> list[Path]:
    """The files that say what the project's CI does, those named for tests first."""
    workflows = sorted((folder / ".github/workflows").glob("*.y*ml"))
    workflows.sort(key=lambda path: not re.search(r"test|ci\b|build|main", path.stem))
    return [
        *workflows,
        *(folder / name for name in (".gitlab-ci.yml", ".travis.yml", "appveyor.yml", "Makefile")),
    ]


def _join_options(words: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for word in words:
        if lines and lines[-1] in ("-r", "-e", "-c", "--requirement", "--constraint"):
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


# --- packages that no manifest names ----------------------------------------------------------------

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
