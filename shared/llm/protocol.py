"""What a brain is: messages in, a thought out, whatever model is behind it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """An action a model calls; ``arguments`` is the JSON text it wrote, unchecked."""

    id: str
    name: str
    arguments: str


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message of a conversation; a ``tool`` message answers the call ``tool_call_id``."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


def message_of(entry: Mapping[str, Any]) -> Message:
    """An entry of a recorded conversation, with ``role`` and ``text``, as a message."""
    role: Literal["user", "assistant"] = "assistant" if entry.get("role") == "assistant" else "user"
    return Message(role=role, text=str(entry.get("text", "")))


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """An action as it is offered to a model; ``schema`` is the JSON schema of its parameters."""

    name: str
    description: str
    schema: dict[str, Any]


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What thinking took: tokens, US dollars by the configured price (0 where none is), model calls.

    ``estimated``: a server did not count its tokens, so that some are estimated (a token for 4 characters).
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0
    calls: int = 0
    estimated: bool = False

    @property
    def tokens(self) -> int:
        """Tokens in and out."""
        return self.input_tokens + self.output_tokens

    def plus(self, other: "Usage") -> "Usage":
        """Both together."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=self.cost + other.cost,
            calls=self.calls + other.calls,
            estimated=self.estimated or other.estimated,
        )


class Thought(msgspec.Struct, frozen=True, kw_only=True):
    """What a model answered; ``stop`` tells whether it was done, calls tools, or was cut off."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    model: str = ""
    stop: Literal["end", "tools", "length"] = "end"


class LanguageModel(Protocol):
    """A model. ``name`` is as configured (``openai:NAME``); ``available`` is False where none is."""

    name: str
    available: bool

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        schema: dict[str, Any] | None = None,
        max_tokens: int = 0,
        timeout: float = 0.0,
    ) -> Thought:
        """One answer; ``schema`` asks for JSON of that shape, 0 takes the configured limits.

        Where its server takes no ``tools`` it is told of them in the prompt, and calls them in words.
        Raises ModelError: NoModel where no model is configured, ModelUnavailable where it may answer later.
        """

    def stream(
        self, messages: Sequence[Message], *, max_tokens: int = 0, timeout: float = 0.0
    ) -> AsyncIterator[str | Thought]:
        """The pieces of the answer's text as they come, and last the whole Thought; raises as complete."""
