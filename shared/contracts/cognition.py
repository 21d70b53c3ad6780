"""The workspace and the messages of one cognitive run."""

from enum import StrEnum
from typing import Any

import msgspec

from shared.contracts.base import (
    Contract,
    Envelope,
    generate_id,
    generate_iso_timestamp,
    require_name,
    require_text,
    require_timestamp,
    require_token,
    require_unit,
)


class MessageType(StrEnum):
    """The kinds of message between the parts of a cognitive run."""

    REQUEST = "request"
    RESPONSE = "response"
    NOTIFICATION = "notification"
    ERROR = "error"


class CognitiveMessage(Envelope, frozen=True, kw_only=True, tag="cognitive_message.v1"):
    """A message between cognitive parts; a higher ``priority`` is more urgent."""

    sender: str
    recipient: str
    message_type: MessageType
    payload: dict[str, Any] = {}
    correlation_id: str = msgspec.field(default_factory=generate_id)
    timestamp: str = msgspec.field(default_factory=generate_iso_timestamp)
    priority: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_name("sender", self.sender)
        require_name("recipient", self.recipient)
        require_token("correlation_id", self.correlation_id)
        require_timestamp("timestamp", self.timestamp)


class CognitiveContext(Contract, frozen=True, kw_only=True):
    """Everything the parts of one cognitive run share; a new stage makes a new context.

    ``percept`` is what was understood of the query, ``evaluation`` the last judgement of how far the work is,
    ``answer`` what was put together, ``mode`` how much thinking the run gets.
    """

    user_query: str
    original_query: str
    conversation_history: tuple[dict[str, Any], ...] = ()
    accumulated_results: tuple[dict[str, Any], ...] = ()
    current_plan: dict[str, Any] | None = None
    memory_cache: dict[str, Any] = {}
    episodic_memories: tuple[dict[str, Any], ...] = ()
    processing_stage: str = "initialized"
    iteration_count: int = 0
    confidence: float = 0.0
    mode: str = ""
    percept: dict[str, Any] = {}
    evaluation: dict[str, Any] = {}
    answer: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_text("user_query", self.user_query)
        require_text("processing_stage", self.processing_stage, 100)
        require_unit("confidence", self.confidence)
        if self.iteration_count < 0:
            raise ValueError(f"iteration_count must be at least 0, not {self.iteration_count}")

    def update_stage(self, stage: str) -> "CognitiveContext":
        """The same context at another stage."""
        return msgspec.structs.replace(self, processing_stage=stage)
