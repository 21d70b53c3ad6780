"""Contracts about imports that a repository keeps for a checker: import-linter's and depguard's."""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from services.critic.claims import as_list, as_mapping
from services.critic.findings import clean
from services.critic.imports import AnyRule, Forbidden, Layers, Protected, compile_pattern
from shared.contracts.checkup import DriftRule
from shared.projects.reading import ProjectFiles
from shared.source import Tree, parse_ini, parse_yaml, read_text

TABLE = ("tool", "importlinter")
CONTRACT_FILES = ("pyproject.toml", ".importlinter", "setup.cfg")
CRUISER_FILES = (".dependency-cruiser.js", ".dependency-cruiser.cjs", ".dependency-cruiser.json")
SUFFIX = " (a contract of import-linter)"
GOLANGCI = (".golangci.yml", ".golangci.yaml")


SETTINGS = (
    ("mypy.ini", r"", "mypy"),
    (".mypy.ini", r"", "mypy"),
    ("pyproject.toml", r"^\[tool\.mypy\]", "mypy"),
    ("setup.cfg", r"^\[mypy\]", "mypy"),
    ("pyrightconfig.json", r"", "pyright"),
    ("pyproject.toml", r"^\[tool\.pyright\]", "pyright"),
    (".pylintrc", r"", "pylint"),
    ("pyproject.toml", r"^\[tool\.pylint", "pylint"),
    (".flake8", r"", "flake8"),
    ("setup.cfg", r"^\[flake8\]", "flake8"),
    ("tox.ini", r"^\[flake8\]", "flake8"),
    ("pyproject.toml", r"^\[tool\.black\]", "black"),
    ("pyproject.toml", r"^\[tool\.isort\]", "isort"),
    ("pyproject.toml", r"^\[tool\.tach\]", "tach"),
    ("tach.toml", r"", "tach"),
    (".dependency-cruiser.js", r"", "dependency-cruiser"),
    (".dependency-cruiser.cjs", r"", "dependency-cruiser"),
    (".dependency-cruiser.json", r"", "dependency-cruiser"),
    (".golangci.yml", r"", "golangci-lint"),
    (".golangci.yaml", r"", "golangci-lint"),
    ("rustfmt.toml", r"", "rustfmt"),
    ("deny.toml", r"", "cargo-deny"),
    (".editorconfig", r"", "editorconfig"),
    (".prettierrc", r"", "prettier"),
    (".prettierrc.json", r"", "prettier"),
    (".rubocop.yml", r"", "rubocop"),
    (".pre-commit-config.yaml", r"", "pre-commit"),
    ("checkstyle.xml", r"", "checkstyle"),
    (".clang-tidy", r"", "clang-tidy"),
    (".clang-format", r"", "clang-format"),
)
"""Settings of checkers that are not run here: the file, what it has to hold, and whose they are."""
SETTING_FILES = tuple(dict.fromkeys(path for path, _, _ in SETTINGS))


def list_settings(tree: Tree) -> list[DriftRule]:
    """The settings of checkers that are not run here: rules that the project states, and nobody checked."""
    found: dict[str, DriftRule] = {}
    for path, form, name in SETTINGS:
        if name in found or path not in tree.files:
            continue
        text = read_text(tree.root, path)
        match = re.search(form, text, re.MULTILINE)
        if match:
            source = f"{path}:{text.count(chr(10), 0, match.start()) + 1}"
            why = f"{name} is not run here"
            found[name] = DriftRule(rule=f"The settings of {name}", source=source, not_checked=why)
    return list(found.values())


def read_contracts(tree: Tree, known: frozenset[str]) -> list[AnyRule]:
    """The contracts of the kinds layers, forbidden, independence and protected, and what depguard denies."""
    rules: list[AnyRule] = list(_depguard(tree))
    for path in (path for path in CONTRACT_FILES if path in tree.files):
        text = read_text(tree.root, path)
        settings = _read_settings(tree, path)
        typing = str(settings.get("exclude_type_checking_imports", False)).lower() != "true"
        for contract in map(as_mapping, as_list(settings.get("contracts"))):
            rules += _read_contract(contract, _contract_place(path, text, contract), typing, known)
    return rules


def _read_settings(tree: Tree, path: str) -> dict[str, Any]:
    if path.endswith(".toml"):
        return ProjectFiles(tree.root).table(path, *TABLE)
    # The settings of an INI file, as a TOML file would hold them
    text = read_text(tree.root, path)
    try:
        sections = parse_ini(text)
    except ValueError:
        return {}
    found = [values for name, values in sections.items() if name.startswith("importlinter:contract:")]
    return {**sections.get("importlinter", {}), "contracts": found}


def _contract_place(path: str, text: str, contract: Mapping[str, Any]) -> str:
    name = str(contract.get("name", ""))
    line = next((number for number, row in enumerate(text.splitlines(), start=1) if name and name in row), 1)
    return f"{path}:{line}"


def _read_contract(
    contract: Mapping[str, Any], source: str, typing: bool, known: frozenset[str]
) -> list[AnyRule]:
    kind = contract.get("type")
    ignored = tuple(
        (left.strip(), right.strip())
        for left, arrow, right in (each.partition("->") for each in _values(contract, "ignore_imports"))
        if arrow
    )
    common: dict[str, Any] = {
        "text": clean(f"{contract.get('name') or kind}{SUFFIX}"),
        "source": source,
        "typing": typing,
        "ignored": ignored,
    }

    def modules(key: str) -> tuple[str, ...]:
        return _expand(_values(contract, key), known)

    if kind == "layers":
        rows = _values(contract, "layers")
        closed = frozenset(at for at, row in enumerate(rows) if "|" in row)
        levels = [[name.strip(" ()") for name in re.split(r"[|:]", row)] for row in rows]
        return [
            Layers(
                **common,
                levels=tuple(tuple(above + name for name in level) for level in levels),
                closed=closed,
            )
            for above in [f"{container}." for container in _values(contract, "containers")] or [""]
        ]
    if kind == "forbidden":
        subjects, objects = modules("source_modules"), modules("forbidden_modules")
        return [Forbidden(**common, subjects=subjects, objects=objects)] if subjects and objects else []
    if kind == "independence":
        members = modules("modules")
        return [Layers(**common, levels=(members,), closed=frozenset({0}))] if members else []
    if kind == "protected" and (objects := modules("protected_modules")):
        return [Protected(**common, subjects=modules("allowed_importers"), objects=objects)]
    return []


def _values(contract: Mapping[str, Any], key: str) -> list[str]:
    value = contract.get(key, [])
    rows = value.split("\n") if isinstance(value, str) else value
    return [str(row).strip() for row in rows if str(row).strip()] if isinstance(rows, list) else []


def _expand(names: list[str], known: frozenset[str]) -> tuple[str, ...]:
    """The modules that patterns such as ``services.*`` stand for."""
    found = (
        sorted(filter(compile_pattern(name).fullmatch, known)) if "*" in name else [name] for name in names
    )
    return tuple(dict.fromkeys(itertools.chain.from_iterable(found)))


def unknown_contracts(tree: Tree) -> Iterator[tuple[str, str]]:
    """The contracts of import-linter of other kinds: name and place."""
    known = ("layers", "forbidden", "independence", "protected")
    for path in (path for path in CONTRACT_FILES if path in tree.files):
        for contract in map(as_mapping, as_list(_read_settings(tree, path).get("contracts"))):
            name = clean(str(contract.get("name") or contract.get("type") or ""))
            if name and contract.get("type") not in known:
                yield name, _contract_place(path, read_text(tree.root, path), contract)


def _depguard(tree: Tree) -> Iterator[AnyRule]:
    """What golangci-lint's depguard denies everywhere; lists for some files alone are left to itself."""
    for path in (path for path in GOLANGCI if path in tree.files):
        text = read_text(tree.root, path)
        try:
            settings = as_mapping(parse_yaml(text))
        except ValueError:
            continue
        linters = [as_mapping(settings.get("linters-settings")), as_mapping(settings.get("linters"))]
        linters.append(as_mapping(linters[1].get("settings")))
        for each in linters:
            for rule in as_mapping(as_mapping(each.get("depguard")).get("rules")).values():
                for denied in map(as_mapping, as_list(as_mapping(rule).get("deny"))):
                    name = str(denied.get("pkg", ""))
                    if name and not as_mapping(rule).get("files"):
                        place = next((n for n, row in enumerate(text.splitlines(), 1) if name in row), 1)
                        stated = clean(f"{name} is denied by depguard: {denied.get('desc', '')}".rstrip(": "))
                        yield Protected(text=stated, source=f"{path}:{place}", subjects=(), objects=(name,))
