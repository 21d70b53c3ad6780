"""Wire formats of model servers: their protocol, and what they share."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, Protocol
from uuid import uuid4

import msgspec

from shared.errors import ModelError
from shared.llm.config import ModelConfig
from shared.llm.protocol import Message, Pieces, Thought, Tool, ToolCall
from shared.text.display import sendable


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request: the conversation, the tools, the schema of the answer; 0 tokens is no limit.

    Requests of one ``cache_key`` begin alike: a provider sends them to one of its machines.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    schema: dict[str, Any] | None = None
    max_tokens: int = 0
    cache_key: str = ""


class Provider(Protocol):
    """A wire format. Errors are the SDK's own, or ModelErrors."""

    async def answer(self, question: ModelRequest, seconds: float) -> Thought:
        """One attempt at an answer."""

    def stream(self, question: ModelRequest, seconds: float) -> Pieces:
        """One attempt, piece by piece, the whole Thought last; MalformedResponse if it is incomplete."""


CUT_OFF = ("length", "max_tokens", "model_context_window_exceeded")
"""Stop reasons of an answer that reached its length limit."""
REFUSED = ("refusal", "content_filter")  # Stop reasons if the model, or a filter, refuses to answer


def conclude(
    config: ModelConfig,
    question: ModelRequest,
    *,
    text: str,
    calls: Sequence[ToolCall] = (),
    stop: Any = "",
    tokens: Mapping[str, Any],
    model: Any = "",
    kept: Sequence[dict[str, Any]] = (),
) -> Thought:
    """The Thought with its usage; raises ModelError for a refusal without text.

    ``tokens`` are the counts that ``Price.count`` takes, as far as the server gave them.
    """
    if stop in REFUSED and not (text.strip() or calls):
        raise ModelError(
            f"The model {config.name} refuses to answer this",
            "Word the task differently, or take another model",
        )
    return Thought(
        text=text,
        tool_calls=tuple(calls),
        usage=config.price.count(question.messages, text, calls, **tokens),
        model=read_text(model),
        by=config.name,
        kept=tuple(kept),
        stop="tools" if calls else "length" if stop in CUT_OFF else "end",
    )


def read_call(call_id: Any, name: Any, arguments: Any) -> ToolCall:
    """A tool call; a missing id is generated, and arguments that are not text are encoded as JSON."""
    if arguments is None:
        arguments = {}
    return ToolCall(
        id=read_text(call_id) or f"call_{uuid4().hex[:12]}",
        name=read_text(name),
        arguments=read_text(arguments if isinstance(arguments, str) else json.dumps(arguments)) or "{}",
    )


def read_text(content: Any) -> str:
    """The text of ``content``, of its parts if it is a list; empty for anything else."""
    if isinstance(content, list):
        return "".join(map(read_text, content))
    if isinstance(content, dict):
        content = content.get("text")
    return sendable(content) if isinstance(content, str) else ""


NO_RESULT = "(There is no result.)"
GO_ON = "Go on."

_MARK = r"(?:think|thinking|reasoning)>"
_BEGUN = re.compile(rf"\A\s*<{_MARK}", re.IGNORECASE)
_THOUGHT = re.compile(rf"\A\s*(?:<{_MARK})?(?:(?!<{_MARK}).)*?</{_MARK}\s*", re.DOTALL | re.IGNORECASE)


def split_system(messages: Iterable[Message]) -> tuple[list[str], list[Message]]:
    """The texts of the system messages, and the other messages."""
    messages = list(messages)
    prompts = [message.text for message in messages if message.role == "system" and message.text.strip()]
    return prompts, [message for message in messages if message.role != "system"]


def arrange(messages: Sequence[Message]) -> list[Message]:
    """The messages (without system ones) in an order that strict servers accept.

    They begin with a user message and end with one or with a tool result; consecutive messages of one role
    are joined; empty ones are dropped; each call is followed by its result; a result without its call becomes
    a user message.
    """
    found: list[Message] = []
    for message in _pair(messages):
        if not (message.text.strip() or message.tool_calls or message.role == "tool"):
            continue
        if found and message.role == found[-1].role != "tool":
            one = found[-1]
            found[-1] = msgspec.structs.replace(
                one,
                text="\n\n".join(text for text in (one.text, message.text) if text),
                tool_calls=one.tool_calls + message.tool_calls,
                kept=one.kept + message.kept if one.kept_for in ("", message.kept_for) else one.kept,
                kept_for=one.kept_for or message.kept_for,
            )
        else:
            found.append(message)
    if not found or found[0].role != "user":
        found.insert(0, Message(role="user", text=GO_ON))
    if found[-1].role == "assistant":
        found.append(Message(role="user", text=GO_ON))
    return found


def _pair(messages: Sequence[Message]) -> list[Message]:
    """Each call followed directly by its result; ids are valid until the next assistant message."""
    paired: list[Message] = []
    called: set[str] = set()
    for index, message in enumerate(messages):
        if message.role == "assistant":
            turn = takewhile(lambda later: later.role != "assistant", islice(messages, index + 1, None))
            results = {later.tool_call_id: later for later in turn if later.role == "tool"}
            called = {call.id for call in message.tool_calls}
            paired.append(message)
            for call in message.tool_calls:
                missing = Message(role="tool", text=NO_RESULT, tool_call_id=call.id)
                paired.append(results.get(call.id, missing))
        elif message.role != "tool":
            paired.append(message)
        elif message.tool_call_id not in called:
            paired.append(Message(role="user", text=message.text))
    return paired


def read_arguments(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call as an object; anything else is wrapped in one, since servers refuse it."""
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    return arguments if isinstance(arguments, dict) else {"malformed": call.arguments}


def write_out(messages: Sequence[Message]) -> list[Message]:
    """The conversation with calls and results as plain text, for a server without tools."""
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    plain = []
    for message in messages:
        if message.role == "tool":
            text = f"Result of {names.get(message.tool_call_id, 'the action')}:\n{message.text}"
            plain.append(Message(role="user", text=text))
        else:
            calls = [f"Action: {call.name}\n{call.arguments}" for call in message.tool_calls]
            plain.append(
                Message(role=message.role, text="\n\n".join(text for text in (message.text, *calls) if text))
            )
    return plain


def describe_tools(tools: Sequence[Tool]) -> str:
    """The tools as part of a prompt."""
    listed = "\n".join(
        f"- {tool.name}: {tool.description} Parameters: {json.dumps(tool.schema)}" for tool in tools
    )
    return (
        "You can use these actions. To use one, write a line 'Action: NAME', and below it its parameters as "
        f"JSON; then stop and wait for the result.\n{listed}"
    )


def describe_schema(schema: dict[str, Any]) -> str:
    """The schema of the answer as part of a prompt."""
    return (
        "Answer with JSON alone, without other words and without fences. It must satisfy this JSON schema:\n"
        f"{json.dumps(schema)}"
    )


def strip_thinking(text: str) -> str:
    """The answer without the reasoning that some models write first; empty if the reasoning does not end.

    Its opening tag may be missing: some servers put it into the prompt.
    """
    answer = _THOUGHT.sub("", text) if "</" in text else text
    return "" if _BEGUN.match(answer) else answer
