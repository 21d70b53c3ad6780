"""The protocol of language models: messages in, a thought (message, tool calls, usage) out; prices."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypedDict, Unpack

import msgspec

from shared.errors import ConfigError


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
    """The usage of model calls: tokens, US dollars (0 without a configured price), number of calls.

    ``estimated``: a server did not count its tokens, so some are estimated (a token for 4 characters).
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
    """A model's answer; ``stop``: it was complete, it calls tools, or it reached the length limit."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    model: str = ""
    stop: Literal["end", "tools", "length"] = "end"


class AskOptions(TypedDict, total=False):
    """How a model is asked: ``schema`` requires JSON of that shape; 0 means the configured limit."""

    tools: Sequence[Tool]
    schema: dict[str, Any] | None
    max_tokens: int
    timeout: float


class LanguageModel(Protocol):
    """A model. ``name`` is as configured (``openai:NAME``); ``available`` is False if none is configured."""

    name: str
    available: bool

    async def complete(self, messages: Sequence[Message], **options: Unpack[AskOptions]) -> Thought:
        """One answer. If the server supports no ``tools``, they are described in the prompt instead.

        Raises ModelError: NoModel if no model is configured, ModelUnavailable if it may answer later.
        """

    def stream(
        self, messages: Sequence[Message], *, max_tokens: int = 0, timeout: float = 0.0
    ) -> AsyncIterator[str | Thought]:
        """The pieces of the answer's text as they arrive, then the whole Thought; raises like complete."""


CHARACTERS_A_TOKEN = 4
"""The average of common tokenizers for English text; used only if a server does not count."""
MOST_TOKENS = 20_000_000
"""More than any model reads or writes in one call: a higher count is an error, and would use up a budget."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """US dollars for a million tokens in and out."""

    input: float = 0.0
    output: float = 0.0

    def usage(self, input_tokens: int, output_tokens: int, *, estimated: bool = False) -> Usage:
        """One call's usage, with its cost."""
        return Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cost=(input_tokens * self.input + output_tokens * self.output) / 1e6,
            calls=1,
            estimated=estimated,
        )

    def count(
        self,
        messages: Sequence[Message],
        text: str,
        calls: Sequence[ToolCall] = (),
        *,
        input_tokens: Any = None,
        output_tokens: Any = None,
    ) -> Usage:
        """The usage as the server counted it; missing and implausible counts are estimated."""
        read, written = _sensible(input_tokens), _sensible(output_tokens)
        return self.usage(
            read or estimate_tokens(*(part for message in messages for part in _texts(message))),
            written or estimate_tokens(text, *(part for call in calls for part in _parts(call))),
            estimated=not (read and written),
        )


def read_price(text: str, setting: str = "brain_price") -> Price:
    """The price written as ``in/out``, such as ``3/15``; empty is none. Raises ConfigError."""
    if not text.strip():
        return Price()
    try:
        low, high = (float(part) for part in text.split("/"))
    except ValueError:
        low = high = -1.0
    if not (0 <= low < 1e6 and 0 <= high < 1e6):
        raise ConfigError(
            f"{setting} is wrong: {text!r} is no price",
            "Write US dollars for a million tokens in and out, as 3/15",
        )
    return Price(input=low, output=high)


def estimate_tokens(*texts: str) -> int:
    """How many tokens the texts have, roughly; at least one."""
    return max(1, sum(map(len, texts)) // CHARACTERS_A_TOKEN)


def _sensible(count: Any) -> int:
    return count if isinstance(count, int) and 0 < count <= MOST_TOKENS else 0


def _texts(message: Message) -> list[str]:
    return [message.text, *(part for call in message.tool_calls for part in _parts(call))]


def _parts(call: ToolCall) -> tuple[str, str]:
    return call.name, call.arguments
