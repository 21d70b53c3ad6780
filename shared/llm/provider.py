"""Wire formats of model servers: their protocol, and what they share."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, Protocol, TypeVar
from uuid import uuid4

import msgspec

from shared.errors import ModelError
from shared.llm.config import ModelConfig
from shared.llm.protocol import (
    LanguageModel,
    Message,
    Pieces,
    Thought,
    Tool,
    ToolCall,
    Usage,
    estimate_tokens,
)
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


ANSWER_TOKENS = 1_000  # Tokens that an answer has at most as a rule: actions and their arguments


def estimate_request(question: ModelRequest, answer: int) -> int:
    """How many tokens a request and its answer have, roughly, if an answer has at most ``answer``."""
    most = min(question.max_tokens or answer, ANSWER_TOKENS)
    return estimate_tokens(question.messages, question.tools) + most


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
        stop="length" if stop in CUT_OFF else "tools" if calls else "end",
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
        if not (message.text.strip() or message.tool_calls or message.attached or message.role == "tool"):
            continue
        if found and message.role == found[-1].role != "tool":
            one = found[-1]
            found[-1] = msgspec.structs.replace(
                one,
                text="\n\n".join(text for text in (one.text, message.text) if text),
                tool_calls=one.tool_calls + message.tool_calls,
                attached=one.attached + message.attached,
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


def write_arguments(call: ToolCall) -> str:
    """The arguments of a call as the model wrote them, to the byte; what is no object is wrapped in one."""
    arguments = read_arguments(call)
    refused = not call.arguments or arguments == {"malformed": call.arguments}
    return json.dumps(arguments) if refused else call.arguments


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
            text = "\n\n".join(text for text in (message.text, *calls) if text)
            plain.append(Message(role=message.role, text=text, attached=message.attached))
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


T = TypeVar("T")

LONGEST_ANSWER = 200_000  # Characters of an answer that are searched for JSON; no sensible answer is longer
MOST_ATTEMPTS = 50  # Positions of an answer at which JSON is tried
QUOTED = 4_000  # Characters of a wrong answer that are shown to the model again

_FENCED = re.compile(r"```[\w+-]*[ \t]*\n(.*?)```", re.DOTALL)
_OPENING = re.compile(r"[{\[]")


async def ask_for(
    model: LanguageModel,
    messages: Sequence[Message],
    kind: type[T],
    *,
    tries: int = 3,
    check: Callable[[T], str | None] | None = None,
    max_tokens: int = 0,
    timeout: float = 0.0,
    spent: Callable[[Usage], None] | None = None,
) -> tuple[T, Usage]:
    """An answer that is a ``kind``, and the usage of all calls it took.

    An answer that is no such JSON, or of which ``check`` returns what is wrong, goes back to the model with
    the reason, up to ``tries`` answers in all; then ModelError. ``spent`` is called with the usage of
    each call, so that failures are counted too; it may raise to end the attempts.
    """
    conversation, usage, reason = list(messages), Usage(), ""
    schema = describe(kind)
    for _ in range(tries):
        thought = await model.complete(conversation, schema=schema, max_tokens=max_tokens, timeout=timeout)
        usage = usage.plus(thought.usage)
        if spent:
            spent(thought.usage)
        try:
            answer = read_answer(thought.text, kind)
        except ValueError as error:
            reason = f"it was cut off for its length ({error})" if thought.stop == "length" else str(error)
        else:
            reason = (check(answer) if check else None) or ""
            if not reason:
                return answer, usage
        request = (
            f"That answer cannot be used: {reason}. Answer again, with the corrected JSON alone: "
            "no other words, no fences."
        )
        wrong = thought.text[:QUOTED] or "(nothing)"
        conversation.append(Message(role="assistant", text=wrong, kinds=thought.shown))
        conversation.append(Message(role="user", text=request))
    raise ModelError(f"The model {model.name} gave no usable answer in {tries} tries: {reason}")


def describe(kind: Any) -> dict[str, Any]:
    """The JSON schema of a type; its root is not a reference, since servers refuse that."""
    (schema,), definitions = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    if "$ref" in schema:
        root = schema["$ref"].rpartition("/")[2]
        schema = definitions[root]
        if f'"#/$defs/{root}"' not in json.dumps(definitions):
            del definitions[root]  # a type that does not contain itself
    return {**schema, "$defs": definitions} if definitions else schema


def read_answer(text: str, kind: type[T]) -> T:
    """The JSON in a model's answer, alone, fenced or within other text, as ``kind``.

    Raises ValueError with the problem of the likeliest candidate. Quoted numbers are accepted as numbers.
    """
    reason = ""
    found = list(_candidates(strip_thinking(text[:LONGEST_ANSWER])))
    # Where every field is required, a model writes null for what it leaves to its default.
    for candidate in (*found, *map(_without_nulls, found)):
        try:
            answer = msgspec.convert(candidate, kind, strict=False)
            # A lone surrogate is possible in JSON, but cannot be encoded to be sent on.
            msgspec.json.encode(answer)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            reason = reason or str(error)
        else:
            return answer
    raise ValueError(reason or "there is no JSON in it")


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _candidates(text: str) -> Iterator[Any]:
    for part in (text, *(match[1] for match in _FENCED.finditer(text))):
        try:
            yield json.loads(part)
        except (ValueError, RecursionError):
            continue
    decoder, start = json.JSONDecoder(), 0
    for _ in range(MOST_ATTEMPTS):
        found = _OPENING.search(text, start)
        if not found:
            return
        try:
            value, start = decoder.raw_decode(text, found.start())
            yield value
        except (ValueError, RecursionError):
            start = found.end()
