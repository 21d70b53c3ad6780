"""The chat-completions format of OpenAI, Ollama, vLLM, llama.cpp, OpenRouter and others."""

import re
from collections.abc import Mapping
from typing import Any

from shared.llm.clients import MalformedResponse, broken_off, open_client
from shared.llm.config import ModelConfig
from shared.llm.protocol import Message, Pieces, Thought
from shared.llm.provider import (
    ModelRequest,
    arrange,
    conclude,
    describe_schema,
    describe_tools,
    read_call,
    read_text,
    split_system,
    strip_thinking,
    write_arguments,
    write_out,
)

_NO_TOOLS = re.compile(
    r"(support|enable|requires\b|unknown|unrecogni).*(tool|function)|(tool|function).*(support|enable|requires\b)"
)
_NO_SCHEMA = re.compile(r"response_format|schema|grammar|structured|json")


class OpenAIProvider:
    """Asks a chat-completions server; features that it refuses are omitted from then on."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._takes_tools = True
        self._takes_schema = True
        self._takes_stream_options = True
        # OpenAI's reasoning models refuse the old name; other servers may not know the new one.
        self._limit_name = "max_completion_tokens" if config.at_home else "max_tokens"

    async def answer(self, question: ModelRequest, seconds: float) -> Thought:
        """One attempt at an answer."""
        async with await open_client(self._config, seconds) as client:
            return self._read(question, await self._send(client, question))

    async def stream(self, question: ModelRequest, seconds: float) -> Pieces:
        """One attempt, piece by piece; raises MalformedResponse if it is incomplete."""
        async with await open_client(self._config, seconds) as client:
            text: list[str] = []
            finish, usage, model = "", None, self._config.model
            async with await self._send(client, question, stream=True) as chunks:
                async for chunk in chunks:
                    usage, model = chunk.usage or usage, chunk.model or model
                    for choice in chunk.choices or ():
                        finish = choice.finish_reason or finish
                        if piece := read_text(choice.delta and choice.delta.content):
                            text.append(piece)
                            yield piece
            if not finish:
                raise MalformedResponse("its end is missing")
            yield conclude(
                self._config, question, text="".join(text), stop=finish, tokens=_tokens(usage), model=model
            )

    async def _send(self, client: Any, question: ModelRequest, *, stream: bool = False) -> Any:
        while True:  # ends: each round omits one more feature
            request = self._request(question)
            if stream and self._takes_stream_options:
                request["stream_options"] = {"include_usage": True}
            try:
                return await client.chat.completions.create(**request, stream=stream)
            except Exception as error:
                if not self._adapt(request, error):
                    raise

    def _request(self, question: ModelRequest) -> dict[str, Any]:
        parts, messages = split_system(question.messages)
        request: dict[str, Any] = {"model": self._config.model}
        if question.tools and self._takes_tools:
            tools = [
                {"name": tool.name, "description": tool.description, "parameters": tool.schema}
                for tool in sorted(question.tools, key=lambda tool: tool.name)
            ]
            request["tools"] = [{"type": "function", "function": tool} for tool in tools]
        elif question.tools:
            parts.append(describe_tools(question.tools))
        if not self._takes_tools:
            messages = write_out(messages)
        if question.schema is not None:
            # Servers that constrain the answer do not show the schema to the model.
            parts.append(describe_schema(question.schema))
            if self._takes_schema and question.schema.get("type") == "object":
                request["response_format"] = format_schema(question.schema)
        if question.cache_key and self._config.at_home:  # other servers may refuse a field they do not know
            request["prompt_cache_key"] = question.cache_key
        if self._config.effort:
            request["reasoning_effort"] = self._config.effort
        if self._config.temperature is not None:
            request["temperature"] = self._config.temperature
        if question.max_tokens:
            request[self._limit_name] = question.max_tokens
        system = [{"role": "system", "content": "\n\n".join(parts)}] if parts else []
        return request | {"messages": [*system, *map(_message, arrange(messages))]}

    def _adapt(self, request: Mapping[str, Any], error: Exception) -> bool:
        """Whether to ask again, without the feature that the server refused."""
        # llama.cpp answers 500 if it was started without tools, OpenRouter 404.
        if getattr(error, "status_code", 0) not in (400, 404, 422, 500, 501):
            return False
        text = str(error).lower()
        if "tools" in request and _NO_TOOLS.search(text):
            self._takes_tools = False
        elif "response_format" in request and _NO_SCHEMA.search(text):
            self._takes_schema = False
        elif "max_tokens" in request and "max_completion_tokens" in text:
            self._limit_name = "max_completion_tokens"
        elif "stream_options" in request and "stream_options" in text:
            self._takes_stream_options = False
        else:
            return False
        return True

    def _read(self, question: ModelRequest, completion: Any) -> Thought:
        choices = getattr(completion, "choices", None)
        # OpenRouter answers 200 if the provider behind it failed.
        if error := getattr(completion, "error", None) or (choices and getattr(choices[0], "error", None)):
            raise broken_off(error, self._config)
        if not choices or choices[0].message is None:
            raise MalformedResponse("it is no chat completion")
        message = choices[0].message
        calls = [
            read_call(call.id, call.function.name, call.function.arguments)
            for call in message.tool_calls or ()
            if getattr(call, "function", None)
        ]
        return conclude(
            self._config,
            question,
            text=strip_thinking(read_text(message.content) or read_text(getattr(message, "refusal", None))),
            calls=calls,
            stop=choices[0].finish_reason,
            tokens=_tokens(completion.usage),
            model=completion.model,
        )


def _tokens(usage: Any) -> dict[str, Any]:
    read = getattr(usage, "prompt_tokens_details", None)
    written = getattr(usage, "completion_tokens_details", None)
    return {
        "input_tokens": getattr(usage, "prompt_tokens", None),
        "output_tokens": getattr(usage, "completion_tokens", None),
        "cached_tokens": getattr(read, "cached_tokens", None),
        "reasoning_tokens": getattr(written, "reasoning_tokens", None),
    }


def format_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an answer as OpenAI's formats name it."""
    name = re.sub(r"\W", "_", str(schema.get("title", "")))[:64] or "answer"
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}


def _message(message: Message) -> dict[str, Any]:
    entry: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.role == "tool":
        return entry | {"tool_call_id": message.tool_call_id}
    calls = [
        (call.id, {"name": call.name, "arguments": write_arguments(call)}) for call in message.tool_calls
    ]
    if calls:
        entry["tool_calls"] = [{"id": name, "type": "function", "function": call} for name, call in calls]
    return entry
