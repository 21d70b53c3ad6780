"""Finds the commands that test a project: what it states, else what its CI runs, else what is usual."""

import itertools
import os
import re
import shlex
from collections.abc import Iterable
from typing import Any

import msgspec

from shared.contracts import NotChecked
from shared.errors import ActionError
from shared.projects.reading import guesses
from shared.projects.reading.ci import Script
from shared.projects.reading.guesses import resolve
from shared.projects.reading.installs import read_installs
from shared.projects.reading.node_scripts import (
    cite_script,
    ends_in,
    find_members,
    innermost,
    parse_call,
    read_scripts,
    recognise_script,
)
from shared.projects.reading.project_files import ProjectFiles, find_line
from shared.projects.reading.test_commands import (
    UNKNOWN,
    Found,
    Recognised,
    ShellCommand,
    TestCommand,
    recognise,
    split_script,
    without_reports,
)
from shared.projects.reading.test_environments import UNUSUAL, read_pytest_settings

MOST_VARIANTS = 3  # The most other ways to run the same tests that are kept of a command
MAX_COMMANDS = 12  # The most test commands of one project that are run
BUILDS = re.compile(
    r"(?:npm|pnpm|yarn|bun) (?:run |run-script )?"
    r"(?:build|compile|bundle|generate|codegen|transpile|prepare)[\w:-]*(?: -[\w-]+)*"
    r"|(?:npx )?tsc(?!.*--?noEmit)\b.*|python3? (?:setup\.py build\w*|manage\.py compilemessages)\b.*"
    r"|(?:msgfmt|protoc|cython|go generate|cargo build|flit install|maturin develop|mkdir|cp|ln|touch) .*"
)
"""Commands before the tests that make what these need, whatever runs them."""
NATIVE_BUILDS = re.compile(
    r"(?:\./)?(?:configure|autogen\.sh|bootstrap|buildconf|autoreconf|cmake|meson (?:setup|compile)|ninja"
    r"|make|gmake)\b.*"
)
"""Those that compile; CTest, cargo and go do so themselves."""
NO_BUILDS = re.compile(
    r"(?i)(?:^|[\s/_.:-])(?:install\w*|un?install|setup|set-?up|deps|lint\w*|format|fmt|deploy|release|publish|upload"
    r"|cov\w*|docs?|check\w*|downloads?|start|serve|clean|bench\w*|init|venv|develop|dev)(?:$|[\s/_.:-])"
)
"""Words of a command that makes nothing that tests need, or for which what it needs is not here."""
MACHINES = re.compile(r"-DCMAKE_(INSTALL|C_|CXX_|TOOLCHAIN|PREFIX|MAKE_PROGRAM|OSX)|-DVCPKG|-DCONAN")
BESIDE = re.compile(r"\bdocker(?:-compose)?\b|\bpodman\b|\bkubectl\b|\bminikube\b|\bkind create\b")


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """The ``commands`` that test a project, in order, and those that cannot be run here (``not_run``).

    ``notes`` are sentences about the choice.
    """

    commands: tuple[TestCommand, ...] = ()
    not_run: tuple[NotChecked, ...] = ()
    notes: tuple[str, ...] = ()


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A test command of the CI, and what is known about the place it was found at."""

    command: TestCommand
    script: Script
    browser: bool = False


def find_tests(project: ProjectFiles, ci: Iterable[Script]) -> Discovery:
    """The commands that test ``project``, whose CI runs the scripts ``ci``.

    What the project states for Mailroom is all there is; what its CI runs comes before a guess. Raises
    ActionError if the project states a command that makes no sense.
    """
    if stated := _find_stated(project):
        return Discovery(commands=(stated,))
    settings = read_pytest_settings(project)
    marked = bool(settings and re.search(r"(?:^|\s)-m\b", settings.options.get("addopts", "")))
    found = _choose(project, list(_find_in_ci(project, ci)), marked)
    if found.commands:
        return found
    commands = tuple(guesses.guess_tests(project)[:MAX_COMMANDS])
    notes: tuple[str, ...] = ()
    if commands and found.not_run:
        first, usual = found.not_run[0], shlex.join(commands[0].argv)
        notes = (f"CI tests with {first.what}, but {first.why}: `{usual}` ran, which may be fewer tests",)
    return Discovery(commands=commands, not_run=found.not_run, notes=notes)


# what the project states


def _find_stated(files: ProjectFiles) -> TestCommand | None:
    """The command in ``[tool.mailroom] test`` of pyproject.toml, or in ``.mailroom.yaml``."""
    text = files.text("pyproject.toml")
    mailroom = files.table("pyproject.toml", "tool", "mailroom")
    if "test" in mailroom:
        header = find_line(text, r"^\[tool\.mailroom\]")
        within = "\n" * header + "\n".join(text.splitlines()[header:])
        line = find_line(within, r"^ *test *=") or header or find_line(text, r"mailroom")
        return _parse_stated(files, mailroom["test"], f"pyproject.toml:{line}", "[tool.mailroom] test")
    stated = files.table(".mailroom.yaml")
    if "test" in stated:
        line = files.find_line(".mailroom.yaml", r"^test *:")
        return _parse_stated(files, stated["test"], f".mailroom.yaml:{line}", "test")
    return None


def _parse_stated(files: ProjectFiles, value: Any, source: str, name: str) -> TestCommand:
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        words = value
    elif isinstance(value, str) and value.strip():
        try:
            words = ["sh", "-c", value] if re.search(r"[|&;<>()$`*\n]", value) else shlex.split(value)
        except ValueError as error:
            reason = f"the test command {value!r} is not well formed: {error}"
            raise ActionError(f"{source}: {reason}") from None
    else:
        raise ActionError(f"{source}: {name} must be a command, as text or as a list of words")
    found = recognise(words)
    runner = "any"
    starts: tuple[str, ...] = ()
    if found and found.indirect == "npm":
        runner, call = "node", parse_call(tuple(words))
        scripts = read_scripts(files)
        starts = ends_in(scripts, call.name) if call else ()
    elif found and not found.indirect:
        runner, starts = found.runner, found.words if found.runner == "node" else ()
    argv = ("python", *words[1:]) if words[0] in ("python", "python3") else tuple(words)
    names = found.names if found and not found.indirect else frozenset[str]()
    return TestCommand(runner=runner, argv=argv, found=f"{source} ({name})", starts=starts, names=names)


# what its CI runs


def _find_in_ci(project: ProjectFiles, ci: Iterable[Script]) -> Iterable[Candidate]:
    built: dict[tuple[str, int], list[tuple[str, ShellCommand]]] = {}
    for script in ci:
        done = built.setdefault((script.job, script.turn), [])
        for command in split_script(script.text, script.env):
            folder = _inside(project, f"{script.folder}/{command.folder}")
            if folder is None and command.words[0] == "ctest":
                folder = "."  # that of the build, which only CI knows
            if folder is None:
                continue
            command = _name_environment(command, {**script.env, **command.env})
            found = list(_follow(project, folder, command, script))
            yield from (_candidate(project, each, command, script, done) for each in found)
            if not found and not script.foreign:
                done.append((folder, command))


CHOSEN = {"tox": ("TOXENV", "-e"), "nox": ("NOXSESSION", "-s")}
"""Programs to which a variable names the environment, and the option that does the same."""


def _name_environment(command: ShellCommand, env: dict[str, str]) -> ShellCommand:
    """``command`` with the variables ``env``; what these choose of tox or nox is among its words."""
    words = command.words
    heads = {word.rpartition("/")[2] for word in words[:5]} if "install" not in words else set[str]()
    for program in heads & set(CHOSEN):
        variable, option = CHOSEN[program]
        if name := env.get(variable) if option not in words else "":
            words = (*words, option, name)
    kept = {name: value for name, value in env.items() if all(name != each for each, _ in CHOSEN.values())}
    return msgspec.structs.replace(command, words=words, env=kept)


def _inside(project: ProjectFiles, folder: str) -> str | None:
    """``folder`` relative to the project; None if it leads outside or is not known."""
    path = os.path.normpath(folder.lstrip("/"))
    return None if UNKNOWN in path or path.startswith("..") else path


def _follow(
    project: ProjectFiles, folder: str, command: ShellCommand, script: Script
) -> Iterable[tuple[Candidate, str]]:
    """The test commands that one command of the CI comes to, each with the folder it runs in."""
    recognised = recognise(command.words)
    place = f"{script.file}:{script.line + command.line}"
    env = {key: value for key, value in command.env.items() if UNKNOWN not in value}
    if recognised is None:
        if BESIDE.search(command.words[0]) and re.search(r"\btests?\b", " ".join(command.words)):
            run = Recognised(runner="any", words=command.words, names=frozenset(command.words))
            yield _make(Found(command=run, source=place), folder, place, script, env), folder
        return
    for each in _resolve(project, folder, recognised, place):
        inner = _inside(project, f"{folder}/{each.folder}")
        if inner is None or (not (project.folder / inner).is_dir() and each.command.runner != "ctest"):
            continue
        at = each.source if folder == "." else f"{folder}/{each.source}"
        where = each.source if each.source == place else f"{at}, run by {place}"
        yield _make(each, inner, where, script, {**env, **each.env}), inner


def _resolve(
    project: ProjectFiles, folder: str, recognised: Recognised, place: str, depth: int = 4
) -> Iterable[Found]:
    """What an indirect command runs, however many steps it takes."""
    if not recognised.indirect or depth <= 0:
        run = list(guesses.read_script(project.at(folder), recognised))
        yield from run or [Found(command=recognised, source=place)]
    elif recognised.indirect == "npm":
        yield from _resolve_npm(project, folder, recognised)
    else:
        found = resolve(recognised, project.at(folder))
        for each in found or ():
            inner = _inside(project, f"{folder}/{each.folder}")
            if each.command.indirect and inner is not None and each.command.words != recognised.words:
                for final in _resolve(project, inner, each.command, each.source, depth - 1):
                    yield msgspec.structs.replace(final, folder=f"{each.folder}/{final.folder}")
            elif not each.command.indirect:
                yield each
        if found is None and recognised.indirect == "make" and {"test", "check"} & recognised.names:
            made = msgspec.structs.replace(recognised, indirect="")
            if project.has("CMakeLists.txt"):  # CMake makes the Makefile
                made = Recognised(runner="ctest", words=("ctest",))
            yield Found(command=made, source=place)


def _resolve_npm(project: ProjectFiles, folder: str, recognised: Recognised) -> Iterable[Found]:
    call = parse_call(recognised.words)
    if call is None:
        return
    inner = _inside(project, f"{folder}/{call.folder}")
    if inner is None or not (project.folder / inner).is_dir():
        return
    scripts = read_scripts(project.at(inner))
    if members := find_members(project.at(inner), call):
        for member in members:
            called = msgspec.structs.replace(recognised, words=(member.manager, "run", member.name))
            found = _resolve_npm(project, f"{inner}/{member.folder}", called)
            yield from (
                msgspec.structs.replace(
                    each,
                    source=f"{member.folder}/{each.source}",
                    folder=os.path.normpath(f"{call.folder}/{member.folder}/{each.folder}"),
                )
                for each in found
            )
        return
    ends = recognise_script(scripts, call.name)
    if not ends:
        return
    names = frozenset(" ".join(without_reports([*each.words, *call.extra])) for each in ends)
    inside = innermost(scripts, call.name)
    call = msgspec.structs.replace(call, name=inside)
    extra = (*(("--",) if call.extra and call.manager == "npm" else ()), *call.extra)
    yield Found(
        command=Recognised(
            runner="node",
            words=(call.manager, "run", *call.options, call.name, *extra),
            names=names,
            browser=all(each.browser for each in ends),
            starts=ends_in(scripts, call.name),
        ),
        source=f"{cite_script(project.at(inner), inside)} (scripts.{inside}: {scripts[inside][:100]})",
        folder=call.folder,
    )


def _make(found: Found, folder: str, where: str, script: Script, env: dict[str, str]) -> Candidate:
    words, starts = found.command.words, found.command.starts
    if starts is None and found.command.runner == "node":
        starts = words
        if words[0] not in ("node", "tsx", "bun", "deno", "npm"):
            words = ("npx", "--no-install", *words)
    command = TestCommand(
        runner=found.command.runner,
        argv=words,
        found=where,
        folder=folder,
        env=env,
        names=found.command.names,
        starts=starts or (),
        services=script.services,
    )
    return Candidate(command=command, script=script, browser=found.command.browser)


def _candidate(
    project: ProjectFiles,
    found: tuple[Candidate, str],
    called: ShellCommand,
    script: Script,
    done: list[tuple[str, ShellCommand]],
) -> Candidate:
    """The candidate, with what its job installs and builds before."""
    candidate, folder = found
    runner = candidate.command.runner
    before: list[str] = []
    for place, command in done:
        if runner == "ctest" and command.words[0].endswith("cmake"):
            # The variables that it sets, but for compilers, places and what only CI knows
            set_apart = [word for option, word in itertools.pairwise(command.words) if option == "-D"]
            given = [*(f"-D{word}" for word in set_apart), *filter(re.compile(r"-D\w").match, command.words)]
            before += [word for word in given if UNKNOWN not in word and not MACHINES.match(word)]
        elif _builds(project.at(place), command, runner):
            given = [f"{name}={value}" for name, value in command.env.items() if UNKNOWN not in value]
            line = " ".join(map(_quote, [*(["env", *given] if given else []), *command.words]))
            there = os.path.relpath(place, folder)
            before.append(line if there == "." else f"cd {shlex.quote(there)} && {line}")
    changed = msgspec.structs.replace(
        candidate.command,
        before=tuple(dict.fromkeys(before)),
        installs=tuple(shlex.join(command.words) for _, command in (*done, (folder, called))),
    )
    return msgspec.structs.replace(candidate, command=changed)


def _quote(word: str) -> str:
    """``word`` for a shell, which is to expand what stands for several files."""
    return word if re.fullmatch(r"[\w@%+=:,./*?{}\[\]~-]+", word) else shlex.quote(word)


def _builds(files: ProjectFiles, command: ShellCommand, runner: str) -> bool:
    """Whether ``command`` makes what tests by ``runner`` need, by a build tool or a script of the project."""
    line = shlex.join(command.words)
    if UNKNOWN in line:
        return False
    if BUILDS.fullmatch(line):
        return runner != "ctest"
    if NO_BUILDS.search(line.removeprefix("meson setup")):
        return False
    if NATIVE_BUILDS.fullmatch(line):
        return runner not in ("ctest", "cargo", "go", "java")
    starts = command.words[0] in ("sh", "bash", "python", "python3", "node", "perl", "ruby")
    script = command.words[1] if starts and command.words[1:] else command.words[0]
    return ("/" in script or starts) and not script.startswith(("/", "-")) and files.has(script)


# which of them are run


def _choose(project: ProjectFiles, candidates: list[Candidate], marked: bool) -> Discovery:
    """Each set of tests once, by the first command for it; others are variants, or need what is not here.

    If pytest's settings leave out tests that are ``marked``, a command that names marks runs others.
    """

    def covers(one: TestCommand, other: TestCommand) -> bool:
        marks = (name for name in one.names ^ other.names if name.startswith("-m "))
        return _covers(one, other) and not (marked and any(marks))

    # Sorting keeps the order otherwise: on Linux first, without services, with everything known; of the
    # environments of tox usual ones, and of those the one with most extras, as it skips the fewest tests.
    def order(each: Candidate) -> tuple[bool, bool, bool, bool, int]:
        called = each.command.installs[-1]
        name = re.search(r"\btox\b.* -e (\S+)", called)
        extras = read_installs(project, [called]).extras if name else ()
        is_unusual = bool(name and UNUSUAL.search(name[1]))
        return each.script.foreign, bool(each.script.services), unknown(each), is_unusual, -len(extras)

    def unknown(each: Candidate) -> bool:
        return any(UNKNOWN in word for word in each.command.argv)

    candidates.sort(key=order)
    chosen: list[Candidate] = []
    not_run: dict[str, NotChecked] = {}
    for each in candidates:
        what = shlex.join(each.command.argv)
        if reason := _unable(each):
            not_run.setdefault(
                what, NotChecked(what=f"{what} ({each.command.found})", why=reason[0], cure=reason[1])
            )
            continue
        same = next((other for other in chosen if covers(other.command, each.command)), None)
        same = same or next((other for other in chosen if _is_choice(other.script, each.script)), None)
        if same is None:
            chosen = [other for other in chosen if not covers(each.command, other.command)]
            chosen.append(each)
        elif (same.command.argv, same.command.env) != (each.command.argv, each.command.env):
            others = same.command.variants
            is_equal = same.command.names == each.command.names or _is_choice(same.script, each.script)
            is_new = all((one.argv, one.env) != (each.command.argv, each.command.env) for one in others)
            if is_equal and is_new and len(others) < MOST_VARIANTS and not unknown(each):
                changed = msgspec.structs.replace(same.command, variants=(*others, each.command))
                chosen[chosen.index(same)] = msgspec.structs.replace(same, command=changed)
            if same.command.argv != each.command.argv:
                why = f"it runs the same tests as `{shlex.join(same.command.argv)}` with other options"
                not_run.setdefault(what, NotChecked(what=f"{what} ({each.command.found})", why=why))
    commands = tuple(each.command for each in chosen[:MAX_COMMANDS])
    return Discovery(commands=commands, not_run=tuple(not_run.values())[:20])


def _is_choice(one: Script, other: Script) -> bool:
    """Whether CI runs one or the other, by the version of the language that a job is given."""
    return bool(one.choice) and one.choice == other.choice


def _unable(candidate: Candidate) -> tuple[str, str] | None:
    """Why a command cannot be run here, and what to do; None if it can."""
    if BESIDE.search(candidate.command.argv[0]):
        return "it runs in a container, and the jail has no container engine", "Run it outside of Mailroom"
    if candidate.browser:
        return "it drives a browser, and the jail has none", "Run it outside of Mailroom"
    if candidate.script.secrets:
        return f"CI gives it the secret {candidate.script.secrets[0]}", "Run it in the project's CI"
    return None


def _covers(one: TestCommand, other: TestCommand) -> bool:
    """Whether ``one`` runs all tests that ``other`` runs; pytest runs a file as Python would."""
    is_file = other.argv[0] == "python" and bool(other.names) and other.names == set(other.argv[1:])
    as_file = one.runner == "pytest" and one.names and is_file
    if one.folder != other.folder or (one.runner != other.runner and not as_file):
        return False
    if not one.names or one.names == other.names:
        return True
    if not other.names:
        return False
    everything = {".", "./..."} & one.names
    parts = tuple(f"{whole}{mark}" for whole in one.names for mark in ("/", "::"))
    return bool(everything) or all(part in one.names or part.startswith(parts) for part in other.names)
