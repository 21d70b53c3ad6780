"""A submission whose goal id is in use: the same goal once more, or an attempt at another one."""

from shared import subjects
from shared.contracts import AgentReport, Goal
from shared.text.shorten import flatten

QUOTED = 80
"""The most characters that are quoted of the goal that has the id."""


def is_another_submission(goal: Goal, known: Goal) -> bool:
    """Whether ``goal`` comes from another message than ``known``, rather than from the same one again."""
    return goal.submitted_at != known.submitted_at


def is_same_goal(goal: Goal, known: Goal) -> bool:
    """Whether both ask for the same: then the second submission is a repetition.

    What an agent submits in a person's name is not the same: the person's own words allow more.
    """
    same = (goal.text, goal.requester, goal.context) == (known.text, known.requester, known.context)
    return same and bool(goal.said) == bool(known.said)


def format_repeated(known: Goal) -> str:
    """What became of a submission that repeats ``known``."""
    status = str(known.status).replace("_", " ")
    return f"Submitted before, at {known.submitted_at}: the goal is {status}, and nothing new begins"


def format_taken(known: Goal) -> str:
    """Why a submission is refused whose id ``known`` has."""
    text = flatten(known.text, QUOTED)
    return f"its id {known.goal_id!r} is that of another goal, of {known.requester}: {text!r}"


def answer_mail(goal: Goal, known: Goal) -> AgentReport:
    """The mail that tells the requester of ``goal`` what became of the submission."""
    same = is_same_goal(goal, known)
    refused = f"Not begun, because {format_taken(known)}. Submit it again with another id, or with none"
    return AgentReport(
        sender=subjects.CONDUCTOR,
        recipient=goal.requester,
        goal_id=goal.goal_id,
        report_id=goal.goal_id,
        agent=subjects.CONDUCTOR,
        report_type="repeated" if same else "refused",
        summary=format_repeated(known) if same else refused,
        metadata={"status": str(known.status) if same else "refused", "text": goal.text[:500]},
    )
