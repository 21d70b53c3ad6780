"""What a AgentLoop needs of the agent whose personality it is."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import msgspec

from shared.llm.protocol import Message, Thought, Tool, Usage

T = TypeVar("T")


class Thinker(Protocol):
    """The two brains of an agent, its system prompt put first and its budgets kept."""

    async def think(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Thought:
        """What the brain thinks next; raises ModelError."""

    async def propose(self, messages: Sequence[Message], kind: type[T]) -> tuple[T, Usage]:
        """What the cerebellum answers, as a ``kind``; raises ModelError."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """What was thought since the page before; the other fields tell of all pages up to here together."""

    messages: tuple[Message, ...]
    steps: int
    usage: Usage
    evidence_refs: tuple[str, ...] = ()
    output_paths: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


class Journal(Protocol):
    """Where a train of thought is kept, so that another attempt can go on with it."""

    async def write(self, note: str, page: Checkpoint) -> None:
        """Keep the next page, and tell ``note``; raises Conflict where another attempt took over."""

    def read(self) -> AsyncIterator[Checkpoint]:
        """The pages of earlier attempts."""

    def step(self, name: str) -> AbstractContextManager[None]:
        """What an action does meanwhile is named after the step, the same in every attempt."""
