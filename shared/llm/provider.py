"""What a remote brain needs of the wire format that a server speaks."""

from collections.abc import AsyncIterator
from typing import Any, Protocol

import msgspec

from shared.llm.protocol import Message, Thought, Tool


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked: a conversation, the tools offered, the schema of the answer; 0 tokens is no limit."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    schema: dict[str, Any] | None = None
    max_tokens: int = 0


class Provider(Protocol):
    """A wire format. What goes wrong is raised as the SDK raises it, or as a ModelError."""

    async def answer(self, question: ModelRequest, seconds: float) -> Thought:
        """One attempt at an answer."""

    def stream(self, question: ModelRequest, seconds: float) -> AsyncIterator[str | Thought]:
        """One attempt, piece by piece, the whole Thought last; raises Malformed where the end is missing."""
