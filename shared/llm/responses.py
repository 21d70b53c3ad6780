"""OpenAI's responses format, whose models send their reasoning along to be given back."""

from collections.abc import Sequence
from typing import Any

from shared.llm.clients import MalformedResponse, broken_off, open_client
from shared.llm.config import ModelConfig
from shared.llm.dialects import ANSWER, GIVE, choose_shape, dialect_of, show, take_answer
from shared.llm.openai import format_schema
from shared.llm.protocol import Aside, Attached, Message, Pieces, Thought
from shared.llm.provider import (
    ModelRequest,
    arrange,
    conclude,
    describe_schema,
    read_call,
    read_text,
    split_system,
    write_arguments,
)


class ResponsesProvider:
    """Asks a responses server to store nothing: reasoning comes encrypted, and goes back as it came."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._dialect = dialect_of(config)

    async def answer(self, question: ModelRequest, seconds: float) -> Thought:
        """One attempt at an answer."""
        async with await open_client(self._config, seconds) as client:
            while True:  # ends: each round asks for the answer in a less sure way
                request = self._request(question)
                try:
                    return self._read(question, await client.responses.create(**request))
                except Exception as error:
                    shape = choose_shape(self._dialect, question.schema, has_tools=bool(question.tools))
                    refused = getattr(error, "status_code", 0) in (400, 404, 422, 501)
                    attached = any(isinstance(each.get("content"), list) for each in request["input"])
                    if not refused or not (
                        (attached and self._dialect.hide(str(error)))
                        or self._dialect.lower(shape, str(error))
                    ):
                        raise

    async def stream(self, question: ModelRequest, seconds: float) -> Pieces:
        """One attempt, piece by piece; raises MalformedResponse if it is incomplete."""
        ended: Any = None
        async with (
            await open_client(self._config, seconds) as client,
            await client.responses.create(**self._request(question), stream=True) as events,
        ):
            async for event in events:
                if event.type == "response.output_text.delta":
                    yield read_text(event.delta)
                elif event.type == "response.output_item.added" and event.item.type == "function_call":
                    yield Aside(f"\n{event.item.name} ")
                elif event.type == "response.function_call_arguments.delta":
                    yield Aside(event.delta)
                elif event.type in ("response.completed", "response.incomplete", "response.failed"):
                    ended = event.response
                elif event.type == "error":
                    raise broken_off(event.message, self._config)
        if ended is None:
            raise MalformedResponse("its end is missing")
        yield self._read(question, ended)

    def _request(self, question: ModelRequest) -> dict[str, Any]:
        parts, messages = split_system(question.messages)
        request: dict[str, Any] = {
            "model": self._config.model,
            "store": False,
            "include": ["reasoning.encrypted_content"],
        }
        if question.tools:
            request["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.schema,
                    "strict": False,
                }
                for tool in sorted(question.tools, key=lambda tool: tool.name)
            ]
        if question.schema is not None:
            shape = choose_shape(self._dialect, question.schema, has_tools=bool(question.tools))
            if shape == "tool":
                tool = {"name": ANSWER, "description": GIVE, "parameters": question.schema, "strict": False}
                request["tools"] = [{"type": "function", **tool}]
                request["tool_choice"] = {"type": "function", "name": ANSWER}
            elif shape != "strict" or not self._config.at_home:
                parts.append(describe_schema(question.schema))
            if shape in ("strict", "schema"):
                native = format_schema(question.schema, strict=shape == "strict")
                request["text"] = {"format": {"type": "json_schema", "strict": False, **native}}
        if question.cache_key:
            request["prompt_cache_key"] = question.cache_key
        if self._config.effort:
            request["reasoning"] = {"effort": self._config.effort}
        if self._config.temperature is not None:
            request["temperature"] = self._config.temperature
        if question.max_tokens:
            request["max_output_tokens"] = question.max_tokens
        if parts:
            request["instructions"] = "\n\n".join(parts)
        shown = (show(self._dialect, each) for each in arrange(messages))
        return request | {"input": [item for each in shown for item in self._items(each)]}

    def _items(self, message: Message) -> list[dict[str, Any]]:
        if message.role == "tool":
            return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": message.text}]
        items = list(message.kept) if message.kept_for == self._config.name else []
        if message.attached:
            text = [{"type": "input_text", "text": message.text}] if message.text.strip() else []
            items.append({"role": message.role, "content": [*map(_part, message.attached), *text]})
        elif message.text.strip():
            items.append({"role": message.role, "content": message.text})
        return items + [
            {
                "type": "function_call",
                "call_id": call.id,
                "name": call.name,
                "arguments": write_arguments(call),
            }
            for call in message.tool_calls
        ]

    def _read(self, question: ModelRequest, response: Any) -> Thought:
        if error := getattr(response, "error", None):
            raise broken_off(getattr(error, "message", error), self._config)
        output = getattr(response, "output", None)
        if not isinstance(output, list):
            raise MalformedResponse("it is no response")
        reason = getattr(response.incomplete_details, "reason", "") if response.incomplete_details else ""
        calls = [
            read_call(item.call_id, item.name, item.arguments)
            for item in output
            if item.type == "function_call"
        ]
        given = take_answer(calls) if question.schema is not None else ""
        return conclude(
            self._config,
            question,
            text=given or "\n\n".join(filter(None, map(_text, output))),
            calls=[] if given else calls,
            stop="length" if reason == "max_output_tokens" else reason,
            tokens=_tokens(response.usage),
            model=response.model,
            kept=[item.model_dump(exclude_none=True) for item in output if item.type == "reasoning"],
        )


def _part(attached: Attached) -> dict[str, Any]:
    if attached.is_image:
        return {"type": "input_image", "detail": "auto", "image_url": attached.url}
    return {"type": "input_file", "filename": attached.name, "file_data": attached.url}


def _text(item: Any) -> str:
    if item.type != "message":
        return ""
    parts: Sequence[Any] = item.content or ()
    return "".join(read_text(getattr(part, "text", None) or getattr(part, "refusal", None)) for part in parts)


def _tokens(usage: Any) -> dict[str, Any]:
    return {
        "input_tokens": getattr(usage, "input_tokens", None),
        "output_tokens": getattr(usage, "output_tokens", None),
        "cached_tokens": getattr(getattr(usage, "input_tokens_details", None), "cached_tokens", None),
        "reasoning_tokens": getattr(getattr(usage, "output_tokens_details", None), "reasoning_tokens", None),
    }
