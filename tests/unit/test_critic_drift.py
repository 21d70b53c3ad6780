"""Drift: rules as documents state them, held against real imports."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from services.critic.drift import NOT_READ, Drift, check_drift
from shared.source import read_tree
from tests.unit.test_source_tree import plant

SHOP = {
    "shop/__init__.py": "",
    "shop/domain/__init__.py": "",
    "shop/domain/order.py": "import json\nfrom shop.storage import database\n",
    "shop/storage/__init__.py": "",
    "shop/storage/database.py": "import sqlalchemy.orm\nimport msgspec\n",
    "shop/web/__init__.py": "",
    "shop/web/views.py": "import flask\nfrom ..domain.order import Order\nfrom shop import storage\n",
    "shop/plugins/__init__.py": "",
    "shop/plugins/mail.py": "from shop.plugins.sms import send\n",
    "shop/plugins/sms.py": "from typing import TYPE_CHECKING\n"
    "if TYPE_CHECKING:\n    from shop.plugins.mail import post\n",
    "tests/test_shop.py": "import flask\nimport shop.web.views\n",
}

DOMAIN = "shop/domain/order.py:2"
WEB = "shop/web/views.py"


def drift(root: Path, document: str, files: Mapping[str, str] = SHOP) -> Drift:
    return check_drift(read_tree(plant(root, {**files, "ARCHITECTURE.md": document})))


def broken(found: Drift) -> list[str]:
    return sorted({violation.source for rule in found.rules for violation in rule.violations})


@pytest.mark.parametrize(
    ("sentence", "places"),
    [
        # what must not be
        ("`shop/domain` must not import `shop/storage`.", [DOMAIN]),
        ("The domain layer must never import the storage layer.", [DOMAIN]),
        ("The domain never imports storage.", [DOMAIN]),
        ("To keep it testable, the domain cannot depend on storage or web.", [DOMAIN]),
        ("`shop.domain` may not import from `shop.storage` directly.", [DOMAIN]),
        ("Domain code does not import anything from storage.", [DOMAIN]),
        ("domain doesn't depend on storage", [DOMAIN]),
        ("The domain imports nothing from storage.", [DOMAIN]),
        ("The domain is independent of the storage package.", [DOMAIN]),
        ("Storage is never imported by domain.", [DOMAIN]),
        ("- **`shop/domain`**: must not import `storage`", [DOMAIN]),
        ("Storage must not import the domain.", []),
        ("`shop/plugins` must not import `shop`.", []),
        ("`shop/domain` must not import `shop`.", [DOMAIN]),
        ("`web` must not import `storage` except `storage/database`.", [f"{WEB}:3"]),
        ("The domain must not import third-party packages.", []),
        (
            "Storage must not import third-party packages.",
            ["shop/storage/database.py:1", "shop/storage/database.py:2"],
        ),
        # what alone may be
        ("`shop/domain` imports only the standard library.", [DOMAIN]),
        ("The domain may only import plugins.", [DOMAIN]),
        ("The domain only imports storage and plugins.", []),
        ("`domain` imports nothing but `storage`.", []),
        ("`domain` imports nothing.", [DOMAIN]),
        ("`storage` imports only `sqlalchemy`.", ["shop/storage/database.py:2"]),
        ("`storage` imports `sqlalchemy` and `msgspec`, and nothing else.", []),
        ("`domain` imports `plugins`, never `storage`.", [DOMAIN]),
        # who alone may
        ("Only `shop/storage` may import sqlalchemy.", []),
        ("`sqlalchemy` is imported nowhere but in `plugins`.", ["shop/storage/database.py:1"]),
        ("flask is imported nowhere else but by the web.", []),
        ("`domain` may not use `storage`.", [DOMAIN]),
        ("`web` must never call `domain` directly.", [f"{WEB}:2"]),
        ("The domain knows nothing of storage.", [DOMAIN]),
        ("The domain must not know about the storage.", [DOMAIN]),
        ("storage -> domain -> web", [DOMAIN, f"{WEB}:2", f"{WEB}:3"]),
        ("`web` => `domain` => `storage`", []),
        ("Only the web imports sqlalchemy or flask.", ["shop/storage/database.py:1"]),
        ("Nothing outside `shop/web` imports `sqlalchemy`.", ["shop/storage/database.py:1"]),
        ("`shop/web` is the only package that imports `flask`.", []),
        ("- `shop/plugins`: the only importer of flask", [f"{WEB}:1"]),
        ("`flask` is imported only by `shop/plugins`.", [f"{WEB}:1"]),
        ("flask must not be imported outside plugins.", [f"{WEB}:1"]),
        ("Code outside `plugins` must not import `flask`.", [f"{WEB}:1"]),
        ("No module imports `flask`.", [f"{WEB}:1"]),
        ("`sqlalchemy` may be used by `plugins` only.", ["shop/storage/database.py:1"]),
        ("`storage` is private to `web`.", [DOMAIN]),
        ("`storage` is imported by nobody.", [DOMAIN, f"{WEB}:3"]),
        ("Don't import from `storage` in `domain`.", [DOMAIN]),
        ("`domain` has no dependencies on `storage`.", [DOMAIN]),
        ("`web` talks to `storage` only through `domain`.", [f"{WEB}:3"]),
        ("`domain` imports no other module of the shop.", [DOMAIN]),
        ("`domain` must not depend on any other package.", [DOMAIN]),
        ("storage → domain → web (never the other way round)", [DOMAIN, f"{WEB}:2", f"{WEB}:3"]),
        # parts of one another
        ("Plugins never import each other.", ["shop/plugins/mail.py:1"]),
        ("A plugin must not import another plugin.", ["shop/plugins/mail.py:1"]),
        ("No plugin imports another plugin.", ["shop/plugins/mail.py:1"]),
        ("`domain` and `storage` must not import one another.", [DOMAIN]),
        # layers
        ("Layers, top down: web > domain > storage.", []),
        ("Layers, top down: storage > domain > web.", [DOMAIN, f"{WEB}:2", f"{WEB}:3"]),
        ("web > storage > domain", [DOMAIN]),
        ("Imports point downwards: `web` → `storage` → `domain`", [DOMAIN]),
        ("The layers are: web > plugins, storage | nowhere > domain. Others float.", [DOMAIN]),
    ],
)
def test_rules_in_prose(tmp_path: Path, sentence: str, places: list[str]) -> None:
    found = drift(tmp_path, f"# Architecture\n\nWe sell things.\n\n{sentence}\n")
    assert len(found.rules) == 1
    assert found.rules[0].source == "ARCHITECTURE.md:5"
    assert broken(found) == places
    assert "not checked" not in found.note


@pytest.mark.parametrize(
    "sentence",
    [
        "The importer must not trust what it imports from the kitchen.",
        "Only imports that matter may stay.",
        "Everything imported must be paid for.",
        "Users must not import more than 5 files.",
        "The domain must not import storage unless it has to.",
        "Nothing but love imports joy.",
    ],
)
def test_what_is_not_understood_is_said_and_not_guessed(tmp_path: Path, sentence: str) -> None:
    found = drift(tmp_path, f"# A\n\n{sentence}\n")
    assert [(rule.rule, rule.source, rule.not_checked) for rule in found.rules] == [
        (sentence, "ARCHITECTURE.md:3", NOT_READ)
    ]
    assert "1 stated rule not checked" in found.note


@pytest.mark.parametrize(
    "text",
    [
        "Open File > Export > PDF.",
        "A request goes web -> domain -> storage.",
        "mail > 3 and sms > 4",
        "```mermaid\ngraph\nweb --> domain --> storage\n```",
        "```sh\ncat web > domain\n```",
        "We import goods from abroad.",
        "```python\nimport shop\n```",
    ],
)
def test_other_prose_is_no_rule(tmp_path: Path, text: str) -> None:
    found = drift(tmp_path, f"# A\n\n{text}\n")
    assert found.rules == ()


TREE = """# A

```
shop/             the shop
  domain/         what we sell; imports only msgspec
  web/            views; the only importer of flask
  storage/        the only code that imports sqlalchemy. Must not import web.
plugins/<name>/   one each
```
"""


def test_rules_in_a_drawn_tree(tmp_path: Path) -> None:
    found = drift(tmp_path, TREE)
    assert [(rule.source, rule.rule, len(rule.violations)) for rule in found.rules] == [
        ("ARCHITECTURE.md:5", "shop/domain: imports only msgspec", 1),
        ("ARCHITECTURE.md:6", "shop/web: the only importer of flask", 0),
        ("ARCHITECTURE.md:7", "shop/storage: the only code that imports sqlalchemy.", 0),
        ("ARCHITECTURE.md:7", "shop/storage: Must not import web.", 0),
    ]


def test_rules_in_a_table(tmp_path: Path) -> None:
    table = "| Package | May import | Must not import | What |\n|---|---|---|---|\n"
    table += "| `domain` | nothing | `web` | x |\n| `web` | `domain` | | y |\n"
    found = drift(tmp_path, table)
    assert [(rule.source, len(rule.violations)) for rule in found.rules] == [
        ("ARCHITECTURE.md:3", 1),
        ("ARCHITECTURE.md:3", 0),
        ("ARCHITECTURE.md:4", 1),
    ]
    assert broken(found) == [DOMAIN, f"{WEB}:3"]


def test_lines_of_wrapped_paragraphs(tmp_path: Path) -> None:
    text = "# A\n\nWe sell things, and that is\nall. The domain must not\nimport storage. Web is thin.\n"
    assert [rule.source for rule in drift(tmp_path, text).rules] == ["ARCHITECTURE.md:4"]


def test_a_rule_said_twice_is_checked_once(tmp_path: Path) -> None:
    found = drift(tmp_path, "The domain must not import storage. `domain` never imports `storage`.\n")
    assert len(found.rules) == 1


def test_a_name_that_could_be_several_is_not_guessed(tmp_path: Path) -> None:
    files = {"a/models.py": "import b.core\n", "b/models.py": "import b.core\n", "b/core.py": ""}
    found = drift(tmp_path, "models must not import core.\n", files)
    assert [(rule.source, rule.not_checked) for rule in found.rules] == [("ARCHITECTURE.md:1", NOT_READ)]


def test_without_a_rule_it_says_so(tmp_path: Path) -> None:
    assert check_drift(read_tree(plant(tmp_path, SHOP))).note.startswith("No rule to check")
    none = drift(tmp_path, "# A\n\nWe sell things.\n")
    assert none.note == "No rule to check: ARCHITECTURE.md states none that was recognised"


def test_without_code_it_says_so(tmp_path: Path) -> None:
    found = drift(tmp_path, "No function is longer than 40 lines.\n", {"x.hs": "y"})
    assert found.rules[0].not_checked == "there is no Python code that it is about"


def test_the_document_may_lie_in_docs(tmp_path: Path) -> None:
    plant(tmp_path, {**SHOP, "docs/architecture.md": "The domain must not import storage.\n"})
    assert broken(check_drift(read_tree(tmp_path))) == [DOMAIN]


CONTRACTS = """
[tool.importlinter]
root_package = "shop"

[[tool.importlinter.contracts]]
name = "Layers"
type = "layers"
layers = ["web", "(plugins) | storage", "domain"]
containers = ["shop"]

[[tool.importlinter.contracts]]
name = "Domain is pure"
type = "forbidden"
source_modules = ["shop.domain"]
forbidden_modules = ["shop.storage", "sqlalchemy"]
ignore_imports = ["shop.domain.order -> shop.storage.database"]

[[tool.importlinter.contracts]]
name = "Plugins apart"
type = "independence"
modules = ["shop.plugins.*"]

[[tool.importlinter.contracts]]
name = "Flask only for the web"
type = "protected"
protected_modules = ["flask"]
allowed_importers = ["shop.domain"]

[[tool.importlinter.contracts]]
name = "Only storage knows the database"
type = "forbidden"
source_modules = ["shop"]
forbidden_modules = ["sqlalchemy"]
ignore_imports = ["shop.storage.** -> sqlalchemy"]

[[tool.importlinter.contracts]]
name = "Our own kind"
type = "tests.contracts.Own"
"""


def test_contracts_of_import_linter(tmp_path: Path) -> None:
    plant(tmp_path, {**SHOP, "pyproject.toml": CONTRACTS})
    found = check_drift(read_tree(tmp_path))
    assert {rule.rule: [v.source for v in rule.violations] for rule in found.rules} == {
        "Layers (a contract of import-linter)": [DOMAIN],
        "Domain is pure (a contract of import-linter)": [],
        "Plugins apart (a contract of import-linter)": ["shop/plugins/mail.py:1", "shop/plugins/sms.py:3"],
        "Flask only for the web (a contract of import-linter)": [f"{WEB}:1"],
        "Only storage knows the database (a contract of import-linter)": [],
        "Our own kind": [],
    }
    assert [rule.rule for rule in found.rules if rule.not_checked] == ["Our own kind"]
    assert found.rules[0].source == "pyproject.toml:6"


def test_contracts_in_an_ini_file(tmp_path: Path) -> None:
    ini = "[importlinter]\nroot_package = shop\nexclude_type_checking_imports = True\n\n"
    ini += "[importlinter:contract:1]\nname = Apart\ntype = independence\n"
    ini += "modules =\n    shop.plugins.mail\n    shop.plugins.sms\n"
    plant(tmp_path, {**SHOP, ".importlinter": ini})
    found = check_drift(read_tree(tmp_path))
    assert [(rule.source, [v.source for v in rule.violations]) for rule in found.rules] == [
        (".importlinter:6", ["shop/plugins/mail.py:1"])
    ]


@pytest.mark.parametrize(
    "text",
    [
        "[tool.importlinter]\ncontracts = 5\n",
        "[tool.importlinter]\ncontracts = [{}]\n",
        "importlinter = [",
        "# importlinter\n",
    ],
)
def test_broken_contracts_are_no_rules(tmp_path: Path, text: str) -> None:
    assert check_drift(read_tree(plant(tmp_path, {**SHOP, "pyproject.toml": text}))).rules == ()


def test_javascript_and_typescript(tmp_path: Path) -> None:
    files = {
        "src/ui/app.tsx": "import {\n  query,\n} from '../db/query.js';\nimport React from 'react';\n",
        "src/ui/lazy.js": "const q = require('../db');\nexport * from '@/db/query';\n// from '../api'\n",
        "src/db/query.ts": "export const query = 1;\n",
        "src/db/index.ts": "import '../api/server';\n",
        "src/api/server.ts": "",
    }
    found = drift(tmp_path, "`src/ui` must not import `src/db`.\n\nOnly `api` imports `react`.\n", files)
    assert broken(found) == ["src/ui/app.tsx:3", "src/ui/app.tsx:4", "src/ui/lazy.js:1", "src/ui/lazy.js:2"]


def test_go(tmp_path: Path) -> None:
    files = {
        "go.mod": "module example.org/shop\n\ngo 1.24\n",
        "cmd/shop/main.go": 'package main\n\nimport "example.org/shop/internal/db"\n',
        "internal/db/db.go": 'package db\n\nimport (\n\t"fmt"\n\tlog "example.org/shop/internal/log"\n)\n',
        "internal/log/log.go": "package log\n",
    }
    assert broken(drift(tmp_path, "`internal/db` must not import `internal/log`.\n", files)) == [
        "internal/db/db.go:5"
    ]


def test_packages_below_the_root_are_known_by_their_own_name(tmp_path: Path) -> None:
    files = {
        "backend/app/__init__.py": "",
        "backend/app/web.py": "import app.store\n",
        "backend/app/store.py": "from . import web\n",
        "src/lib_x/__init__.py": "from lib_x.inner import y\n",
        "src/lib_x/inner.py": "",
    }
    found = drift(
        tmp_path,
        "web must not import store. store never imports web. `lib_x` must not import `lib_x/inner`.\n",
        files,
    )
    assert broken(found) == ["backend/app/store.py:1", "backend/app/web.py:1", "src/lib_x/__init__.py:1"]


def test_source_that_cannot_be_parsed_does_not_stop_the_check(tmp_path: Path) -> None:
    files = {
        **SHOP,
        "shop/broken.py": "import (\n",
        "shop/deep.py": "(" * 5_000,
        "shop/escape.py": "x = '\\d'\n",
    }
    assert broken(drift(tmp_path, "The domain must not import storage.\n", files)) == [DOMAIN]
