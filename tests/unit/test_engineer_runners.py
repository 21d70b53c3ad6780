"""How a project is tested, read off its files."""

import json
from pathlib import Path

import pytest

from shared.errors import ActionError
from shared.projects.reading import ProjectFiles, read_project
from shared.projects.reading.discovery import Discovery
from shared.projects.reading.installs import find_call
from shared.projects.reading.test_commands import TestCommand
from tests.support.registries import write_files

NODE = '{\n  "name": "x",\n  "scripts": {\n    "test": "jest"\n  }\n}\n'
UNITTEST = "import unittest\n\n\nclass T(unittest.TestCase):\n    pass\n"


def found_in(folder: Path, files: dict[str, str]) -> Discovery:
    return read_project(lay_out(folder, files)).tests


def lay_out(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "argv", "found"),
    [
        (
            {"pyproject.toml": '[project]\n\n[tool.mailroom]\nmodel = "y"\n\ntest = "pytest -k fast"\n'},
            "pytest -k fast",
            "pyproject.toml:6 ([tool.mailroom] test)",
        ),
        (
            {".mailroom.yaml": "# how\ntest: python3 run.py --all\n", "Makefile": "test:\n"},
            "python run.py --all",
            ".mailroom.yaml:2 (test)",
        ),
        ({".mailroom.yaml": "test: [./t.sh, 'a b']\n"}, "./t.sh|a b", ".mailroom.yaml:1 (test)"),
        ({".mailroom.yaml": "test: make a && make b\n"}, "sh -c|make a && make b", ".mailroom.yaml:1 (test)"),
        (
            {"setup.cfg": "[metadata]\n[tool:pytest]\n"},
            "python -m pytest",
            "setup.cfg:2 (settings of pytest)",
        ),
        ({"tox.ini": "[tox]\n[pytest]\n"}, "python -m pytest", "tox.ini:2 (settings of pytest)"),
        (
            {"setup.py": "", "tests/unit/test_a.py": "import os\n\n\nimport sys, pytest\n"},
            "python -m pytest",
            "tests/unit/test_a.py:4 (imports pytest)",
        ),
        (
            {"setup.py": "", "tests/test_a.py": "def test_a(): pass\n"},
            "python -m pytest",
            "tests/test_a.py:1 (a test function)",
        ),
        (
            {"setup.py": "", "tests/test_a.py": UNITTEST},
            "python -m unittest discover -s tests",
            "tests/test_a.py:1 (imports unittest)",
        ),
        (
            {"setup.py": "", "tests/__init__.py": "", "tests/test_a.py": UNITTEST},
            "python -m unittest discover",
            "tests/test_a.py:1 (imports unittest)",
        ),
        (
            {"test_a.py": "from unittest.mock import Mock\n\ndef test_a(): pass\n"},
            "python -m pytest",
            "test_a.py:3 (a test function)",
        ),
        (
            {"manage.py": "import os\nos.environ['DJANGO_SETTINGS_MODULE'] = 'x'\n", "requirements.txt": ""},
            "python manage.py test",
            "manage.py:2 (a Django project)",
        ),
        (
            {"package.json": NODE, "test_stray.py": UNITTEST},
            "npm run test",
            "package.json:4 (scripts.test: jest)",
        ),
        (
            {"Cargo.toml": '[package]\nname = "x"\n'},
            "cargo test",
            "Cargo.toml:1 (a Rust package)",
        ),
        ({"go.mod": "// x\nmodule example.org/x\n"}, "go test ./...", "go.mod:2 (a Go module)"),
        ({"Makefile": "test := no\nall:\n\ncheck: all\n"}, "make check", "Makefile:4 (the target check)"),
        (
            {"CMakeLists.txt": "project(x)\nenable_testing()\n"},
            "ctest",
            "CMakeLists.txt:2 (tests of CTest)",
        ),
        ({"pom.xml": "<project/>"}, "mvn --batch-mode test", "pom.xml:1 (a project of mvn)"),
        (
            {"build.gradle.kts": "", "gradlew": ""},
            "./gradlew test",
            "build.gradle.kts:1 (a project of gradle)",
        ),
        (
            {"docs/x.md": "", "web/package.json": NODE},
            "npm run test",
            "web/package.json:4 (scripts.test: jest)",
        ),
    ],
)
def test_finds_the_command_and_says_where(tmp_path, files, argv, found):
    (command,) = found_in(tmp_path, files).commands
    head, _, rest = argv.partition("|")
    assert command.argv == (*head.split(), *([rest] if rest else []))
    assert command.found == found
    assert command.folder == (found.partition("/")[0] if found.startswith("web/") else ".")


@pytest.mark.parametrize(
    ("files", "runner"),
    [
        ({".mailroom.yaml": "test: py.test"}, "pytest"),
        ({".mailroom.yaml": "test: python -m unittest"}, "unittest"),
        ({".mailroom.yaml": "test: ./ci.sh"}, "any"),
        ({"package.json": NODE}, "node"),
        ({"go.mod": "module x\n"}, "go"),
    ],
)
def test_knows_how_to_read_the_output(tmp_path, files, runner):
    (command,) = found_in(tmp_path, files).commands
    assert command.runner == runner


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"README.md": "# x"},
        {"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'},
        {"package.json": "{broken"},
        {"package.json": '{"scripts": ["test"]}'},
        {"pyproject.toml": "[project]\nbroken"},
        {"pyproject.toml": "tool = 1"},
        {".mailroom.yaml": "- test"},
        {".mailroom.yaml": "{"},
        {"Makefile": "test = 1\ntests:\n"},
        {"CMakeLists.txt": "project(x)"},
        {"examples/shop/package.json": NODE},
        {".github/workflows/ci.yml": "jobs: {a: {steps: [{run: pytest}]}}"},
        {".github/workflows/ci.yml": "on: push\njobs: {a: [{steps: 1}], b: {steps: [{run: make}]}}"},
        {".github/workflows/ci.yml": "on: push\njobs: &a [*a]"},
        {".gitlab-ci.yml": "test: {script: [[ruff check .], 3]}"},
        {"node_modules/x/package.json": NODE},
    ],
)
def test_finds_nothing_where_there_is_nothing(tmp_path, files):
    assert found_in(tmp_path, files).commands == ()


@pytest.mark.parametrize("hint", ["5", "''", "[]", "[1, 2]", "{a: b}", '"it\'s"'])
def test_a_statement_that_makes_no_sense_is_told_with_its_place(tmp_path, hint):
    lay_out(tmp_path, {".mailroom.yaml": f"test: {hint}\n"})
    with pytest.raises(ActionError, match=r"\.mailroom\.yaml:1: "):
        assert read_project(tmp_path).tests


def test_the_lock_file_tells_the_package_manager(tmp_path):
    (command,) = found_in(tmp_path, {"package.json": NODE, "pnpm-lock.yaml": ""}).commands
    assert command.argv == ("pnpm", "run", "test")
    (command,) = found_in(tmp_path, {"package.json": '{"packageManager": "yarn@4", ' + NODE[1:]}).commands
    assert command.argv == ("yarn", "run", "test")


def lines(found: Discovery) -> list[tuple[str, str, str]]:
    return [(each.folder, " ".join(each.argv), each.found.partition(" (")[0]) for each in found.commands]


WORKFLOW = """\
name: Tests
on: [push, pull_request]
env:
  MODE: fast
  RUSTFLAGS: -D warnings
jobs:
  lint:
    runs-on: ubuntu-latest
    steps:
      - run: ruff check . && mypy src
  test:
    runs-on: ${{ matrix.os }}
    strategy:
      matrix:
        os: [windows-latest, ubuntu-latest]
        python: ['3.10', '3.12']
        include:
          - {os: ubuntu-latest, python: '3.12', extra: tests/slow}
    steps:
      - uses: actions/checkout@v4
      - run: python -m pip install -e .[test]
      - name: Test
        env: {TOKEN: "${{ secrets.TOKEN }}", PLACE: here}
        run: |
          # all of them
          uv run --group test pytest \\
            -v --cov=src --cov-report xml ${{ matrix.extra }} | tee log.txt
      - run: python -m pytest --benchmark-only bench
        if: matrix.os == 'windows-latest'
"""


def test_what_ci_runs_wins_over_a_guess(tmp_path):
    files = {".github/workflows/ci.yml": WORKFLOW, "Makefile": "test:\n\t./demo\n", "tests/test_a.py": ""}
    found = found_in(tmp_path, files)
    line = WORKFLOW[: WORKFLOW.index("uv run")].count("\n") + 1
    assert lines(found) == [(".", "pytest -v", f".github/workflows/ci.yml:{line}")]
    assert found.commands[0].env == {"MODE": "fast", "PLACE": "here"}
    assert [each.what.partition(" (")[0] for each in found.not_run] == ["pytest -v tests/slow"]


def job(*steps: str, more: str = "") -> dict[str, str]:
    rows = "".join(f"      - run: {step}\n" for step in steps)
    text = f"on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n{more}    steps:\n{rows}"
    return {".github/workflows/test.yml": text}


BUILD = """\
    defaults: {run: {working-directory: "${{ github.workspace }}/build"}}
    strategy:
      matrix:
        os: [macos-latest, ubuntu-latest]
        kind: [Debug, Release]
"""
TOX = """\
[tox]
envlist = py{310,311}-{plain,extra}, lint
[testenv]
changedir = src
commands =
    plain: coverage run -m pytest {posargs:../tests}
    extra: pytest {posargs:../tests}
    !plain: mypy .
[testenv:lint]
commands = ruff check
"""
NOX = """\
import nox

@nox.session(python=["3.11", "3.12"])
def tests(session):
    session.install(".[test]")
    session.run("pytest", "-q", *session.posargs)

@nox.session
def docs(session):
    session.run("sphinx-build", "docs")
"""
MAKE = """\
PYTEST ?= python -m pytest
ci: lint test
lint:
\truff check .
test: venv
\t@$(PYTEST) tests --junitxml=report.xml
native: build/x
\tpytest tests
build/x: x.c
\tcc -o $@ x.c
shell:
\t./run.sh $$HOME
"""


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {**job("uv run --locked tox run -e ${{ matrix.tox }}"), "tox.ini": TOX, "src/x.py": ""},
            [("src", "python -m pytest ../tests", "tox.ini:5, run by .github/workflows/test.yml:6")],
        ),
        (
            {**job("pipx run nox -s tests-3.12"), "noxfile.py": NOX},
            [(".", "pytest -q", "noxfile.py:6, run by .github/workflows/test.yml:6")],
        ),
        ({**job("nox -s docs"), "noxfile.py": NOX}, []),
        (
            {**job("make ci"), "Makefile": MAKE},
            [(".", "python -m pytest tests", "Makefile:6, run by .github/workflows/test.yml:6")],
        ),
        (
            {**job("make native"), "Makefile": MAKE},
            [(".", "make native", "Makefile:7, run by .github/workflows/test.yml:6")],
        ),
        ({**job("make shell", "make lint"), "Makefile": MAKE}, [(".", "make test", "Makefile:5")]),
        (
            {
                **job("npm ci", "npm run build", "npm run test:ci"),
                "package.json": '{"scripts": {"test:ci": "c8 npm test", "test": "jest", "build": "tsc"}}',
            },
            [(".", "npm run test", "package.json:1")],
        ),
        (
            {
                **job("hatch run cov"),
                "pyproject.toml": '[tool.hatch.envs.default.scripts]\ncov = "pytest {args:tests}"\n',
            },
            [(".", "pytest tests", "pyproject.toml:2, run by .github/workflows/test.yml:6")],
        ),
        (
            job(
                "cargo +nightly nextest run --workspace",
                "cargo test --doc",
                "cargo test -p inner --features x",
                "cargo bench",
            ),
            [(".", "cargo test --workspace", ".github/workflows/test.yml:6")],
        ),
        (
            job("go test -v -race -bench . -coverprofile=c.out ./...", "go vet ./..."),
            [(".", "go test -race ./...", ".github/workflows/test.yml:6")],
        ),
        (
            {
                **job("cmake -B build -DX_TESTS=ON", "cd build && ctest -C Release"),
                "CMakeLists.txt": "",
                "Makefile": "test:\n\t./demo\n",
            },
            [("build", "ctest -C Release", ".github/workflows/test.yml:7")],
        ),
        (
            {
                **job("cd web && npm test", "pytest tests/unit", "pytest tests/unit/a", "pytest tests/whole"),
                "web/package.json": NODE,
            },
            [
                ("web", "npm run test", "web/package.json:4"),
                (".", "pytest tests/unit", ".github/workflows/test.yml:7"),
                (".", "pytest tests/whole", ".github/workflows/test.yml:9"),
            ],
        ),
        (
            {
                ".gitlab-ci.yml": "image: python\nunit:\n  script:\n    - pip install tox\n"
                "    - python -m unittest discover -s tests\n"
            },
            [(".", "python -m unittest discover -s tests", ".gitlab-ci.yml:5")],
        ),
        (
            job("./gradlew check -x test", "./mvnw -B verify -DskipTests", "mvn -B verify"),
            [(".", "mvn -B verify", ".github/workflows/test.yml:8")],
        ),
        (
            {
                **job(
                    "cmake -B ${{ github.workspace }}/build -D X=ON",
                    "ctest -C ${{ matrix.kind }}",
                    more=BUILD,
                ),
                "CMakeLists.txt": "",
                "Makefile": "test:\n\t./demo\n",
            },
            [("build", "ctest -C Debug", ".github/workflows/test.yml:12")],
        ),
        (
            {**job("yarn lint && yarn test --ci unit", "./test.sh"), "package.json": NODE},
            [
                (".", "yarn run test unit", "package.json:4"),
                (".", "./test.sh", ".github/workflows/test.yml:7"),
            ],
        ),
        (
            job(
                "uv run -m pytest -q", "coverage run --source x -m unittest", "hatch run test.py3.12:pytest a"
            ),
            [
                (".", "python -m pytest -q", ".github/workflows/test.yml:6"),
                (".", "python -m unittest", ".github/workflows/test.yml:7"),
            ],
        ),
        (
            job(
                "pip install pytest", "echo pytest", "npm install jest", "make", "pytest --maxfail 3 || true"
            ),
            [(".", "pytest --maxfail 3", ".github/workflows/test.yml:10")],
        ),
    ],
)
def test_ci_is_followed_to_the_runner(tmp_path, files, expected):
    assert lines(found_in(tmp_path, files)) == expected


def test_what_needs_something_that_is_not_here_is_named(tmp_path):
    package = '{"scripts": {"test": "jest", "test:e2e": "playwright test"}}'
    files = job(
        "npm test", "npm run test:e2e", "docker compose run app test", "pytest --key ${{ secrets.KEY }}"
    )
    found = found_in(tmp_path, {**files, "package.json": package})
    assert [" ".join(each.argv) for each in found.commands] == ["npm run test"]
    assert [each.why for each in found.not_run] == [
        "it drives a browser, and the jail has none",
        "it runs in a container, and the jail has no container engine",
        "CI gives it the secret KEY",
    ]
    assert all(each.cure for each in found.not_run)


@pytest.mark.parametrize(
    ("recipe", "counts"),
    [
        ("ruff check .\n\tstubtest x", False),
        ("@mypy src", False),
        ("-flake8", False),
        ("./run-everything", True),
        ("ruff check .\n\t./run-everything", True),
        ("$(CC) -o t t.c\n\t./t", True),
    ],
)
def test_a_target_of_linters_alone_is_no_test(tmp_path, recipe, counts):
    files = {**job("make check"), "Makefile": f"check:\n\t{recipe}\n", "test.c": ""}
    commands = [each.argv for each in found_in(tmp_path, files).commands]
    assert commands == ([("make", "check")] if counts else [])


SCRIPTS = '{"scripts": {"test": "node --test", "old": "node --test test", "cover": "node --test x"}}'


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("startsWith(matrix.node-version, '20')", True),
        ("${{ startsWith(matrix.node-version, '22') }}", False),
        ("${{ !startsWith(matrix.node-version, '22') }}", True),
        ("matrix.node-version == '20.x'", True),
        ("matrix.node-version != '20.x'", False),
        ("runner.os == 'Windows'", False),
        ("runner.os != 'Windows' && matrix.node-version == '22.x'", False),
        ("runner.os == 'Linux' || github.ref == 'x'", True),
        ("contains(matrix.node-version, '.x')", True),
        ("github.actor == 'x' && steps.a.outcome == 'y'", True),
        ("fromJSON(needs.a.outputs.b)", True),
        ("&& || !'", True),
        ("", True),
    ],
)
def test_a_step_that_does_not_run_in_a_combination_is_left_out(tmp_path, condition, kept):
    matrix = "    strategy: {matrix: {node-version: [20.x]}}\n"
    files = {**job("npm test", more=matrix), "package.json": SCRIPTS}
    name = next(iter(files))
    files[name] = files[name].replace("- run", f"- if: {json.dumps(condition)}\n        run")
    found = found_in(tmp_path, files).commands
    assert any(name in each.found for each in found) is kept


def test_of_what_a_version_decides_one_runs_and_the_others_are_variants(tmp_path):
    matrix = "    strategy: {matrix: {node-version: [20.x, 22.x]}}\n"
    files = {**job("npm run old", "npm test", "npm run cover", more=matrix), "package.json": SCRIPTS}
    name = next(iter(files))
    for call, sign in (("npm run old", ""), ("npm test", "!")):
        condition = json.dumps(f"{sign}startsWith(matrix.node-version, '20')")
        files[name] = files[name].replace(f"- run: {call}\n", f"- if: {condition}\n        run: {call}\n")
    commands = found_in(tmp_path, files).commands
    assert [each.argv for each in commands] == [("npm", "run", "old"), ("npm", "run", "cover")]
    assert [each.argv for each in commands[0].variants] == [("npm", "run", "test")]


def test_what_meson_sets_up_and_make_in_a_folder_run_as_ci_does(tmp_path):
    steps = ("meson setup ./b -Dx=1", "meson compile -C ./b", "meson test -C ./b")
    (found,) = found_in(tmp_path / "a", {**job(*steps), "meson.build": "test('a', b)\n"}).commands
    assert (found.argv, found.before) == (("meson", "test", "-C", "./b"), steps[:2])
    files = {
        **job("make -C sub check", "make -C sub dist-ci"),
        "sub/Makefile": "check:\n\t./t\ndist-ci:\n\t./d\n",
    }
    (found,) = found_in(tmp_path / "b", files).commands
    assert (found.argv, found.folder) == (("make", "check"), "sub")


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("session.chdir(inner)", ("pytest", "tests")),
        ("session.cd(f'{a}/b')", ("pytest", "tests")),
        ("session.chdir('tests')", ("pytest", "-x")),
        ("session.install(inner)", ("pytest", "-x")),
        ("session.chdir()", ("pytest", "-x")),
    ],
)
def test_a_session_that_leaves_the_project_does_not_test_it(tmp_path, line, argv):
    nox = f"import nox\n@nox.session\ndef a(session):\n    {line}\n    session.run('pytest', '-x')\n"
    nox += "@nox.session\ndef b(session):\n    session.run('pytest', 'tests')\n"
    files = {**job("nox"), "noxfile.py": nox, "pyproject.toml": "", "tests/test_a.py": ""}
    assert found_in(tmp_path, files).commands[0].argv == argv


TOXENV = """\
[tox]
envlist = min-a,py310,py311,full,docs,typing
[testenv]
deps =
    pytest
    min-a: attrs==20.1
extras =
    full: attrs,web
commands = pytest {posargs: shop tests}
[testenv:docs]
commands = sphinx-build docs out
[testenv:typing]
commands = mypy shop
"""
MATRIX = """\
    strategy:
      matrix:
        include:
          - {python-version: "3.9", env: {TOXENV: min-a}}
          - {python-version: "3.10", env: {TOXENV: py}}
          - {python-version: "3.11", env: {TOXENV: full}}
"""


@pytest.mark.parametrize(
    ("more", "called", "installs"),
    [
        (f"{MATRIX}    env: ${{{{ matrix.env }}}}\n", "tox", ("full",)),
        (MATRIX, "tox -e ${{ matrix.env.TOXENV }}", ("full",)),
        (f'{MATRIX}    env: {{TOXENV: "${{{{ matrix.env.TOXENV }}}}"}}\n', "python -m tox", ("full",)),
        ("    env: {TOXENV: py310}\n", "tox run", ("py310",)),
        ("", "TOXENV=py311 tox", ("py311",)),
        ("    env: {TOXENV: docs}\n", "tox", ()),
        ("    env: {TOXENV: py}\n", "pip install -U tox", ()),
    ],
    ids=["mapping", "option", "variable", "plain", "before", "no tests", "only installed"],
)
def test_the_environment_that_a_variable_names_is_that_of_tox(tmp_path, more, called, installs):
    found = found_in(tmp_path, {**job(called, more=more), "tox.ini": TOXENV})
    in_ci = [each for each in found.commands if "test.yml" in each.found]
    assert tuple(each.installs[-1].rpartition(" ")[2] for each in in_ci) == installs
    assert all("TOXENV" not in each.env for each in in_ci)


def test_what_another_job_has_built_is_not_looked_for(tmp_path):
    files = job("npm add ./package.tgz", "npm test")
    name, text = next(iter(files.items()))
    fetched = "    steps:\n      - uses: actions/download-artifact@v4\n"
    text = text.replace("    steps:\n", fetched).replace(
        "- run: npm test", "- {run: npm test, env: {DIST: '1'}}"
    )
    (command,) = found_in(tmp_path, {name: text, "package.json": NODE}).commands
    assert (command.argv, command.env, command.before) == (("npm", "run", "test"), {}, ())


@pytest.mark.parametrize(
    ("files", "called"),
    [
        (job("mypy --strict shop"), ("--strict", "shop")),
        (job("uv run mypy shop tests"), ("shop", "tests")),
        (job("python -m mypy shop"), ("shop",)),
        (
            {**job("scripts/check"), "scripts/check": "#!/bin/sh\nALL='shop tests'\nuv run mypy $ALL\n"},
            ("shop", "tests"),
        ),
        ({**job("make types"), "Makefile": "types:\n\tpoetry run mypy shop\n"}, ("shop",)),
        (
            {**job("tox"), "tox.ini": "[testenv:typing]\ncommands =\n    mypy {posargs: shop tests}\n"},
            ("shop", "tests"),
        ),
        (job("pip install mypy", "pytest"), None),
        (job("echo mypy"), None),
    ],
)
def test_what_ci_gives_a_checker_is_known(tmp_path, files, called):
    assert find_call(ProjectFiles(write_files(tmp_path, files)), "mypy") == called


@pytest.mark.parametrize(
    ("script", "argv"),
    [
        ('#!/bin/sh\nset -x\nuv run coverage run -m pytest "${@}"\ncoverage report\n', "python -m pytest"),
        ("#!/usr/bin/env bash\npytest tests $@\n", "pytest tests"),
        ('#!/bin/bash\nexport MODE=1\npython -m unittest -v "$@"\n', "python -m unittest -v"),
        ("#!/bin/bash\nfor each in a b; do pytest $each; done\n", "scripts/test"),
        ("#!/bin/bash\n./build && ./run\n", "scripts/test"),
        ("#!/usr/bin/env python3\nimport pytest\n", "scripts/test"),
        ("#!/bin/bash\npytest && bats test\n", "scripts/test"),
    ],
)
def test_a_plain_script_is_followed_to_its_runner(tmp_path, script, argv):
    (command,) = found_in(tmp_path, {**job("scripts/test"), "scripts/test": script}).commands
    assert " ".join(command.argv) == argv


@pytest.mark.parametrize(
    ("files", "argv"),
    [
        ({**job("test/run"), "test/run": "exec bats test"}, "test/run"),
        ({"test/a.bats": "", "src/configure": "", "src/Makefile.in": "all:\n"}, "bats test"),
        ({"tests/unit/a.bats": ""}, "bats --recursive tests"),
        ({"a.bats": ""}, "bats ."),
        ({"configure": "", "Makefile.in": "all:\ncheck: all\n"}, "make check"),
        ({**job("pnpm vitest --coverage"), "package.json": "{}"}, "npx --no-install vitest"),
        ({**job("istanbul cover _mocha"), "package.json": "{}"}, "npx --no-install _mocha"),
    ],
)
def test_scripts_and_runners_of_other_shapes_are_known(tmp_path, files, argv):
    (command,) = found_in(tmp_path, files).commands
    assert " ".join(command.argv) == argv


def test_an_input_of_an_action_that_is_a_command_is_one(tmp_path):
    steps = "- uses: someone/pytest-action@v1\n        with:\n          custom-pytest: pytest tests/unit"
    files = {**job("true"), "pyproject.toml": "", "tests/unit/test_a.py": ""}
    name = next(iter(files))
    files[name] = files[name].replace("- run: true", steps)
    assert [each.argv for each in found_in(tmp_path, files).commands] == [("pytest", "tests/unit")]


def test_what_is_built_before_is_known(tmp_path):
    package = '{"scripts": {"test": "mocha", "build": "tsc"}}'
    found = found_in(tmp_path, {**job("npm ci", "npm run build", "npm test"), "package.json": package})
    assert found.commands[0].before == ("npm run build",)
    assert found.commands[0].starts == ("mocha",)


def test_several_languages_without_ci(tmp_path):
    files = {
        "pytest.ini": "[pytest]\n",
        "package.json": NODE,
        "web/package.json": NODE,
        "core/Cargo.toml": "[package]\n",
    }
    assert lines(found_in(tmp_path, files)) == [
        (".", "python -m pytest", "pytest.ini:1"),
        (".", "npm run test", "package.json:4"),
        ("core", "cargo test", "core/Cargo.toml:1"),
    ]


WORKSPACE = '{"workspaces": ["packages/*"], "scripts": {"test": "%s"}}'
PACKAGES = {
    "packages/a/package.json": NODE,
    "packages/b/package.json": NODE.replace("jest", "node --test").replace('"x"', '"@x/b"'),
    "packages/c/package.json": "{}",
}


@pytest.mark.parametrize(
    ("step", "root", "expected"),
    [
        ("pnpm -r test", {"pnpm-workspace.yaml": "packages: ['packages/*']\n", "package.json": "{}"}, "ab"),
        (
            "npm test",
            {"package.json": WORKSPACE % "turbo run test"},
            "ab",
        ),
        ("npm test -w @x/b", {"package.json": '{"workspaces": ["./packages/*"]}'}, "b"),
        (
            "",
            {"package.json": WORKSPACE % "npm test --workspaces"},
            "ab",
        ),
    ],
)
def test_each_package_of_a_workspace_is_told_apart(tmp_path, step, root, expected):
    found = found_in(tmp_path, {**PACKAGES, **root, **(job(step) if step else {})})
    assert [each.folder for each in found.commands] == [f"packages/{name}" for name in expected]
    assert all(each.argv[1:] == ("run", "test") for each in found.commands)
    assert found.commands[0].found.startswith(f"packages/{expected[0]}/package.json:4 (scripts.test: ")


def test_a_command_that_is_stated_is_all_there_is(tmp_path):
    found = found_in(
        tmp_path, {**job("pytest tests"), ".mailroom.yaml": "test: npm test\n", "package.json": NODE}
    )
    assert found.commands == (
        TestCommand(runner="node", argv=("npm", "test"), found=".mailroom.yaml:1 (test)", starts=("jest",)),
    )


def test_the_paths_of_a_command_that_is_stated_are_known(tmp_path):
    stated = '[tool.mailroom]\ntest = "python -m pytest tests/unit/ tests/contracts -q"\n'
    [command] = found_in(tmp_path, {"pyproject.toml": stated}).commands
    assert command.names == {"tests/unit", "tests/contracts"}


def test_a_file_that_python_and_pytest_run_is_tested_once(tmp_path):
    ci = "on: push\njobs:\n  t:\n    steps:\n      - run: python {}\n      - run: python -m pytest {}\n"
    files = {"test.py": UNITTEST, "setup.py": "", ".github/workflows/ci.yml": ci.format("test.py", "test.py")}
    assert [argv for _, argv, _ in lines(found_in(tmp_path / "one", files))] == ["python -m pytest test.py"]
    files[".github/workflows/ci.yml"] = ci.format("test.py", "other.py")
    assert len(found_in(tmp_path / "two", files | {"other.py": UNITTEST}).commands) == 2


def ci(*steps: str, more: str = "") -> dict[str, str]:
    """A workflow whose one job has these steps."""
    rows = "".join(f"      - run: |\n          {step}\n" for step in steps)
    text = f"on: push\njobs:\n  test:\n    runs-on: ubuntu-latest\n{more}    steps:\n{rows}"
    return {".github/workflows/test.yml": text}


@pytest.mark.parametrize(
    ("step", "is_built"),
    [
        ("scripts/generate.sh", True),
        ("bash scripts/generate.sh", True),
        ("python scripts/make_tables.py --all", True),
        ("npm run build --if-present", True),
        ("make all", True),
        ("python setup.py build_ext --inplace", True),
        ("CFLAGS=-O0 cmake -DX=ON .", True),
        ("msgfmt -o a.mo a.po", True),
        ("./scripts/install-deps.sh", False),
        ("make install", False),
        ("sudo apt install gettext", False),
        ("scripts/not_there.sh", False),
        ("python scripts/lint.py", False),
        ("curl -sSL https://example.org | bash", False),
    ],
)
def test_a_step_that_makes_what_tests_need_comes_before_them(tmp_path, step, is_built):
    scripts = ("scripts/generate.sh", "scripts/make_tables.py", "scripts/install-deps.sh", "scripts/lint.py")
    files = {"setup.py": "", **dict.fromkeys(scripts, ""), **ci("pip install .", step, "pytest")}
    (command,) = found_in(tmp_path, files).commands
    assert bool(command.before) == is_built


def test_only_what_the_same_job_runs_on_linux_comes_before(tmp_path):
    more = "    strategy:\n      matrix:\n        python: ['3.11', '3.12']\n"
    files = {"setup.py": "", "gen.sh": "", **ci("./gen.sh ${{ matrix.python }}", "pytest", more=more)}
    commands = found_in(tmp_path, files).commands
    assert [command.before for command in commands] == [("./gen.sh 3.11",)]
    name = ".github/workflows/test.yml"
    elsewhere = "- if: runner.os == 'Windows'\n        run: |\n          ./gen"
    text = files[name].replace("- run: |\n          ./gen", elsewhere)
    assert found_in(tmp_path, {name: text}).commands[0].before == ()


@pytest.mark.parametrize(
    ("script", "flags"),
    [
        ("OPTIONS='-DA=ON -DB=OFF'\n          cmake .. $OPTIONS\n          make test", ("-DA=ON", "-DB=OFF")),
        ("export O=-DA=ON\n          cmake .. ${O}\n          ctest", ("-DA=ON",)),
        ("cmake .. -D A=ON $NOWHERE\n          ctest", ("-DA=ON",)),
        (
            'if [ "$X" = y ]; then\n            O="-DA=OFF"\n          else\n            O="-DA=ON"\n'
            "          fi\n          cmake $O .\n          ctest",
            ("-DA=ON",),
        ),
        ("cmake .. -DCMAKE_C_COMPILER=gcc -DA=1\n          ctest", ("-DA=1",)),
    ],
)
def test_the_options_that_ci_builds_with_are_known(tmp_path, script, flags):
    (command,) = found_in(tmp_path, {"CMakeLists.txt": "enable_testing()", **ci(script)}).commands
    assert command.before == flags


@pytest.mark.parametrize(
    ("tox", "argv"),
    [
        (
            "changedir = .tox\ncommands = coverage run -m pytest --doctest-modules {envsitepackagesdir}/pkg",
            "python -m pytest --doctest-modules pkg",
        ),
        ("changedir = {toxworkdir}\ncommands = pytest {envsitepackagesdir}/pkg", "pytest pkg"),
        ("change_dir = .tox/x\ncommands = pytest --pyargs pkg", "pytest --pyargs pkg"),
        ("commands = pytest {env_site_packages_dir}/pkg {posargs}", "pytest pkg"),
        ("commands = {envpython} -m pytest {toxinidir}/tests", "python -m pytest ./tests"),
    ],
)
@pytest.mark.parametrize("source", ["pkg/__init__.py", "src/pkg/__init__.py"])
def test_tox_tests_what_it_has_installed(tmp_path, tox, argv, source):
    files = {"tox.ini": f"[tox]\nenvlist=py3\n[testenv]\n{tox}\n", source: "", **ci("tox -e py312,report")}
    (command,) = found_in(tmp_path, files).commands
    place = "src/pkg" if source.startswith("src") and "site" in tox else "pkg"
    assert (" ".join(command.argv), command.folder) == (argv.replace(" pkg", f" {place}"), ".")


def test_the_options_of_hatch_are_not_those_of_pytest(tmp_path):
    call = "hatch test --python 3.12 --cover-quiet --randomize --parallel --retries 5 --retry-delay 3 tests"
    files = {"pyproject.toml": "[project]\n", "tests/test_a.py": "", **ci(call)}
    assert [" ".join(each.argv) for each in found_in(tmp_path, files).commands] == ["python -m pytest tests"]


@pytest.mark.parametrize(
    ("settings", "calls", "expected"),
    [
        ("addopts = \"-m 'not slow'\"", ("pytest", "pytest -m slow"), ["pytest", "pytest -m slow"]),
        ("addopts = ['-q', '-m', 'not slow']", ("pytest -m slow", "pytest"), ["pytest -m slow", "pytest"]),
        ('addopts = "-q"', ("pytest", "pytest -m slow"), ["pytest"]),
        ("", ("pytest", "pytest -m 'not slow'"), ["pytest"]),
        ('addopts = "-m fast"', ("pytest tests", "pytest"), ["pytest"]),
    ],
)
def test_marks_that_the_settings_leave_out_are_a_set_of_their_own(tmp_path, settings, calls, expected):
    files = {"pyproject.toml": f"[tool.pytest.ini_options]\n{settings}\n", **ci(*calls)}
    assert [" ".join(each.argv) for each in found_in(tmp_path, files).commands] == expected


@pytest.mark.parametrize(
    ("calls", "variants"),
    [
        (("pytest", "pytest --runslow"), ["pytest --runslow"]),
        (("pytest", "RUN_SLOW=1 pytest"), ["pytest"]),
        (("pytest", "pytest"), []),
        (("pytest", "pytest tests/unit"), []),
        (("pytest", "pytest $UNKNOWN"), []),
        (("pytest", *(f"pytest --x{n}" for n in range(9))), ["pytest --x0", "pytest --x1", "pytest --x2"]),
    ],
)
def test_other_ways_to_run_the_same_tests_are_kept(tmp_path, calls, variants):
    (command, *_) = found_in(tmp_path, {"setup.py": "", **ci(*calls)}).commands
    assert [" ".join(each.argv) for each in command.variants] == variants


def test_a_plain_command_in_the_place_of_what_ci_runs_is_told(tmp_path):
    files = {
        "setup.py": "",
        "tests/test_a.py": "def test_a(): pass\n",
        **ci("docker compose run app pytest tests"),
    }
    found = found_in(tmp_path, files)
    assert [" ".join(each.argv) for each in found.commands] == ["python -m pytest"]
    (note,) = found.notes
    assert "the jail has no container engine: `python -m pytest` ran, which may be fewer tests" in note
