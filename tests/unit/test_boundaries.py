"""Boundaries between the rooms that the import rules in pyproject.toml cannot state."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = [path for room in ("services", "shared") for path in sorted((ROOT / room).rglob("*.py"))]


def _trees(below: str = "", naming: str = "") -> Iterator[tuple[str, ast.Module]]:
    """The modules below a folder in which an expression occurs: to parse them all takes seconds."""
    for path in SOURCES:
        name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        if name.startswith(below) and re.search(naming, text):
            yield name, ast.parse(text)


REPORTERS = "services/engineer/reporters"
"""Files that the runners of tested projects load: no part of Mailroom's own programs."""


NAMES = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}


def _reads_environment(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in NAMES and isinstance(node.value, ast.Name) and node.value.id == "os"
    return (
        isinstance(node, ast.ImportFrom)
        and node.module == "os"
        and bool(NAMES & {a.name for a in node.names})
    )


def test_only_the_settings_read_the_environment():
    readers = {
        name for name, tree in _trees(naming="|".join(NAMES)) if any(map(_reads_environment, ast.walk(tree)))
    }
    readers = {name for name in readers if not name.startswith(REPORTERS)}
    assert readers == {"shared/settings.py"}


def _imported(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def test_the_contracts_import_only_msgspec_and_the_standard_library():
    for name, tree in _trees(below="shared/contracts/"):
        others = {
            module for module in _imported(tree) if module.partition(".")[0] not in sys.stdlib_module_names
        }
        assert {m for m in others if m != "msgspec" and not m.startswith("shared.contracts")} == set(), name


def test_every_folder_of_code_is_a_package_that_the_import_rules_see():
    folders = {path.parent for path in SOURCES}
    folders.remove(ROOT / REPORTERS)
    assert {
        str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()
    } == set()
