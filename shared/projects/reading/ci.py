"""What a project's CI runs: the scripts of GitHub workflows, GitLab, Travis and CircleCI."""

import itertools
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import yaml

from shared.projects.reading.locks import list_conda
from shared.projects.reading.project_files import (
    ProjectFiles,
    get_table,
    list_texts,
    list_workflows,
    read_hatch,
    read_pixi,
)
from shared.projects.reading.test_commands import UNKNOWN, split_script
from shared.projects.reading.test_environments import (
    TestNeeds,
    join_options,
    read_nox_needs,
    read_tox_needs,
    sort_lines,
)
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
    r"|COVER.*|CODECOV.*|TOX.*|CC|CXX|PATH|HOME|PYTHON|NODE_OPTIONS|.*CACHE.*|FORCE_.*)"
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
    env = {**get_table(data, "env"), **get_table(job, "env")}
    values: dict[str, Any] = {"matrix": combination, "env": env, **KNOWN}
    defaults = {**get_table(data, "defaults", "run"), **get_table(job, "defaults", "run")}
    runs_on = _substitute(str(job.get("runs-on", "")), values)
    foreign = bool(OTHER_SYSTEM.search(runs_on))
    services = tuple(map(str, as_mapping(job.get("services"))))
    for step in _expand_steps(files, job.get("steps")):
        text = step.get("run") or _read_action(step)
        if not isinstance(text, Text) or step.get("continue-on-error") == "true":
            continue
        if _holds(str(step.get("if", "")), values) is False:
            continue
        values["env"] = {**env, **get_table(step, "env")}
        shell = str(step.get("shell", defaults.get("shell", "")))
        place = defaults.get("working-directory", ".")
        yield Script(
            text=_substitute(text, values),
            file=step.get("file", file),
            line=text.line,
            job=str(name),
            folder=_substitute(str(step.get("working-directory", place)), values),
            env=_literal(values["env"], values),
            foreign=foreign or shell in ("pwsh", "powershell", "cmd"),
            services=services,
            secrets=tuple(re.findall(r"secrets\.(\w+)", text)),
            choice="".join(re.findall(r"matrix\.[\w-]*version\b", str(step.get("if", "")))[:1]),
        )


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
        value: Any = values
        if term is None:
            return UNKNOWN
        if term[1] is not None:
            value = term[1].replace("''", "'")
        else:
            for key in term[2].split("."):
                value = value.get(key) if isinstance(value, Mapping) else None
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


# --- what CI installs -------------------------------------------------------------------------------

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
