"""Checkers that need the project prepared: read from what they print, and run in a working copy."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from services.critic import project_tools
from services.critic.file_tools import sort_files
from services.critic.inspection import inspect_repository
from services.critic.project_tools import (
    TOOLS,
    Prepared,
    open_workshop,
    read_biome,
    read_clippy,
    read_eslint,
    read_mypy,
    read_pyright,
    read_tsc,
    read_vet,
)
from shared.contracts import Inspection, Preparation
from shared.projects.environments import Environment
from shared.sandbox import CommandResult
from shared.settings import Settings
from shared.source import read_tree
from tests.unit.test_source_tree import plant

PROBLEM = Preparation(
    ecosystem="javascript", problem="npm ci failed: registry.npmjs.org was refused", cure="Grant it"
)


async def note(text: str) -> None:
    """Progress that nobody reads."""


def result(output: str, errors: str = "") -> CommandResult:
    return CommandResult(argv=("x",), exit_code=1, output=output, errors=errors, seconds=0.1)


def test_what_the_tools_print_is_read() -> None:
    eslint = '[{"filePath": "/x/a.js", "messages":'
    eslint += '[{"ruleId": "no-undef", "severity": 2, "line": 3, "message": "m"},'
    eslint += '{"ruleId": null, "fatal": true, "severity": 2, "message": "p"}]}]'
    assert list(read_eslint(result(f"> lint\n{eslint}"))) == [
        ("/x/a.js", "no-undef", "error", 3, "m"),
        ("/x/a.js", "syntax", "error", 0, "p"),
    ]
    biome = "::warning title=lint/suspicious/noDebugger,file=a.ts,line=2,endLine=2,col=1::Odd.\n"
    assert list(read_biome(result(biome))) == [("a.ts", "lint/suspicious/noDebugger", "warning", 2, "Odd.")]
    assert list(read_tsc(result("src/a.ts(4,7): error TS2322: Type 'x'.\nFound 1 error.\n"))) == [
        ("src/a.ts", "TS2322", "error", 4, "Type 'x'.")
    ]
    vet = '# example.org/a\n{\n"a": {"printf": [{"posn": "/x/a.go:7:2", "message": "m"}]}\n}\n# b\n{}\n'
    assert list(read_vet(result("", vet))) == [("/x/a.go", "printf", "error", 7, "m")]
    clippy = (
        '{"reason": "compiler-message", "message": {"code": {"code": "clippy::never_loop"}, "level": "error",'
    )
    clippy += (
        '"message": "m", "spans": [{"file_name": "src/lib.rs", "line_start": 4, "is_primary": true}]}}\n'
    )
    assert list(read_clippy(result(f'{clippy}{{"reason": "build-finished"}}\n'))) == [
        ("src/lib.rs", "clippy::never_loop", "error", 4, "m")
    ]


def test_what_checkers_of_types_print_is_read() -> None:
    mypy = (
        "shop/pay.py:7: error: Incompatible return value type  [return-value]\n"
        'shop/pay.py:9:5: error: Name "x" is not defined  [name-defined]\n'
        'shop/pay.py:1: error: Cannot find module named "gone"  [import-not-found]\n'
        "shop/pay.py:2: note: See https://mypy.example.org\nFound 3 errors\n"
    )
    assert list(read_mypy(result(mypy))) == [
        ("shop/pay.py", "return-value", "error", 7, "Incompatible return value type"),
        ("shop/pay.py", "name-defined", "error", 9, 'Name "x" is not defined'),
    ]
    row = '{"file": "/x/a.py", "severity": "error", "rule": "%s", "message": "m",'
    row += ' "range": {"start": {"line": 3}}}'
    rows = ", ".join(row % rule for rule in ("reportCallIssue", "reportMissingImports"))
    pyright = f'No configuration file found.\n{{"generalDiagnostics": [{rows}]}}\n'
    assert list(read_pyright(result(pyright))) == [("/x/a.py", "reportCallIssue", "error", 4, "m")]


@pytest.mark.parametrize(
    ("files", "used"),
    [
        ({"pyproject.toml": "[project]\n[tool.mypy]\nstrict = true\n"}, {"mypy"}),
        ({"mypy.ini": "[mypy]\n"}, {"mypy"}),
        ({"setup.cfg": "[metadata]\n[mypy]\n"}, {"mypy"}),
        ({"pyrightconfig.json": "{}"}, {"pyright"}),
        ({"pyproject.toml": "[tool.pyright]\n[tool.mypy]\n"}, {"mypy", "pyright"}),
        ({"pyproject.toml": "[tool.mypy.x]\n", "setup.cfg": "[metadata]\n"}, set()),
        ({"a.py": "import mypy\n"}, set()),
    ],
)
def test_a_checker_of_types_is_used_where_a_project_configures_it(
    tmp_path: Path, files: dict[str, str], used: set[str]
) -> None:
    sources = sort_files(read_tree(plant(tmp_path, {"shop.py": "", **files})))
    typed = [tool for tool in TOOLS if tool.ecosystem == "python"]
    assert {tool.name for tool in typed if tool.is_used(sources, ".")} == used


ESLINT = """#!/bin/sh
test -w . || exit 2
echo '[{"filePath": "'$PWD'/src/a.js",'
echo '"messages": [{"ruleId": "no-undef", "severity": 2, "line": 1, "message": "m"}]}]'
exit 1
"""
SCRIPTS = {
    "package.json": '{"devDependencies": {"eslint": "^9"}}',
    "src/a.js": "debugger\n",
    "b.js": "debugger\n",
}


async def inspect(repo: Path, copy: Path, program: str, preparation: Preparation | None = None) -> Inspection:
    """Inspect ``repo`` with its own eslint, which is ``program``, prepared in ``copy``."""

    @asynccontextmanager
    async def workshop() -> AsyncIterator[Prepared]:
        shutil.copytree(repo, copy)
        place = plant(copy, {"node_modules/.bin/eslint": program}) / "node_modules/.bin/eslint"
        place.chmod(0o755)
        made = preparation or Preparation(ecosystem="javascript")
        yield Prepared(root=copy, environments=(Environment(preparation=made),))

    return await inspect_repository(repo, timeout=30, topics=["lint"], drift=False, workshop=workshop)


async def test_a_projects_own_linter_takes_the_place_of_ours(tmp_path: Path) -> None:
    found = await inspect(plant(tmp_path / "repo", SCRIPTS), tmp_path / "copy", ESLINT)
    assert [(each.tool, each.rule, each.severity, each.source) for each in found.findings] == [
        ("eslint", "no-undef", "medium", "src/a.js:1")
    ]
    assert (found.checked, found.not_checked) == (("2 JavaScript files",), ())


@pytest.mark.parametrize(
    ("program", "preparation", "why"),
    [
        (
            "#!/bin/sh\necho 'Error: no config' >&2\nexit 2\n",
            None,
            "eslint ended with exit code 2: Error: no config",
        ),
        ("#!/bin/sh\necho nonsense\n", None, "eslint ended with exit code 0: nonsense"),
        ("#!/bin/sh\nsleep 60\n", None, "eslint did not end within 1 s"),
        (ESLINT, PROBLEM, PROBLEM.problem),
    ],
)
async def test_where_it_does_not_work_ours_looks_and_the_gap_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, preparation: Preparation | None, why: str
) -> None:
    monkeypatch.setattr(project_tools, "SECONDS", 1.0)
    found = await inspect(plant(tmp_path / "repo", SCRIPTS), tmp_path / "copy", program, preparation)
    assert {each.tool for each in found.findings} == {"oxlint"}
    assert found.checked == ("2 JavaScript files",)
    assert [(gap.what, gap.why) for gap in found.not_checked] == [("what the project's own eslint says", why)]


async def test_a_tool_chain_that_is_missing_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_tools, "search_path", lambda: "/nowhere")
    plant(tmp_path, {"main.go": "package main\n", "go.mod": "module x\n", "src/lib.rs": "", "Cargo.toml": ""})
    found = await inspect_repository(tmp_path, timeout=30, topics=["lint"], drift=False)
    assert {gap.what: gap.cure for gap in found.not_checked} == {
        "1 Go file": "apt install golang-go, or brew install go",
        "1 Rust file": "Install Rust from https://rustup.rs",
    }
    assert found.checked == ()


@pytest.mark.skipif(not shutil.which("cargo-clippy"), reason="there is no clippy here")
async def test_clippy_in_a_prepared_copy(tmp_path: Path) -> None:
    repo = plant(
        tmp_path / "repo",
        {
            "Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n',
            "Cargo.lock": 'version = 3\n\n[[package]]\nname = "x"\nversion = "0.1.0"\n',
            "src/lib.rs": "pub fn f() -> i32 {\n    for i in 0..9 {\n        return i;\n    }\n    0\n}\n",
        },
    )
    settings = Settings(state_dir=tmp_path / "state")
    found = await inspect_repository(
        repo, timeout=90, topics=["lint"], drift=False, workshop=partial(open_workshop, repo, settings, note)
    )
    assert [(each.rule, each.severity, each.source) for each in found.findings] == [
        ("clippy::never_loop", "high", "src/lib.rs:2")
    ], msgspec.to_builtins(found)
    assert not (repo / "target").exists()
    assert not list(settings.workspaces.iterdir())
