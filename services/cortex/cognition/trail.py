"""The trail of a run: its stages as the office sees them, and its workspace as another attempt finds it."""

from typing import Any

from shared import subjects
from shared.agent.context import AgentContext
from shared.bus.entry import Entry, seal
from shared.contracts import CognitiveContext, CognitiveMessage, MessageType

STAGE_CHANGED = "stage_changed"
"""What ``event.<agent>.<what>`` is called when a run moves on."""
KIND = "cognition"
"""The kind of record that holds the workspace of a run."""
PARTS = {
    "perception": "perception",
    "memory_retrieval": "memory",
    "planning": "executive",
    "execution": "motor",
    "evaluation": "executive",
    "synthesis": "executive",
    "memory_storage": "memory",
}
"""The stages of a run and the part of the mind that each is addressed to; the others are the agent's own."""
FALLBACK = "cortex"


class Trail:
    """What is left of one task's run on the bus, each piece in one commit with a note for whoever watches.

    The commit is fenced by the task's claim: a process that lost the task writes nothing here any more.
    """

    def __init__(self, agent: AgentContext) -> None:
        self._agent = agent
        self._task = agent.task

    async def read(self) -> CognitiveContext | None:
        """The workspace as the last attempt left it."""
        stored = await self._agent.bus.last(subjects.OFFICE, self._record_subject)
        if stored is None:
            return None
        return CognitiveContext.from_dict(CognitiveMessage.from_json(stored.data).payload["context"])

    async def move(self, context: CognitiveContext, stage: str, note: str) -> CognitiveContext:
        """``context`` at ``stage``: kept, and told as ``event.<agent>.stage_changed``."""
        moved = context.update_stage(stage)
        event = self._message(
            PARTS.get(stage, FALLBACK),
            {
                "stage": stage,
                "before": context.processing_stage,
                "note": note[:500],
                "mode": context.mode,
                "task_id": self._task.task_id,
                "iteration": context.iteration_count,
                "confidence": context.confidence,
            },
        )
        told = seal(subjects.event(self._agent.profile.name, STAGE_CHANGED), event)
        await self._agent.current_task.progress(f"{stage}: {note}", [told, self._record(moved)])
        return moved

    async def keep(self, context: CognitiveContext, note: str) -> None:
        """Keep ``context`` as it is, in the middle of a stage."""
        await self._agent.current_task.progress(note, [self._record(context)])

    @property
    def _record_subject(self) -> str:
        return subjects.record(self._agent.profile.name, KIND, self._task.task_id)

    def _record(self, context: CognitiveContext) -> Entry:
        stage = f"{context.processing_stage} (kept)"
        payload = {"stage": stage, "context": context.to_dict()}
        return seal(self._record_subject, self._message(FALLBACK, payload))

    def _message(self, recipient: str, payload: dict[str, Any]) -> CognitiveMessage:
        return CognitiveMessage(
            sender=self._agent.profile.name,
            recipient=recipient,
            message_type=MessageType.NOTIFICATION,
            payload=payload,
            correlation_id=self._task.task_id,
            cause=self._task.id,
            goal_id=self._task.goal_id,
        )
