"""Contracts about imports that a repository keeps for a checker, read here, or checked by it where it is."""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from services.critic.findings import KNOWN, clean, make_finding
from services.critic.imports import AnyRule, Forbidden, Layers, Protected, compile_pattern
from services.critic.project_tools import Prepared, Workshop
from shared.contracts.checkup import DriftRule
from shared.errors import ActionError
from shared.projects.environments import Environment
from shared.projects.reading import ProjectFiles
from shared.projects.reading.project_files import get_table
from shared.source import as_list, as_mapping

TABLE = ("tool", "importlinter")
CONTRACT_FILES = ("pyproject.toml", ".importlinter", "setup.cfg")
CRUISER_FILES = (".dependency-cruiser.js", ".dependency-cruiser.cjs", ".dependency-cruiser.json")
SUFFIX = " (a contract of import-linter)"
GOLANGCI = (".golangci.yml", ".golangci.yaml")


SETTING_FILES = tuple(dict.fromkeys(path for path, _, _ in KNOWN.settings))


def list_settings(files: ProjectFiles) -> list[DriftRule]:
    """The settings of checkers that are not run here: rules that the project states, and nobody checked."""
    found: dict[str, DriftRule] = {}
    for path, form, name in KNOWN.settings:
        if name not in found and files.has(path) and (line := files.find_line(path, form)):
            stated, why = f"The settings of {name}", f"{name} is not run here"
            found[name] = DriftRule(rule=stated, source=f"{path}:{line}", not_checked=why)
    return list(found.values())


class Contract(NamedTuple):
    """A contract of import-linter as it is written; ``typing``: imports for a type checker alone count."""

    settings: Mapping[str, Any]
    source: str
    typing: bool

    @property
    def name(self) -> str:
        """What it is called, else its kind."""
        return str(self.settings.get("name") or self.settings.get("type") or "")


def list_contracts(files: ProjectFiles) -> Iterator[Contract]:
    """The contracts of import-linter."""
    for path in CONTRACT_FILES:
        settings = files.table(path, *(TABLE if path.endswith(".toml") else ("importlinter",)))
        contracts = as_list(settings.get("contracts"))
        if not path.endswith(".toml"):
            sections = files.sections(path).items()
            contracts = [values for name, values in sections if name.startswith("importlinter:contract:")]
        typing = str(settings.get("exclude_type_checking_imports", False)).lower() != "true"
        for contract in map(as_mapping, contracts):
            yield Contract(
                contract, f"{path}:{_find_row(files, path, str(contract.get('name', '')))}", typing
            )


def _find_row(files: ProjectFiles, path: str, name: str) -> int:
    """The first line that has ``name``; 1 if none has."""
    return (files.find_line(path, re.escape(name)) if name else 0) or 1


def read_contracts(files: ProjectFiles, known: frozenset[str]) -> list[AnyRule]:
    """The contracts of the kinds layers, forbidden, independence and protected, and what depguard denies."""
    contracts = (rule for each in list_contracts(files) for rule in _read_contract(each, known))
    return [*_depguard(files), *contracts]


def _read_contract(found: Contract, known: frozenset[str]) -> list[AnyRule]:
    contract = found.settings
    kind = contract.get("type")
    ignored = tuple(
        (left.strip(), right.strip())
        for left, arrow, right in (each.partition("->") for each in _values(contract, "ignore_imports"))
        if arrow
    )
    common: dict[str, Any] = {
        "text": clean(f"{found.name}{SUFFIX}"),
        "source": found.source,
        "typing": found.typing,
        "ignored": ignored,
    }

    def modules(key: str) -> tuple[str, ...]:
        """The modules named there, also by patterns such as ``services.*``."""
        names = _values(contract, key)
        expanded = (
            sorted(filter(compile_pattern(each).fullmatch, known)) if "*" in each else [each]
            for each in names
        )
        return tuple(dict.fromkeys(itertools.chain.from_iterable(expanded)))

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


def unknown_contracts(files: ProjectFiles) -> Iterator[tuple[str, str]]:
    """The contracts of import-linter of other kinds: name and place."""
    known = ("layers", "forbidden", "independence", "protected")
    for each in list_contracts(files):
        if each.name and each.settings.get("type") not in known:
            yield clean(each.name), each.source


def _depguard(files: ProjectFiles) -> Iterator[AnyRule]:
    """What golangci-lint's depguard denies everywhere; lists for some files alone are left to itself."""
    for path in GOLANGCI:
        settings = files.table(path)
        for keys in (("linters-settings",), ("linters",), ("linters", "settings")):
            for rule in map(as_mapping, get_table(settings, *keys, "depguard", "rules").values()):
                for denied in map(as_mapping, as_list(rule.get("deny"))):
                    name = str(denied.get("pkg", ""))
                    if name and not rule.get("files"):
                        source = f"{path}:{_find_row(files, path, name)}"
                        stated = clean(f"{name} is denied by depguard: {denied.get('desc', '')}".rstrip(": "))
                        yield Protected(text=stated, source=source, subjects=(), objects=(name,))


# --- by the project's own checker, where it is prepared: import-linter, dependency-cruiser ----------


async def check_contracts(
    files: ProjectFiles, rules: tuple[DriftRule, ...], workshop: Workshop
) -> tuple[DriftRule, ...]:
    """``rules`` with what the project's own checkers say, where they are installed; else as they are."""
    config = files.first(*CRUISER_FILES)
    if not config and not any("importlinter" in files.text(path) for path in CONTRACT_FILES):
        return rules
    checked = rules
    try:
        async with workshop() as prepared:
            for environment in prepared.environments:
                if environment.folder in ("", ".") and not environment.preparation.problem:
                    checked = await _apply(config, checked, prepared, environment)
    except ActionError:
        return rules  # the contracts were read without their checker
    return checked


async def _apply(
    config: str, rules: tuple[DriftRule, ...], prepared: Prepared, environment: Environment
) -> tuple[DriftRule, ...]:
    programs = (folder / "lint-imports" for folder in environment.path)
    linter = next((program for program in programs if program.exists()), None)
    if environment.ecosystem == "python" and linter:
        result = await prepared.run([str(linter), "--no-cache", "--no-logo"], environment)
        return tuple(apply_import_linter(rules, result.output))
    cruiser = prepared.root / "node_modules/.bin/depcruise"
    if environment.ecosystem == "javascript" and config and cruiser.exists():
        folders = [name for name in ("src", "lib", "app") if (prepared.root / name).is_dir()] or ["."]
        words = [str(cruiser), "--config", config, "--output-type", "json", *folders]
        return tuple(apply_cruiser(rules, (await prepared.run(words, environment)).output, config))
    return rules


def apply_import_linter(rules: Sequence[DriftRule], output: str) -> Iterator[DriftRule]:
    """The rules with its verdicts: it sees indirect imports too, and contracts of a project's own kind."""
    for rule in rules:
        name = re.escape(rule.rule.removesuffix(SUFFIX))
        verdict = re.search(rf"^{name} (KEPT|BROKEN)", output, re.MULTILINE)
        if verdict is None:
            yield rule
        elif verdict[1] == "KEPT":
            yield msgspec.structs.replace(rule, violations=(), not_checked="")
        else:
            # What import-linter says of a contract that is broken in no direct import
            said = re.search(rf"^{name}\n-+\n(.*?)(?:\n\n\n|\Z)", output, re.MULTILINE | re.DOTALL)
            words = f"import-linter: {' '.join(said[1].split()) if said else 'it is broken'}"
            file, _, line = rule.source.rpartition(":")
            broken = make_finding("drift", rule.source, "medium", file, int(line), words)
            yield msgspec.structs.replace(rule, violations=rule.violations or (broken,), not_checked="")


def apply_cruiser(rules: Sequence[DriftRule], output: str, config: str) -> Iterator[DriftRule]:
    """The rules with dependency-cruiser's in place of the remark that its settings were not looked at."""
    try:
        summary = as_mapping(as_mapping(msgspec.json.decode(output.encode())).get("summary"))
    except msgspec.MsgspecError:
        yield from rules
        return
    yield from (rule for rule in rules if rule.source.partition(":")[0] != config)
    broken = [as_mapping(each) for each in as_list(summary.get("violations"))]
    for rule in as_list(as_mapping(summary.get("ruleSetUsed")).get("forbidden")):
        name = str(as_mapping(rule).get("name", "unnamed"))
        places = [each for each in broken if as_mapping(each.get("rule")).get("name") == name]
        found = [
            make_finding(
                "drift", name, "medium", str(each["from"]), 0, f"{each['from']} imports {each['to']}"
            )
            for each in places[:50]
        ]
        stated = clean(f"{name} (a rule of dependency-cruiser)")
        yield DriftRule(rule=stated, source=f"{config}:1", violations=tuple(found))
