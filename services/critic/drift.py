"""Drift: imports that break the rules a repository states, in ARCHITECTURE.md or for import-linter.

import-linter itself is not run: it would import what a configuration names as a contract type, and so run the
project's code.
"""

import configparser
import itertools
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from services.critic.claims import as_list, as_mapping
from services.critic.document import DOCUMENT, ModuleNames, declared_packages, parse_document
from services.critic.findings import clean, make_finding
from services.critic.imports import Graph, Import, read_imports
from services.critic.phrases import parse_rules
from services.critic.rules import AnyRule, Forbidden, Layers, Protected, compile_pattern, is_broken_by
from shared.contracts.checkup import DriftRule, Finding
from shared.source.tree import Tree, read_text, read_toml_table

TABLE = ("tool", "importlinter")
CONTRACT_FILES = ("pyproject.toml", ".importlinter", "setup.cfg")
NO_RULES = "No rule to check: there is neither an ARCHITECTURE.md nor a contract of import-linter"
MAX_VIOLATIONS = 50
"""Violations of one rule that are listed; a rule broken more often than that is no rule any more."""


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """The rules that were found, each with what breaks it, and a note on what was and was not checked."""

    rules: tuple[DriftRule, ...] = ()
    note: str = ""


def check_drift(tree: Tree) -> Drift:
    """Find the stated rules and check every import against them; tests are not held to them."""
    documents = [path for path in tree.files if DOCUMENT.fullmatch(path)]
    configured = (read_text(tree.root, path) for path in CONTRACT_FILES if path in tree.files)
    if not documents and not any("importlinter" in text for text in configured):
        return Drift(note=NO_RULES)
    graph = read_imports(tree)
    names = ModuleNames(graph, declared_packages(tree))
    rules: list[AnyRule] = []
    unread: list[str] = []
    for path in documents:
        passages, rows = parse_document(read_text(tree.root, path))
        found, missed = parse_rules(passages, rows, path, names)
        rules += found
        unread += missed
    rules += read_contracts(tree, graph.names)
    return Drift(
        rules=tuple(_check(rule, graph) for rule in _distinct_rules(rules)),
        note=_note(graph, documents, rules, unread),
    )


def _distinct_rules(rules: list[AnyRule]) -> list[AnyRule]:
    """Each rule as it is first stated."""
    bare = {msgspec.structs.replace(rule, text="", source="", typing=False): rule for rule in reversed(rules)}
    return sorted(bare.values(), key=rules.index)


def _check(rule: AnyRule, graph: Graph) -> DriftRule:
    broken = [found for found in graph.imports if is_broken_by(rule, found)]
    seen = {(found.file, found.line): found for found in reversed(broken)}
    places = sorted(seen.values(), key=lambda found: (found.file, found.line))
    violations = (_violation(rule, found) for found in places[:MAX_VIOLATIONS])
    return DriftRule(rule=rule.text, source=rule.source, violations=tuple(violations))


def _violation(rule: AnyRule, found: Import) -> Finding:
    message = f"{found.importer} imports {found.imported}"
    return make_finding("drift", rule.source, "medium", found.file, found.line, message)


def _note(graph: Graph, documents: list[str], rules: list[AnyRule], unread: list[str]) -> str:
    where = ", ".join(documents) or "the configuration of import-linter"
    if not graph.modules:
        return f"{where} may state rules, but there is no Python, JavaScript, TypeScript or Go code to check"
    if rules:
        checked = f"{len(graph.imports):,} imports of {len(graph.modules):,} modules"
        note = f"{checked} were checked, direct ones, tests left out"
    else:
        note = f"{where} states no rule about imports that was understood"
    if unread:
        more = f" and {len(unread) - 5} more" if len(unread) > 5 else ""
        note += f"; not understood, though about imports: {', '.join(unread[:5])}{more}"
    return f"{note}; {graph.cut}" if graph.cut else note


def read_contracts(tree: Tree, known: frozenset[str]) -> list[AnyRule]:
    """The contracts of the kinds layers, forbidden, independence and protected; others are left out."""
    rules: list[AnyRule] = []
    for path in (path for path in CONTRACT_FILES if path in tree.files):
        text = read_text(tree.root, path)
        settings = read_toml_table(tree, path, *TABLE) if path.endswith(".toml") else _parse_ini(text)
        typing = str(settings.get("exclude_type_checking_imports", False)).lower() != "true"
        for contract in map(as_mapping, as_list(settings.get("contracts"))):
            rules += _read_contract(contract, _contract_place(path, text, contract), typing, known)
    return rules


def _parse_ini(text: str) -> dict[str, Any]:
    """The settings of an INI file, as a TOML file would hold them."""
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return {}
    names = [name for name in parser.sections() if name.startswith("importlinter:contract:")]
    settings = dict(parser["importlinter"]) if parser.has_section("importlinter") else {}
    return {**settings, "contracts": [dict(parser[name]) for name in names]}


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
        "text": clean(f"{contract.get('name') or kind} (a contract of import-linter)"),
        "source": source,
        "typing": typing,
        "ignored": ignored,
    }

    def modules(key: str) -> tuple[str, ...]:
        return _expand(_values(contract, key), known)

    if kind == "layers":
        return _layers(contract, common)
    if kind == "forbidden":
        subjects, objects = modules("source_modules"), modules("forbidden_modules")
        return [Forbidden(**common, subjects=subjects, objects=objects)] if subjects and objects else []
    if kind == "independence":
        members = modules("modules")
        return [Layers(**common, levels=(members,), closed=frozenset({0}))] if members else []
    if kind == "protected" and (objects := modules("protected_modules")):
        return [Protected(**common, subjects=modules("allowed_importers"), objects=objects)]
    return []


def _layers(contract: Mapping[str, Any], common: dict[str, Any]) -> list[AnyRule]:
    rows = _values(contract, "layers")
    closed = frozenset(at for at, row in enumerate(rows) if "|" in row)
    levels = [[name.strip(" ()") for name in re.split(r"[|:]", row)] for row in rows]
    return [
        Layers(
            **common, levels=tuple(tuple(above + name for name in level) for level in levels), closed=closed
        )
        for above in [f"{container}." for container in _values(contract, "containers")] or [""]
    ]


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
