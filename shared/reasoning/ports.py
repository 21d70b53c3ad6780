"""What an AgentLoop depends on: models, and a store for its checkpoints."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import msgspec

from shared.llm.protocol import Message, Thought, Tool, Usage

T = TypeVar("T")


class LoopModels(Protocol):
    """The two models of an agent; the system prompt is added and budgets are enforced."""

    async def ask_model(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Thought:
        """The model's next message; raises ModelError."""

    async def ask_small_model_for(self, messages: Sequence[Message], kind: type[T]) -> tuple[T, Usage]:
        """The small model's answer as a ``kind``, and its usage; raises ModelError."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The messages since the previous checkpoint; the other fields are totals of the whole loop."""

    messages: tuple[Message, ...]
    steps: int
    usage: Usage
    evidence_refs: tuple[str, ...] = ()
    output_paths: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


class CheckpointStore(Protocol):
    """Where an agent loop keeps its checkpoints, so that another attempt can resume."""

    async def write(self, note: str, checkpoint: Checkpoint) -> None:
        """Store a checkpoint with a progress ``note``; raises Conflict if another attempt took over."""

    def read(self) -> AsyncIterator[Checkpoint]:
        """The checkpoints of earlier attempts."""

    def step(self, name: str) -> AbstractContextManager[None]:
        """A scope in which ids derive from the step's name, so that they are the same in every attempt."""
