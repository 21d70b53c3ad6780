"""What a project's CI runs: the scripts of GitHub workflows, GitLab, Travis and CircleCI."""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import yaml

from shared.projects.reading.project_files import (
    ProjectFiles,
    get_table,
    list_workflows,
)
from shared.projects.reading.test_commands import UNKNOWN
from shared.source import as_mapping, parse_yaml

MAX_FILES = 40
MAX_COMBINATIONS = 64
OTHER_SYSTEM = re.compile(r"(?i)windows|macos|freebsd|\bwin32\b|\bdarwin\b")
NOT_TESTS = re.compile(
    r"(?i)release|publish|deploy|\bdocs?\b|codeql|stale|scorecard|wheels|nightly|benchmark|lock"
)
TRIGGERS = frozenset({"push", "pull_request", "pull_request_target", "workflow_call", "merge_group"})
EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
TERM = re.compile(r"'((?:[^']|'')*)'|([A-Za-z_][\w.-]*)")
STRICT = re.compile(
    r"(?i)(RUSTFLAGS|RUSTDOCFLAGS|.*COLOR.*|CARGO_.*|RUST_.*|PIP_.*|UV_.*|NPM_.*|.*TOKEN.*|.*SECRET.*|GITHUB_.*"
    r"|COVER.*|CODECOV.*|TOX_.*|CC|CXX|PATH|HOME|PYTHON|NODE_OPTIONS|.*CACHE.*|FORCE_.*)"
)
"""Variables that only suit the CI machine, or make warnings errors there."""


KNOWN = {"github": {"workspace": ".", "event_name": "push"}, "runner": {"os": "Linux"}}
"""What is known of other contexts of GitHub's expressions."""
CONDITION = re.compile(
    r"(?P<not>!\s*)?(?P<call>startsWith|contains)\(\s*(?P<of>[\w.-]+)\s*,\s*'(?P<text>[^']*)'\s*\)"
    r"|(?P<one>[\w.-]+)\s*(?P<sign>[!=]=)\s*'(?P<other>[^']*)'"
)
"""A condition of a step that compares something with a text."""
ACTIONS = {
    "actions-rs/cargo": "cargo",
    "gradle/gradle-build-action": "./gradlew",
    "gradle/actions": "./gradlew",
}
"""Actions that run a command of one program, and that program."""
GIVEN = ("custom-pytest", "run", "test-command", "test_command")
"""Inputs of other actions that are a command as it is typed."""


class Text(str):
    """A scalar of a YAML file, with its 1-based ``line``: of a block, that of its first line."""

    __slots__ = ("line",)
    line: int


class _Loader(yaml.BaseLoader):
    """Reads every scalar as Text: 3.10 stays a version, and ``on`` a key."""

    def construct_scalar(self, node: Any) -> Text:
        value = Text(super().construct_scalar(node))
        value.line = node.start_mark.line + (2 if node.style in ("|", ">") else 1)
        return value


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A script that CI runs: where it stands (``file`` and ``line``), in which ``job`` and ``folder``.

    ``turn`` counts the combinations of the job's matrix. ``foreign`` says that it runs on another system,
    ``services`` what CI starts beside it, ``secrets`` which it needs, ``choice`` the version of the matrix by
    which it runs or not.
    """

    text: str
    file: str
    line: int
    job: str
    folder: str = "."
    turn: int = 0
    env: dict[str, str] = {}
    foreign: bool = False
    services: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    choice: str = ""


def read_ci(files: ProjectFiles) -> tuple[Script, ...]:
    """The scripts that a project's CI runs for a change, in the order of its files."""
    scripts: list[Script] = []
    names = [path.name for path in list_workflows(files.folder)[:MAX_FILES]]
    likely = re.compile(r"(?i)test|^ci|build|check|main")
    names.sort(key=lambda name: (bool(NOT_TESTS.search(name)), not likely.search(name)))
    for name in (f".github/workflows/{name}" for name in names):
        data = as_mapping(_load(files.text(name)))
        on = data.get("on")
        # What runs at night, by hand or for a release alone is left out.
        if TRIGGERS & set(on) if isinstance(on, list | dict) else on in TRIGGERS:
            scripts += _read_workflow(files, name, data)
    scripts += _read_gitlab(".gitlab-ci.yml", as_mapping(_load(files.text(".gitlab-ci.yml"))))
    for name in (".travis.yml", ".circleci/config.yml", "azure-pipelines.yml", ".woodpecker.yml"):
        if not scripts:
            scripts += [
                Script(text=text, file=name, line=text.line, job="ci")
                for text in _find_scripts(_load(files.text(name)))
            ]
    return tuple(scripts)


def list_commands(path: str, text: str) -> list[tuple[int, str]]:
    """Every line of every script in a CI file of any kind, whatever it runs for, with its number."""
    if not path.endswith((".yml", ".yaml")):
        rows = enumerate(text.splitlines(), start=1)
        return [(number, row.strip()) for number, row in rows if row[:1] != "#"]
    return [
        (script.line + number, line.strip())
        for script in _find_scripts(_load(text))
        for number, line in enumerate(script.splitlines())
        if line.strip()
    ]


def list_versions(files: ProjectFiles, language: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The versions of a language that the workflows name, in order, and the files that name some."""
    found: dict[str, None] = {}
    places: dict[str, None] = {}
    for name in (f".github/workflows/{path.name}" for path in list_workflows(files.folder)[:MAX_FILES]):
        for text in _find_versions(_load(files.text(name)), re.compile(rf"(?i){language}([-_ ]?versions?)?")):
            found[text] = places[name] = None
    numbers = sorted(found, key=lambda text: [int(part) for part in text.split(".")])
    return tuple(numbers), tuple(places)


def _find_versions(data: Any, key: re.Pattern[str], depth: int = 0) -> Iterator[str]:
    for name, value in as_mapping(data).items():
        if key.fullmatch(str(name)):
            texts = (re.fullmatch(r"v?(\d+(?:\.\d+)*)(?:\.x)?", str(each)) for each in _list(value))
            yield from (match[1] for match in texts if match)
        elif depth < 12:
            yield from _find_versions(value, key, depth + 1)
    for each in data if isinstance(data, list) and depth < 12 else ():
        yield from _find_versions(each, key, depth + 1)


def _load(text: str) -> Any:
    try:
        return parse_yaml(text, _Loader)  # it makes texts, lists and mappings only
    except ValueError:
        return {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _read_workflow(files: ProjectFiles, file: str, data: dict[str, Any]) -> Iterator[Script]:
    jobs = get_table(data, "jobs")
    for name, job in ((name, get_table(jobs, name)) for name in jobs):
        if NOT_TESTS.search(name) and not re.search(r"(?i)test", name):
            continue
        for turn, combination in enumerate(_combinations(get_table(job, "strategy", "matrix"))):
            for script in _read_job(files, file, name, data, job, combination):
                yield msgspec.structs.replace(script, turn=turn)


def _combinations(matrix: dict[str, Any]) -> list[dict[str, Any]]:
    """The combinations of a matrix, those on Linux first."""
    axes = {key: _list(value) for key, value in matrix.items() if key not in ("include", "exclude")}
    products = itertools.islice(itertools.product(*axes.values()), MAX_COMBINATIONS)
    found: list[dict[str, Any]] = []
    found += [dict(zip(axes, values, strict=True)) for values in products] if axes else []
    for extra in map(as_mapping, _list(matrix.get("include"))):
        hosts = [each for each in found if all(each.get(key, value) == value for key, value in extra.items())]
        for each in hosts:
            each |= extra
        found += [] if hosts and axes else [dict(extra)]
    found.sort(key=lambda each: bool(OTHER_SYSTEM.search(str(list(each.values())))))
    return [*found[:MAX_COMBINATIONS]] or [{}]


def _read_job(
    files: ProjectFiles,
    file: str,
    name: str,
    data: dict[str, Any],
    job: dict[str, Any],
    combination: dict[str, Any],
) -> Iterator[Script]:
    values: dict[str, Any] = {"matrix": combination, **KNOWN}
    env = {**_read_env(data, values), **_read_env(job, values)}
    values["env"] = env
    defaults = {**get_table(data, "defaults", "run"), **get_table(job, "defaults", "run")}
    runs_on = _substitute(str(job.get("runs-on", "")), values)
    foreign = bool(OTHER_SYSTEM.search(runs_on))
    services = tuple(map(str, as_mapping(job.get("services"))))
    borrows = False
    for step in _expand_steps(files, job.get("steps")):
        borrows = borrows or str(step.get("uses", "")).startswith("actions/download-artifact")
        text = step.get("run") or _read_action(step)
        if not isinstance(text, Text) or step.get("continue-on-error") == "true":
            continue
        if _holds(str(step.get("if", "")), values) is False:
            continue
        values["env"] = {**env, **_read_env(step, values)}
        shell = str(step.get("shell", defaults.get("shell", "")))
        place = defaults.get("working-directory", ".")
        yield Script(
            text=_substitute(text, values),
            file=step.get("file", file),
            line=text.line,
            job=str(name),
            folder=_substitute(str(step.get("working-directory", place)), values),
            # What another job has built is not here: its own variables would have the tests look for it.
            env=_literal(values["env"], values) if not borrows else {},
            foreign=foreign or borrows or shell in ("pwsh", "powershell", "cmd"),
            services=services,
            secrets=tuple(re.findall(r"secrets\.(\w+)", text)),
            choice="".join(re.findall(r"matrix\.[\w-]*version\b", str(step.get("if", "")))[:1]),
        )


def _read_env(data: dict[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of a workflow, job or step; an expression may stand for all of them."""
    whole = re.fullmatch(r"\s*\$\{\{\s*([\w.-]+)\s*\}\}\s*", str(data.get("env", "")))
    return as_mapping(_look_up(whole[1], values)) if whole else get_table(data, "env")


def _look_up(path: str, values: Mapping[str, Any]) -> Any:
    value: Any = values
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _holds(condition: str, values: Mapping[str, Any]) -> bool | None:
    """Whether the condition of a step holds in a combination of the matrix; None if that is not known."""
    condition = re.sub(r"^\s*\$\{\{(.*)\}\}\s*$", r"\1", condition, flags=re.DOTALL)
    for sign, decisive in (("||", True), ("&&", False)):
        if sign in condition:
            parts = [_holds(part, values) for part in condition.split(sign)]
            return decisive if decisive in parts else None if None in parts else not decisive
    found = CONDITION.fullmatch(condition.strip())
    value = _evaluate(found["of"] or found["one"], values) if found else UNKNOWN
    if found is None or UNKNOWN in value:
        return None
    value, other = value.lower(), (found["text"] or found["other"] or "").lower()
    if found["sign"]:
        return (value == other) is (found["sign"] == "==")
    holds = value.startswith(other) if found["call"] == "startsWith" else other in value
    return holds is not bool(found["not"])


def _read_action(step: dict[str, Any]) -> Text | None:
    """The command that a well-known action runs."""
    used, given = str(step.get("uses", "")), get_table(step, "with")
    command, arguments = str(given.get("command", "")), given.get("args") or given.get("arguments") or ""
    program = next((program for name, program in ACTIONS.items() if used.startswith(name)), "")
    typed = next((str(given[name]) for name in GIVEN if given.get(name)), "")
    if not program and not typed:
        return None
    text = Text(f"{program} {command} {arguments}" if program else typed)
    text.line = getattr(step.get("uses"), "line", 1)
    return text


def _expand_steps(files: ProjectFiles, steps: Any) -> Iterator[dict[str, Any]]:
    """The steps of a job, those of the project's own actions in their place."""
    for step in map(as_mapping, _list(steps)):
        used = str(step.get("uses", ""))
        if not used.startswith("./"):
            yield step
            continue
        for name in (f"{used[2:].rstrip('/')}/action.yml", f"{used[2:].rstrip('/')}/action.yaml"):
            steps = get_table(_load(files.text(name)), "runs").get("steps")
            yield from ({**as_mapping(inner), "file": name} for inner in _list(steps))


def _literal(env: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, str]:
    """The variables whose values are written there, but for those that only suit the CI machine."""
    found = {key: _substitute(str(value), values) for key, value in env.items() if not STRICT.fullmatch(key)}
    return {key: value for key, value in found.items() if UNKNOWN not in value}


def _substitute(text: str, values: Mapping[str, Any]) -> str:
    """``text`` with its expressions evaluated as far as the matrix and the environment tell."""
    return EXPRESSION.sub(lambda match: _evaluate(match[1], values), text)


def _evaluate(expression: str, values: Mapping[str, Any]) -> str:
    for part in expression.split("||"):
        part = part.strip()
        if formatted := re.fullmatch(r"format\(\s*'([^']*)'\s*,(.*)\)", part):
            arguments = (_evaluate(each, values) for each in formatted[2].split(","))
            known = {f"{{{number}}}": value for number, value in enumerate(arguments)}
            return re.sub(r"\{\d+\}", lambda found, known=known: known.get(found[0], UNKNOWN), formatted[1])
        term = TERM.fullmatch(part)
        if term is None:
            return UNKNOWN
        value = term[1].replace("''", "'") if term[1] is not None else _look_up(term[2], values)
        if isinstance(value, str) and value:
            return value if "${{" not in value else UNKNOWN
    # What the matrix leaves out is empty; of other contexts nothing is known.
    return "" if expression.strip().startswith("matrix.") else UNKNOWN


def _read_gitlab(file: str, data: dict[str, Any]) -> Iterator[Script]:
    shared = _services(data.get("services"))
    for name, job in data.items():
        if not isinstance(job, dict) or name.startswith(".") or NOT_TESTS.search(name):
            continue
        env = _literal({**get_table(data, "variables"), **get_table(job, "variables")}, {})
        for key in ("before_script", "script"):
            for text in _texts(job.get(key)):
                services = _services(job.get("services")) or shared
                yield Script(text=text, file=file, line=text.line, job=name, env=env, services=services)


def _services(value: Any) -> tuple[str, ...]:
    names = [each.get("name", "") if isinstance(each, dict) else each for each in _list(value)]
    return tuple(str(name) for name in names if name)


def _texts(value: Any) -> Iterator[Text]:
    for each in _list(value):
        if isinstance(each, Text):
            yield each
        elif isinstance(each, list):
            yield from _texts(each)


def _find_scripts(data: Any, depth: int = 0) -> Iterator[Text]:
    """Every value of a key that holds a script, at any depth."""
    if depth > 12:
        return
    for each in data if isinstance(data, list) else ():
        yield from _find_scripts(each, depth + 1)
    for key, value in as_mapping(data).items():
        if key in ("script", "run", "command", "commands", "bash", "before_script"):
            yield from _texts(value)
        if isinstance(value, list | dict):
            yield from _find_scripts(value, depth + 1)
