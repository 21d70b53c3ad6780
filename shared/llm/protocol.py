"""The protocol of language models: messages in, a thought (message, tool calls, usage) out; prices."""

from base64 import b64encode
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypedDict, Unpack

import msgspec

from shared.errors import ConfigError


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """An action a model calls; ``arguments`` is the JSON text it wrote, unchecked."""

    id: str
    name: str
    arguments: str


KINDS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
}
"""What files that models can see begin with, and their media types; WebP has its size in between."""


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """An image or PDF that goes with a message: its name, media type and content."""

    name: str
    kind: str
    data: bytes

    @property
    def is_image(self) -> bool:
        """Whether it is an image."""
        return self.kind.startswith("image/")

    @property
    def url(self) -> str:
        """It as a data URL."""
        return f"data:{self.kind};base64,{self.base64}"

    @property
    def base64(self) -> str:
        """Its content in base64."""
        return b64encode(self.data).decode()


def find_kind(data: bytes) -> str:
    """The media type of an image or PDF, by how it begins; empty for anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begin, kind in KINDS.items() if data.startswith(begin)), "")


class Message(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message of a conversation; a ``tool`` message answers the call ``tool_call_id``.

    ``kept`` is the reasoning behind an assistant's message as the model ``kept_for`` sent it, signed or
    encrypted: it goes back to that model alone, unchanged. ``kinds`` are those of its text as
    ``shared.llm.leaving`` has them; of what a model wrote, those of all that it was shown. ``attached``
    goes with a user's message.
    """

    role: Literal["system", "user", "assistant", "tool"]
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    kept: tuple[dict[str, Any], ...] = ()
    kept_for: str = ""
    kinds: tuple[str, ...] = ()
    attached: tuple[Attached, ...] = ()


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
    """The usage of model calls: tokens, US dollars (0 without a known price), number of calls.

    Of ``input_tokens``, ``cached_tokens`` were read from the provider's cache and ``written_tokens`` written
    to it; of ``output_tokens``, ``reasoning_tokens`` are the model's own thoughts. ``estimated``: a server
    did not count its tokens, so some are estimated (a token for 4 characters). ``waited``: seconds until the
    requests had their turn at the server.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0
    calls: int = 0
    estimated: bool = False
    waited: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens in and out."""
        return self.input_tokens + self.output_tokens

    def plus(self, other: "Usage") -> "Usage":
        """Both together."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            written_tokens=self.written_tokens + other.written_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            cost=self.cost + other.cost,
            calls=self.calls + other.calls,
            estimated=self.estimated or other.estimated,
            waited=round(self.waited + other.waited, 1),
        )


class Thought(msgspec.Struct, frozen=True, kw_only=True):
    """A model's answer; ``stop``: it was complete, it calls tools, or it reached the length limit, in
    which case the last of its calls may be cut off.

    ``model`` is the name that the server gives, ``by`` the one that is configured (``openai:NAME``),
    ``instead_of`` the one that was to answer and could not; ``kept`` as in Message. ``shown`` are the kinds
    of text that the model was sent.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()
    model: str = ""
    by: str = ""
    instead_of: str = ""
    kept: tuple[dict[str, Any], ...] = ()
    stop: Literal["end", "tools", "length"] = "end"
    shown: tuple[str, ...] = ()


class Aside(str):
    """A piece of what a model writes that is no text of its answer: a call's name, or its arguments."""

    __slots__ = ()


Pieces = AsyncGenerator[str | Thought, None]
"""The pieces of an answer's text as they arrive, and Asides between them, then the whole Thought."""


class StreamOptions(TypedDict, total=False):
    """How a model is asked: with which tools, and limits in tokens and seconds; 0 means the configured one.

    Requests of one ``cache_key`` begin alike, as those of one task do.
    """

    max_tokens: int
    timeout: float
    cache_key: str
    tools: Sequence[Tool]


class AskOptions(StreamOptions, total=False):
    """The same, with ``schema`` for JSON of that shape.

    ``on_piece`` is told what the model writes as it does, and None when it begins (again); not with a schema.
    """

    schema: dict[str, Any] | None
    on_piece: Callable[[str | None], None] | None


class LanguageModel(Protocol):
    """A model. ``name`` is as configured (``openai:NAME``); ``available`` is False if none is configured."""

    name: str
    available: bool

    async def complete(self, messages: Sequence[Message], **options: Unpack[AskOptions]) -> Thought:
        """One answer. If the server supports no ``tools``, they are described in the prompt instead.

        Raises ModelError: NoModel if no model is configured, ModelUnavailable if it may answer later.
        """

    def stream(self, messages: Sequence[Message], **options: Unpack[StreamOptions]) -> Pieces:
        """One answer, piece by piece; raises like complete."""


CHARACTERS_A_TOKEN = 4
"""The average of common tokenizers for English text; used only if a server does not count."""
ATTACHED_TOKENS = 1_500  # Tokens of an image, roughly: providers scale it down to about as many
MOST_TOKENS = 20_000_000
"""More than any model reads or writes in one call: a higher count is an error, and would use up a budget."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """US dollars for a million tokens: in, out, read from the cache and written to it.

    ``cached`` and ``written`` are those of ``input`` if they are None.
    """

    input: float = 0.0
    output: float = 0.0
    cached: float | None = None
    written: float | None = None

    def count(
        self,
        messages: Sequence[Message],
        text: str,
        calls: Sequence[ToolCall] = (),
        *,
        input_tokens: Any = None,
        output_tokens: Any = None,
        cached_tokens: Any = None,
        written_tokens: Any = None,
        reasoning_tokens: Any = None,
    ) -> Usage:
        """One call's usage as the server counted it, with its cost.

        Missing and implausible counts are estimated. ``input_tokens`` holds those of the cache too.
        """
        counted_in, counted_out = _sensible(input_tokens), _sensible(output_tokens)
        read = counted_in or estimate_tokens(messages)
        out = counted_out or estimate_tokens([Message(role="assistant", text=text, tool_calls=tuple(calls))])
        cached = min(_sensible(cached_tokens), read)
        written = min(_sensible(written_tokens), read - cached)
        cost = (
            (read - cached - written) * self.input
            + cached * (self.input if self.cached is None else self.cached)
            + written * (self.input if self.written is None else self.written)
            + out * self.output
        )
        return Usage(
            input_tokens=read,
            output_tokens=out,
            cached_tokens=cached,
            written_tokens=written,
            reasoning_tokens=min(_sensible(reasoning_tokens), out),
            cost=cost / 1e6,
            calls=1,
            estimated=not (counted_in and counted_out),
        )


def read_price(text: str, setting: str = "brain_price") -> Price:
    """The price written as ``in/out`` or ``in/out/cached/written``, as ``3/15``; empty is none.

    Raises ConfigError.
    """
    if not text.strip():
        return Price()
    try:
        given = [float(part) for part in text.split("/")]
    except ValueError:
        given = []
    if len(given) not in (2, 3, 4) or not all(0 <= each < 1e6 for each in given):
        raise ConfigError(
            f"{setting} is wrong: {text!r} is no price",
            "Write US dollars for a million tokens in and out, as 3/15; behind them may stand those read "
            "from and written to the provider's cache, as 3/15/0.3/3.75",
        )
    return Price(**dict(zip(("input", "output", "cached", "written"), given, strict=False)))


def _sensible(count: Any) -> int:
    return count if isinstance(count, int) and 0 < count <= MOST_TOKENS else 0


def estimate_tokens(messages: Sequence[Message], tools: Sequence[Tool] = ()) -> int:
    """How many tokens the messages and ``tools`` have, roughly; at least one."""
    calls = [call for message in messages for call in message.tool_calls]
    size = sum(len(message.text) for message in messages)
    size += sum(len(call.name) + len(call.arguments) for call in calls)
    size += sum(ATTACHED_TOKENS * CHARACTERS_A_TOKEN for message in messages for _ in message.attached)
    size += sum(len(tool.description) + len(msgspec.json.encode(tool.schema)) for tool in tools)
    return max(1, size // CHARACTERS_A_TOKEN)
