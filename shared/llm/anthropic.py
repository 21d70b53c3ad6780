"""Anthropic's messages format."""

from typing import Any

from shared.llm.clients import MalformedResponse, open_client
from shared.llm.config import ModelConfig
from shared.llm.dialects import ANSWER, GIVE, Shape, choose_shape, dialect_of, show, take_answer
from shared.llm.protocol import Aside, Attached, Message, Pieces, Thought
from shared.llm.provider import (
    ModelRequest,
    arrange,
    conclude,
    describe_schema,
    read_arguments,
    read_call,
    read_text,
    split_system,
)

MARKS = 4  # The most places of a request that may be marked to be cached

KEPT = ("thinking", "redacted_thinking")  # The blocks that go back to the model as it sent them


class AnthropicProvider:
    """Asks a messages server; structured answers are asked for as the input of a tool."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._dialect = dialect_of(config, shape="tool")  # all its models support tools

    async def answer(self, question: ModelRequest, seconds: float) -> Thought:
        """One attempt at an answer."""
        async with await open_client(self._config, seconds) as client:
            while True:  # ends: the second round is without the forced tool
                request = self._request(question)
                try:
                    return self._read(question, await client.messages.create(**request))
                except Exception as error:
                    # A model may refuse the forced tool, or the schema, or what is attached.
                    shape: Shape = "tool" if "tool_choice" in request else "text"
                    attached = any(message.attached for message in question.messages)
                    if getattr(error, "status_code", 0) != 400 or not (
                        (attached and self._dialect.hide(str(error)))
                        or self._dialect.lower(shape, str(error))
                    ):
                        raise

    async def stream(self, question: ModelRequest, seconds: float) -> Pieces:
        """One attempt, piece by piece; raises MalformedResponse if it is incomplete."""
        text: list[str] = []
        calls: dict[int, list[str]] = {}  # id, name and arguments by position
        kept: dict[int, dict[str, Any]] = {}
        tokens: dict[str, int] = {}
        stop, model, ended = "", self._config.model, False
        async with (
            await open_client(self._config, seconds) as client,
            await client.messages.create(**self._request(question), stream=True) as events,
        ):
            async for event in events:
                if event.type == "message_start":
                    model, tokens = event.message.model, _tokens(event.message.usage)
                elif event.type == "content_block_delta" and event.delta.type == "text_delta":
                    piece = read_text(event.delta.text)
                    text.append(piece)
                    yield piece
                elif event.type == "content_block_start" and event.content_block.type == "tool_use":
                    calls[event.index] = [event.content_block.id, event.content_block.name, ""]
                    yield Aside(f"\n{event.content_block.name} ")
                elif event.type == "content_block_start" and event.content_block.type in KEPT:
                    kept[event.index] = event.content_block.model_dump(exclude_none=True)
                elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                    calls[event.index][2] += event.delta.partial_json
                    yield Aside(event.delta.partial_json)
                elif event.type == "content_block_delta" and event.index in kept:
                    part = event.delta.type.removesuffix("_delta")  # thinking or signature
                    kept[event.index][part] = kept[event.index].get(part, "") + getattr(event.delta, part)
                    yield Aside(event.delta.thinking if part == "thinking" else "")
                elif event.type == "message_delta":
                    stop = event.delta.stop_reason or stop
                    # It counts what is written; of what was read it may name only what no cache held.
                    counts = _tokens(event.usage)
                    tokens = counts | tokens | {"output_tokens": counts.get("output_tokens", 0)}
                ended = ended or event.type == "message_stop"
        if not ended:
            raise MalformedResponse("its end is missing")
        yield conclude(
            self._config,
            question,
            text="".join(text),
            calls=[read_call(*call) for call in calls.values()],
            stop=stop,
            tokens=tokens,
            model=model,
            kept=list(kept.values()),
        )

    def _request(self, question: ModelRequest) -> dict[str, Any]:
        parts, messages = split_system(question.messages)
        tools = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
            for tool in sorted(question.tools, key=lambda tool: tool.name)
        ]
        request: dict[str, Any] = {}
        if question.schema is not None:
            if choose_shape(self._dialect, question.schema, has_tools=bool(tools)) == "tool":
                answer = {"name": ANSWER, "description": GIVE, "input_schema": question.schema}
                tools, request["tool_choice"] = [answer], {"type": "tool", "name": ANSWER}
            else:
                parts.append(describe_schema(question.schema))
        shown = [show(self._dialect, each) for each in arrange(messages)]
        turns = _turns(shown, self._config.name)
        # The server keeps what precedes a mark, and looks 20 blocks back from one: a turn may have more.
        marked = [tools[-1]] if tools else []
        if parts:
            request["system"] = [{"type": "text", "text": part} for part in parts]
            marked.append(request["system"][0])
        marked += [turn["content"][-1] for turn in turns[-3:] if turn["role"] == "user" and turn["content"]]
        for block in marked[:MARKS]:
            block["cache_control"] = {"type": "ephemeral"}
        if tools:
            request["tools"] = tools
        if self._config.temperature is not None:
            # The SDK has no parameter for it any more: its newest models take none.
            request["extra_body"] = {"temperature": self._config.temperature}
        if self._config.effort and "tool_choice" not in request:  # thinking allows no forced tool
            request["thinking"] = {"type": "adaptive"}
            request["output_config"] = {"effort": self._config.effort}
        return request | {
            "model": self._config.model,
            "max_tokens": question.max_tokens or self._config.answer,
            "messages": turns,
        }

    def _read(self, question: ModelRequest, message: Any) -> Thought:
        if getattr(message, "type", "") != "message" or not isinstance(message.content, list):
            raise MalformedResponse("it is no message")
        text = "\n\n".join(read_text(block.text) for block in message.content if block.type == "text")
        calls = [
            read_call(block.id, block.name, block.input)
            for block in message.content
            if block.type == "tool_use"
        ]
        if question.schema is not None and (given := take_answer(calls)):
            text, calls = given, []
        return conclude(
            self._config,
            question,
            text=text,
            calls=calls,
            stop=message.stop_reason,
            tokens=_tokens(message.usage),
            model=message.model,
            kept=[block.model_dump(exclude_none=True) for block in message.content if block.type in KEPT],
        )


def _tokens(usage: Any) -> dict[str, int]:
    """The counted tokens; those read from or written to the cache are input too."""
    new, written, cached, out = (
        count if isinstance(count := getattr(usage, name, None), int) else 0
        for name in (
            "input_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
            "output_tokens",
        )
    )
    counts = {
        "input_tokens": new + written + cached,
        "written_tokens": written,
        "cached_tokens": cached,
        "output_tokens": out,
    }
    return {name: count for name, count in counts.items() if count}


def _turns(messages: list[Message], model: str) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += _blocks(message, model)
    return turns


def _part(attached: Attached) -> dict[str, Any]:
    source = {"type": "base64", "media_type": attached.kind, "data": attached.base64}
    if attached.is_image:
        return {"type": "image", "source": source}
    return {"type": "document", "source": source, "title": attached.name}


def _blocks(message: Message, model: str) -> list[dict[str, Any]]:
    if message.role == "tool":
        result = {"type": "tool_result", "tool_use_id": message.tool_call_id}
        return [result | ({"content": message.text} if message.text.strip() else {})]
    text = [{"type": "text", "text": message.text}] if message.text.strip() else []
    kept = list(message.kept) if message.kept_for == model else []
    return [
        *map(_part, message.attached),
        *kept,
        *text,
        *(
            {"type": "tool_use", "id": call.id, "name": call.name, "input": read_arguments(call)}
            for call in message.tool_calls
        ),
    ]
