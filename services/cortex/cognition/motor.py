"""The motor: carries out the steps of a run's plan, and does nothing twice that was done before."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

from services.cortex.cognition.material import KEPT, Finding, digest_of, is_fleeting
from services.cortex.execution import StepResult, StepStatus, execute_plan
from services.cortex.stepping import Deed, Stepper
from shared.contracts import TaskPlan, TaskStep
from shared.tasks.actions import Outcome

Keep = Callable[[Finding], Awaitable[None]]
"""Is told each finding as it is made."""


class Motor:
    """Carries out plans for one run; ``known`` is what the run found so far, a restart included."""

    def __init__(
        self, stepper: Stepper, known: Sequence[Finding], keep: Keep, *, at_once: int, level: str = ""
    ) -> None:
        self._level = level
        self._stepper = stepper
        self._keep = keep
        self._at_once = at_once
        self._done = {finding.digest: finding for finding in known if finding.done}
        self._known = {(f.level, f.iteration, f.step, f.digest): f for f in known if f.done}

    def is_done(self, deed: Deed) -> bool:
        """Whether the same was done in this run before, and holds."""
        return _digest(deed) in self._done and not is_fleeting(deed.action or deed.words)

    async def execute(self, plan: TaskPlan, iteration: int) -> tuple[Finding, ...]:
        """The findings of the plan's steps, in its order; those of equal calls before are taken again."""
        made: dict[int, Finding] = {}

        async def carry_out(step: TaskStep, inputs: Mapping[int, StepResult]) -> Outcome:
            deed = self._stepper.prepare(step, inputs)
            digest = _digest(deed)
            place = (self._level, iteration, step.step_number, digest)
            finding = self._known.get(place)
            if finding is None:
                if self.is_done(deed):
                    outcome = _as_outcome(self._done[digest])
                else:
                    key = f"{self._level[:1]}i{iteration}-{step.step_number}-{digest}"
                    outcome = await self._stepper.carry_out(deed, what=step.action, key=key)
                finding = self._make_finding(deed, place, step, outcome)
                self._done[digest] = finding
                await self._keep(finding)
            made[step.step_number] = finding
            return _as_outcome(finding)

        results = await execute_plan(plan, carry_out, at_once=self._at_once)
        return tuple(made.get(result.step_number) or self._failed(result, iteration) for result in results)

    def _make_finding(
        self, deed: Deed, place: tuple[str, int, int, str], step: TaskStep, outcome: Outcome
    ) -> Finding:
        level, iteration, number, digest = place
        return Finding(
            digest=digest,
            iteration=iteration,
            step=number,
            level=level,
            action=" ".join(step.action.split())[:300],
            by=deed.assignee,
            done=True,
            output=outcome.output[:KEPT],
            evidence_refs=outcome.evidence_refs[:100],
            output_paths=outcome.output_paths[:100],
        )

    def _failed(self, result: StepResult, iteration: int) -> Finding:
        why = result.reason if result.status is StepStatus.FAILED else f"not tried: {result.reason}"
        return Finding(
            digest="",
            iteration=iteration,
            step=result.step_number,
            level=self._level,
            action=" ".join(result.action.split())[:300],
            by="",
            done=False,
            reason=why[:1_000],
        )


def _digest(deed: Deed) -> str:
    return digest_of(deed.assignee, deed.action or deed.words, deed.params)


def _as_outcome(finding: Finding) -> Outcome:
    return Outcome(
        output=finding.output, evidence_refs=finding.evidence_refs, output_paths=finding.output_paths
    )
