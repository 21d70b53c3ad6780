"""The risk of what an agent asks for: a grade with its reason, from the request's rule and reach."""

from typing import Literal, NamedTuple

from shared.contracts import ApprovalRequest

Grade = Literal["low", "medium", "high"]

GRADES: tuple[Grade, ...] = ("low", "medium", "high")
HOST = "host:"
ANY_HOST = "network"


class Risk(NamedTuple):
    """How bad it can get if the request is granted, and why in a sentence."""

    grade: Grade
    reason: str


UNKNOWN = Risk("high", "What it does cannot be told before it runs.")
NO_RULE = Risk("medium", "No rule of the command policy says what it can do. Read it with care.")
BY_FAMILY = {
    "unclear": UNKNOWN,
    "destroy": Risk("high", "What it deletes does not come back by itself."),
    "secret": Risk("high", "Who reads a secret can use it everywhere."),
    "share": Risk("high", "Others can see it at once, and it can hardly be taken back."),
    "others": Risk("high", "It changes something that other people use."),
    "database": Risk("high", "Data in a database may be lost."),
    "guard": Risk("high", "It may weaken what limits the agents."),
    "read": Risk("medium", "It reads what lies outside its work, and may repeat it in its answer."),
    "write": Risk("medium", "It changes files outside its own copy."),
    "run": Risk("medium", "It runs a program whose content was not examined. The jail confines it."),
    "git": Risk("medium", "It changes what git keeps in the agent's copy, not in your folder."),
    "reach": Risk("medium", "It opens a way to the network."),
}
"""By the first part of a rule's name (shared/policy/rules.toml)."""
BY_RULE = {
    "destroy.workspace": Risk("low", "It deletes the agent's own copy, and a snapshot brings that back."),
    "git.discard": Risk("low", "It throws away work in the agent's own copy."),
    "git.remote": Risk("high", "Later work would go to another place."),
}
"""Rules whose grade differs from that of their family."""


def grade_risk(request: ApprovalRequest) -> Risk:
    """The risk of granting a request: that of its rule, or of its reach if this is higher."""
    family = request.rule.partition(".")[0]
    ruled = BY_RULE.get(request.rule) or BY_FAMILY.get(family, NO_RULE)
    if not request.reach:
        return ruled
    reach = _grade_reach(request.reach)
    return reach if family == "reach" else max(reach, ruled, key=lambda risk: GRADES.index(risk.grade))


def _grade_reach(reach: tuple[str, ...]) -> Risk:
    hosts = [entry.removeprefix(HOST) for entry in reach if entry.startswith(HOST)]
    if ANY_HOST in reach:
        return Risk("high", "Which hosts it needs is not known. Data may leave to those that you name.")
    if hosts:
        return Risk("medium", f"What it reads may leave to {', '.join(hosts)}, and to no other host.")
    return Risk("low", "It fetches packages of a public registry. Their code runs in the jail alone.")
