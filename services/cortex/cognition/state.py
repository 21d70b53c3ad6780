"""The state of a run: its workspace with all that was found, kept on the bus as it grows."""

from typing import Any

import msgspec

from services.cortex.cognition.evaluation import CONFIDENT, EvaluationResult
from services.cortex.cognition.material import Finding
from services.cortex.cognition.trail import Trail
from shared.contracts import CognitiveContext


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked: its ``text``, the ``whole`` with all that goes with it, and what was said before."""

    text: str
    whole: str
    history: tuple[dict[str, Any], ...] = ()


class State:
    """The CognitiveContext of one run as it stands; every stage is told to the office."""

    def __init__(self, trail: Trail, context: CognitiveContext) -> None:
        self.context = context
        self.enough = CONFIDENT
        self._trail = trail

    @classmethod
    async def open(cls, trail: Trail, asked: Asked, mode: str) -> "State":
        """The state that an earlier attempt left, or that of a run that begins."""
        context = await trail.read() or CognitiveContext(
            user_query=asked.whole,
            original_query=asked.text,
            conversation_history=asked.history,
            mode=mode,
        )
        return cls(trail, context)

    @property
    def level(self) -> str:
        """How hard is being thought, "" where that is not in levels."""
        return self.context.mode.partition("/")[2]

    @property
    def missed(self) -> tuple[str, ...]:
        """What the level before missed."""
        return tuple(self.context.percept.get("missed", ()))

    @property
    def known(self) -> list[Finding]:
        """Everything that was found, at any level."""
        return [msgspec.convert(entry, Finding) for entry in self.context.accumulated_results]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found at this level: of each call the last finding, failures that were mended left out."""
        found = [finding for finding in self.known if finding.level == self.level]
        done = {finding.action for finding in found if finding.done}
        last = {(f.digest or f.action): f for f in found if f.done or f.action not in done}
        return tuple(last.values())

    @property
    def evaluation(self) -> EvaluationResult:
        """The last judgement."""
        nothing = {"is_complete": False, "confidence": 0.0}
        return msgspec.convert(self.context.evaluation or nothing, EvaluationResult)

    @property
    def is_complete(self) -> bool:
        """Whether the last judgement is that it is complete."""
        return self.evaluation.holds(self.enough)

    async def move(self, stage: str, note: str) -> None:
        """Go to ``stage``, keep the workspace, and tell the office."""
        self.context = await self._trail.move(self.context, stage, note)

    async def keep(self, note: str, **changes: Any) -> None:
        """Change the workspace and keep it, in the middle of a stage."""
        self.change(**changes)
        await self._trail.keep(self.context, note)

    async def keep_finding(self, finding: Finding) -> None:
        """Add what a step brought and keep it."""
        self.add(finding)
        await self._trail.keep(self.context, f"done: {finding.action}")

    async def judge(self, evaluation: EvaluationResult, iteration: int) -> None:
        """Take over how the work of ``iteration`` was judged, and tell it."""
        self.change(
            iteration_count=iteration,
            evaluation=msgspec.to_builtins(evaluation),
            confidence=evaluation.confidence,
        )
        words = "complete" if self.is_complete else "not complete"
        await self.move("evaluation", f"{words}, confidence {evaluation.confidence:.2f}")

    def begin_level(self, level: str, enough: float) -> None:
        """Think at ``level`` from now on, with a new plan, unless an earlier attempt was there already."""
        self.enough = enough
        if self.level == level:
            return
        missed = list(self.evaluation.missing_aspects) if self.level else []
        self.change(
            mode=f"{self.context.mode.partition('/')[0]}/{level}",
            percept={**self.context.percept, "missed": missed},
            current_plan=None,
            iteration_count=0,
            evaluation={},
            confidence=0.0,
        )

    def add(self, finding: Finding) -> None:
        """Add what a step brought; it is kept with the next stage."""
        self.change(accumulated_results=(*self.context.accumulated_results, msgspec.to_builtins(finding)))

    def change(self, **changes: Any) -> None:
        """Change the workspace; it is kept with the next stage."""
        self.context = msgspec.structs.replace(self.context, **changes)
