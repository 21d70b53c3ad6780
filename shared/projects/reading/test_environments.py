"""How tests of Python are set up: the environments of tox and nox, and the settings of pytest."""

import ast
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from shared.projects.reading.project_files import (
    ProjectFiles,
    find_line,
    get_table,
    list_texts,
    parse_ini,
)
from shared.projects.reading.test_commands import UNKNOWN, Found, Recognised, recognise, recognise_lines
from shared.source import as_mapping

REFERENCE = re.compile(r"\{\[([^\]]+)\](\w+)\}")  # To a value of another section
USUAL_FACTORS = "py-test-tests-pytest-unit-default"
"""Stands for the environment of the tests where no list names one."""
UNUSUAL = re.compile(r"(?:^|-)(?:pypy|pypy?2|min|low|old|\w*(?:main|master|dev|nightly)(?:$|-))")
"""Names of environments for other interpreters, and for versions that are not released or no longer usual."""
MOST_ENVIRONMENTS = 60


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
        pairs = {name: (*getattr(self, name), *getattr(other, name)) for name in self.__struct_fields__}
        return TestNeeds(**{name: tuple(dict.fromkeys(both)) for name, both in pairs.items()})

    def keep(self, extras: Sequence[str], groups: Sequence[str]) -> "TestNeeds":
        """These needs without the extras and groups that the project does not have."""

        def named(wanted: Sequence[str], there: Sequence[str]) -> tuple[str, ...]:
            return tuple(there if "*" in wanted else (name for name in there if name in wanted))

        return msgspec.structs.replace(
            self, extras=named(self.extras, extras), groups=named(self.groups, groups)
        )


class _Tox(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of tox in ``file``: ``native`` as TOML has them, or the ``sections`` of INI."""

    file: str = ""
    native: dict[str, Any] = {}
    sections: dict[str, dict[str, str]] = {}


def _read_tox(files: ProjectFiles) -> _Tox:
    stated = files.table("tox.toml") or files.table("pyproject.toml", "tool", "tox")
    legacy = stated.get("legacy_tox_ini")
    if stated and not isinstance(legacy, str):
        return _Tox(file=files.first("tox.toml") or "pyproject.toml", native=stated)
    if files.text("tox.ini"):
        return _Tox(file="tox.ini", sections=files.sections("tox.ini"))
    if "testenv" in files.sections("setup.cfg"):
        return _Tox(file="setup.cfg", sections=files.sections("setup.cfg"))
    return _Tox(file="pyproject.toml" if legacy else "", sections=parse_ini(legacy or ""))


def read_tox_needs(files: ProjectFiles, environment: str = "") -> TestNeeds:
    """What tox installs in the ``environment``; by default in that of the tests."""
    tox = _read_tox(files)
    own = (("env", environment),) if environment in get_table(tox.native, "env") else ()
    for names in (*own, ("env_run_base",), ("env", "test"), ("env", "tests"), ("env", "py")):
        table = get_table(tox.native, *names)
        needs = TestNeeds(
            extras=list_texts(table.get("extras")), groups=list_texts(table.get("dependency_groups"))
        ).join(sort_lines(files, list_texts(table.get("deps"))))
        if needs:
            return needs
    listed = [environment] if environment else _list_testing(files, tox)
    found = [_read_environment(files, tox, name) for name in listed]
    # Of the environments that CI runs, that with most of the project's extras skips the fewest tests.
    fullest = max(found, key=lambda needs: len(needs.extras), default=TestNeeds())
    usual = (_read_environment(files, tox, name) for name in ("", "py", "test", "tests", "unit", "pytest"))
    return fullest or next(filter(None, usual), TestNeeds())


def _list_testing(files: ProjectFiles, tox: _Tox) -> list[str]:
    """The environments in the list that run tests, the last first; unusual ones if there are no others."""
    listed = [
        name
        for name in _expand_names(_list_stated(tox))[:MOST_ENVIRONMENTS]
        if _find_in_sections(tox, [name], files.text(tox.file))
    ]
    usual = [name for name in listed if not UNUSUAL.search(name)]
    return (usual or listed)[::-1]


def _list_stated(tox: _Tox) -> str:
    own = tox.sections.get("tox") or tox.sections.get("tox:tox") or {}
    return re.sub(r"#.*", "", own.get("envlist") or own.get("env_list") or "")


def _read_environment(files: ProjectFiles, tox: _Tox, name: str) -> TestNeeds:
    own = _find_section(tox, name)[1]
    extras, groups, lines = (
        list(_list_lines(tox.sections, own.get(key, ""), name))
        for key in ("extras", "dependency_groups", "deps")
    )
    needs = TestNeeds(extras=_split_words(extras), groups=_split_words(groups))
    return needs.join(sort_lines(files, lines))


def _find_section(tox: _Tox, name: str) -> tuple[str, dict[str, str]]:
    """The section that describes the environment ``name``, and its settings with those of all."""
    described = {
        each: section
        for section in tox.sections
        if section.startswith("testenv:")
        for each in _expand_names(section.removeprefix("testenv:"))
    }
    section = described.get(name, "testenv")
    return section, tox.sections.get("testenv", {}) | tox.sections.get(section, {})


def _split_words(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(word for line in lines for word in re.split(r"[,\s]+", line) if word)


def _list_lines(
    sections: Mapping[str, Mapping[str, str]], value: str, name: str, depth: int = 0
) -> Iterator[str]:
    """The lines of a value that apply to the environment, with references to other sections filled in."""
    for line in map(str.strip, _select_lines(value, name or USUAL_FACTORS)):
        if reference := REFERENCE.fullmatch(line):
            if depth < 5:
                value = sections.get(reference[1], {}).get(reference[2], "")
                yield from _list_lines(sections, value, name, depth + 1)
        elif line and not line.startswith("#"):
            yield re.sub(r"\{(toxinidir|tox_root)\}/?|\{/\}", "", line)


def sort_lines(project: ProjectFiles, lines: Sequence[str]) -> TestNeeds:
    """Lines as pip takes them, sorted into requirements, requirement files and extras of the project."""
    requirements, files, extras = [], [], []
    for line in lines:
        line = re.sub(r"\s+#.*$", "", line).strip()
        if match := re.match(r"(?:-r|--requirement)[ =]?\s*(\S+)$", line):
            name = match[1].removeprefix("./")
            if project.has(name) and ".." not in Path(name).parts:
                files.append(name)
        elif match := re.match(r"(?:-e\s*)?\.(?:\[([^\]]+)\])?$", line):
            extras += [name.strip() for name in (match[1] or "").split(",") if name.strip()]
        elif re.match(r"[A-Za-z0-9][\w.-]*\s*(\[[^\]]*\])?\s*([<>=!~;@,(]|$)", line) and not re.search(
            r"[{}]", line
        ):
            requirements.append(line)
    return TestNeeds(requirements=tuple(requirements), files=tuple(files), extras=tuple(extras))


def read_nox_needs(files: ProjectFiles, sessions: Sequence[str] = ()) -> TestNeeds:
    """What ``sessions`` of nox, by default those for tests, install, as far as noxfile.py writes it out."""
    needs = TestNeeds()
    wanted = {re.sub(r"(-[\d.]+)?(\(.*\))?$", "", name).replace("-", "_") for name in sessions}
    for function in (node for node in files.module("noxfile.py").body if isinstance(node, ast.FunctionDef)):
        if not (function.name in wanted or re.fullmatch(r"(unit_?)?tests?|pytest|unit", function.name)):
            continue
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            name = getattr(call.func, "attr", "")
            words = [str(word.value) for word in call.args if isinstance(word, ast.Constant)]
            if name in ("install", "run_install"):
                needs = needs.join(sort_lines(files, join_options(words)))
            elif name == "dependency_groups":
                needs = needs.join(TestNeeds(groups=tuple(words)))
    return needs


def join_options(words: Sequence[str]) -> list[str]:
    """The words after ``pip install``, an option such as ``-r`` and its value as one."""
    lines: list[str] = []
    for word in words:
        if lines and lines[-1] in ("-r", "-e", "-c", "--requirement", "--constraint"):
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


# --- the commands of tox and nox ----------------------------------------------------------------------


def find_tox_commands(words: tuple[str, ...], files: ProjectFiles) -> list[Found] | None:
    """The test commands that a call of tox comes to; None if nothing says."""
    wanted = [value for option, value in itertools.pairwise(words) if option in ("-e", "-f", "--env")]
    wanted += [word.partition("=")[2] for word in words if word.startswith(("-e=", "--env="))]
    names = [name for value in wanted for name in value.split(",") if name]
    tox = _read_tox(files)
    if not tox.file:
        return None
    find = _find_in_tables if tox.native else _find_in_sections
    found = find(tox, names, files.text(tox.file))
    # As tox does: the workers of xdist have to find the same tests in the same order.
    env = {"PYTHONHASHSEED": "1"}
    return [
        msgspec.structs.replace(each, command=_find_installed(files, each.command), env={**env, **each.env})
        for each in found
    ]


def _find_installed(files: ProjectFiles, command: Recognised) -> Recognised:
    """``command`` with the sources of the project where it names what is installed of it."""

    def source(word: str) -> str:
        inner = word.removeprefix(f"{INSTALLED}/")
        return f"src/{inner}" if word != inner and (files.folder / "src" / inner).exists() else inner

    names = frozenset(map(source, command.names))
    return msgspec.structs.replace(command, words=tuple(map(source, command.words)), names=names)


def _find_in_tables(tox: _Tox, names: list[str], text: str) -> list[Found]:
    environments, base = get_table(tox.native, "env"), get_table(tox.native, "env_run_base")
    listed = list_texts(tox.native.get("env_list"))
    found = []
    for name in names or listed or [""]:
        own = {**base, **as_mapping(environments.get(name))}
        for command in own.get("commands") or []:
            plain = (word for word in command if not isinstance(word, dict))
            words = [word if isinstance(word, str) else UNKNOWN for word in plain]
            for word in command if isinstance(command, list) else []:
                if isinstance(word, dict) and isinstance(word.get("default"), list):
                    words += [each for each in word["default"] if isinstance(each, str)]
            if recognised := recognise([fill_tox(word) for word in words]):
                line = find_line(text, r"commands *=") if name not in environments else 0
                line = line or find_line(text, rf'^\[.*env\."?{re.escape(name)}"?\]') or 1
                place = _find_place(str(own.get("change_dir", "")))
                found.append(Found(command=recognised, source=f"{tox.file}:{line}", folder=place))
    return found


INSTALLED = "site-packages"
"""Stands in a command of tox for the folder that the project is installed in: here its sources."""


def _find_place(stated: str) -> str:
    """The folder that tox enters, relative to the project; its own working folders hold nothing to test."""
    place = fill_tox(stated).removeprefix("./")
    return "" if place.startswith(".tox") or UNKNOWN in place else place


def fill_tox(text: str) -> str:
    """``text`` with tox's substitutions made as far as they are the same everywhere."""
    text = re.sub(r"\{posargs(?::([^{}]*))?\}", lambda match: match[1] or "", text)
    text = re.sub(r"\{env:\w+(?::([^{}]*))?\}", lambda match: match[1] or "", text)
    text = re.sub(r"\{(?:toxinidir|tox_root)\}", ".", text)
    text = re.sub(r"\{env_?site_?packages_?dir\}/", f"{INSTALLED}/", text)
    text = re.sub(r"\{env_?python\}", "python", text)
    return re.sub(r"\{[^{}]*\}", UNKNOWN, text)


def _find_in_sections(tox: _Tox, names: list[str], text: str) -> list[Found]:
    parsed = tox.sections
    found = []
    for name in names or _expand_names(_list_stated(tox))[:MOST_ENVIRONMENTS] or [""]:
        section, own = _find_section(tox, name)
        commands = REFERENCE.sub(
            lambda match: parsed.get(match[1], {}).get(match[2], ""), own.get("commands", "")
        )
        lines = map(str.strip, _select_lines(commands, name))
        # A dash before a command lets it fail; before an option it goes on from the line above.
        script = "\n".join(line if line.startswith("--") else line.lstrip("-").strip() for line in lines)
        where = section if "commands" in parsed.get(section, {}) else "testenv"
        start = find_line(text, rf"^\[{re.escape(where)}\]")
        rest = "\n".join(text.splitlines()[start:])
        line = start + find_line(rest, r"^commands *=") if start else 1
        place = _find_place(own.get("changedir") or own.get("change_dir") or "")
        found += [
            msgspec.structs.replace(each, source=f"{tox.file}:{line}", folder=each.folder or place)
            for each in recognise_lines(fill_tox(script), tox.file, line)
        ]
    return found


def _expand_names(text: str) -> list[str]:
    """The names of environments, ``py{310,311}-x`` written out."""
    names: list[str] = []
    for word in re.split(r"[,\s]+(?![^{]*\})", text.strip()):
        parts = re.split(r"\{([^{}]*)\}", word)
        choices = [_expand_choice(part) if at % 2 else [part] for at, part in enumerate(parts)]
        names += ["".join(each) for each in itertools.islice(itertools.product(*choices), 200)]
    return [name for name in names if name]


def _expand_choice(text: str) -> list[str]:
    found: list[str] = []
    for part in text.split(","):
        span = re.fullmatch(r"(\d+)-(\d+)", part.strip())
        numbers = range(int(span[1]), min(int(span[2]), int(span[1]) + 50) + 1) if span else ()
        found += [str(number) for number in numbers] or [part.strip()]
    return found


def _select_lines(commands: str, name: str) -> Iterator[str]:
    """The lines that hold for the environment ``name``: those whose factors fit it; all if not known."""
    factors = set(name.split("-"))
    for line in commands.splitlines():
        match = re.match(r"\s*([\w.!,{}-]+): +(.*)", line)
        if match and not match[1].startswith("python"):
            fits = any(
                all(
                    (part[1:] not in factors) if part.startswith("!") else part in factors
                    for part in option.split("-")
                )
                for option in _expand_names(match[1])
            )
            if UNKNOWN in name and name != UNKNOWN:
                known = {part for part in factors if UNKNOWN not in part}
                fits = fits or any(known & set(option.split("-")) for option in _expand_names(match[1]))
            if not fits and name and name != UNKNOWN:
                continue
            line = match[2]
        yield line


def find_nox_commands(words: tuple[str, ...], files: ProjectFiles) -> list[Found] | None:
    """The test commands that a call of nox comes to, as far as noxfile.py has them written out."""
    options = ("-s", "-e", "--session", "--sessions")
    wanted = {value for option, value in itertools.pairwise(words) if option in options}
    wanted = {re.sub(r"(-[\d.]+)?(\(.*\))?$", "", name) for name in wanted if UNKNOWN not in name}
    found: list[Found] = []
    for function in (node for node in files.module("noxfile.py").body if isinstance(node, ast.FunctionDef)):
        decorated = any("session" in ast.unparse(each) for each in function.decorator_list)
        is_wanted = not wanted or {function.name, function.name.replace("_", "-")} & wanted
        calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
        # A session that goes to a folder which it computes tests another project.
        leaves = any(
            ast.unparse(call.func).endswith((".chdir", ".cd")) and not isinstance(call.args[0], ast.Constant)
            for call in calls
            if call.args
        )
        for call in calls if decorated and is_wanted and not leaves else ():
            if ast.unparse(call.func).endswith((".run", ".run_always")):
                arguments = [each.value for each in call.args if isinstance(each, ast.Constant)]
                recognised = recognise([each for each in arguments if isinstance(each, str)])
                if recognised:
                    found.append(Found(command=recognised, source=f"noxfile.py:{call.lineno}"))
    return found


# --- pytest -----------------------------------------------------------------------------------------

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
    r"--(no-)?cov\b": "pytest-cov",
    r"(^|\s)-n[ =]?(\d|auto|logical)|--dist\b|--numprocesses": "pytest-xdist",
    r"--asyncio-": "pytest-asyncio",
    r"--timeout\b": "pytest-timeout",
    r"--ds\b|--reuse-db|--nomigrations|--no-migrations": "pytest-django",
    r"--benchmark-": "pytest-benchmark",
    r"--reruns\b": "pytest-rerunfailures",
    r"--mypy-(ini|same|ext|only|test|pyproject)": "pytest-mypy-plugins",
    r"--mypy(?!-(ini|same|ext|only|test|pyproject))\b": "pytest-mypy",
    r"--randomly-|-p randomly": "pytest-randomly",
    r"--random-order": "pytest-random-order",
    r"--(self-contained-)?html\b": "pytest-html",
    r"--snapshot\b": "syrupy",
}
"""Options of pytest that a plugin brings: a run without the plugin ends with a usage error."""
SETTINGS = {
    "asyncio_mode": "pytest-asyncio",
    "asyncio_default_fixture_loop_scope": "pytest-asyncio",
    "timeout": "pytest-timeout",
    "DJANGO_SETTINGS_MODULE": "pytest-django",
}
MOST = 400  # The most test files that are looked at


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


def find_plugins(options: str) -> list[str]:
    """The plugins that bring some of the ``options`` of pytest."""
    return [name for pattern, name in OPTIONS.items() if re.search(pattern, options)]


def list_plugins(files: ProjectFiles) -> tuple[str, ...]:
    """The plugins that pytest's settings presuppose."""
    found = read_pytest_settings(files)
    settings = found.options if found else {}
    plugins = find_plugins(settings.get("addopts", ""))
    plugins += [name for setting, name in SETTINGS.items() if setting in settings]
    plugins += re.findall(r"pytest-[\w-]+", settings.get("required_plugins", ""))
    return tuple(dict.fromkeys(plugins))


def list_test_files(files: ProjectFiles) -> list[str]:
    """The test files of a Python project, those beside its manifest first."""
    patterns = ("conftest.py", "test*.py", "*_test.py")
    below = (f"{place}/**/{pattern}" for place in FOLDERS for pattern in patterns)
    return files.glob(*patterns, *below)[:MOST]
