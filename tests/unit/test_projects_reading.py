"""What is read of projects, before anything is installed."""

import json
import os
import time
from pathlib import Path

import pytest

from shared.contracts import Connection
from shared.projects import toolchains
from shared.projects.environments import Record, clean, keep_made, list_files, open_slot, restore_made
from shared.projects.javascript import fits_engines
from shared.projects.preparation import _has_crates
from shared.projects.python import find_version
from shared.projects.reading import ProjectFiles, read_project
from shared.projects.reading.locks import convert_version
from shared.projects.reading.node_scripts import choose_manager
from shared.projects.reading.project import find_projects
from shared.projects.reading.python_manifest import PythonPlan, read_python
from shared.projects.reading.test_environments import list_plugins
from shared.projects.steps import explain, list_refused
from shared.projects.toolchains import (
    Interpreter,
    choose_interpreter,
    find_interpreters,
    format_package,
    list_needs,
)
from shared.projects.virtual_environments import make_view
from shared.sandbox import CommandResult
from tests.support.registries import write_files

PACKAGE = (
    "[build-system]\nrequires = ['hatchling']\nbuild-backend = 'hatchling.build'\n[project]\nname = 'shop'\n"
)


def read(folder: Path, **files: str) -> PythonPlan:
    return read_python(
        ProjectFiles(write_files(folder, {name.replace("__", "."): text for name, text in files.items()}))
    )


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ({"pyproject.toml": "[project]\nname = 'a'\n"}, [(".", "python")]),
        ({"pyproject.toml": "[tool.ruff]\n"}, []),
        (
            {"package.json": '{"scripts": {"test": "node --test"}}', "Makefile": "test:\n"},
            [(".", "javascript")],
        ),
        ({"Makefile": "test:\n\ttrue\n"}, [(".", "make")]),
        ({"Makefile": "test:\n", "src/a.c": ""}, [(".", "c")]),
        ({"Cargo.toml": "[package]\n", "sub/Cargo.toml": "[package]\n"}, [(".", "rust")]),
        (
            {"package.json": '{"workspaces": ["*"]}', "a/package.json": '{"scripts": {}}'},
            [(".", "javascript")],
        ),
        (
            {"package.json": '{"scripts": {}}', "a/package.json": '{"scripts": {}}', "a/yarn.lock": ""},
            [(".", "javascript"), ("a", "javascript")],
        ),
        ({"go.mod": "module a\n", "b/go.mod": "module b\n"}, [(".", "go"), ("b", "go")]),
        ({"setup.py": "", "sub/setup.py": ""}, [(".", "python")]),
        (
            {"package.json": '{"scripts": {}}', "client/package.json": '{"dependencies": {}}'},
            [(".", "javascript"), ("client", "javascript")],
        ),
        ({"examples/package.json": '{"scripts": {}}', "node_modules/a/package.json": '{"scripts": {}}'}, []),
        (
            {"api/go.mod": "module a\n", "web/package.json": '{"scripts": {}}'},
            [("api", "go"), ("web", "javascript")],
        ),
        ({"Gemfile": "", "tests/test_a.py": ""}, [(".", "python"), (".", "ruby")]),
    ],
)
def test_projects_are_found(tmp_path: Path, files: dict[str, str], found: list[tuple[str, str]]) -> None:
    write_files(tmp_path, files)
    assert [(project.folder, project.kind) for project in find_projects(ProjectFiles(tmp_path))] == found


def test_groups_for_tests_win_over_development(tmp_path: Path) -> None:
    extras = "[project.optional-dependencies]\nTesting = []\n"
    groups = "[dependency-groups]\ntests = ['pytest']\ndev = ['ruff']\n"
    plan = read(tmp_path, pyproject__toml=PACKAGE + groups + extras)
    assert (plan.groups, plan.extras) == (("tests",), ("Testing",))


def test_development_is_taken_if_nothing_is_for_tests(tmp_path: Path) -> None:
    plan = read(
        tmp_path, pyproject__toml=PACKAGE + "[dependency-groups]\ndev = ['pytest']\ndocs = ['sphinx']\n"
    )
    assert plan.groups == ("dev",)


def test_tox_says_what_tests_need(tmp_path: Path) -> None:
    tox = """
[base]
deps =
    pytest>=8  # the runner
    coverage
[testenv]
extras = fast, unknown
dependency_groups =
    tests: tests
    mypy: typing
deps =
    {[base]deps}
    -r{toxinidir}/needs.txt
    django42: Django~=4.2
"""
    manifest = (
        PACKAGE + "[project.optional-dependencies]\nfast = []\n[dependency-groups]\ntests = []\ntyping = []\n"
    )
    plan = read(tmp_path, pyproject__toml=manifest, tox__ini=tox, needs__txt="attrs\n")
    assert plan.requirements == ("pytest>=8", "coverage")
    assert (plan.extras, plan.groups, plan.files) == (("fast",), ("tests",), ("needs.txt",))


def test_nox_session_says_what_tests_need(tmp_path: Path) -> None:
    nox = (
        "@nox.session\ndef tests(session):\n session.install('-r', 'needs.txt', 'pytest', '-e', '.[fast]')\n"
    )
    manifest = PACKAGE + "[project.optional-dependencies]\nfast = []\n"
    plan = read(tmp_path, pyproject__toml=manifest, noxfile__py=nox, needs__txt="")
    assert (plan.requirements, plan.extras, plan.files) == (("pytest",), ("fast",), ("needs.txt",))


def test_ci_says_what_tests_need_if_nothing_else_does(tmp_path: Path) -> None:
    workflow = """
jobs:
  test:
    steps:
      - run: python -m pip install --upgrade pip setuptools
      - run: |
          pip install . pytest "responses>=0.2"  # the rest
          python -m pip install -r more.txt flake8 && pytest
"""
    workflow = f"on: push\n{workflow}"
    write_files(tmp_path, {".github/workflows/tests.yml": workflow, "more.txt": "", "setup.py": ""})
    (command,) = read_project(tmp_path).tests.commands
    plan = read_python(ProjectFiles(tmp_path), command.installs)
    assert (plan.requirements, plan.files) == (("pytest", "responses>=0.2"), ("more.txt",))


def test_requirement_files_of_a_project_that_is_no_package(tmp_path: Path) -> None:
    names = {"requirements__txt": "flask\n", "requirements-dev__txt": "pytest\n"}
    plan = read(tmp_path, **names)
    assert (plan.is_package, plan.files) == (False, ("requirements.txt", "requirements-dev.txt"))


def test_setup_py_is_read_without_running_it(tmp_path: Path) -> None:
    setup = """
from setuptools import setup
raise SystemExit("must not run")
TESTS = ["pytest", "mock"]
setup(name="shop", python_requires=">=3.8", tests_require=TESTS, extras_require={"test": TESTS, "docs": []})
"""
    plan = read(tmp_path, setup__py=setup)
    assert (plan.name, plan.requires_python, plan.extras) == ("shop", ">=3.8", ("test",))
    assert plan.requirements == ("pytest", "mock")


def test_poetry_lock_bounds_versions(tmp_path: Path) -> None:
    manifest = """
[build-system]
build-backend = "poetry.core.masonry.api"
[tool.poetry]
name = "shop"
[tool.poetry.dependencies]
python = "^3.9"
attrs = "^23.1"
[tool.poetry.group.test.dependencies]
pytest = "^8.1"
extra = {version = "~1.2", extras = ["a"], python = "<3.12"}
[tool.poetry.group.docs.dependencies]
sphinx = "*"
"""
    lock = """
[[package]]
name = "pytest"
version = "8.1.1"
[[package]]
name = "two"
version = "1"
[[package]]
name = "two"
version = "2"
"""
    plan = read(tmp_path, pyproject__toml=manifest, poetry__lock=lock)
    assert (plan.lock, plan.requires_python) == ("poetry.lock", ">=3.9,<4")
    assert plan.requirements == ("pytest>=8.1,<9", "extra[a]>=1.2,<1.3 ; (python_version < '3.12')")
    assert plan.constraints == ("pytest==8.1.1",)


def test_pipfile_lock_is_a_list_of_requirements(tmp_path: Path) -> None:
    lock = {
        "_meta": {"requires": {"python_version": "3.11"}},
        "default": {"flask": {"version": "==3.0", "markers": "python_version >= '3.8'"}},
        "develop": {"pytest": {"version": "==8.0"}, "own": {"path": "."}},
    }
    plan = read(tmp_path, Pipfile__lock=json.dumps(lock), Pipfile="")
    assert plan.requirements == ("flask==3.0 ; python_version >= '3.8'", "pytest==8.0")
    assert plan.requires_python == "==3.11.*"


@pytest.mark.parametrize(
    ("poetry", "standard"),
    [
        ("^1.2.3", ">=1.2.3,<2"),
        ("^0.2.3", ">=0.2.3,<0.3"),
        ("^0.0.3", ">=0.0.3,<0.0.4"),
        ("~1.2", ">=1.2,<1.3"),
        ("~1", ">=1,<2"),
        ("1.2", "==1.2"),
        ("1.*", "==1.*"),
        ("*", ""),
        (">=1,<3 , !=2", ">=1,<3,!=2"),
        (">=2.7 || ^3.8", ">=2.7"),
    ],
)
def test_versions_of_poetry(poetry: str, standard: str) -> None:
    assert convert_version(poetry) == standard


def test_malformed_manifests_are_empty(tmp_path: Path) -> None:
    bad = {
        "pyproject__toml": "[project\n",
        "setup__py": "def",
        "setup__cfg": "[",
        "tox__ini": "x",
        "Pipfile": "[",
    }
    plan = read(tmp_path, **bad, poetry__lock="{", noxfile__py="(")
    assert plan.requirements == ()


def test_plugins_that_settings_presuppose(tmp_path: Path) -> None:
    settings = (
        "[pytest]\naddopts = -ra --cov=shop -n auto\nasyncio_mode = auto\nrequired_plugins = pytest-mock>=3\n"
    )
    write_files(tmp_path, {"pytest.ini": settings})
    assert list_plugins(ProjectFiles(tmp_path)) == (
        "pytest-cov",
        "pytest-xdist",
        "pytest-asyncio",
        "pytest-mock",
    )


def test_interpreters_are_no_virtual_environments() -> None:
    found = find_interpreters()
    assert found
    assert not [each for each in found if (each.prefix / "pyvenv.cfg").exists()]
    assert len({each.path for each in found}) == len(found)


@pytest.mark.parametrize(
    ("requires", "wanted", "chosen"),
    [
        (">=3.8", "", "3.11"),
        (">=3.12", "", "3.13"),
        ("<3.10", "", "3.9"),
        ("", "3.9.1", "3.9"),
        (">=3.8", "3.10", "3.11"),
        (">=3.11.5", "", "3.11"),
        ("nonsense", "", "3.11"),
    ],
)
def test_interpreter_is_chosen(
    monkeypatch: pytest.MonkeyPatch, requires: str, wanted: str, chosen: str
) -> None:
    known = [
        Interpreter(path=Path(f"/p/{minor}/bin/python"), version=(3, minor)) for minor in (11, 13, 12, 9)
    ]
    monkeypatch.setattr(toolchains, "find_interpreters", lambda: tuple(known))
    interpreter, remark = choose_interpreter(requires, wanted)
    assert ".".join(map(str, interpreter.version)) == chosen
    assert bool(remark) == (wanted == "3.10")


@pytest.mark.parametrize(
    ("files", "name", "version"),
    [
        ({}, "npm", ""),
        ({"package-lock.json": "{}"}, "npm", ""),
        ({"pnpm-lock.yaml": "lockfileVersion: '6.0'\n"}, "pnpm", "8.15.9"),
        ({"yarn.lock": "# yarn lockfile v1\n"}, "yarn", "1.22.22"),
        ({"yarn.lock": "__metadata:\n  version: 8\n"}, "yarn", "4.9.4"),
        ({"bun.lock": ""}, "bun", ""),
    ],
)
def test_manager_of_a_lock(tmp_path: Path, files: dict[str, str], name: str, version: str) -> None:
    manager = choose_manager(ProjectFiles(write_files(tmp_path, {"package.json": "{}", **files})))
    assert (manager.name, manager.version) == (name, version)


def test_named_manager_wins_over_the_lock(tmp_path: Path) -> None:
    write_files(tmp_path, {"package-lock.json": "{}", "pnpm-lock.yaml": "lockfileVersion: '9.0'\n"})
    files = {"package.json": '{"packageManager": "pnpm@9.1.0+sha512.abc"}'}
    manager = choose_manager(ProjectFiles(write_files(tmp_path, files)))
    assert (manager.name, manager.version, manager.lock) == ("pnpm", "9.1.0", "pnpm-lock.yaml")
    files = {"package.json": '{"packageManager": "pnpm@https://example.org/x.tgz"}'}
    odd = choose_manager(ProjectFiles(write_files(tmp_path, files)))
    assert odd.version == "9.15.9"


@pytest.mark.parametrize(
    ("wanted", "fits"),
    [
        (">=22", False),
        (">=18", True),
        ("^20.1", True),
        ("18 || 20", True),
        ("18.x || 22.x", False),
        (">= 18 <20", False),
        ("~20.20.0", True),
        ("20.0 - 21", True),
        ("<=20", True),
        ("*", True),
        ("lts", True),
    ],
)
def test_engines(wanted: str, fits: bool) -> None:
    assert fits_engines("20.20.2", wanted) is fits


@pytest.mark.parametrize(
    ("manifest", "lock", "needed"),
    [
        ("[package]\nname='a'\n", "", False),
        ("[package]\n[dependencies]\nserde = '1'\n", "", True),
        ("[package]\n[dependencies]\nown = { path = 'own' }\n", "", False),
        ("[workspace]\n[workspace.dependencies]\nserde = '1'\n", "", True),
        ("[package]\n[target.'cfg(unix)'.dependencies]\nlibc = '1'\n", "", True),
        ("[package]\n", "[[package]]\nname='a'\n", False),
        ("[package]\n", "[[package]]\nname='b'\nsource='registry+x'\n", True),
    ],
)
def test_whether_crates_are_fetched(tmp_path: Path, manifest: str, lock: str, needed: bool) -> None:
    write_files(tmp_path, {"Cargo.toml": manifest, **({"Cargo.lock": lock} if lock else {})})
    assert _has_crates(ProjectFiles(tmp_path), ("Cargo.toml",)) is needed


def test_tools_of_c(tmp_path: Path) -> None:
    write_files(tmp_path, {"CMakeLists.txt": "", "CMakePresets.json": '{"generator": "Ninja"}'})
    assert list_needs("c", tmp_path) == ("cmake", "cc", "ninja")
    assert format_package("ninja") == "Install ninja (apt install ninja-build or brew install ninja)"


def test_latest_version_among_tags(tmp_path: Path) -> None:
    write_files(
        tmp_path,
        {
            ".git/packed-refs": "abc1 refs/tags/v1.9.0\nabc2 refs/tags/shop-1.10.0\nabc refs/heads/2.0\n",
            ".git/refs/tags/2.0.0rc1": "abc\n",
            ".git/refs/tags/nightly": "abc\n",
        },
    )
    assert find_version(tmp_path) == "1.10.0"
    assert find_version(tmp_path / "nowhere") == "0.0.0"


def result(output: str, *connections: Connection) -> CommandResult:
    return CommandResult(argv=("x",), exit_code=1, output=output, seconds=1.0, connections=connections)


@pytest.mark.parametrize(
    ("output", "cause", "cure"),
    [
        ("sh: 1: xo: not found\n", "x failed: it needs xo, which is not installed", "Install xo, and have"),
        ("error: command 'gcc' failed: No such file", "it needs gcc", "apt install build-essential"),
        (
            "a.c:1:10: fatal error: ffi.h: No such file",
            "the C header ffi.h is missing",
            "apt install libffi-dev",
        ),
        ("npm error code E404\nnpm error 404 Not Found - GET x\n", "404 Not Found - GET x", "The log"),
        (
            "  × No solution found\n  ╰─▶ Because a was not\n      found and b.\n",
            "Because a was not found and b",
            "log",
        ),
        ("", "exit code 1", "log"),
    ],
)
def test_failures_are_explained(output: str, cause: str, cure: str) -> None:
    found = explain("x", result(output))
    assert cause in found[0]
    assert cure in found[1]


def test_refused_hosts() -> None:
    good = Connection(host="pypi.org", port=443, allowed=True, received=10)
    bad = Connection(
        host="example.org", port=443, allowed=False, why="example.org:443 is not among the hosts"
    )
    assert list_refused([good, bad, bad]) == ("example.org",)
    cause, cure = explain("x", result("Failed to fetch: https://example.org/a", good, bad), ["example.org"])
    assert "example.org could not be reached" in cause
    assert 'allow it if you trust it: reach = ["example.org"] in mailroom.toml' in cure


def test_made_files_are_kept_and_restored(tmp_path: Path) -> None:
    first = write_files(tmp_path / "first", {"package.json": "{}", "src/a.py": "1\n"})
    before = list_files(first)
    write_files(first, {"node_modules/a/index.js": "1\n", "src/built.so": "x", "src/__pycache__/a.pyc": ""})
    (first / "node_modules/link").symlink_to("a")
    mark = keep_made(first, before, tmp_path / "kept")
    second = write_files(tmp_path / "second", {"package.json": "{}", "src/built.so": "own"})
    outside = write_files(tmp_path / "outside", {"file": ""})
    (second / "node_modules").symlink_to(outside)
    assert restore_made(tmp_path / "kept", second, mark)
    assert (second / "node_modules/link/index.js").read_text() == "1\n"
    assert (second / "src/built.so").read_text() == "own"
    assert [path.name for path in outside.iterdir()] == ["file"]
    assert not (second / "src/__pycache__").exists()
    (second / "node_modules/a/index.js").write_text("22\n")
    assert not restore_made(tmp_path / "kept", tmp_path / "third", mark)


def test_view_names_the_new_folder(tmp_path: Path) -> None:
    kept, old, new = tmp_path / "kept", tmp_path / "old copy", tmp_path / "new copy"
    packages = "lib/python3.11/site-packages"
    info = f"{packages}/shop-1.dist-info"
    secret = write_files(tmp_path / "outside", {"secret": f"{old} secret\n"}) / "secret"
    write_files(
        kept,
        {
            "pyvenv.cfg": "home = /usr/bin\n",
            "bin/shop": f"#!{kept}/bin/python\n",
            f"{packages}/_shop.pth": f"{old}/src\n",
            f"{packages}/other/__init__.py": f"# {old}\n",
            f"{info}/direct_url.json": json.dumps({"url": f"file://{str(old).replace(' ', '%20')}"}),
        },
    )
    (kept / packages / "trap.pth").symlink_to(secret)
    make_view(kept, tmp_path / "view", old, new)
    view = tmp_path / "view"
    assert (view / "bin/shop").read_text() == f"#!{view}/bin/python\n"
    assert (view / packages / "_shop.pth").read_text() == f"{new}/src\n"
    assert "new%20copy" in (view / info / "direct_url.json").read_text()
    assert (view / packages / "other").readlink() == kept / packages / "other"
    assert (view / packages / "trap.pth").is_symlink()


def test_least_recently_used_environments_are_removed(tmp_path: Path) -> None:
    slots = [open_slot(tmp_path, Path("/project"), ".", [str(number)]) for number in range(3)]
    long_ago = time.time() - 100_000
    for number, slot in enumerate(slots):
        slot.begin()
        (slot.folder / "file").write_bytes(b"x" * 1_000)
        slot.complete(Record(root="/x", size=1_000))
        os.utime(slot.mark, (long_ago + number, long_ago + number))
    assert slots[0].read()  # which counts as its use
    clean(tmp_path, 2_500)
    assert [slot.folder.exists() for slot in slots] == [True, False, True]
    clean(tmp_path, 0)
    assert [slot.folder.exists() for slot in slots] == [True, False, False]


MANY = """
[project]
name = "shop"
[project.optional-dependencies]
fast = ["orjson"]
web = ["httpx"]
[dependency-groups]
dev = ["pytest"]
docs = ["sphinx"]
[tool.poetry.group.extra]
optional = true
[tool.poetry.group.extra.dependencies]
faker = "*"
[tool.poetry.group.dev.dependencies]
pytest-mock = "*"
"""


PIXI = """
[dependencies]
python = ">=3.9"
polars = ">=0.14"
[feature.test.dependencies]
pytest = "*"
[feature.test.tasks]
test = "pytest"
[feature.old]
dependencies = { polars = "0.14.*", numpy = { version = ">=2,<3", build = "py*" } }
[feature.old.pypi-dependencies]
many = { path = ".", editable = true, extras = ["web"] }
other = { git = "https://example.org/other" }
[environments]
default = ["test"]
old = { features = ["old"], solve-group = "x" }
"""


@pytest.mark.parametrize(
    ("environments", "command", "extras", "requirements"),
    [
        ("py{39,310}-{crypto,plain}", "pytest", ("fast",), ("six",)),
        (
            "lint, py310-plain\n    py311-crypto",
            "{envpython} -b -m coverage run -m pytest",
            ("fast",),
            ("six",),
        ),
        ("py{39,310}-django{42,50},py311-djangomain", "pytest", (), ("Django~=5.0",)),
        ("py39-plain, pypy3-django42", "python -m unittest", (), ()),
        ("crypto-docs", "sphinx-build", (), ()),
        ("py{", "pytest", (), ()),
    ],
)
def test_of_the_environments_of_tox_the_fullest_is_installed(
    tmp_path, environments, command, extras, requirements
):
    tox = f"""[tox]
envlist = {environments}
[testenv]
extras =
    crypto: fast
deps =
    crypto: six
    django42: Django~=4.2
    django50: Django~=5.0
    djangomain: https://example.org/django.tgz
commands = {command} {{posargs}}
[testenv:lint]
commands = ruff check
"""
    plan = read(tmp_path, pyproject__toml=MANY, tox__ini=tox)
    assert plan.extras == extras
    assert tuple(line for line in plan.requirements if line != "pytest-mock") == requirements


@pytest.mark.parametrize(
    ("install", "extras", "groups", "requirements"),
    [
        ("uv sync --all-extras", ("fast", "web"), ("dev",), ()),
        ("uv sync --extra web --no-dev", ("web",), (), ()),
        ("uv run --all-extras --group docs pytest", ("fast", "web"), ("dev", "docs"), ()),
        ("uv run --with httpx2 --with 'attrs>=2' pytest", (), ("dev",), ("httpx2", "attrs>=2")),
        ("pip install -e .[fast,web] pytest-xdist", ("fast", "web"), (), ("pytest-xdist",)),
        ("python -m pip install --group docs .", (), ("docs",), ()),
        ("poetry install --all-extras --with extra", ("fast", "web"), ("dev",), ("faker", "pytest-mock")),
        ("poetry install -E fast", ("fast",), ("dev",), ("pytest-mock",)),
        ("pdm install -G fast", ("fast",), ("dev", "docs"), ()),
        ("uvx --with tox-uv tox -e py", ("web",), (), ("six",)),
        ("pipx run nox -s checks", (), (), ("mock",)),
        ("make ready", ("fast",), (), ("coverage",)),
        ("sh ci/setup.sh", (), (), ("trustme",)),
        ("pixi run -e old test", ("web",), (), ("polars==0.14.*", "pytest", "numpy>=2,<3")),
        ("pixi run test", (), (), ("polars>=0.14", "pytest")),
    ],
)
def test_it_is_installed_as_ci_does(tmp_path, install, extras, groups, requirements):
    files = {
        "pyproject.toml": MANY,
        "tox.ini": "[testenv]\nextras = web\ndeps = six\n",
        "noxfile.py": "import nox\n@nox.session\ndef checks(session):\n    session.install('mock')\n",
        "Makefile": "ready:\n\t@pip install -e .[fast] coverage\n",
        "ci/setup.sh": "set -e\npip install trustme\n",
        "pixi.toml": PIXI,
    }
    write_files(tmp_path, files)
    plan = read_python(ProjectFiles(tmp_path), [install, "pytest"])
    assert set(plan.extras) == set(extras)
    assert set(plan.groups) == set(groups)
    assert set(requirements) <= set(plan.requirements)
    # What CI installs may not be had here: the tests go without it.
    assert plan.narrow().extras == ()


def test_what_ci_calls_says_nothing_of_hostile_lines(tmp_path):
    write_files(tmp_path, {"pyproject.toml": MANY})
    for line in (
        "uv sync --extra",
        "pip install",
        "pip",
        "tox -e",
        "uv run --group=",
        "poetry install --with ,",
    ):
        assert read_python(ProjectFiles(tmp_path), [line]).extras == ()
