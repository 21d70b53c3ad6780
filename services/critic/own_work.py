"""The critic's own inspections are not believed either: their checks are run again and counted."""

import asyncio
from pathlib import Path

from services.critic.checkers import CHECKERS
from services.critic.claims import Claims, ReviewRecord
from services.critic.drift import check_drift
from services.critic.kinds import sort_files
from shared.errors import ActionError
from shared.source.tree import Tree, read_tree
from shared.text.phrases import count

LINT = "ruff"
"""The check that is repeated where an inspection is one result among others."""


async def repeat_inspection(record: ReviewRecord, claim: Claims, repo: Path | None, *, alone: bool) -> None:
    """Run the checks of an inspection again, and note what differs: all of them if it stands ``alone``.

    Among other results its lint is enough. A check that is not repeated, such as one that needs a network,
    counts by the places it names.
    """
    wanted = set(claim.tools) if alone else {LINT} & set(claim.tools)
    confirmed = []
    try:
        if repo is not None and (wanted or (alone and claim.rules)):
            confirmed = await _repeat(record, claim, repo, wanted, with_drift=alone)
    except ActionError as error:
        record.skip(claim.task, f"it could not be repeated: {error}")
        return
    if confirmed:
        record.confirm(claim.task, f"run again with the same result: {', '.join(confirmed)}")
    elif claim.tools or claim.rules:
        record.confirm(claim.task, "its counts agree, and the places that it names are there")
    elif alone or not claim.inspected:
        record.skip(claim.task, "it is the critic's own work, and was not repeated")


async def _repeat(
    record: ReviewRecord, claim: Claims, repo: Path, wanted: set[str], *, with_drift: bool
) -> list[str]:
    """What came out the same; what did not is noted as a fault."""
    sources = await asyncio.to_thread(lambda: sort_files(read_tree(repo)))
    same = []
    for checker in CHECKERS:
        if checker.name not in wanted:
            continue
        again = (await checker.check(sources, timeout=record.timeout)).tool
        record.add_run(claim.task, checker.name, findings=again.findings)
        version, claimed = claim.tools[checker.name]
        if again.version != version:
            continue  # another one than it was then
        if again.findings != claimed:
            counts = f"{claimed} findings of {checker.name} are claimed, {again.findings} were made again"
            record.refute(claim.task, counts)
        else:
            same.append(f"{checker.name} ({count(claimed, 'finding')})")
    if with_drift and claim.rules:
        same += await _repeat_rules(record, claim, sources.tree)
    return same


async def _repeat_rules(record: ReviewRecord, claim: Claims, tree: Tree) -> list[str]:
    """What came out the same of the rules that can be checked without a model and the project's own tools."""
    held = broken = 0
    for rule in (await asyncio.to_thread(check_drift, tree)).rules:
        claimed = claim.rules.get((rule.rule, rule.source))
        if claimed is None or rule.not_checked:
            continue
        if len(rule.violations) != claimed:
            counts = f"{claimed} violations are claimed, {len(rule.violations)} were found again"
            record.refute(claim.task, f"the rule {rule.rule!r}: {counts}")
        held, broken = held + 1, broken + bool(rule.violations)
    return [f"{count(held, 'stated rule')} ({broken} broken)"] if held else []
