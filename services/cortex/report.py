"""Execution reports: what became of each step of a plan."""

from collections.abc import Sequence
from pathlib import Path

from services.cortex.execution import StepResult, StepStatus
from shared.contracts import TaskPlan, generate_iso_timestamp

EXCERPT = 2_000
"""The most characters of a step's output that the report quotes."""


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


def _because(result: StepResult) -> str:
    return f" {result.reason}" if result.reason else ""


def save_report(text: str, folder: Path, task_id: str) -> Path:
    """Write the report beneath ``folder``, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"execution-{task_id}.md"
    draft = path.with_suffix(".part")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
    return path
