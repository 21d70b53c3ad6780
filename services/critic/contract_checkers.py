"""Contracts checked by the project's own checker where it is prepared: import-linter, dependency-cruiser."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from services.critic.claims import as_list, as_mapping
from services.critic.contracts import CONTRACT_FILES, CRUISER_FILES, SUFFIX
from services.critic.drift import Drift, count_rules
from services.critic.file_tools import OUTPUT
from services.critic.findings import clean, make_finding
from services.critic.project_tools import SECONDS, Prepared, Workshop
from shared.contracts.checkup import DriftRule, Finding
from shared.errors import ActionError
from shared.projects.environments import Environment
from shared.sandbox import CommandResult, run_command
from shared.source import Tree, read_text


def has_contracts(tree: Tree) -> bool:
    """Whether the project keeps contracts for a checker that can be run."""
    configured = (read_text(tree.root, path) for path in CONTRACT_FILES if path in tree.files)
    cruised = any(path in tree.files for path in CRUISER_FILES)
    return cruised or any("importlinter" in each for each in configured)


async def check_contracts(tree: Tree, drift: Drift, workshop: Workshop) -> Drift:
    """``drift`` with what the project's own checkers say, where they are installed; else as it is."""
    if not has_contracts(tree):
        return drift
    try:
        async with workshop() as prepared:
            rules = drift.rules
            for environment in prepared.environments:
                if environment.folder in ("", ".") and not environment.preparation.problem:
                    rules = await _apply(tree, rules, prepared, environment)
    except ActionError:
        return drift  # the contracts were read without their checker
    if rules == drift.rules:
        return drift
    return msgspec.structs.replace(drift, rules=rules, note=count_rules(rules))


async def _apply(
    tree: Tree, rules: Sequence[DriftRule], prepared: Prepared, environment: Environment
) -> tuple[DriftRule, ...]:
    if environment.ecosystem == "python" and (program := _find("lint-imports", environment.path)):
        result = await _run([program, "--no-cache", "--no-logo"], prepared, environment)
        return tuple(apply_import_linter(rules, result.output))
    cruiser = prepared.root / "node_modules/.bin/depcruise"
    config = next((path for path in CRUISER_FILES if path in tree.files), "")
    if environment.ecosystem == "javascript" and config and cruiser.exists():
        folders = [name for name in ("src", "lib", "app") if (prepared.root / name).is_dir()] or ["."]
        words = [str(cruiser), "--config", config, "--output-type", "json", *folders]
        return tuple(apply_cruiser(rules, (await _run(words, prepared, environment)).output, config))
    return tuple(rules)


async def _run(words: Sequence[str], prepared: Prepared, environment: Environment) -> CommandResult:
    return await run_command(
        words,
        cwd=prepared.root,
        timeout=SECONDS,
        writable=[prepared.root, *environment.writable],
        readable=environment.readable,
        env={**environment.env, "NO_COLOR": "1", "COLUMNS": "300"},
        output_limit=OUTPUT,
        separate_errors=True,
    )


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
            yield msgspec.structs.replace(
                rule, violations=rule.violations or (_broken(rule, name, output),), not_checked=""
            )


def _broken(rule: DriftRule, name: str, output: str) -> Finding:
    """What import-linter says of a contract that is broken in no direct import."""
    said = re.search(rf"^{name}\n-+\n(.*?)(?:\n\n\n|\Z)", output, re.MULTILINE | re.DOTALL)
    file, _, line = rule.source.rpartition(":")
    words = " ".join(said[1].split()) if said else "it is broken"
    return make_finding("drift", rule.source, "medium", file, int(line), f"import-linter: {words}")


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


def _find(name: str, folders: Sequence[Path]) -> str:
    return next((str(folder / name) for folder in folders if (folder / name).exists()), "")
