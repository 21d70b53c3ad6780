"""What make, just and the scripts of Python's project managers run, read from their own files."""

import itertools
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from shared.projects.reading.project_files import ProjectFiles, find_line
from shared.projects.reading.test_commands import UNKNOWN, Found, Recognised, recognise, recognise_lines
from shared.projects.reading.test_environments import find_nox_commands, find_tox_commands

TEST_TARGET = re.compile(r"(?:^|[-_./])(?:tests?|check|ci|unit|spec|unittests?)(?:$|[-_./])|^\w*tests?$")
NO_TEST_TARGET = re.compile(
    r"lint|format|fmt|bench|demo|docs?\b|type|clean|install|build|deps|style|mypy|cov(erage)?[-_]report|setup|perf"
)
MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
JUSTFILES = ("justfile", "Justfile", ".justfile")
SUBSTITUTED = frozenset({"pytest", "unittest", "django", "cargo", "go", "node"})
"""Runners that need nothing of make: what a target runs of them is run as it is."""


def resolve(command: Recognised, files: ProjectFiles) -> list[Found] | None:
    """The test commands that an indirect one comes to; None if its file does not say."""
    reader = {
        "tox": find_tox_commands,
        "nox": find_nox_commands,
        "make": _resolve_make,
        "script": _resolve_script,
    }
    return reader[command.indirect](command.words, files)


# make and just


def _resolve_make(words: tuple[str, ...], files: ProjectFiles) -> list[Found] | None:
    options = dict(itertools.pairwise(words))
    inner = options.get("-C", options.get("--directory", ""))
    place = files.at(inner) if inner and not inner.startswith("/") else files
    name = place.first(*(JUSTFILES if words[0] == "just" else MAKEFILES))
    targets = [word for word in words[1:] if not word.startswith("-") and "=" not in word and word != inner]
    if not name:
        return None
    text = place.text(name)
    found: list[Found] = []
    for target in targets:
        commands, needs_more = _read_target(text, name, target, depth=4)
        substituted = [each for each in commands if each.command.runner in SUBSTITUTED]
        if substituted and not needs_more:
            found += substituted
        elif commands or (TEST_TARGET.search(target) and not NO_TEST_TARGET.search(target)):
            program = (words[0], *(["-C", inner] if inner else []), target)
            line = find_line(text, rf"^{re.escape(target)}\b[^=\n]*:") or 1
            command = Recognised(runner="any", words=program, names=frozenset({target}))
            if find_line(text, rf"^{re.escape(target)}\b[^=\n]*:") or "include" in text or "%" in text:
                found.append(Found(command=command, source=f"{name}:{line}"))
    return [msgspec.structs.replace(each, folder=f"{inner}/{each.folder}".strip("/")) for each in found]


def _read_target(text: str, file: str, target: str, depth: int) -> tuple[list[Found], bool]:
    """The test commands of a target and of those it needs, and whether these build something first."""
    match = re.search(
        rf"^{re.escape(target)}(?: [^:=\n]*)?:(?![:=])([^#\n]*)\n((?:(?:[\t ].*)?\n|#.*\n)*)",
        f"{text}\n",
        re.MULTILINE,
    )
    if match is None or depth <= 0:
        return [], False
    first = text.count("\n", 0, match.start(2)) + 1
    recipe = re.sub(r"^[\t ]+[@+-]*", "", match[2], flags=re.MULTILINE)
    recipe = re.sub(r"\$[({](?!shell)([\w-]+)[)}]", r"${\1}", recipe).replace("$$", "$")
    found, builds = [], False
    for needed in match[1].split():
        inner, more = _read_target(text, file, needed, depth - 1)
        found += inner
        trivial = re.search(
            r"(?i)install|init|dep|venv|env|lint|fmt|format|vet|tidy|check|clean|setup|test|FORCE", needed
        )
        builds = builds or more or (not inner and not trivial)
    variables = dict(re.findall(r"^(?:export )?([\w-]+)\s*[:?]?=[ \t]*(.*)$", text, re.MULTILINE))
    variables = {"MAKE": "make", **{key: value for key, value in variables.items() if "$" not in value}}
    # Make replaces them before the shell splits words.
    recipe = re.sub(r"\$\{(\w+)\}", lambda name: variables.get(name[1], name[0]), recipe)
    for each in recognise_lines(recipe, file, first, variables):
        if each.command.indirect == "make":
            for word in each.command.words[1:]:
                inner, more = _read_target(text, file, word, depth - 1)
                found += inner
                builds = builds or more
        else:
            found.append(each)
    return found, builds


# the scripts of hatch, pdm and poe


def _resolve_script(words: tuple[str, ...], files: ProjectFiles) -> list[Found] | None:
    rest = [word for word in words[1:] if not word.startswith("-") and UNKNOWN not in word]
    rest = rest[2:] if rest[:1] == ["env"] else rest
    if words[0] == "hatch" and rest[:1] == ["test"]:
        command = recognise(["python", "-m", "pytest", *rest[1:]])
        return [Found(command=command, source="pyproject.toml:1")] if command else None
    rest = rest[1:] if rest[:1] == ["run"] else rest
    if not rest:
        return None
    name = rest[0].rpartition(":")[2]
    scripts: dict[str, Any] = {
        **files.table("pyproject.toml", "tool", "pdm", "scripts"),
        **files.table("pyproject.toml", "tool", "poe", "tasks"),
    }
    for environment in files.table("pyproject.toml", "tool", "hatch", "envs").values():
        if isinstance(environment, dict) and isinstance(environment.get("scripts"), dict):
            scripts = {**environment["scripts"], **scripts}
    body = _script_text(scripts.get(name), scripts)
    if not body:
        recognised = recognise([name, *rest[1:]])
        return [Found(command=recognised, source="pyproject.toml:1")] if recognised else None
    line = files.find_line("pyproject.toml", rf'^\s*"?{re.escape(name)}"? *=') or 1
    body = re.sub(r"\{args(?::([^{}]*))?\}", lambda match: match[1] or "", body)
    found = list(recognise_lines(body, "pyproject.toml", line))
    return [msgspec.structs.replace(each, source=f"pyproject.toml:{line}") for each in found]


def _script_text(value: Any, scripts: Mapping[str, Any], depth: int = 3) -> str:
    if isinstance(value, dict):
        value = value.get("cmd") or value.get("shell") or value.get("composite") or value.get("sequence")
    if isinstance(value, str):
        words = value.split(maxsplit=1)
        inner = scripts.get(words[0]) if words and depth else None
        return _script_text(inner, scripts, depth - 1) if inner else value
    if isinstance(value, list):
        return "\n".join(_script_text(each, scripts, depth - 1) for each in value if depth)
    return ""
