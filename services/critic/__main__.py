"""Critic: checks code and results."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from services.critic.drift import check_drift
from services.critic.findings import Check
from services.critic.inspection import describe, describe_check, describe_drift, inspect_repository, sources
from services.critic.lint import lint
from services.critic.review import review
from services.critic.secrets import scan_secrets
from services.critic.security import scan_security
from shared.actions import Outcome, register_action
from shared.agent import BaseAgent
from shared.process import run
from shared.source.tree import Tree, read_tree

REPO = {"repo": "Absolute path of the repository"}


class Critic(BaseAgent):
    """Lints, scans, checks drift and reviews; it never changes what it looks at."""

    @register_action(
        "Lint a repository, scan it for vulnerabilities and secrets, and check its import rules", REPO
    )
    async def inspect_repository(self, repo: str) -> Outcome:
        """The Inspection in data key ``inspection``."""
        found = await inspect_repository(Path(repo), timeout=self.settings.command_timeout)
        return Outcome(
            output=describe(found), data={"inspection": found.to_dict()}, evidence_refs=sources(found)
        )

    @register_action("Lint the Python code of a repository", REPO)
    async def lint(self, repo: str) -> Outcome:
        """The findings in data key ``findings``, the tool's run in ``tool``."""
        return _tell(await lint(await _tree(repo), timeout=self.settings.command_timeout))

    @register_action("Scan the Python code of a repository for vulnerabilities", REPO)
    async def scan_security(self, repo: str) -> Outcome:
        """The findings in data key ``findings``, the tool's run in ``tool``."""
        return _tell(await scan_security(await _tree(repo), timeout=self.settings.command_timeout))

    @register_action("Scan the files of a repository for secrets", REPO)
    async def scan_secrets(self, repo: str) -> Outcome:
        """The findings in data key ``findings``, never a secret itself, the tool's run in ``tool``."""
        return _tell(await scan_secrets(await _tree(repo), timeout=self.settings.command_timeout))

    @register_action("Check a repository's imports against the rules that it states about itself", REPO)
    async def check_drift(self, repo: str) -> Outcome:
        """The rules with their violations in data key ``drift``, what was not checked in ``note``."""
        drift = await asyncio.to_thread(check_drift, await _tree(repo))
        places = [
            source for rule in drift.rules for source in (rule.source, *(v.source for v in rule.violations))
        ]
        return Outcome(
            output=describe_drift(drift),
            data={"drift": msgspec.to_builtins(drift.rules), "note": drift.note},
            evidence_refs=tuple(dict.fromkeys(places))[:50],
        )

    @register_action(
        "Review the results of a goal's tasks: approve them, or name those to be done again",
        {
            "results": "The results by the task's name, each with status, output, metadata and evidence_refs",
            "repo": "Absolute path of the repository they are about, to look up what they cite",
        },
    )
    async def review(self, results: dict[str, Any], repo: str = "") -> Outcome:
        """The Verdict in data key ``verdict``."""
        verdict = await asyncio.to_thread(review, results, Path(repo) if repo else None)
        head = f"{'Approved' if verdict.approved else 'Sent back'}, {verdict.score} of 10."
        return Outcome(
            output="\n".join([head, *(f"- {reason}" for reason in verdict.reasons)]),
            data={"verdict": verdict.to_dict()},
        )


async def _tree(repo: str) -> Tree:
    return await asyncio.to_thread(read_tree, Path(repo))


def _tell(check: Check) -> Outcome:
    found = check.findings[:100]
    return Outcome(
        output=describe_check(check),
        data={
            "findings": msgspec.to_builtins(found),
            "tool": check.tool.to_dict(),
            "total": len(check.findings),
        },
        evidence_refs=tuple(dict.fromkeys(finding.source for finding in found))[:50],
    )


if __name__ == "__main__":
    run(Critic, __file__)
