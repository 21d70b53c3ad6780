"""The critic's own inspections are not believed either: their checks are run again and counted."""

import asyncio
from pathlib import Path

from services.critic.checkers import CHECKERS
from services.critic.claims import Claims, ReviewRecord
from services.critic.drift import check_drift
from services.critic.kinds import sort_files
from shared.errors import ActionError
from shared.source.tree import read_tree
from shared.text.phrases import count

LINT = "ruff"
"""The check that is repeated where an inspection is one result among others."""


async def repeat_inspection(record: ReviewRecord, claim: Claims, repo: Path | None, *, alone: bool) -> None:
    """Run the checks of an inspection again, and note what differs: all of them if it stands ``alone``.

    Among other results its lint is enough; then a check that is not repeated counts by the places it names.
    """
    wanted = set(claim.tools) if alone else {LINT} & set(claim.tools)
    confirmed = []
    try:
        if repo is not None and (wanted or (alone and claim.broken_rules >= 0)):
            confirmed = await _repeat(record, claim, repo, wanted, with_drift=alone)
    except ActionError as error:
        record.skip(claim.task, f"it could not be repeated: {error}")
        return
    if confirmed:
        record.confirm(claim.task, f"run again with the same result: {', '.join(confirmed)}")
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
        claimed = claim.tools[checker.name]
        if again.version and again.findings != claimed:
            counts = f"{claimed} findings of {checker.name} are claimed, {again.findings} were made again"
            record.refute(claim.task, counts)
        elif again.version:
            same.append(f"{checker.name} ({count(claimed, 'finding')})")
    if with_drift and claim.broken_rules >= 0:
        rules = (await asyncio.to_thread(check_drift, sources.tree)).rules
        broken = sum(bool(rule.violations) for rule in rules)
        if broken != claim.broken_rules:
            record.refute(
                claim.task, f"{claim.broken_rules} broken rules are claimed, {broken} were found again"
            )
        else:
            same.append(f"the repository's own rules ({broken} broken)")
    return same
