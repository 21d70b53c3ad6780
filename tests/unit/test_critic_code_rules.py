"""Rules about code as documents state them, and the ones that are named because nothing here checks them."""

from pathlib import Path

import pytest

from services.critic.drift import NOT_READ, Drift, check_drift
from shared.source import read_tree
from tests.unit.test_source_tree import plant

LONG = "def long():\n" + "    x = 1\n" * 50
CODE = {
    "svc/__init__.py": '"""Services."""\n',
    "svc/orders.py": '"""Orders."""\nimport sqlite3\nfrom api import views\n\n\n'
    "def load(key):\n    print(key)\n",
    "svc/odd.py": "from .orders import *\n\n\ndef total(a: int) -> int:\n    return eval('a')  # TODO\n",
    "api/__init__.py": "",
    "api/views.py": f'"""Views."""\nimport svc.orders\n\n\n{LONG}',
    "core/__init__.py": "",
    "core/big.py": '"""Big."""\n' + "x = 1\n" * 600,
    "web/app.js": "import _ from 'lodash';\nconsole.log(1);\n// console.log(2)\nconst q = 3;\n",
    "crate/src/lib.rs": "fn print() {}\nfn a() { b().unwrap(); }\n",
    "svc/test_orders.py": "def test_a():\n    print(1)\n",
    "tests/test_api.py": "from api import views\nprint(1)\n",
}


def drift(root: Path, text: str, name: str = "CONTRIBUTING.md") -> Drift:
    return check_drift(read_tree(plant(root, {**CODE, name: text})))


@pytest.mark.parametrize(
    ("sentence", "places"),
    [
        # lengths
        ("No file longer than 500 lines.", ["core/big.py"]),
        ("no file is longer than 500 lines", ["core/big.py"]),
        ("Files must not exceed 500 lines.", ["core/big.py"]),
        ("Keep modules under 500 lines.", ["core/big.py"]),
        ("A module has at most 500 lines.", ["core/big.py"]),
        ("Every file should be less than 1,000 lines long.", []),
        ("At most 500 lines per file", ["core/big.py"]),
        ("Max 500 lines per file.", ["core/big.py"]),
        ("- **No module has more than 500 lines.**", ["core/big.py"]),
        ("Functions are at most 40 lines.", ["api/views.py:5"]),
        ("No function longer than 40 lines", ["api/views.py:5"]),
        ("Functions should be no longer than 60 lines.", []),
        ("Lines are at most 26 characters.", ["svc/odd.py:5"]),
        # what is not called
        ("No print.", ["svc/orders.py:7"]),
        ("Never use `print()`.", ["svc/orders.py:7"]),
        ("Do not use print statements in production code.", ["svc/orders.py:7"]),
        ("Use logging, not print.", ["svc/orders.py:7"]),
        ("No `print` calls outside of `svc`.", []),
        ("No `print` in `api`.", []),
        ("Never call `eval`.", ["svc/odd.py:5"]),
        ("No `console.log`.", ["web/app.js:2"]),
        ("Don't use console.log", ["web/app.js:2"]),
        ("Never call `unwrap()`.", ["crate/src/lib.rs:2"]),
        ("No TODO comments.", ["svc/odd.py:5"]),
        # what is not used
        ("PostgreSQL, never SQLite", ["svc/orders.py:2"]),
        ("Use PostgreSQL, not SQLite.", ["svc/orders.py:2"]),
        ("We use PostgreSQL, never SQLite.", ["svc/orders.py:2"]),
        ("The database is PostgreSQL, never SQLite.", ["svc/orders.py:2"]),
        ("Never use SQLite.", ["svc/orders.py:2"]),
        ("`sqlite3` is forbidden.", ["svc/orders.py:2"]),
        ("Do not use `lodash`.", ["web/app.js:1"]),
        ("Use requests, never urllib3.", []),
        ("Database: PostgreSQL (never SQLite).", ["svc/orders.py:2"]),
        ("`lodash` must not be used.", ["web/app.js:1"]),
        ("print is forbidden.", ["svc/orders.py:7"]),
        ("No ORM.", []),
        # how one imports
        ("Wildcard imports are forbidden.", ["svc/odd.py:1"]),
        ("No relative imports.", ["svc/odd.py:1"]),
        ("Use absolute imports only.", ["svc/odd.py:1"]),
        ("Never use wildcard imports.", ["svc/odd.py:1"]),
        ("No circular imports.", ["api/views.py:2", "svc/orders.py:3"]),
        ("There are no import cycles.", ["api/views.py:2", "svc/orders.py:3"]),
        ("`svc` may not use `api`.", ["svc/orders.py:3"]),
        ("api -> svc -> core", ["svc/orders.py:3"]),
        # documentation, types, tests
        ("Every module has a docstring.", ["svc/odd.py:1"]),
        ("All public functions must have docstrings.", ["api/views.py:5", "svc/odd.py:4", "svc/orders.py:6"]),
        ("All functions are typed.", ["api/views.py:5", "svc/orders.py:6"]),
        ("Tests live in `tests/`.", ["svc/test_orders.py"]),
        ("All tests go under tests/", ["svc/test_orders.py"]),
    ],
)
def test_a_stated_rule_is_checked(tmp_path: Path, sentence: str, places: list[str]) -> None:
    found = drift(tmp_path, f"# Contributing\n\n{sentence}\n")
    assert [(rule.source, rule.not_checked) for rule in found.rules] == [("CONTRIBUTING.md:3", "")]
    assert sorted({each.source for each in found.rules[0].violations}) == places


@pytest.mark.parametrize(
    "sentence",
    [
        "Handlers must never block the event loop.",
        "Every public function needs a test.",
        "Secrets must never be logged.",
        "All database access goes through a repository class, never directly.",
        "Never use `print` in hot paths.",
        "Exceptions are never swallowed.",
        "Use composition, never inheritance.",
        "Handlers never talk to the database directly.",
        "Only `db` talks to the database.",
        "Every endpoint must validate its input with a schema.",
    ],
)
def test_what_sounds_like_a_rule_is_named(tmp_path: Path, sentence: str) -> None:
    found = drift(tmp_path, f"# Contributing\n\n{sentence}\n")
    assert [(rule.rule, rule.source, rule.not_checked) for rule in found.rules] == [
        (sentence, "CONTRIBUTING.md:3", NOT_READ)
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        "You must sign the CLA before we can merge your code.",
        "Please open an issue first.",
        "The service starts in 20 ms.",
        "We love small functions.",
        "Run the tests with `make test`.",
        "How should a module be named?",
        "No time to read this? See the summary.",
    ],
)
def test_other_sentences_are_no_rules(tmp_path: Path, sentence: str) -> None:
    assert drift(tmp_path, f"# Contributing\n\n{sentence}\n").rules == ()


def test_a_readme_states_rules_below_a_heading_about_them(tmp_path: Path) -> None:
    text = "# Shop\n\nNever use SQLite.\n\n## Usage\n\nNo print.\n\n## Conventions\n\nNo TODO comments.\n"
    assert [rule.source for rule in drift(tmp_path, text, "README.md").rules] == ["README.md:11"]


@pytest.mark.parametrize(
    "name",
    [
        "AGENTS.md",
        "CLAUDE.md",
        "docs/architecture.md",
        "docs/adr/0001-db.md",
        ".github/CONTRIBUTING.md",
        "STYLEGUIDE.md",
    ],
)
def test_documents_that_state_rules(tmp_path: Path, name: str) -> None:
    assert [rule.source for rule in drift(tmp_path, "Never use SQLite.\n", name).rules] == [f"{name}:1"]


def test_settings_of_checkers_that_do_not_run_are_named(tmp_path: Path) -> None:
    files = {
        **CODE,
        "pyproject.toml": "[project]\nname = 'x'\n\n[tool.mypy]\nstrict = true\n",
        ".golangci.yml": "linters-settings:\n  depguard:\n    rules:\n      main:\n        deny:\n"
        "          - pkg: github.com/pkg/errors\n            desc: use the standard library\n",
        "a.go": 'package a\n\nimport "github.com/pkg/errors"\n',
    }
    found = check_drift(read_tree(plant(tmp_path, files)))
    assert {(rule.rule, rule.source, rule.not_checked) for rule in found.rules if rule.not_checked} == {
        ("The settings of golangci-lint", ".golangci.yml:1", "golangci-lint is not run here"),
    }
    denied = next(rule for rule in found.rules if not rule.not_checked)
    assert (denied.source, [each.source for each in denied.violations]) == (".golangci.yml:6", ["a.go:3"])


def test_rules_about_rust_and_java(tmp_path: Path) -> None:
    files = {
        "Cargo.toml": "[package]\nname = 'shop'\n",
        "src/lib.rs": "mod api;\nmod db;\n",
        "src/api.rs": "use crate::db::{self, query};\n",
        "src/db/mod.rs": "use super::api::handler;\n",
        "app/src/main/java/org/shop/web/View.java": "package org.shop.web;\nimport org.shop.db.Store;\n",
        "app/src/main/java/org/shop/db/Store.java": "package org.shop.db;\n",
        "ARCHITECTURE.md": "`db` must not import `api`.\n\n`org.shop.web` must not use `org.shop.db`.\n",
    }
    found = check_drift(read_tree(plant(tmp_path, files)))
    assert [[each.source for each in rule.violations] for rule in found.rules] == [
        ["src/db/mod.rs:1"],
        ["app/src/main/java/org/shop/web/View.java:2"],
    ]
