"""The contracts of import-linter, read from a project's configuration; import-linter itself is not run.

It would import what a configuration names as a contract type, and so run the project's code.
"""

import configparser
import fnmatch
import re
import tomllib
from typing import Any

from services.critic.findings import clean
from services.critic.rules import AnyRule, Forbid, Independent, Layers, Sole
from shared.source.tree import Tree, read_text

FILES = ("pyproject.toml", ".importlinter", "setup.cfg")


def read_contracts(tree: Tree, known: frozenset[str]) -> list[AnyRule]:
    """The contracts of the kinds layers, forbidden, independence and protected; others are left out."""
    rules: list[AnyRule] = []
    for path in FILES:
        if path not in tree.files:
            continue
        text = read_text(tree.root, path)
        typing, contracts = _from_toml(text) if path.endswith(".toml") else _from_ini(text)
        for contract in contracts:
            rules += _read(contract, _source(path, text, contract), typing, known)
    return rules


def _from_toml(text: str) -> tuple[bool, list[dict[str, Any]]]:
    try:
        settings = tomllib.loads(text)["tool"]["importlinter"]
        contracts = settings.get("contracts", [])
        return not settings.get("exclude_type_checking_imports"), [
            each for each in contracts if isinstance(each, dict)
        ]
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError, RecursionError):
        return True, []


def _from_ini(text: str) -> tuple[bool, list[dict[str, Any]]]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return True, []
    contracts: list[dict[str, Any]] = []
    for section in parser.sections():
        if section.startswith("importlinter:contract:"):
            values = dict(parser[section])
            contracts.append(
                {key: value.split("\n") if value.startswith("\n") else value for key, value in values.items()}
            )
    excluded = parser.get("importlinter", "exclude_type_checking_imports", fallback="false").lower() == "true"
    return not excluded, contracts


def _source(path: str, text: str, contract: dict[str, Any]) -> str:
    name = str(contract.get("name", ""))
    line = next((number for number, row in enumerate(text.splitlines(), start=1) if name and name in row), 1)
    return f"{path}:{line}"


def _read(contract: dict[str, Any], source: str, typing: bool, known: frozenset[str]) -> list[AnyRule]:
    kind = contract.get("type")
    ignored = tuple(
        (left.strip(), right.strip())
        for left, arrow, right in (_arrow(each) for each in _list(contract, "ignore_imports"))
        if arrow
    )
    common: dict[str, Any] = {
        "text": clean(f"{contract.get('name') or kind} (a contract of import-linter)"),
        "source": source,
        "typing": typing,
        "ignored": ignored,
    }
    if kind == "layers":
        return _layers(contract, common)
    if kind == "forbidden":
        subjects = _expand(_list(contract, "source_modules"), known)
        objects = _expand(_list(contract, "forbidden_modules"), known)
        return [Forbid(**common, subjects=subjects, objects=objects)] if subjects and objects else []
    if kind == "independence":
        members = _expand(_list(contract, "modules"), known)
        return [Independent(**common, members=members)] if members else []
    if kind == "protected":
        protected = _expand(_list(contract, "protected_modules"), known)
        importers = _expand(_list(contract, "allowed_importers"), known)
        return [Sole(**common, subjects=importers, objects=protected)] if protected else []
    return []


def _layers(contract: dict[str, Any], common: dict[str, Any]) -> list[AnyRule]:
    rows = _list(contract, "layers")
    closed = frozenset(at for at, row in enumerate(rows) if "|" in row)
    levels = [[name.strip(" ()") for name in re.split(r"[|:]", row)] for row in rows]
    return [
        Layers(
            **common,
            levels=tuple(
                tuple(f"{container}.{name}" if container else name for name in level) for level in levels
            ),
            closed=closed,
        )
        for container in _list(contract, "containers") or [""]
    ]


def _list(contract: dict[str, Any], key: str) -> list[str]:
    value = contract.get(key, [])
    rows = value.split("\n") if isinstance(value, str) else value
    return [str(row).strip() for row in rows if str(row).strip()] if isinstance(rows, list) else []


def _arrow(text: str) -> tuple[str, str, str]:
    return text.partition("->")


def _expand(names: list[str], known: frozenset[str]) -> tuple[str, ...]:
    """The modules that patterns such as ``services.*`` stand for."""
    expanded: list[str] = []
    for name in names:
        if "*" not in name:
            expanded.append(name)
            continue
        parts = name.split(".")
        expanded += sorted(
            module
            for module in known
            if len(module.split(".")) == len(parts)
            and all(map(fnmatch.fnmatchcase, module.split("."), parts))
        )
    return tuple(dict.fromkeys(expanded))
