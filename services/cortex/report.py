"""Execution reports: what became of each step of a plan."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from services.cortex.execution import StepResult, StepStatus
from services.cortex.night import Job
from shared.contracts import AgentReport, TaskPlan, TaskResult, TaskStatus, generate_iso_timestamp
from shared.errors import ActionError
from shared.subjects import NEXUS
from shared.tasks.actions import Outcome

EXCERPT = 2_000
"""The most characters of a step's output that the report quotes."""
MOST_REFERENCES = 50
"""The most sources and files that the report of a job names; all of them are in its result."""


def summarise(results: Sequence[StepResult]) -> str:
    """One sentence: how many steps were completed, and why the others were not."""
    completed = sum(result.status is StepStatus.COMPLETED for result in results)
    told = [f"{completed} of {len(results)} step{'s' * (len(results) != 1)} completed"]
    for result in results:
        if result.status is not StepStatus.COMPLETED:
            reason = result.reason.rstrip(".")
            told.append(f"step {result.step_number} ({result.action[:60]!r}) {result.status}: {reason}")
    return "; ".join(told)


def compose_report(plan: TaskPlan, results: Sequence[StepResult]) -> str:
    """The execution report as Markdown."""
    lines = [
        f"# Execution of {plan.task_id}",
        "",
        f"{summarise(results)}.",
        f"Ended {generate_iso_timestamp()}.",
        "",
    ]
    for result in results:
        lines += [f"## {result.step_number}. {' '.join(result.action.split())[:120]}", ""]
        lines.append(f"{result.status.value.capitalize()} after {result.seconds:.1f} s." + _because(result))
        lines += [f"- {path}" for path in result.output_paths]
        if result.output:
            lines += ["", "~~~text", result.output[:EXCERPT].replace("~~~", "~ ~ ~"), "~~~"]
        lines.append("")
    return "\n".join(lines)


def report_job(job: Job, result: TaskResult, path: str, *, sender: str, report_id: str) -> AgentReport:
    """What became of an overnight job, for nexus to tell in the morning; ``path`` is the archived result."""
    done = result.status is TaskStatus.COMPLETED
    came = result.output if done else result.error_message or result.output
    told = " ".join(came.split())[:EXCERPT] or "it said nothing"
    times = f" after {len(job.tried) + 1} attempts" if job.tried else ""
    return AgentReport(
        sender=sender,
        recipient=NEXUS,
        cause=result.id,
        goal_id=result.goal_id,
        report_id=report_id,
        agent=sender,
        report_type="overnight_job",
        summary=f"Overnight job {job.id} {result.status.value}{times}: {told}",
        evidence_refs=result.evidence_refs[:MOST_REFERENCES],
        output_paths=(*result.output_paths[:MOST_REFERENCES], path),
        metadata={
            "job_id": job.id,
            "task": job.task[:EXCERPT],
            "task_id": result.task_id,
            "status": result.status.value,
            "priority": job.priority,
            "completed_at": result.completed_at,
        },
    )


def _because(result: StepResult) -> str:
    return f" {result.reason}" if result.reason else ""


def tell_results(results: Sequence[StepResult], path: Path) -> Outcome:
    """The outcome of a plan whose report is at ``path``; raises ActionError unless all was completed."""
    summary = summarise(results)
    if any(result.status is not StepStatus.COMPLETED for result in results):
        raise ActionError(summary, f"What was done is in {path}")
    return Outcome(
        output="\n\n".join([summary, *(result.output for result in results if result.output)]),
        data={"steps": [_brief(result) for result in results]},
        evidence_refs=tuple(dict.fromkeys(ref for result in results for ref in result.evidence_refs)),
        output_paths=(str(path), *(path for result in results for path in result.output_paths)),
    )


def _brief(result: StepResult) -> dict[str, Any]:
    return {
        "step_number": result.step_number,
        "action": result.action,
        "status": result.status.value,
        "seconds": result.seconds,
        "output": result.output[:2_000],
        "data": result.data,
    }


def save_report(text: str, folder: Path, task_id: str) -> Path:
    """Write the report beneath ``folder``, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"execution-{task_id}.md"
    draft = path.with_suffix(".part")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
    return path
