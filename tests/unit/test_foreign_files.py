"""Files of strangers in whatever state: readers of a project go on, and what they could not read is named."""

import os
from pathlib import Path

import pytest

from services.critic.contracts import list_settings
from services.critic.drift import check_drift
from services.engineer.testing import name_unreadable
from services.scout.repository import read_repository
from shared.errors import ActionError
from shared.gate.registries import registry_reach
from shared.projects.javascript import replaces_modules
from shared.projects.preparation import _has_crates
from shared.projects.reading import ProjectFiles, project_files, read_project
from shared.projects.reading.discovery import Discovery
from shared.projects.reading.installs import read_installs
from shared.projects.reading.locks import read_locked
from shared.projects.reading.manifests import declared_packages
from shared.projects.reading.project_files import list_registries
from shared.projects.reading.python_manifest import is_requirement, read_python
from shared.projects.reading.test_environments import list_plugins
from shared.source import parse_ini, parse_json, parse_module, parse_toml, parse_yaml, read_tree

NAMES = """\
pyproject.toml setup.py setup.cfg tox.ini tox.toml noxfile.py requirements.txt requirements-dev.txt uv.lock
poetry.lock pdm.lock Pipfile Pipfile.lock pylock.toml pytest.ini .python-version runtime.txt .tool-versions
package.json package-lock.json pnpm-lock.yaml yarn.lock pnpm-workspace.yaml lerna.json .yarnrc.yml .npmrc
Cargo.toml Cargo.lock .cargo/config.toml go.mod go.sum go.work pom.xml build.gradle CMakeLists.txt
CMakePresets.json meson.build Makefile .github/workflows/ci.yml .gitlab-ci.yml .travis.yml
.circleci/config.yml .mailroom.yaml justfile Taskfile.yml composer.json README.md
ARCHITECTURE.md conftest.py tests/test_a.py .importlinter .golangci.yml compose.yaml uv.toml
""".split()
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{chr(ord(name) - 1)}'] * 9)}]\n" for name in "bcdefghij"
)
TYPES = """\
project = 5
dependency-groups = {test = [5, {include-group = "test"}, {include-group = 5}], dev = {a = 1}}
package = [5, "x", {name = 5, version = 5, source = 5}]
[tool]
uv = 5
mailroom = []
[tool.poetry]
name = 4
extras = []
[tool.poetry.dependencies]
python = 5
y = [5]
z = {version = 5, extras = 5, markers = 5, git = 5}
[tool.poetry.group]
test = 5
dev = {dependencies = 5}
[tool.hatch.envs]
default = 5
test = {dependencies = 5, scripts = 5, matrix = 5}
[tool.pytest]
ini_options = {addopts = 5, testpaths = 5}
[tool.tox]
legacy_tox_ini = 5
env_run_base = 5
"""
SCRIPTS = """{"scripts": {"test": 5, "pretest": []}, "workspaces": [5, null, "/etc/*", "[", "../**"],
"name": {}, "dependencies": [1], "devDependencies": "x", "engines": 3, "packageManager": [],
"bin": 5, "license": []}"""
WORKFLOW = """\
on: [push]
jobs:
  a: 5
  b: {steps: 5, strategy: {matrix: {include: [5, {a: [1]}], python: "${{ fromJSON(x) }}"}}}
  c: {steps: [5, null, {run: {a: b}}, {run: "pytest ${{", working-directory: [a], env: [1], if: 5}], env: 5}
"""
MAKEFILE = "test:\n\tpip install x 2>>$@.log 'unclosed\n\tpip install $(X) `a` >y <z -r -r\n\t@$(MAKE) test\n"
CONTENTS = {
    "binary": bytes(range(256)) * 40,
    "zeros": bytes(1000),
    "UTF-16": "[project]\nname = 'x'\n".encode("utf-16"),
    "Latin-1": b"name = '\xe9\xff'\n",
    "huge line": b"a" * 300_000,
    "lists in lists": b"a = " + b"[" * 3_000,
    "brackets": b"x = " + b"(" * 3_000,
    "signs": b"x = " + b"-" * 20_000 + b"1",
    "objects in objects": b'{"a":' * 3_000,
    "a number of 6,000 digits": b"a = " + b"9" * 6_000,
    "the same in JSON": b'{"a": ' + b"9" * 6_000 + b"}",
    "tags": b"a: !!bool foo\n",
    "a time": b"a: !!timestamp foo\n",
    "an object": b"a: !!python/object/apply:os.system ['x']\n",
    "mappings as keys": b"? {a: b}\n: d\n",
    "references that grow": BOMB.encode(),
    "references in a circle": b"a: &a [*a]\n",
    "a line that goes on without a start": b"[testenv]\ndeps\n  x\n",
    "sections in a circle": b"[testenv]\ndeps =\n  {[testenv]deps}\n  {[x]y}\n",
    "a list": b"[1, 2]",
    "other types": TYPES.encode(),
    "other types in JSON": SCRIPTS.encode(),
    "other types in a workflow": WORKFLOW.encode(),
    "shell": MAKEFILE.encode(),
    "a name that is none": b'[project]\nname = "a\\u0000b/../c"\ndependencies = ["\\u0000"]\n',
}


def write(root: Path, content: bytes) -> None:
    for name in NAMES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def read_all(root: Path) -> None:
    """Every reader of a project's files."""
    project = read_project(root)
    assert isinstance(project.parts, tuple)
    assert isinstance(project.locks, tuple)
    assert isinstance(project.scripts, dict)
    read_python(project.files)
    list_plugins(project.files)
    replaces_modules(root)
    _has_crates(project.files, ("Cargo.toml",))
    named = list_registries(project.files)
    for ecosystem in ("python", "javascript", "rust", "go", "java"):
        registry_reach(ecosystem, named)
    try:
        assert isinstance(project.tests, Discovery)
    except ActionError as error:
        assert "test" in str(error)
    assert read_repository(root).files
    tree = read_tree(root)
    read_locked(project.files, tree.files)
    check_drift(tree)
    declared_packages(project.files)
    list_settings(project.files)


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_no_content_ends_a_reader(tmp_path, content):
    write(tmp_path, content)
    read_all(tmp_path)


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_circle(path: Path) -> None:
    path.symlink_to(path.name)


def make_closed(path: Path) -> None:
    path.write_text("[a]")
    path.chmod(0)


@pytest.mark.parametrize("make", [Path.mkdir, make_pipe, make_device, make_circle, make_closed])
def test_nothing_in_the_place_of_a_file_ends_a_reader(tmp_path, make):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        make(tmp_path / name)
    (tmp_path / "plain.py").write_text("")
    read_all(tmp_path)
    if make is not make_closed or os.geteuid():
        assert "pyproject.toml" in dict(read_project(tmp_path).unreadable)


def test_what_cannot_be_read_is_named(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project\n")
    (tmp_path / "package.json").write_text("{")
    (tmp_path / "setup.cfg").write_bytes(b"[a]\0")
    (tmp_path / "Cargo.toml").write_text("[package]\nname = 'x'\n")
    (tmp_path / ".github" / "workflows").mkdir(parents=True)
    (tmp_path / ".github" / "workflows" / "ci.yml").write_text("a: !!bool foo\n")
    named = dict(read_project(tmp_path).unreadable)
    assert set(named) == {"pyproject.toml", "package.json", "setup.cfg", ".github/workflows/ci.yml"}
    assert "line 1" in named["pyproject.toml"]
    assert named["setup.cfg"] == "it is not text"
    notes = name_unreadable(ProjectFiles(tmp_path))
    assert sum("was left out, since it cannot be read: " in note for note in notes) == 4


@pytest.mark.parametrize("parse", [parse_ini, parse_json, parse_module, parse_toml, parse_yaml])
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_what_is_malformed_is_a_value_error_and_nothing_else(parse, content):
    try:
        parse(content.decode("utf-8", "replace"))
    except ValueError as error:
        assert str(error)


def test_references_that_grow_are_refused(tmp_path):
    (tmp_path / "a.yaml").write_text(BOMB)
    files = ProjectFiles(tmp_path)
    assert files.table("a.yaml") == {}
    assert "values" in files.explain("a.yaml")
    assert parse_yaml("a: &a {b: 1}\nc: *a\n") == {"a": {"b": 1}, "c": {"b": 1}}


def test_what_redirects_output_is_no_requirement(tmp_path):
    (tmp_path / "Makefile").write_text(
        "a:\n\tpip install six 'attrs>=2' -r r.txt 2>>$@.log; pip install late\n"
        "\tpip install one>two 2>&1 && pip install three\n"
    )
    (tmp_path / "r.txt").write_text("")
    needs = read_installs(ProjectFiles(tmp_path), ["make a"])
    assert (needs.requirements, needs.files) == (("six", "attrs>=2", "late", "one", "three"), ("r.txt",))
    (tmp_path / "tox.ini").write_text("[testenv]\ndeps =\n  six\n  2>>$@.log\n")
    plan = read_python(ProjectFiles(tmp_path))
    assert (plan.requirements, plan.unread) == (("six",), ("2>>$@.log",))
    assert not is_requirement("a >> b")
    assert is_requirement("a @ git+https://example.org/a ; python_version > '3'")


def test_a_link_is_followed_within_the_project_alone(tmp_path):
    project, elsewhere = tmp_path / "shop", tmp_path / "elsewhere.json"
    (project / "web").mkdir(parents=True)
    elsewhere.write_text('{"scripts": {"test": "ava"}}')
    (project / "shared.json").write_text('{"scripts": {"test": "jest"}}')
    (project / "package.json").symlink_to(elsewhere)
    (project / "web" / "package.json").symlink_to("../shared.json")
    files = ProjectFiles(project)
    assert files.table("package.json") == {}
    assert files.list_unreadable() == [("package.json", "it leads out of the project")]
    assert files.at("web").table("package.json", "scripts") == {"test": "jest"}


def test_a_file_is_read_once_and_not_beyond_its_bound(tmp_path):
    (tmp_path / "package.json").write_text('{"name": "a"}')
    (tmp_path / "Makefile").write_text("a" * 2_000_001)
    (tmp_path / "package-lock.json").write_text(f'{{"a": "{"a" * 2_000_001}"}}')
    files = ProjectFiles(tmp_path)
    assert files.table("package.json") == {"name": "a"}
    (tmp_path / "package.json").write_text('{"name": "b"}')
    assert files.table("package.json") == {"name": "a"}
    assert files.list_unreadable() == [("Makefile", "it is larger than 2,000,000 bytes")]
    assert files.table("package-lock.json")


def test_what_is_kept_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(project_files, "KEPT", 20)
    (tmp_path / "inner").mkdir()
    for name in ("a.json", "inner/b.json"):
        (tmp_path / name).write_text('{"name": "old"}')
    files = ProjectFiles(tmp_path)
    assert [files.table("a.json"), files.at("inner").table("b.json")] == [{"name": "old"}] * 2
    for name in ("a.json", "inner/b.json"):
        (tmp_path / name).write_text('{"name": "new"}')
    assert (files.table("a.json"), files.at("inner").table("b.json")) == ({"name": "old"}, {"name": "new"})


def test_the_parts_of_a_project(tmp_path):
    files = {
        "README.rst": "Shop\n====\n",
        "readme.md": "# Shop\n",
        "LICENSE": "MIT License\n",
        "package.json": '{"name": "shop", "license": "MIT", "scripts": {"test": "jest"}}',
        "yarn.lock": "",
        ".github/workflows/ci.yml": "on: push\njobs: {a: {steps: [{run: yarn test}]}}\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    project = read_project(tmp_path)
    assert project.docs == ("readme.md", "README.rst")
    assert [each.text for each in project.licence] == [
        "The licence is declared as MIT",
        "LICENSE has the name of the MIT licence, and not its text",
    ]
    assert project.manifests[0].name == "shop"
    assert (project.locks, project.scripts) == (("yarn.lock",), {"test": "jest"})
    assert [script.text for script in project.ci] == ["yarn test"]
    assert [command.argv for command in project.tests.commands] == [("yarn", "run", "test")]
