"""Contracts by the project's own checker: import-linter itself, and what dependency-cruiser prints."""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from services.critic.contracts import apply_cruiser
from services.critic.inspection import inspect_repository
from services.critic.project_tools import Prepared
from shared.contracts import DriftRule, Preparation
from shared.projects.environments import Environment
from tests.unit.test_source_tree import plant

CONTRACTS = """
[tool.importlinter]
root_package = "shop"

[[tool.importlinter.contracts]]
name = "Web is above storage"
type = "layers"
layers = ["shop.web", "shop.storage"]

[[tool.importlinter.contracts]]
name = "Web never reaches the files"
type = "forbidden"
source_modules = ["shop.web"]
forbidden_modules = ["shop.files"]

[[tool.importlinter.contracts]]
name = "A kind of our own"
type = "acyclic_siblings"
ancestors = ["shop"]
"""
SHOP = {
    "pyproject.toml": CONTRACTS,
    "shop/__init__.py": "",
    "shop/web.py": "import shop.storage\n",
    "shop/storage.py": "import shop.files\n",
    "shop/files.py": "",
}


async def test_import_linter_is_run_where_the_project_is_prepared(tmp_path: Path) -> None:
    repo = plant(tmp_path / "repo", SHOP)
    copy = plant(tmp_path / "copy", SHOP)

    @asynccontextmanager
    async def workshop() -> AsyncIterator[Prepared]:
        environment = Environment(
            preparation=Preparation(ecosystem="python"),
            env={"PATH": os.environ["PATH"]},
            path=(Path(sys.executable).parent,),
        )
        yield Prepared(root=copy, environments=(environment,))

    alone = await inspect_repository(repo, timeout=60, topics=["secrets"])
    assert not [each for rule in alone.drift for each in rule.violations]
    found = await inspect_repository(repo, timeout=60, topics=["secrets"], workshop=workshop)
    rules = {rule.rule.partition(" (")[0]: rule for rule in found.drift}
    assert rules["Web is above storage"].violations == ()
    broken = rules["Web never reaches the files"]
    assert [each.source for each in broken.violations] == [broken.source]
    assert "shop.web -> shop.storage" in broken.violations[0].message


def test_dependency_cruiser() -> None:
    output = {
        "summary": {
            "violations": [
                {"from": "src/a.js", "to": "src/b.js", "rule": {"name": "no-b", "severity": "error"}}
            ],
            "ruleSetUsed": {"forbidden": [{"name": "no-b"}, {"name": "no-c"}]},
        }
    }
    config = ".dependency-cruiser.json"
    settings = DriftRule(
        rule="The settings of dependency-cruiser", source=f"{config}:1", not_checked="not run"
    )
    rules = list(apply_cruiser([settings], json.dumps(output), config))
    assert [(rule.rule, [each.message for each in rule.violations]) for rule in rules] == [
        ("no-b (a rule of dependency-cruiser)", ["src/a.js imports src/b.js"]),
        ("no-c (a rule of dependency-cruiser)", []),
    ]
    assert list(apply_cruiser([settings], "Error", config)) == [settings]
