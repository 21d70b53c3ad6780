"""What the commands of a project's CI install: by pip, uv, Poetry, PDM, tox, nox, Hatch and pixi."""

import contextlib
import itertools
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from shared.projects.reading.ci import read_ci
from shared.projects.reading.locks import list_conda
from shared.projects.reading.project_files import ProjectFiles, get_table, list_texts, read_hatch, read_pixi
from shared.projects.reading.test_commands import UNKNOWN, split_script, strip
from shared.projects.reading.test_environments import (
    TestNeeds,
    fill_tox,
    join_options,
    read_nox_needs,
    read_tox_needs,
    sort_lines,
)
from shared.source import as_mapping

ALL = "*"
"""Stands for all extras, or all groups, that a project has."""
PUBLISHING = re.compile(
    r"(pip|setuptools|wheel|build|twine|tox|nox|uv|poetry|pdm|pipenv|hatch|codecov|coveralls|pre-commit"
    r"|cibuildwheel|virtualenv|sphinx|black|flake8|mypy|pylint|ruff|isort)\b(?!-)"
)
"""Requirements in CI that no test needs: what builds, publishes, lints and installs."""


def read_installs(files: ProjectFiles, lines: Iterable[str], depth: int = 3) -> TestNeeds:
    """What the commands in ``lines`` install of a Python project, but for tools that build and publish.

    They are those of pip, uv, Poetry, PDM, tox, nox and Hatch; scripts and targets of the project that run
    some are followed. ALL stands for all extras or groups.
    """
    needs = TestNeeds()
    for line in lines:
        words = shlex.split(line)
        found = False
        for at, word in enumerate(words[:12]):
            program = word.rpartition("/")[2]
            if program in INSTALLERS:
                needs = needs.join(INSTALLERS[program](files, words[at + 1 :]))
                found = True
            if program in ("pip", "pip3"):
                break
        if not found and depth:
            needs = needs.join(read_installs(files, _list_inner(files, words), depth - 1))
    wanted = (line for line in needs.requirements if not PUBLISHING.match(line))
    return msgspec.structs.replace(needs, requirements=tuple(wanted))


def find_call(files: ProjectFiles, program: str) -> tuple[str, ...] | None:
    """What CI gives ``program``, also by scripts of the project, make and tox; None if nothing calls it."""
    scripts = (split_script(script.text, script.env) for script in read_ci(files))
    lines = [shlex.join(command.words) for commands in scripts for command in commands]
    sections = files.sections("tox.ini").values() if any("tox" in line for line in lines) else ()
    lines += [fill_tox(line) for section in sections for line in section.get("commands", "").splitlines()]
    for _ in range(3):
        calls = (strip(words) for line in lines if (words := _split(line)))
        found = next((words for words in calls if words and words[0].rpartition("/")[2] == program), None)
        if found:
            return tuple(found[1:])
        lines = [inner for line in lines if (words := _split(line)) for inner in _list_inner(files, words)]
    return None


def _split(line: str) -> list[str]:
    with contextlib.suppress(ValueError):
        words = shlex.split(line)
        return words[2:] if words[:2] == ["python", "-m"] else words
    return []


def _list_inner(files: ProjectFiles, words: list[str]) -> Iterator[str]:
    """The commands of a script of the project, or of the targets of its Makefile."""
    text = ""
    if words[0] in ("make", "gmake"):
        for target in words[1:]:
            found = re.search(
                rf"(?m)^{re.escape(target)} *:(?!=)[^\n]*\n((?:\t.*\n?)*)", files.text("Makefile")
            )
            text += re.sub(r"(?m)^\t[@-]*", "", found[1]) if found else ""
    else:
        script = next((word for word in words[:2] if "/" in word or word.endswith(".sh")), "")
        if script and not script.startswith("/") and ".." not in script:
            text = files.text(script.removeprefix("./"))
    yield from (shlex.join(command.words) for command in split_script(text))


def _values(words: list[str], *names: str) -> tuple[str, ...]:
    """The values of options, those that commas or blanks separate as several."""
    found = [value for option, value in itertools.pairwise(words) if option in names]
    found += [word.partition("=")[2] for word in words if word.partition("=")[0] in names and "=" in word]
    return tuple(
        each for value in found for each in re.split(r"[,\s]+", value) if each and UNKNOWN not in each
    )


def _read_pip(files: ProjectFiles, words: list[str]) -> TestNeeds:
    if "install" not in words:
        return TestNeeds()
    rest = [word for word in words[words.index("install") + 1 :] if UNKNOWN not in word]
    return sort_lines(files, join_options(rest)).join(TestNeeds(groups=_values(rest, "--group")))


def _read_uv(files: ProjectFiles, words: list[str]) -> TestNeeds:
    if words[:1] == ["pip"]:
        return _read_pip(files, words)
    if not {"sync", "run"} & set(words):
        return TestNeeds()
    extras, groups = _values(words, "--extra"), _values(words, "--group", "--only-group")
    extras += (ALL,) if "--all-extras" in words else ()
    groups += (ALL,) if "--all-groups" in words else ()
    if not {"--no-dev", "--no-default-groups", "--only-group"} & set(words):
        usual = files.table("pyproject.toml", "tool", "uv").get("default-groups", ["dev"])
        groups += (ALL,) if usual == "all" else list_texts(usual)
    named = sort_lines(
        files, [*_values(words, "--with"), *(f"-r {n}" for n in _values(words, "--with-requirements"))]
    )
    return named.join(TestNeeds(extras=extras, groups=groups))


def _read_poetry(files: ProjectFiles, words: list[str]) -> TestNeeds:
    if not {"install", "sync"} & set(words[:1]):
        return TestNeeds()
    extras = _values(words, "-E", "--extras") + ((ALL,) if {"--all-extras", "-a"} & set(words) else ())
    groups = _values(words, "--with", "--only")
    if not {"--no-dev", "--only"} & {word.partition("=")[0] for word in words}:
        own = files.table("pyproject.toml", "tool", "poetry", "group")
        left_out = _values(words, "--without")
        groups += tuple(
            name
            for name in (*own, "dev")
            if name not in left_out and not as_mapping(own.get(name)).get("optional")
        )
    return TestNeeds(extras=extras, groups=groups + ((ALL,) if "--all-groups" in words else ()))


def _read_pdm(files: ProjectFiles, words: list[str]) -> TestNeeds:
    if not {"install", "sync"} & set(words[:1]):
        return TestNeeds()
    named = tuple(ALL if name == ":all" else name for name in _values(words, "-G", "--group", "--with"))
    usual = () if {"--prod", "--production", "--no-default"} & set(words) else (ALL,)
    return TestNeeds(extras=named, groups=(*named, *usual))


def _read_tox(files: ProjectFiles, words: list[str]) -> TestNeeds:
    needs = TestNeeds()
    for name in _values(words, "-e", "--env", "-f"):
        needs = needs.join(read_tox_needs(files, name))
    return needs or read_tox_needs(files)


def _read_nox(files: ProjectFiles, words: list[str]) -> TestNeeds:
    return read_nox_needs(files, _values(words, "-s", "--session", "--sessions"))


def _read_hatch(files: ProjectFiles, words: list[str]) -> TestNeeds:
    name = "hatch-test" if "test" in words[:3] else "default"
    for word in words:
        script = re.fullmatch(r"(?:\+py=[\w.]+ )?([\w-]+)(?:\.[\w.-]+)?:[\w-]+", word)
        name = script[1] if script else name
    features = get_table(read_hatch(files), "envs", name).get("features")
    # Its own environment for tests has these, and options of its command need them.
    usual = ("pytest", "pytest-mock", "pytest-rerunfailures", "pytest-xdist") if name == "hatch-test" else ()
    return TestNeeds(extras=list_texts(features), groups=(name,), requirements=usual)


def _read_pixi(files: ProjectFiles, words: list[str]) -> TestNeeds:
    """What the environment of ``pixi run`` has: the named one, or the features that have the task."""
    if words[:1] != ["run"]:
        return TestNeeds()
    pixi = read_pixi(files)
    features = get_table(pixi, "feature")
    named = (_values(words, "-e", "--environment") or ("default",))[0]
    stated = get_table(pixi, "environments").get(named)
    chosen = list_texts(stated.get("features") if isinstance(stated, dict) else stated)
    chosen += tuple(name for name in features if set(get_table(features, name, "tasks")) & set(words))
    packages: dict[str, Any] = {}
    for table in (pixi, *(get_table(features, name) for name in dict.fromkeys(chosen))):
        packages |= {**get_table(table, "dependencies"), **get_table(table, "pypi-dependencies")}
    return sort_lines(files, list_conda(packages))


INSTALLERS: dict[str, Callable[[ProjectFiles, list[str]], TestNeeds]] = {
    "pip": _read_pip,
    "pip3": _read_pip,
    "uv": _read_uv,
    "poetry": _read_poetry,
    "pdm": _read_pdm,
    "tox": _read_tox,
    "nox": _read_nox,
    "hatch": _read_hatch,
    "pixi": _read_pixi,
}
