"""What a remote brain needs of the wire format that a server speaks."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol
from uuid import uuid4

import msgspec

from shared.errors import ModelError
from shared.llm.config import ModelConfig
from shared.llm.protocol import Message, Thought, Tool, ToolCall
from shared.text.excerpt import sendable


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


CUT_OFF = ("length", "max_tokens", "model_context_window_exceeded")
"""How servers say that an answer reached its longest."""
REFUSED = ("refusal", "content_filter")
"""How they say that the model, or a filter in front of it, does not answer this."""


def conclude(
    choice: ModelConfig,
    question: ModelRequest,
    *,
    text: str,
    calls: Sequence[ToolCall] = (),
    stop: Any = "",
    tokens: tuple[Any, Any] = (None, None),
    model: Any = "",
) -> Thought:
    """The thought, its usage as the server counted it; raises ModelError where it is a refusal alone."""
    if stop in REFUSED and not (text.strip() or calls):
        raise ModelError(
            f"The model {choice.name} refuses to answer this",
            "Word the task differently, or take another model",
        )
    return Thought(
        text=text,
        tool_calls=tuple(calls),
        usage=choice.price.count(
            question.messages, text, calls, input_tokens=tokens[0], output_tokens=tokens[1]
        ),
        model=read_text(model),
        stop="tools" if calls else "length" if stop in CUT_OFF else "end",
    )


def read_call(call_id: Any, name: Any, arguments: Any) -> ToolCall:
    """A call; one without an id gets one, and arguments that are no text are written as one."""
    if arguments is None:
        arguments = {}
    return ToolCall(
        id=read_text(call_id) or f"call_{uuid4().hex[:12]}",
        name=read_text(name),
        arguments=read_text(arguments if isinstance(arguments, str) else json.dumps(arguments)) or "{}",
    )


def read_text(content: Any) -> str:
    """The text there is, parts of a list included, of whole characters."""
    if isinstance(content, list):
        return "".join(map(read_text, content))
    if isinstance(content, dict):
        content = content.get("text")
    return sendable(content) if isinstance(content, str) else ""
