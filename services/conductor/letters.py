"""What the conductor writes to people, and what it reads in the critic's verdicts."""

from services.conductor.repair import BRAIN
from shared import subjects
from shared.contracts import AgentReport, Goal, TaskResult, TaskStatus, Verdict


def write_letter(goal: Goal) -> AgentReport:
    """The letter that tells a goal's requester how it ended."""
    return AgentReport(
        sender=subjects.CONDUCTOR,
        recipient=goal.requester,
        cause="",
        goal_id=goal.goal_id,
        report_id=goal.goal_id,
        agent=subjects.CONDUCTOR,
        report_type="goal" if goal.playbook in ("", BRAIN) else goal.playbook,
        summary=goal.answer or goal.reason or f"The goal ended: {goal.status}",
        output_paths=(goal.report_path,) if goal.report_path else (),
        metadata={"status": str(goal.status), "text": goal.text[:500]},
    )


def read_verdict(result: TaskResult) -> Verdict | str:
    """The critic's verdict, or why there is none."""
    verdict = result.metadata.get("verdict")
    if result.status is not TaskStatus.COMPLETED or not verdict:
        return result.error_message or "the critic gave no verdict"
    try:
        return Verdict.from_dict(verdict)
    except ValueError as error:
        return f"the critic's verdict cannot be read: {error}"
