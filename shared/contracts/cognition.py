"""The workspace and the messages of one cognitive run."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from shared.contracts.base import (
    AgentName,
    Contract,
    Count,
    Envelope,
    Text,
    Timestamp,
    Token,
    Unit,
    generate_id,
    generate_iso_timestamp,
    text_up_to,
)


class MessageType(StrEnum):
    """The kinds of message between the parts of a cognitive run."""

    REQUEST = "request"
    RESPONSE = "response"
    NOTIFICATION = "notification"
    ERROR = "error"


class CognitiveMessage(Envelope, frozen=True, kw_only=True, tag="cognitive_message.v1"):
    """A message between cognitive parts; a higher ``priority`` is more urgent."""

    sender: AgentName
    recipient: AgentName
    message_type: MessageType
    payload: dict[str, Any] = {}
    correlation_id: Token = msgspec.field(default_factory=generate_id)
    timestamp: Timestamp = msgspec.field(default_factory=generate_iso_timestamp)
    priority: int = 0


class CognitiveContext(Contract, frozen=True, kw_only=True):
    """Everything the parts of one cognitive run share; a new stage makes a new context.

    ``percept`` is what was understood of the query, ``evaluation`` the last judgement of how far the work is,
    ``answer`` what was put together, ``mode`` how much thinking the run gets.
    """

    user_query: Text
    original_query: str
    conversation_history: tuple[dict[str, Any], ...] = ()
    accumulated_results: tuple[dict[str, Any], ...] = ()
    current_plan: dict[str, Any] | None = None
    memory_cache: dict[str, Any] = {}
    episodic_memories: tuple[dict[str, Any], ...] = ()
    processing_stage: Annotated[str, text_up_to(100)] = "initialized"
    iteration_count: Count = 0
    confidence: Unit = 0.0
    mode: str = ""
    percept: dict[str, Any] = {}
    evaluation: dict[str, Any] = {}
    answer: str = ""

    def update_stage(self, stage: str) -> "CognitiveContext":
        """The same context at another stage."""
        return msgspec.structs.replace(self, processing_stage=stage)


class LoopCheckpoint(Envelope, frozen=True, kw_only=True, tag="thinking.v1"):
    """A train of thought about a task as far as it went; another attempt goes on from there.

    ``usage`` is what it took, ``spent`` all thinking about the task until then. ``doubts`` name what may or
    may not have taken effect.
    """

    task_id: Token
    steps: int = 0
    messages: tuple[dict[str, Any], ...] = ()
    usage: dict[str, Any] = {}
    spent: dict[str, Any] = {}
    evidence_refs: tuple[str, ...] = ()
    output_paths: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


class DailySpending(Envelope, frozen=True, kw_only=True, tag="spending.v1"):
    """What an agent's thinking took on one ``day`` (UTC, as 2026-01-02); ``cost`` in US dollars."""

    day: Annotated[str, text_up_to(10)]
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    calls: int = 0
