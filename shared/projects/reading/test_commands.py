"""Commands in the scripts of CI and build files, and which tests those among them run that test."""

import itertools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping

import msgspec

KEYWORDS = frozenset("if then else elif do while ! { } fi done set ( )".split())
PUNCTUATION = re.compile(r"[();<>|&]+")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
VARIABLE = re.compile(r"\$\{(\w+)(?::?-([^}]*))?\}|\$(\w+)")
GIVEN = ("$@", "${@}", "$*", "${*}")  # What a script was given
UNKNOWN = "\ufffd"  # Stands in a word for what is not known before the command runs


class ShellCommand(msgspec.Struct, frozen=True, kw_only=True):
    """One simple command: its words, the assignments before it, and the folder the script had entered.

    ``line`` counts the lines of the script from 0.
    """

    words: tuple[str, ...]
    line: int = 0
    folder: str = ""
    env: dict[str, str] = {}


def split_script(script: str, variables: Mapping[str, str] | None = None) -> Iterator[ShellCommand]:
    """The simple commands of a script in order; lines that cannot be split are left out.

    Variables are replaced by ``variables``; of a word with any other, that part becomes UNKNOWN.
    """
    known = dict(variables or {})
    folder = ""
    joined, first = "", 0
    for number, line in enumerate([*script.splitlines(), ""]):
        # A line that ends in a backslash goes on in the next.
        first = first if joined else number
        joined += line
        if joined.endswith("\\"):
            joined = f"{joined[:-1]} "
            continue
        whole, joined = joined, ""
        for words in split_line(whole):
            env: dict[str, str] = {}
            # A script that is given no arguments hands none on.
            words = [part for word in words if word not in GIVEN for part in _split_word(word, known)]
            while words and (words[0] in KEYWORDS or ASSIGNMENT.fullmatch(words[0])):
                name, equals, value = words.pop(0).partition("=")
                env |= {name: value} if equals else {}
            if words[:1] == ["export"]:
                known |= dict(word.split("=", 1) for word in words[1:] if "=" in word)
            elif words[:1] in (["cd"], ["pushd"]) and len(words) == 2:
                folder = f"{folder}/{words[1]}".lstrip("/") if folder else words[1]
            elif words[:1] == ["popd"]:
                folder = folder.rpartition("/")[0]
            elif words:
                yield ShellCommand(words=tuple(words), line=first, folder=folder, env=env)
            else:
                known |= env


def _split_word(word: str, variables: Mapping[str, str]) -> list[str]:
    """``word`` expanded; one that is a variable alone, and stood in no quotes for all we know, is split."""
    value = expand(word, variables)
    return value.split() if VARIABLE.fullmatch(word) else [value]


def expand(word: str, variables: Mapping[str, str]) -> str:
    """``word`` with the values of its variables, UNKNOWN for one that has none."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[3]
        return variables.get(name, match[2] if match[2] is not None else UNKNOWN)

    return VARIABLE.sub(value, word)


def split_line(line: str) -> Iterator[list[str]]:
    """The words of each command in a line; what follows a redirection is left out."""
    # A substitution is not known before it runs; its parentheses would end the command.
    line = re.sub(r"\$\([^()]*\)|`[^`]*`", UNKNOWN, line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    redirected = False
    try:
        for word in lexer:
            if PUNCTUATION.fullmatch(word):
                redirected = word[0] in "<>" or word.endswith((">", ">&"))
                if not redirected:
                    yield words
                    words = []
                elif words and words[-1].isdigit():
                    words.pop()
            elif redirected:
                redirected = False  # the file it goes to
            else:
                words.append(word)
    except ValueError:
        return
    yield words


class TestCommand(msgspec.Struct, frozen=True, kw_only=True):
    """How to run tests of a project.

    ``runner`` is that of Recognised, ``found`` where the command was found (``package.json:7 (...)``),
    ``folder`` where to run it, relative to the project; ``before`` are scripts that build what it needs,
    ``installs`` all that its job of CI runs before it, and itself as it is called there, ``env`` the
    variables its source sets. ``names`` are the tests it names (empty: all), ``starts`` the words
    of the JavaScript runner that a script ends in, ``services`` what CI starts beside it. ``variants`` are
    other ways in which CI runs the same tests. A leading
    ``python`` stands for the interpreter of the project's environment.
    """

    __test__ = False

    runner: str
    argv: tuple[str, ...]
    found: str
    folder: str = "."
    before: tuple[str, ...] = ()
    installs: tuple[str, ...] = ()
    env: dict[str, str] = {}
    names: frozenset[str] = frozenset()
    starts: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    variants: tuple["TestCommand", ...] = ()


# which commands test

PREFIXES = frozenset(
    "sudo time exec command nice env xvfb-run dbus-run-session c8 nyc cross-env dotenv npx bunx uvx pipx"
    " winpty".split()
)
"""Programs that start the command after them."""
RUNS = {
    "poetry": ("run",),
    "pipenv": ("run",),
    "rye": ("run",),
    "pipx": ("run",),
    "pnpm": ("exec", "dlx"),
    "yarn": ("exec", "dlx"),
    "npm": ("exec",),
}
"""Programs that do so with a word of their own between."""
VALUED = frozenset(
    "--extra --group --only-group --no-group --with --with-editable --python -p --project --directory --index"
    " --package --index-url --from --env-file -k -m -c -o -n -W --rootdir --confcutdir --ignore --deselect"
    " --durations --maxfail --timeout --tb --basetemp --import-mode --dist --reruns --ds --log-level"
    " --reporter --reporter-option --config --features -F --target --profile --jobs -j --manifest-path"
    " --color --exclude -P -C -R -L -E"
    " -s -t -i -r --require --test-dir --exclude-dir --settings --server-args --cwd --prefix --filter"
    " --workspace -w --spec --source --rcfile".split()
)
"""Options whose value is the next word."""
REPORTING = re.compile(
    r"--(cov|no-cov|(?:experimental-)?(?:test-)?coverage|test-reporter|junit-?xml|html|self-contained-html|codspeed|benchmark|report-log)\b.*|--verbosity=\d"
)
"""Options that only report on a run: what they need may not be installed, and the counts are the same."""
REPORTING_VALUES = frozenset("--cov-report --cov-config --junitxml --junit-xml --html --basetemp".split())
NO_RUN = frozenset("--benchmark-only --version --help --collect-only --list-tests --fixtures".split())
"""Options with which a runner tests nothing."""
JAVASCRIPT = frozenset(
    "jest vitest mocha ava tap tape uvu jasmine qunit lab zora brittle borp japa poku xv _mocha"
    " react-scripts vue-cli-service aegir tsdx".split()
)
BROWSERS = frozenset(
    "playwright cypress wdio testcafe karma nightwatch protractor web-test-runner wtr ng".split()
)
OTHERS = frozenset(
    "rspec phpunit vendor/bin/phpunit pest vendor/bin/pest bats busted prove minitest stestr ward green"
    " nosetests trial testr".split()
)
VERBS = {
    **dict.fromkeys("dotnet swift mix deno stack cabal dune zig bazel gleam flutter dart".split(), "test"),
    **dict.fromkeys(("composer", "rake", "sbt", "lein", "meson"), "test"),
    "crystal": "spec",
}
"""Programs that run tests with a word of their own."""
SCRIPT = re.compile(
    r"(?:^|/)(?:tests?/(?:run|all)|(?:run[-_]?|all[-_]?)?(?:unit)?tests?(?:[-_](?:all|unit|runner))?)(?:\.(?:sh|py|js|cjs|mjs|ts))?$"
)


class Recognised(msgspec.Struct, frozen=True, kw_only=True):
    """A test command: its ``runner``, its words, and which tests it names (empty: all).

    Runners are pytest, unittest, django, node, cargo, go, ctest, java, and ``any`` for others. ``browser``
    says that it drives one. ``indirect`` is what has to be looked up first: tox, nox, make, npm
    and the like. ``starts`` are the words of the runner that a script ends in, None for what is no script.
    """

    runner: str
    words: tuple[str, ...]
    names: frozenset[str] = frozenset()
    browser: bool = False
    indirect: str = ""
    starts: tuple[str, ...] | None = None


def recognise(words: Iterable[str]) -> Recognised | None:
    """The test command that ``words`` are; None if they are none."""
    found = strip(list(words))
    if not found or NO_RUN & set(found):
        return None
    head = found[0].rpartition("/")[2] if found[0].count("/") != 1 or found[0][0] != "." else found[0]
    if re.fullmatch(r"python[\d.]*|pypy[\d.]*|py", head):
        if "-m" in found[:-1]:
            at = found.index("-m")
            module, rest = found[at + 1], found[at + 2 :]
            if module in ("pytest", "py.test"):
                rest = without_reports(rest)
                return Recognised(
                    runner="pytest",
                    words=("python", *found[1:at], "-m", "pytest", *rest),
                    names=_positional(rest),
                )
            if module in ("unittest", "xmlrunner", "unittest_parallel", "unittest-parallel"):
                words = ("python", *found[1:at], "-m", "unittest", *rest)
                return Recognised(runner="unittest", words=words, names=_positional(rest) - {"discover"})
            if module in ("tox", "nox"):
                return recognise([module, *rest])
            if module in ("green", "nose", "nose2", "trial", "ward", "stestr"):
                return Recognised(runner="any", words=("python", *found[1:]), names=_positional(rest))
            return None
        rest = _skip_options(found[1:])
        if rest[:1] and rest[0].endswith("manage.py") and "test" in rest[1:2]:
            return Recognised(runner="django", words=("python", *found[1:]), names=_positional(rest[2:]))
        if rest[:2] == ["setup.py", "test"]:
            return None
        if rest and SCRIPT.search(rest[0]):
            return Recognised(
                runner="any", words=("python", *found[1:]), names=_positional(rest[1:]) | {rest[0]}
            )
        return None
    for reader in (_recognise_direct, _recognise_indirect, _recognise_javascript, _recognise_others):
        if recognised := reader(head, found):
            return recognised
    return None


def strip(words: list[str]) -> list[str]:
    """``words`` without what only starts or measures the command, and without what is not known yet."""
    while words:
        head = words[0].rpartition("/")[2]
        if head == "uv" and "run" in words:
            words = _skip_options(words[words.index("run") + 1 :], keep="-m")
            words = ["python", *words] if words[:1] == ["-m"] else words
        elif head in RUNS and words[1:2] and words[1] in RUNS[head]:
            words = _skip_options(words[2:])
        elif head in PREFIXES:
            words = _skip_options(words[1:])
        elif head == "timeout" or (head == "istanbul" and words[1:2] == ["cover"]):
            words = _skip_options(words[1:])[1:]
        elif head == "coverage" and words[1:2] == ["run"]:
            words = ["python", *_after_coverage(words[2:])]
        elif re.fullmatch(r"python[\d.]*", head) and _skip_options(words[1:], "-m")[:3] == MEASURED:
            words = ["python", *_after_coverage(_skip_options(words[1:], "-m")[3:])]
        elif re.match(r"[A-Za-z_]\w*=", words[0]):
            words = words[1:]
        else:
            break
    return [word for word in words if UNKNOWN not in word or word == words[0]]


MEASURED = ["-m", "coverage", "run"]


def _after_coverage(words: list[str]) -> list[str]:
    return words[words.index("-m") :] if "-m" in words else _skip_options(words)


def _skip_options(words: list[str], keep: str = "") -> list[str]:
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] != keep:
        if words[at] == "--":
            return words[at + 1 :]
        at += 2 if words[at] in VALUED else 1
    return words[at:]


def _positional(words: Iterable[str]) -> frozenset[str]:
    """What a command names beside options and their values, and the values of -k, -m, -p and the like."""
    found, before = set(), ""
    for word in words:
        if word == "--":
            break
        if before in VALUED:
            if before in ("-k", "-m", "-p", "--package", "--filter", "-R", "-L"):
                found.add(f"{before} {word}")
        elif not word.startswith("-"):
            found.add(word.rstrip("/"))
        before = word
    return frozenset(found)


def without_reports(words: list[str]) -> list[str]:
    """``words`` without options that only report on a run."""
    kept, before = [], ""
    for word in words:
        is_value = before in REPORTING_VALUES or (before == "--cov" and not word.startswith("-"))
        if not REPORTING.fullmatch(word) and not is_value and not word.startswith("--basetemp"):
            kept.append(word)
        before = word
    return kept


def _recognise_direct(head: str, words: list[str]) -> Recognised | None:
    """The runners of compiled languages, and pytest by its own program."""
    rest = words[1:]
    if head in ("pytest", "py.test"):
        rest = without_reports(rest)
        return Recognised(runner="pytest", words=("pytest", *rest), names=_positional(rest))
    if head == "cargo":
        return _recognise_cargo(rest)
    if head in ("go", "gotestsum", "richgo") and rest:
        return _recognise_go(head, rest)
    targets = [word for option, word in itertools.pairwise(rest) if option in ("--target", "-t")]
    if head == "cmake" and {"test", "check", "RUN_TESTS"} & set(targets):
        return Recognised(runner="ctest", words=("ctest",))
    if head == "ctest":
        return Recognised(runner="ctest", words=tuple(words), names=_positional(rest) - {"build"})
    if head in ("mvn", "mvnw", "./mvnw", "gradle", "gradlew", "./gradlew"):
        goals = {word.rpartition(":")[2] for word in rest if not word.startswith("-")}
        skipped = any(re.match(r"-D(skipTests|maven\.test\.skip)(=true)?$", word) for word in rest)
        wanted = goals & {"test", "verify", "check", "install", "build", "package"}
        if wanted and not skipped and not ({"-x", "test"} <= set(rest)):
            return Recognised(runner="java", words=tuple(words), names=_positional(rest) - wanted - {"clean"})
    return None


def _recognise_cargo(rest: list[str]) -> Recognised | None:
    rest = [word for word in rest if not word.startswith("+")]
    rest = [*rest[1:]] if rest[:1] == ["hack"] else rest
    if not rest or rest[0] not in ("test", "t", "nextest", "llvm-cov"):
        return None
    options = [word for word in rest[1:] if word not in ("run", "test") and UNKNOWN not in word]
    if {"--benches", "--bench", "--no-run", "--doc"} & set(options) or rest[1:2] in (["report"], ["clean"]):
        return None
    if rest[0] in ("nextest", "llvm-cov"):  # neither need be installed, and they run the same tests
        options = [
            word for word in options if re.fullmatch(r"--(all|workspace|all-features|all-targets)", word)
        ]
    names = _positional(options) | {word for word in options if word in ("--lib", "--tests", "--examples")}
    return Recognised(runner="cargo", words=("cargo", "test", *options), names=names)


def _recognise_go(head: str, rest: list[str]) -> Recognised | None:
    if head != "go":
        rest = ["test", *(rest[rest.index("--") + 1 :] if "--" in rest else ["./..."])]
    if rest[0] != "test":
        return None
    kept: list[str] = []
    for before, word in zip(["", *rest], rest, strict=False):
        flag = re.match(
            r"-{1,2}(bench|benchmem|benchtime|coverprofile|covermode|coverpkg|cover|v|json|fuzz\w*)\b", word
        )
        valued = re.fullmatch(
            r"-{1,2}(bench|benchtime|coverprofile|covermode|coverpkg|fuzz|fuzztime)", before
        )
        if not flag and not (valued and not word.startswith("-")):
            kept.append(word)
    packages = frozenset(word for word in kept[1:] if word.startswith((".", "-run")) or "/" in word)
    if any(re.match(r"-{1,2}run=(\^\$|NONE|XXX)", word) for word in kept):
        return None
    return Recognised(runner="go", words=("go", *kept), names=packages - {"./..."})


def _recognise_indirect(head: str, words: list[str]) -> Recognised | None:
    rest = words[1:]
    if head in ("tox", "nox"):
        return Recognised(runner="any", words=tuple(words), names=_positional(rest), indirect=head)
    if head in ("make", "gmake", "just", "task"):
        targets = [word for word in rest if not word.startswith("-") and "=" not in word]
        return Recognised(runner="any", words=tuple(words), names=frozenset(targets), indirect="make")
    if head in ("hatch", "pdm", "poe", "hatchling", "pixi") and rest:
        return Recognised(runner="any", words=tuple(words), names=frozenset(rest), indirect="script")
    return None


def drives_browser(name: str) -> bool:
    """Whether ``name``, the words of a command, are those of a runner that drives a browser."""
    found = recognise(name.split())
    return bool(found and found.browser)


def _recognise_javascript(head: str, words: list[str]) -> Recognised | None:
    rest = words[1:]
    if head in ("npm", "pnpm", "yarn", "bun", "lerna", "turbo", "nx"):
        if head == "bun" and rest[:1] == ["test"]:
            return Recognised(runner="node", words=tuple(words), names=_positional(rest[1:]))
        direct = rest[:1] if head in ("yarn", "pnpm", "bun") else []
        if direct and direct[0] in JAVASCRIPT | BROWSERS:
            return _recognise_javascript(direct[0], rest)
        return Recognised(runner="node", words=tuple(words), indirect="npm")
    if head in BROWSERS and (head in ("wtr", "web-test-runner") or {"test", "run", "start"} & set(rest[:1])):
        return Recognised(runner="node", words=tuple(words), browser=True, names=frozenset({head}))
    if head in JAVASCRIPT:
        words = [head, *without_reports(rest)]
        return Recognised(runner="node", words=tuple(words), names=_positional(words[1:]) | {head})
    if head in ("node", "tsx", "bun", "esmo", "ts-node", "tsm", "deno") and rest:
        names = [word for word in _skip_options(rest) if re.search(r"\btests?\b", word)]
        if "--test" in rest or (names and names[0] == _skip_options(rest)[0]):
            return Recognised(runner="node", words=tuple(words), names=frozenset({"node", *names}))
    return None


def _recognise_others(head: str, words: list[str]) -> Recognised | None:
    if head in OTHERS:
        return Recognised(runner="any", words=tuple(words), names=frozenset(words))
    if head == "bundle" and words[1:2] == ["exec"]:
        return recognise(words[2:])
    verb = VERBS.get(head)
    if words == ["rake"]:
        return Recognised(runner="any", words=("rake",), names=frozenset({"rake"}))
    if verb and verb in (word.partition(":")[0] for word in words[1:4]):
        return Recognised(runner="any", words=tuple(words), names=frozenset({head}))
    if words[0].startswith(("./", "test/", "tests/", "scripts/")) or (
        head in ("bash", "sh") and len(words) > 1 and not words[1].startswith("-")
    ):
        script = words[1] if head in ("bash", "sh") else words[0]
        if SCRIPT.search(script):
            return Recognised(runner="any", words=tuple(words), names=frozenset({script}))
    return None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A test command found in a file: ``source`` is ``file:line``, ``folder`` is where."""

    command: Recognised
    source: str
    folder: str = ""
    env: dict[str, str] = {}


def recognise_lines(
    text: str, source: str, first: int, variables: Mapping[str, str] | None = None
) -> Iterator[Found]:
    """The test commands in a script that starts on line ``first`` of the file ``source``."""
    for command in split_script(text, variables):
        if recognised := recognise(command.words):
            place = f"{source}:{first + command.line}"
            yield Found(command=recognised, source=place, folder=command.folder, env=command.env)
