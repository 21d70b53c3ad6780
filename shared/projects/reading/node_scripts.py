"""A package.json: which of its scripts test, what they run in the end, and which package manager it names."""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import msgspec

from shared.projects.reading.project_files import ProjectFiles
from shared.projects.reading.test_commands import Recognised, recognise, split_script, without_reports

NO_TESTS = re.compile(r"no test specified|^\s*(echo\b.*|exit 0|true|:)\s*$")
NAMED_TEST = re.compile(
    r"(?:^|[:_-])(?:tests?|spec|unit|integration|mocha|jest|vitest|ava|tap|node)(?:$|[:_-])"
)
NOT_TESTS = re.compile(
    r"lint|types?\b|typecheck|tsc|format|prettier|size|watch|debug|update|bench|docs?\b|build|attw|publint|dev\b|ui\b"
    r"|coverage-report|report|deploy|install"
)
CHECKERS = frozenset(
    "eslint xo standard tsc tsd prettier biome oxlint publint attw size-limit knip dtslint stylelint cat"
    " semistandard jshint markdownlint commitlint depcheck madge vue-tsc ts-standard coveralls codecov ruff"
    " black flake8 mypy stubtest pyright pylint isort bandit codespell pre-commit shellcheck twine gofmt"
    " golangci-lint staticcheck clang-format cppcheck yamllint rustfmt check-manifest".split()
)
"""Programs that check, or report on a run, and test nothing."""
END_TO_END = re.compile(
    r"e2e|end-to-end|browser|playwright|cypress|visual|acceptance|smoke|saucelabs|webdriver"
)
MOST_PACKAGES = 12  # The most packages of a workspace whose tests are run
LEADING = ("workspace", "workspaces", "foreach")  # What stands before the words of a manager
CALLERS = frozenset("npm pnpm yarn bun lerna turbo nx".split())  # What calls scripts of packages
MANAGER_WORDS = {"run", "run-script", "rum"}
TEST_WORDS = {"test", "t", "tst", "it", "cit", "install-test", "install-ci-test"}


class ScriptCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a script: the ``manager``, its ``name``, the ``folder`` and the ``options`` given.

    ``extra`` is what it hands on to the script.
    """

    manager: str
    name: str
    folder: str = ""
    options: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    several: bool = False
    """Whether it calls the scripts of several packages."""


def parse_call(words: tuple[str, ...]) -> ScriptCall | None:
    """What a command of npm, pnpm, yarn, bun, lerna, turbo or nx calls; None if no script."""
    manager, rest = words[0].rpartition("/")[2], list(words[1:])
    folder = ""
    options: list[str] = []
    positional: list[str] = []
    extra: list[str] = []
    several = manager in ("lerna", "turbo", "nx")
    while rest:
        word = rest.pop(0)
        if word == "--":
            extra = rest
            break
        first = positional[0] if positional else ""
        is_named = len(positional) > 1 if first in MANAGER_WORDS else first not in (*LEADING, "")
        if manager in ("yarn", "pnpm", "bun") and is_named:  # what follows the script is handed on to it
            extra = [word, *(each for each in rest if each != "--")]
            break
        name, equals, value = word.partition("=")
        if name in ("--prefix", "-C", "--cwd", "--dir"):
            folder = value or (rest.pop(0) if rest else "")
        elif name in ("-w", "--workspace", "--filter", "-F", "-t", "--target", "--scope"):
            value = value or (rest.pop(0) if rest else "")
            several = True
            if manager == "nx" and name in ("-t", "--target"):
                positional.append(value)
            else:
                options += [f"{name}={value}"] if equals else [name, value]
        elif word.startswith("-"):
            several = several or word in ("-r", "--recursive", "--workspaces", "-ws", "--parallel")
            options.append(word)
        else:
            positional.append(word)
    if positional[:1] == ["workspace"] or positional[:1] == ["workspaces"]:
        positional, several = positional[2:] if positional[0] == "workspace" else positional[1:], True
    positional = [word for word in positional if word not in ("foreach", "run-many", "affected")]
    named = positional[1:] if positional[:1] and positional[0] in MANAGER_WORDS else positional
    if not named:
        return None
    is_run = named is not positional
    handed = tuple(word for word in without_reports(extra) if word not in ("--ci", "--coverage"))
    script = "test" if named[0] in TEST_WORDS and not is_run else named[0]
    return ScriptCall(
        manager=manager, name=script, folder=folder, options=tuple(options), several=several, extra=handed
    )


def read_scripts(files: ProjectFiles) -> dict[str, str]:
    """The scripts of package.json."""
    scripts = files.table("package.json", "scripts")
    return {name: body for name, body in scripts.items() if isinstance(body, str)}


def cite_script(files: ProjectFiles, name: str) -> str:
    """The line of a script in package.json, as ``package.json:7``."""
    line = files.find_line("package.json", rf'^[ \t]*"{re.escape(name)}" *:')
    line = line or files.find_line("package.json", r'"scripts"') or 1
    return f"package.json:{line}"


def final_commands(scripts: Mapping[str, str], name: str, depth: int = 6) -> Iterator[tuple[str, ...]]:
    """The commands that a script comes to, those of the scripts it calls in their place."""
    if depth <= 0:
        return
    for stage in (f"pre{name}", name, f"post{name}"):
        for command in split_script(scripts.get(stage, "")):
            called = list(_called_scripts(command.words, scripts))
            for each in called:
                if each != name:
                    yield from final_commands(scripts, each, depth - 1)
            if not called:
                yield command.words


def _called_scripts(words: tuple[str, ...], scripts: Mapping[str, str]) -> Iterator[str]:
    head = words[0].rpartition("/")[2]
    if head in ("run-s", "run-p", "npm-run-all", "npm-run-all2", "concurrently", "wireit", "wsrun"):
        patterns = [word.removeprefix("npm:") for word in words[1:] if not word.startswith("-")]
        yield from (name for each in patterns for name in scripts if fnmatch(name, each.replace(":**", ":*")))
        return
    for at, word in enumerate(words):
        # A tool that measures may stand before: c8 npm test
        if word in ("npm", "yarn", "pnpm", "bun"):
            call = parse_call(words[at:])
            if call and not call.folder and not call.several and call.name in scripts:
                yield call.name
            return


def recognise_script(scripts: Mapping[str, str], name: str) -> tuple[Recognised, ...]:
    """The test runners that a script starts in the end; empty if it tests nothing.

    A script that is called a test and starts no known runner is one too, with itself as its words.
    """
    body = scripts.get(name, "")
    if not body.strip() or NO_TESTS.search(body):
        return ()
    finals = list(final_commands(scripts, name))
    found = [each for each in map(recognise, finals) if each and not each.indirect]
    if found:
        return tuple(found)
    skipped = ("npx", "npm", "run", "exec", "--")
    programs = ([word for word in words if word not in skipped and word[:1] != "-"] for words in finals)
    heads = {words[0].rpartition("/")[2] if words else "" for words in programs}
    if not NAMED_TEST.search(name) or (name != "test" and NOT_TESTS.search(name)) or heads <= CHECKERS:
        return ()
    drives = bool(END_TO_END.search(name))
    return (Recognised(runner="node", words=(body,), names=frozenset({name}), browser=drives),)


def find_members(files: ProjectFiles, call: ScriptCall) -> list[ScriptCall]:
    """The calls of a script in each package of a workspace; empty if ``call`` is about one package alone.

    A script of the root that calls those of the packages, such as ``turbo run test``, is such a call too.
    """
    scripts = read_scripts(files)
    if not call.several:
        commands = list(split_script(scripts.get(innermost(scripts, call.name), "")))
        calls = len(commands) == 1 and commands[0].words[0] in CALLERS
        inner = parse_call(commands[0].words) if calls else None
        if inner is None or not inner.several:
            return []
        call = msgspec.structs.replace(inner, folder="")
    manager = call.manager if call.manager in ("npm", "pnpm", "yarn", "bun") else "npm"
    named = [word.rpartition("=")[2] for word in call.options if not re.fullmatch(r"-[\w-]+", word)]
    marks = [mark.removeprefix("./").removesuffix("...").rstrip("/") for mark in named]

    def is_wanted(place: str) -> bool:
        name = str(files.at(place).table("package.json").get("name", ""))
        return not marks or any(fnmatch(name, mark) or fnmatch(place, mark) for mark in marks)

    return [
        ScriptCall(manager=manager, name=call.name, folder=place)
        for place in _list_packages(files)
        if call.name in read_scripts(files.at(place)) and is_wanted(place)
    ]


def _list_packages(files: ProjectFiles) -> list[str]:
    """The folders of the packages of a workspace of npm, Yarn, pnpm or Lerna."""
    stated = files.table("package.json").get("workspaces")
    stated = stated.get("packages") if isinstance(stated, dict) else stated
    pnpm = files.table("pnpm-workspace.yaml").get("packages")
    lerna = files.table("lerna.json").get("packages")
    globs = next((each for each in (stated, pnpm, lerna) if isinstance(each, list)), [])
    texts = (each for each in globs if isinstance(each, str) and each[:1] not in "!/")
    kept = [each.removeprefix("./").rstrip("/") for each in texts]
    found = files.glob(*(f"{each}/package.json" for each in kept if ".." not in each))
    places = sorted({PurePosixPath(name).parent for name in found})
    inner = [str(place) for place in places if "node_modules" not in place.parts and place.parts]
    return inner[:MOST_PACKAGES]


def innermost(scripts: Mapping[str, str], name: str) -> str:
    """The script that ``name`` only measures or renames: ``test`` for one with the body ``nyc npm test``."""
    for _ in range(6):
        commands = list(split_script(scripts.get(name, "")))
        called = list(_called_scripts(commands[0].words, scripts)) if len(commands) == 1 else []
        if len(called) != 1 or called[0] == name or f"pre{name}" in scripts:
            break
        name = called[0]
    return name


def ends_in(scripts: Mapping[str, str], name: str) -> tuple[str, ...]:
    """The words of the test runner that a script ends in; empty if it ends in something else."""
    commands = list(split_script(scripts.get(name, "")))
    last = recognise(commands[-1].words) if commands else None
    return last.words if last and not last.indirect else ()


# --- the package manager --------------------------------------------------------------------------

LOCKS = {
    "pnpm-lock.yaml": "pnpm",
    "yarn.lock": "yarn",
    "bun.lock": "bun",
    "bun.lockb": "bun",
    "package-lock.json": "npm",
    "npm-shrinkwrap.json": "npm",
}
PNPM = {"9": "9.15.9", "6": "8.15.9", "5": "7.33.7"}
"""Major version of a pnpm lock: a release that understands it and runs on every Node since 18."""
YARN_CLASSIC = "1.22.22"
YARN_BERRY = {"4": "2.4.3", "5": "3.8.7", "6": "3.8.7", "7": "3.8.7", "8": "4.9.4"}
"""``__metadata.version`` of a lock of Yarn: a release that writes it."""
VERSION = re.compile(r"\d+\.\d+\.\d+(-[\w.]+)?")


class Manager(msgspec.Struct, frozen=True, kw_only=True):
    """A package manager: ``name`` is npm, pnpm, yarn or bun, ``version`` empty for any, ``lock`` a file.

    ``is_berry`` tells Yarn since 2 from Yarn 1; ``release`` is the program of Yarn that lies in the project.
    """

    name: str
    version: str = ""
    lock: str = ""
    is_berry: bool = False
    release: str = ""

    @property
    def package(self) -> str:
        """What it is called in the npm registry."""
        return "@yarnpkg/cli-dist" if self.is_berry else self.name


def choose_manager(files: ProjectFiles) -> Manager:
    """The manager that package.json names, else that of the lock; npm if there is neither.

    A version that is none, such as an address, is left out.
    """
    manifest = files.table("package.json")
    locks = [name for name in LOCKS if files.has(name)]
    named = re.match(
        r"(npm|pnpm|yarn|bun)@(\d+\.\d+\.\d+(?:-[\w.]+)?)?", str(manifest.get("packageManager", ""))
    )
    lock = next((each for each in locks if not named or LOCKS[each] == named[1]), "")
    name = named[1] if named else LOCKS.get(lock, "npm")
    version = (named[2] if named else "") or ""
    if name == "pnpm":
        written = re.search(r"(?m)^lockfileVersion:\s*'?(\d+)", files.text(lock))
        version = version or PNPM.get(written[1] if written else "", PNPM["9"])
        return Manager(name=name, lock=lock, version=version)
    if name == "yarn":
        metadata = re.search(r"(?m)^__metadata:\n\s+version:\s*\"?(\d+)", files.text("yarn.lock"))
        release = str(files.table(".yarnrc.yml").get("yarnPath", ""))
        if not files.has(release) or ".." in Path(release).parts:
            release = ""
        is_berry = bool(metadata or release or (version and not version.startswith("1.")))
        if not version:
            berry = YARN_BERRY.get(metadata[1] if metadata else "", YARN_BERRY["8"])
            version = berry if is_berry else YARN_CLASSIC
        return Manager(name="yarn", version=version, lock=lock, is_berry=is_berry, release=release)
    return Manager(name=name, lock=lock, version=version if name != "npm" else "")
