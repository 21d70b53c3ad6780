"""What a newcomer learns about a repository, each statement with its source."""

from pathlib import Path

import pytest
from identify.vendor.licenses import LICENSES

from services.scout.repository import format_reading, read_repository, sources_of
from services.scout.versions import read_support
from shared.contracts import RepositoryReading, Statement
from shared.projects.reading import read_project
from shared.projects.reading.licences import differs, match_texts
from shared.source import Limits
from tests.unit.test_source_tree import plant

README = """# Kettle

![badge](https://x/b.svg)

Kettle boils water over HTTP, and tells you when it is done.

It needs Python 3.9+ and patience.

## Install

```sh
pip install kettle
```

## Development

Run `make test` or see [the guide](docs/guide.md) and [more](docs/missing.md).
The heart is `kettle/boil.py`, not `kettle/gone.py`; `path/to/file.txt` is yours.

```
make test
make polish
```
"""

PYPROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "kettle"
version = "1.2.0"
description = "A kettle for the network."
license = "MIT"
requires-python = ">=3.11"
dependencies = ["click>=8", "httpx[http2]"]

[project.scripts]
kettle = "kettle.cli:main"

[tool.pytest.ini_options]
"""

PYTHON = {
    "README.md": README,
    "pyproject.toml": PYPROJECT,
    "LICENSE": "Apache License\nVersion 2.0",
    "Makefile": ".PHONY: test\n\ntest: ## Run the tests\n\tpytest -q\nlint:\n\truff check\n",
    "kettle/__init__.py": '"""Boils water.\n\nAt length."""\n\n__version__ = "1.1.0"\n',
    "kettle/boil.py": "def boil():\n    pass  # TODO: descale\n\n# FIXME(bob) leaks\nx = '# TODO'\n",
    "kettle/__main__.py": '"""Starts ``kettle``."""\n',
    "tests/test_boil.py": "def test_boil():\n    assert True\n",
    "docs/guide.md": "# Guide\n",
    "Dockerfile": 'FROM --platform=linux/amd64 python:3.13-slim AS base\nCMD ["kettle"]\n',
    "compose.yaml": "name: x\nservices:\n  web: {}\n  db: {}\n",
    ".github/workflows/test.yml": "on: push\njobs:\n  t:\n    steps:\n"
    "      - run: pip install -e .\n      - run: make test\n",
}


def said(statements: tuple[Statement, ...]) -> dict[str, str]:
    return {statement.text: statement.source for statement in statements}


@pytest.fixture
def kettle(tmp_path: Path) -> RepositoryReading:
    return read_repository(plant(tmp_path / "checkout", PYTHON))


def test_purpose(kettle: RepositoryReading) -> None:
    assert kettle.name == "kettle"
    assert said(kettle.purpose) == {
        "Kettle boils water over HTTP, and tells you when it is done.": "README.md:5",
        "It needs Python 3.9+ and patience.": "README.md:7",
        "A kettle for the network.": "pyproject.toml:8",
    }


def test_build(kettle: RepositoryReading) -> None:
    build = said(kettle.build)
    assert build["Install: `pip install kettle`"] == "README.md:12"
    assert build["Development: `make test`, `make polish`"] == "README.md:21"
    assert build["Needs Python >=3.11"] == "pyproject.toml:10"
    assert build["Built by hatchling.build: `pip install .`"] == "pyproject.toml:3"
    assert build["Depends on click and httpx"] == "pyproject.toml:11"
    assert build["`make test`: Run the tests"] == "Makefile:3"
    assert build['Has a container image on `python:3.13-slim`, which runs `["kettle"]`'] == "Dockerfile:1"
    assert build["`docker compose up` starts web and db"] == "compose.yaml:2"
    assert build["Continuous integration runs `make test`"] == ".github/workflows/test.yml:6"


def test_layout(kettle: RepositoryReading) -> None:
    layout = said(kettle.layout)
    assert layout["`kettle/` holds 3 files, mostly Python: Boils water."] == "kettle/__init__.py:1"
    assert layout["`tests/` holds 1 file, mostly Python: tests"] == "tests/"
    assert layout["`kettle/__main__.py` is an entry point: Starts `kettle`."] == "kettle/__main__.py:1"
    assert layout["Installs the command `kettle` (`kettle.cli:main`)"] == "pyproject.toml:14"
    assert kettle.languages == {"Markdown": 24, "Python": 13}
    assert kettle.files == 12


def test_questions(kettle: RepositoryReading) -> None:
    assert said(kettle.questions) == {
        "Which version is this? The files disagree: "
        "1.2.0 (pyproject.toml:7) and 1.1.0 (kettle/__init__.py:5)": "pyproject.toml:7",
        "Which licence holds? pyproject.toml:9 declares MIT, LICENSE is Apache-2.0": "pyproject.toml:9",
        "Which Python is needed? The README says Python 3.9+, pyproject.toml:10 says >=3.11": "README.md:7",
        "The README names `docs/missing.md`, which does not exist": "README.md:17",
        "The README names `kettle/gone.py`, which does not exist": "README.md:18",
        "The README says `make polish`, which the Makefile does not know": "README.md:22",
        "The authors left 1 TODO and 1 FIXME in the code: "
        "kettle/boil.py:2 (descale) and kettle/boil.py:4 ((bob) leaks)": "kettle/boil.py:2",
    }


def test_every_source_can_be_looked_up(kettle: RepositoryReading, tmp_path: Path) -> None:
    for source in sources_of(kettle):
        path, _, line = source.partition(":")
        place = tmp_path / "checkout" / path
        assert place.exists()
        if line:
            assert 1 <= int(line) <= len(place.read_text().split("\n"))


def test_a_healthy_repository_leaves_no_question(tmp_path: Path) -> None:
    files = {
        **PYTHON,
        "LICENSE": "MIT License",
        "README.md": "# K\n\nKettle boils water over HTTP for you.\n",
    }
    files["kettle/__init__.py"] = '__version__ = "1.2.0"\n'
    files["kettle/boil.py"] = ""
    assert read_repository(plant(tmp_path, files)).questions == ()


def test_a_javascript_project(tmp_path: Path) -> None:
    package = '{\n "name": "left",\n "version": "2.0.0",\n "description": "Pads on the left, always.",\n'
    package += ' "license": "ISC",\n "bin": {"left": "cli.js"},\n "engines": {"node": ">=20"},\n'
    package += ' "scripts": {\n  "bin": "x",\n  "test": "node --test"\n }\n}\n'
    files = {
        "package.json": package,
        "src/index.ts": "export {}\n",
        "src/a.test.ts": "\n",
        ".gitlab-ci.yml": "t:\n  script:\n    - npm test\n",
    }
    reading = read_repository(plant(tmp_path, files))
    build = said(reading.build)
    assert reading.name == "left"
    assert said(reading.purpose) == {"Pads on the left, always.": "package.json:4"}
    assert build["`npm run test`: `node --test`"] == "package.json:10"
    assert not [text for text in build if "npm run bin" in text]
    assert build["Needs Node.js >=20"] == "package.json:7"
    assert build["Continuous integration runs `npm test`"] == ".gitlab-ci.yml:3"
    assert said(reading.layout)["Installs the command `left`"] == "package.json:6"
    assert [question.text for question in reading.questions] == [
        "There is no README: what is this for, and how is it used?"
    ]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "Cargo.toml",
            '[package]\nname = "k"\nedition = "2024"\nrust-version = "1.85"\n',
            ("Rust edition 2024", ":3"),
        ),
        ("Cargo.toml", '[package]\nname = "k"\nrust-version = "1.85"\n', ("Needs Rust 1.85", ":3")),
        ("Cargo.toml", '[workspace]\nmembers = ["a", "b"]\n', ("A workspace of 2 members: a and b", ":2")),
        ("go.mod", "module example.org/k/v2\n\ngo 1.24\n", ("Needs Go 1.24", ":3")),
        (
            "composer.json",
            '{"name": "k/k", "scripts": {"test": "phpunit"}}',
            ("`composer test` is a script of the project", ":1"),
        ),
        (
            "setup.py",
            "from setuptools import setup\nsetup(name='k', python_requires='>=3.8')\n",
            ("Needs Python >=3.8", ":2"),
        ),
        (
            "setup.cfg",
            "[metadata]\nname = k\n[options]\npython_requires = >=3.8\n",
            ("Needs Python >=3.8", ":4"),
        ),
        ("CMakeLists.txt", "project(k)\n", ("Built by CMake: `cmake -B build && cmake --build build`", "")),
        ("Makefile", "all:\n\tcc k.c\nk.o: k.c\n\tcc\n", ("`make all` runs `cc k.c`", ":1")),
    ],
)
def test_other_kinds_of_projects(tmp_path: Path, name: str, text: str, expected: tuple[str, str]) -> None:
    build = said(read_repository(plant(tmp_path, {name: text})).build)
    assert build[expected[0]] == f"{name}{expected[1]}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[project\n"),
        ("package.json", "{"),
        ("package.json", "[]"),
        ("Cargo.toml", "x = \n"),
        ("setup.py", "setup(\n"),
        ("setup.cfg", "no section\n"),
    ],
)
def test_a_broken_manifest_is_a_question(tmp_path: Path, name: str, text: str) -> None:
    questions = read_repository(plant(tmp_path, {name: text})).questions
    assert any(
        question.text.startswith(f"{name} cannot be read: ") and question.source == name
        for question in questions
    )


@pytest.mark.parametrize(
    "text",
    [
        '[project]\nname = 5\nlicense = {file = "x"}\ndependencies = "x"\nscripts = []\n',
        "[tool]\nx = 1\n",
        "project = 1\ntool = 2\n",
    ],
)
def test_a_strange_manifest_does_not_break_the_reader(tmp_path: Path, text: str) -> None:
    assert read_repository(plant(tmp_path, {"pyproject.toml": text})).files == 1


def test_package_json_of_strange_types(tmp_path: Path) -> None:
    text = '{"name": 1, "description": "\\ud800 a\\u001b[31m", "scripts": {"a": 1}, "bin": 3, '
    text += '"engines": 1, "license": {"type": "MIT"}}'
    reading = read_repository(plant(tmp_path, {"package.json": text}))
    assert RepositoryReading.from_json(reading.to_json()) == reading
    assert "\x1b" not in format_reading(reading)


def test_an_empty_folder(tmp_path: Path) -> None:
    reading = read_repository(tmp_path)
    assert (reading.name, reading.files) == (tmp_path.name, 0)
    assert [question.text for question in reading.questions] == [
        "The folder holds no files that can be read: what is meant to be here?"
    ]


def test_binary_junk(tmp_path: Path) -> None:
    junk = bytes(range(256)) * 500
    names = (
        "README.md",
        "pyproject.toml",
        "package.json",
        "Makefile",
        "x.py",
        "Dockerfile",
        "a/__init__.py",
        ".gitignore",
    )
    reading = read_repository(plant(tmp_path, dict.fromkeys(names, junk)))
    assert RepositoryReading.from_json(reading.to_json()) == reading
    assert reading.purpose == ()


def test_latin_1_and_long_lines_travel(tmp_path: Path) -> None:
    files = {
        "README.md": b"# K\xf6ln\n\nThe caf\xe9 is open " + b"very " * 5_000 + b"late.\n",
        "a.py": "x = '" + "y" * 100_000 + "' # TODO\n",
    }
    reading = read_repository(plant(tmp_path, files))
    assert RepositoryReading.from_json(reading.to_json()) == reading
    assert len(reading.purpose[0].text) <= 400


def test_a_cut_reading_says_so(tmp_path: Path) -> None:
    plant(tmp_path, {f"f{number}.py": "" for number in range(30)})
    reading = read_repository(tmp_path, Limits(files=10))
    assert "The reading is not complete: only the first 10 files were read" in said(reading.questions)


def test_description_names_every_source(kettle: RepositoryReading) -> None:
    text = format_reading(kettle)
    assert text.startswith("kettle: Kettle boils water over HTTP")
    assert "(12 files; lines of Markdown 24, Python 13)" in text
    for statement in (*kettle.purpose, *kettle.build, *kettle.layout, *kettle.questions):
        assert f"- {statement.text} [{statement.source}]" in text


def text_of(name: str) -> str:
    return dict(LICENSES)[name]


TITLED = "\n".join(text_of("MIT").splitlines()[2:])
THIRD = "Neither the name of the copyright holder nor the names of its"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        *((text, (name,)) for name, text in LICENSES),
        (f"# Shop\n\nCopyright (c) 2020-2026, Ann and others.\n\n{TITLED}", ("MIT",)),
        (text_of("MIT").replace(". ", ".\n\n > ").upper(), ("MIT",)),
        (text_of("BSD-3-Clause").replace(THIRD, "Neither the name of Shop nor"), ("BSD-3-Clause",)),
        ("\n----\n".join(map(text_of, ("Apache-2.0", "MIT", "CC0-1.0"))), ("Apache-2.0", "CC0-1.0", "MIT")),
        (text_of("BSD-2-Clause") + text_of("WTFPL"), ("BSD-2-Clause", "WTFPL")),
        (text_of("Apache-2.0").partition("APPENDIX")[0], ("Apache-2.0",)),
        ("All rights reserved. You may look at it on Sundays.", ()),
        ("Permission is hereby granted, free of charge, to feed the ducks.", ()),
        ("", ()),
        ("license " * 100_000, ()),
    ],
)
def test_licences_are_known_by_their_texts(text, names):
    assert set(match_texts(text)) == set(names)


@pytest.mark.parametrize(
    ("declared", "holds", "is_other"),
    [
        ("MIT", ("Apache-2.0",), True),
        ("BSD", ("BSD-2-Clause",), False),
        ("BSD-3-Clause", ("MIT", "BSD-3-Clause"), False),
        ("MIT OR Apache-2.0", ("MIT",), False),
        ("GPL-3.0-or-later", ("GPL-3.0",), False),
        ("GPL-3.0-only", ("LGPL-3.0",), True),
        ("Apache License 2.0", ("Apache-2.0",), False),
        ("see LICENSE", ("MIT",), False),
        ("MIT", (), False),
    ],
)
def test_a_licence_is_another_only_where_one_is_known(declared, holds, is_other):
    assert differs(declared, holds) == is_other


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("LICENSE.BSD", text_of("BSD-2-Clause"), "has the text of the BSD-2-Clause licence"),
        ("COPYING", text_of("MIT") + text_of("Zlib"), "has the texts of the MIT and Zlib licences"),
        ("LICENCE", "MIT License\n", "has the name of the MIT licence, and not its text"),
        ("LICENSE.md", "SPDX-License-Identifier: EPL-2.0\n", "has the name of the EPL-2.0 licence, and not"),
        ("LICENSES/0BSD.txt", text_of("0BSD"), "has the text of the 0BSD licence"),
        ("license", "Ask me.\n", "has a text of its own"),
    ],
)
def test_each_licence_file_says_what_it_is(tmp_path, name, text, said):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert [each.text for each in read_project(tmp_path).licence] == [
        f"{name} {said}{' its text' * said.endswith(' and not')}"
    ]


def workflow(*versions: str, key: str = "python-version") -> dict[str, str]:
    matrix = "".join(f"          - {version!r}\n" for version in versions)
    text = f"on: push\njobs:\n  t:\n    strategy:\n      matrix:\n        {key}:\n{matrix}    steps: []\n"
    return {".github/workflows/test.yml": text}


NODE = {"package.json": '{"engines": {\n"node": ">=18"}}'}
POETRY = {"pyproject.toml": "[tool.poetry]\n[tool.poetry.dependencies]\npython = '^3.9'\n"}
BOUNDED = {"pyproject.toml": "[project]\nname = 'k'\nrequires-python = '>=3.9,<3.13'\n"}


@pytest.mark.parametrize(
    ("files", "wanted", "answer"),
    [
        (BOUNDED | workflow("3.9", "3.10"), "Python 3.9", "Yes: CI runs Python 3.9, and >=3.9"),
        (
            BOUNDED | workflow("3.10"),
            "python 3.11",
            "It is allowed, by >=3.9,<3.13 (pyproject.toml:3), and not",
        ),
        (BOUNDED | workflow("3.10"), "Python 3.8", "No: Python 3.8 is outside of what is declared, >=3.9"),
        (BOUNDED, "Python 3.13", "No: Python 3.13 is outside"),
        (
            BOUNDED,
            "Python",
            "Python >=3.9,<3.13 (pyproject.toml:3) is declared; no version is named in its CI.",
        ),
        (
            workflow("3.12", "3.9", "pypy3.10", "${{ x }}"),
            "Python",
            "No version of Python is declared; CI runs 3.9 and 3.12.",
        ),
        ({"README": ""}, "Python 3.9", "Not known: no version of Python is declared"),
        (
            {"package.json": '{"engines": {\n"node": ">=18"}}'},
            "Node 16",
            "No: Node 16 is outside of what is declared, >=18 (package.json:2)",
        ),
        ({"package.json": "{}"} | workflow("20", key="node"), "node.js 20", "Yes: CI runs Node 20."),
        ({"go.mod": "module k\n\ngo 1.22\n"}, "Go 1.21", "No: Go 1.21"),
        ({"go.mod": "module k\n\ngo 1.22\n"}, "golang 1.23", "It is allowed, by >=1.22 (go.mod:3)"),
        ({"Cargo.toml": '[package]\nrust-version = "1.70"\n'}, "Rust 1.80", "It is allowed"),
        (
            {"pyproject.toml": "[tool.poetry]\n[tool.poetry.dependencies]\npython = '^3.9'\n"},
            "Python 3.12",
            "It is allowed",
        ),
        (
            {"pyproject.toml": "[project]\nrequires-python = 'lots'\n"},
            "Python 3.12",
            "It is allowed, by lots",
        ),
    ],
)
def test_which_versions_are_supported(tmp_path, files, wanted, answer):
    assert read_support(read_project(plant(tmp_path, files)), wanted).answer.startswith(answer)
