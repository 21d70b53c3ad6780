"""Findings: what the steps of a run brought, as it is kept, quoted and used again."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

KEPT = 12_000
"""The most characters of a step's output that are kept for later thoughts."""
QUOTED = 3_000
"""The most of them that a question to the model quotes of one step."""
FLEETING = frozenset(
    "time date today now clock weather forecast temperature status news calendar reminder reminders".split()
)
"""Words of actions whose answer is another one each time: what they brought is not used again."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What one step brought: ``done``, or the ``reason`` why not.

    ``digest`` tells what was called with what, ``level`` how hard was being thought.
    """

    digest: str
    iteration: int
    step: int = 0
    action: str
    by: str
    done: bool
    output: str = ""
    reason: str = ""
    evidence_refs: tuple[str, ...] = ()
    output_paths: tuple[str, ...] = ()
    level: str = ""


def digest_of(assignee: str, action: str, params: Mapping[str, Any]) -> str:
    """The same for the same call: assignee, action (or words) and parameters in any order."""
    whole = msgspec.json.encode([assignee, " ".join(action.split()), params], order="deterministic")
    return hashlib.sha256(whole).hexdigest()[:16]


def is_fleeting(action: str) -> bool:
    """Whether the answer to ``action`` changes by itself, as the time and the weather do."""
    return not FLEETING.isdisjoint(re.findall(r"[a-z]+", action.lower()))


def quote(findings: Sequence[Finding]) -> str:
    """The findings for a question to the model: marked as data, so that nothing in them reads as an order."""
    if not findings:
        return "<results>\n(nothing was done)\n</results>"
    numbered = enumerate(findings, start=1)
    told = [f'<result number="{number}">\n{fence(_tell(finding))}\n</result>' for number, finding in numbered]
    return "\n".join(["<results>", *told, "</results>"])


def _tell(finding: Finding) -> str:
    state = "done" if finding.done else f"FAILED: {finding.reason[:500]}"
    by = f" by {finding.by}" if finding.by else ""
    refs = f"\nevidence: {', '.join(finding.evidence_refs[:20])}" if finding.evidence_refs else ""
    return f"{finding.action[:300]}: {state}{by}{refs}\n{finding.output[:QUOTED]}"


def references(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Every evidence reference once, in order."""
    return tuple(dict.fromkeys(ref for finding in findings for ref in finding.evidence_refs))


def paths(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Every output path once, in order."""
    return tuple(dict.fromkeys(path for finding in findings for path in finding.output_paths))


def fence(text: str) -> str:
    """``text`` that cannot close the marks it stands between."""
    return re.sub(
        r"</?\s*(?:results?|asked|answer|text|memory)\b", lambda found: found[0].replace("<", "‹"), text
    )
