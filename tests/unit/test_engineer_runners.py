"""How a project is tested, read off its files."""

from pathlib import Path

import pytest

from services.engineer import runners
from services.engineer.runners import find_tests
from shared.errors import ActionError

NODE = '{\n  "name": "x",\n  "scripts": {\n    "test": "jest"\n  }\n}\n'
UNITTEST = "import unittest\n\n\nclass T(unittest.TestCase):\n    pass\n"


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
            "python -m pytest -k fast",
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
            {"pyproject.toml": "[build-system]\n\n[tool.pytest.ini_options]\n", "package.json": NODE},
            "python -m pytest",
            "pyproject.toml:3 (settings of pytest)",
        ),
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
            "python -m unittest discover -v -s tests",
            "tests/test_a.py:1 (imports unittest)",
        ),
        (
            {"setup.py": "", "tests/__init__.py": "", "tests/test_a.py": UNITTEST},
            "python -m unittest discover -v",
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
            "cargo test --no-fail-fast",
            "Cargo.toml:1 (a Rust package)",
        ),
        ({"go.mod": "// x\nmodule example.org/x\n"}, "go test -v ./...", "go.mod:2 (a Go module)"),
        ({"Makefile": "test := no\nall:\n\ncheck: all\n"}, "make check", "Makefile:4 (the target check)"),
        (
            {"CMakeLists.txt": "project(x)\nenable_testing()\n"},
            "sh -c|cmake -S . -B build-test && cmake --build build-test && "
            "ctest --test-dir build-test --output-on-failure",
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
    command = find_tests(lay_out(tmp_path, files))
    assert command is not None
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
    command = find_tests(lay_out(tmp_path, files))
    assert command is not None
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
        {"node_modules/x/package.json": NODE},
    ],
)
def test_finds_nothing_where_there_is_nothing(tmp_path, files):
    assert find_tests(lay_out(tmp_path, files)) is None


@pytest.mark.parametrize("hint", ["5", "''", "[]", "[1, 2]", "{a: b}", '"it\'s"'])
def test_a_statement_that_makes_no_sense_is_told_with_its_place(tmp_path, hint):
    lay_out(tmp_path, {".mailroom.yaml": f"test: {hint}\n"})
    with pytest.raises(ActionError, match=r"\.mailroom\.yaml:1: "):
        find_tests(tmp_path)


def test_the_lock_file_tells_the_package_manager(tmp_path, monkeypatch):
    lay_out(tmp_path, {"package.json": NODE, "pnpm-lock.yaml": ""})
    monkeypatch.setattr(runners.shutil, "which", lambda name: f"/usr/bin/{name}")
    command = find_tests(tmp_path)
    assert command is not None
    assert command.argv == ("pnpm", "run", "test")
    monkeypatch.setattr(runners.shutil, "which", lambda name: None)
    command = find_tests(tmp_path)
    assert command is not None
    assert command.argv == ("npm", "run", "test")
    assert "pnpm is not installed, so npm runs it" in command.found
