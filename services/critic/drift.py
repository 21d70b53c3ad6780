"""Drift: where a repository's code breaks the import rules that the repository states about itself."""

from pathlib import Path

import msgspec

from services.critic.contracts import FILES, read_contracts
from services.critic.findings import find
from services.critic.imports import Graph, Import, read_imports
from services.critic.names import Names, declared_packages
from services.critic.passages import DOCUMENT, read_passages
from services.critic.phrases import read_rules
from services.critic.rules import AnyRule, applies
from shared.contracts.checkup import DriftRule, Finding
from shared.source.tree import Tree, read_text

MOST = 50
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
    if not documents and not any(_has_contracts(tree.root, path) for path in FILES if path in tree.files):
        return Drift(
            note="No rule to check: there is neither an ARCHITECTURE.md nor a contract of import-linter"
        )
    graph = read_imports(tree)
    names = Names(graph, declared_packages(tree))
    rules: list[AnyRule] = []
    unread: list[str] = []
    for path in documents:
        passages, rows = read_passages(read_text(tree.root, path))
        found, missed = read_rules(passages, rows, path, names)
        rules += found
        unread += missed
    rules += read_contracts(tree, graph.names)
    return Drift(
        rules=tuple(_judge(rule, graph) for rule in _once(rules)), note=_note(graph, documents, rules, unread)
    )


def _has_contracts(root: Path, path: str) -> bool:
    return "importlinter" in read_text(root, path)


def _once(rules: list[AnyRule]) -> list[AnyRule]:
    """Each rule as it is first stated."""
    bare = {msgspec.structs.replace(rule, text="", source="", typing=False): rule for rule in reversed(rules)}
    return sorted(bare.values(), key=rules.index)


def _judge(rule: AnyRule, graph: Graph) -> DriftRule:
    broken = [found for found in graph.imports if applies(rule, found)]
    seen = {(found.file, found.line): found for found in reversed(broken)}
    places = sorted(seen.values(), key=lambda found: (found.file, found.line))
    return DriftRule(
        rule=rule.text,
        source=rule.source,
        violations=tuple(_violation(rule, found) for found in places[:MOST]),
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
