"""Drift: imports that break the rules a repository states, in ARCHITECTURE.md or for import-linter.

import-linter itself is not run: it would import what a configuration names as a contract type, and so run the
project's code.
"""

import configparser
import itertools
import re
import tomllib
from typing import Any

import msgspec

from services.critic.document import DOCUMENT, Names, declared_packages, read_document
from services.critic.findings import clean, find
from services.critic.imports import Graph, Import, read_imports
from services.critic.phrases import read_rules
from services.critic.rules import AnyRule, Forbid, Independent, Layers, Sole, applies, compile_pattern
from shared.contracts.checkup import DriftRule, Finding
from shared.source.tree import Tree, read_text

CONTRACT_FILES = ("pyproject.toml", ".importlinter", "setup.cfg")
MAX_VIOLATIONS = 50
"""Violations of one rule that are listed; a rule broken more often than that is no rule any more."""


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """The rules that were found, each with what breaks it, and a note on what was and was not checked."""

    rules: tuple[DriftRule, ...] = ()
    note: str = ""

    @property
    def violations(self) -> int:
        """How many imports break a rule."""
        return sum(len(rule.violations) for rule in self.rules)


def check_drift(tree: Tree) -> Drift:
    """Find the stated rules and check every import against them; tests are not held to them."""
    documents = [path for path in tree.files if DOCUMENT.fullmatch(path)]
    if not documents and not any(
        "importlinter" in read_text(tree.root, path) for path in CONTRACT_FILES if path in tree.files
    ):
        return Drift(
            note="No rule to check: there is neither an ARCHITECTURE.md nor a contract of import-linter"
        )
    graph = read_imports(tree)
    names = Names(graph, declared_packages(tree))
    rules: list[AnyRule] = []
    unread: list[str] = []
    for path in documents:
        passages, rows = read_document(read_text(tree.root, path))
        found, missed = read_rules(passages, rows, path, names)
        rules += found
        unread += missed
    rules += read_contracts(tree, graph.names)
    return Drift(
        rules=tuple(_check(rule, graph) for rule in _once(rules)), note=_note(graph, documents, rules, unread)
    )


def _once(rules: list[AnyRule]) -> list[AnyRule]:
    """Each rule as it is first stated."""
    bare = {msgspec.structs.replace(rule, text="", source="", typing=False): rule for rule in reversed(rules)}
    return sorted(bare.values(), key=rules.index)


def _check(rule: AnyRule, graph: Graph) -> DriftRule:
    broken = [found for found in graph.imports if applies(rule, found)]
    seen = {(found.file, found.line): found for found in reversed(broken)}
    places = sorted(seen.values(), key=lambda found: (found.file, found.line))
    return DriftRule(
        rule=rule.text,
        source=rule.source,
        violations=tuple(_violation(rule, found) for found in places[:MAX_VIOLATIONS]),
    )


def _violation(rule: AnyRule, found: Import) -> Finding:
    message = f"{found.importer} imports {found.imported}"
    return find("drift", rule.source, "medium", found.file, found.line, message)


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
    for path in CONTRACT_FILES:
        if path not in tree.files:
            continue
        text = read_text(tree.root, path)
        typing, contracts = _from_toml(text) if path.endswith(".toml") else _from_ini(text)
        for contract in contracts:
            rules += _read_contract(contract, _contract_place(path, text, contract), typing, known)
    return rules


def _from_toml(text: str) -> tuple[bool, list[dict[str, Any]]]:
    """Whether imports for a type checker count, and the contracts."""
    try:
        settings = tomllib.loads(text)["tool"]["importlinter"]
        contracts = [each for each in settings.get("contracts", []) if isinstance(each, dict)]
        return not settings.get("exclude_type_checking_imports"), contracts
    except (tomllib.TOMLDecodeError, KeyError, TypeError, AttributeError, RecursionError):
        return True, []


def _from_ini(text: str) -> tuple[bool, list[dict[str, Any]]]:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return True, []
    names = [name for name in parser.sections() if name.startswith("importlinter:contract:")]
    excluded = parser.get("importlinter", "exclude_type_checking_imports", fallback="false").lower() == "true"
    return not excluded, [dict(parser[name]) for name in names]


def _contract_place(path: str, text: str, contract: dict[str, Any]) -> str:
    name = str(contract.get("name", ""))
    line = next((number for number, row in enumerate(text.splitlines(), start=1) if name and name in row), 1)
    return f"{path}:{line}"


def _read_contract(
    contract: dict[str, Any], source: str, typing: bool, known: frozenset[str]
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
        return [Forbid(**common, subjects=subjects, objects=objects)] if subjects and objects else []
    if kind == "independence":
        members = modules("modules")
        return [Independent(**common, members=members)] if members else []
    if kind == "protected":
        protected = modules("protected_modules")
        return [Sole(**common, subjects=modules("allowed_importers"), objects=protected)] if protected else []
    return []


def _layers(contract: dict[str, Any], common: dict[str, Any]) -> list[AnyRule]:
    rows = _values(contract, "layers")
    closed = frozenset(at for at, row in enumerate(rows) if "|" in row)
    levels = [[name.strip(" ()") for name in re.split(r"[|:]", row)] for row in rows]
    return [
        Layers(
            **common, levels=tuple(tuple(above + name for name in level) for level in levels), closed=closed
        )
        for above in [f"{container}." for container in _values(contract, "containers")] or [""]
    ]


def _values(contract: dict[str, Any], key: str) -> list[str]:
    value = contract.get(key, [])
    rows = value.split("\n") if isinstance(value, str) else value
    return [str(row).strip() for row in rows if str(row).strip()] if isinstance(rows, list) else []


def _expand(names: list[str], known: frozenset[str]) -> tuple[str, ...]:
    """The modules that patterns such as ``services.*`` stand for."""
    found = (
        sorted(filter(compile_pattern(name).fullmatch, known)) if "*" in name else [name] for name in names
    )
    return tuple(dict.fromkeys(itertools.chain.from_iterable(found)))
