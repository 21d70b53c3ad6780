"""What tox, nox, make and the scripts of Python's project managers run, read from their own files."""

import ast
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from services.engineer.project_text import find_line, read_start, read_toml
from services.engineer.recognition import Recognised, recognise
from services.engineer.shell_lines import UNKNOWN, split_script
from shared.source.syntax import parse_ini, parse_module

TEST_TARGET = re.compile(r"(?:^|[-_./])(?:tests?|check|ci|unit|spec|unittests?)(?:$|[-_./])|^\w*tests?$")
NO_TEST_TARGET = re.compile(
    r"lint|format|fmt|bench|demo|docs?\b|type|clean|install|build|deps|style|mypy|cov(erage)?[-_]report|setup|perf"
)
SUBSTITUTED = frozenset({"pytest", "unittest", "django", "cargo", "go", "node"})
"""Runners that need nothing of make: what a target runs of them is run as it is."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A test command found in a file: ``source`` is ``file:line``, ``folder`` is where."""

    command: Recognised
    source: str
    folder: str = ""
    env: dict[str, str] = {}


def resolve(command: Recognised, folder: Path) -> list[Found] | None:
    """The test commands that an indirect one comes to; None if its file does not say."""
    reader = {"tox": _resolve_tox, "nox": _resolve_nox, "make": _resolve_make, "script": _resolve_script}
    return reader[command.indirect](command.words, folder)


def _recognise_lines(
    text: str, source: str, first: int, variables: Mapping[str, str] | None = None
) -> Iterator[Found]:
    """The test commands in a script that starts on line ``first`` of the file ``source``."""
    for command in split_script(text, variables):
        if recognised := recognise(command.words):
            place = f"{source}:{first + command.line}"
            yield Found(command=recognised, source=place, folder=command.folder, env=command.env)


# make and just


def _resolve_make(words: tuple[str, ...], folder: Path) -> list[Found] | None:
    options = dict(itertools.pairwise(words))
    inner = options.get("-C", options.get("--directory", ""))
    place = folder / inner if inner else folder
    names = (
        ("justfile", "Justfile", ".justfile")
        if words[0] == "just"
        else ("GNUmakefile", "makefile", "Makefile")
    )
    name = next((name for name in names if (place / name).is_file()), "")
    targets = [word for word in words[1:] if not word.startswith("-") and "=" not in word and word != inner]
    if not name:
        return None
    text = read_start(place / name)
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
    for each in _recognise_lines(recipe, file, first, variables):
        if each.command.indirect == "make":
            for word in each.command.words[1:]:
                inner, more = _read_target(text, file, word, depth - 1)
                found += inner
                builds = builds or more
        else:
            found.append(each)
    return found, builds


# tox


def _resolve_tox(words: tuple[str, ...], folder: Path) -> list[Found] | None:
    wanted = [value for option, value in itertools.pairwise(words) if option in ("-e", "-f", "--env")]
    wanted += [word.partition("=")[2] for word in words if word.startswith(("-e=", "--env="))]
    names = [name for value in wanted for name in value.split(",") if name]
    table = read_toml(folder / "tox.toml") or read_toml(folder / "pyproject.toml", "tool", "tox")
    if table and not isinstance(table.get("legacy_tox_ini"), str):
        return _read_tox_table(
            table, "tox.toml" if (folder / "tox.toml").is_file() else "pyproject.toml", names, folder
        )
    for file, text in (
        ("tox.ini", read_start(folder / "tox.ini")),
        (
            "setup.cfg",
            read_start(folder / "setup.cfg") if "[testenv]" in read_start(folder / "setup.cfg") else "",
        ),
        ("pyproject.toml", str(table.get("legacy_tox_ini", ""))),
    ):
        if text:
            return _read_tox_ini(text, file, names, folder)
    return None


def _read_tox_table(table: dict[str, Any], file: str, names: list[str], folder: Path) -> list[Found]:
    environments = table.get("env") if isinstance(table.get("env"), dict) else {}
    base = table.get("env_run_base") if isinstance(table.get("env_run_base"), dict) else {}
    listed = [name for name in table.get("env_list", []) if isinstance(name, str)]
    text = read_start(folder / file)
    found = []
    for name in names or listed or [""]:
        own = {**(base or {}), **((environments or {}).get(name) or {})}
        for command in own.get("commands") or []:
            words = [
                word if isinstance(word, str) else UNKNOWN for word in command if not isinstance(word, dict)
            ]
            for word in command if isinstance(command, list) else []:
                if isinstance(word, dict) and isinstance(word.get("default"), list):
                    words += [each for each in word["default"] if isinstance(each, str)]
            if recognised := recognise([_fill_tox(word) for word in words]):
                line = find_line(text, r"commands *=") if name not in (environments or {}) else 0
                line = line or find_line(text, rf'^\[.*env\."?{re.escape(name)}"?\]') or 1
                found.append(
                    Found(command=recognised, source=f"{file}:{line}", folder=str(own.get("change_dir", "")))
                )
    return found


def _fill_tox(text: str) -> str:
    """``text`` with tox's substitutions made as far as they are the same everywhere."""
    text = re.sub(r"\{posargs(?::([^{}]*))?\}", lambda match: match[1] or "", text)
    text = re.sub(r"\{env:\w+(?::([^{}]*))?\}", lambda match: match[1] or "", text)
    text = re.sub(r"\{(?:toxinidir|tox_root)\}", ".", text)
    text = re.sub(r"\{env_?python\}", "python", text)
    return re.sub(r"\{[^{}]*\}", UNKNOWN, text)


def _read_tox_ini(text: str, file: str, names: list[str], folder: Path) -> list[Found]:
    try:
        parsed = parse_ini(text)
    except ValueError:
        return []
    sections = {
        name: section
        for section in parsed
        if section.startswith("testenv:")
        for name in _expand_names(section.removeprefix("testenv:"))
    }
    tox = parsed.get("tox") or parsed.get("tox:tox") or {}
    listed = _expand_names(re.sub(r"#.*", "", tox.get("envlist") or tox.get("env_list") or ""))
    found = []
    for name in names or [*listed][:60] or [""]:
        section = sections.get(name, "testenv")
        own = parsed.get("testenv", {}) | parsed.get(section, {})
        commands = re.sub(
            r"\{\[([^\]]+)\](\w+)\}", lambda m: parsed.get(m[1], {}).get(m[2], ""), own.get("commands", "")
        )
        script = "\n".join(_select_lines(commands, name))
        where = section if "commands" in parsed.get(section, {}) else "testenv"
        line = _line_of_commands(read_start(folder / file), where)
        place = _fill_tox(own.get("changedir") or own.get("change_dir") or "").removeprefix("./")
        found += [
            msgspec.structs.replace(each, source=f"{file}:{line}", folder=each.folder or place)
            for each in _recognise_lines(_fill_tox(script), file, line)
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
        yield line.strip().lstrip("-").strip() if not line.strip().startswith("--") else line.strip()


def _line_of_commands(text: str, section: str) -> int:
    start = find_line(text, rf"^\[{re.escape(section)}\]")
    rest = "\n".join(text.splitlines()[start:])
    return start + find_line(rest, r"^commands *=") if start else 1


# nox


def _resolve_nox(words: tuple[str, ...], folder: Path) -> list[Found] | None:
    text = read_start(folder / "noxfile.py")
    try:
        module = parse_module(text)
    except ValueError:
        return None
    wanted = {
        value
        for option, value in itertools.pairwise(words)
        if option in ("-s", "-e", "--session", "--sessions")
    }
    wanted = {re.sub(r"(-[\d.]+)?(\(.*\))?$", "", name) for name in wanted if UNKNOWN not in name}
    found: list[Found] = []
    for function in (node for node in module.body if isinstance(node, ast.FunctionDef)):
        decorated = any("session" in ast.unparse(each) for each in function.decorator_list)
        if decorated and (not wanted or function.name in wanted or function.name.replace("_", "-") in wanted):
            found += _read_session(function)
    return found


def _read_session(function: ast.FunctionDef) -> Iterator[Found]:
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".run", ".run_always")):
            arguments = [each.value for each in node.args if isinstance(each, ast.Constant)]
            words = [str(each) for each in arguments if isinstance(each, str)]
            if words and (recognised := recognise(words)):
                yield Found(command=recognised, source=f"noxfile.py:{node.lineno}")


# the scripts of hatch, pdm and poe


def _resolve_script(words: tuple[str, ...], folder: Path) -> list[Found] | None:
    file = folder / "pyproject.toml"
    text = read_start(file)
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
        **read_toml(file, "tool", "pdm", "scripts"),
        **read_toml(file, "tool", "poe", "tasks"),
    }
    for environment in read_toml(file, "tool", "hatch", "envs").values():
        if isinstance(environment, dict) and isinstance(environment.get("scripts"), dict):
            scripts = {**environment["scripts"], **scripts}
    body = _script_text(scripts.get(name), scripts)
    if not body:
        recognised = recognise([name, *rest[1:]])
        return [Found(command=recognised, source="pyproject.toml:1")] if recognised else None
    line = find_line(text, rf'^\s*"?{re.escape(name)}"? *=') or 1
    body = re.sub(r"\{args(?::([^{}]*))?\}", lambda match: match[1] or "", body)
    found = list(_recognise_lines(body, "pyproject.toml", line))
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
