"""The chat-completions format of OpenAI, Ollama, vLLM, llama.cpp, OpenRouter and others."""

import re
from collections.abc import Mapping
from typing import Any

from shared.llm.clients import MalformedResponse, broken_off, open_client
from shared.llm.config import ModelConfig
from shared.llm.dialects import ANSWER, GIVE, Shape, choose_shape, dialect_of, make_strict, show, take_answer
from shared.llm.protocol import Aside, Attached, Message, Pieces, Thought
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


class OpenAIProvider:
    """Asks a chat-completions server; features that it refuses are omitted from then on."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._dialect = dialect_of(config)

    async def answer(self, question: ModelRequest, seconds: float) -> Thought:
        """One attempt at an answer."""
        async with await open_client(self._config, seconds) as client:
            return self._read(question, await self._send(client, question))

    async def stream(self, question: ModelRequest, seconds: float) -> Pieces:
        """One attempt, piece by piece; raises MalformedResponse if it is incomplete."""
        async with await open_client(self._config, seconds) as client:
            text: list[str] = []
            calls: dict[int, list[str]] = {}  # id, name and arguments by position
            finish, usage, model = "", None, self._config.model
            async with await self._send(client, question, stream=True) as chunks:
                async for chunk in chunks:
                    usage, model = chunk.usage or usage, chunk.model or model
                    for choice in chunk.choices or ():
                        finish = choice.finish_reason or finish
                        if piece := read_text(choice.delta and choice.delta.content):
                            text.append(piece)
                            yield piece
                        for part in (choice.delta and choice.delta.tool_calls) or ():
                            call = calls.setdefault(part.index, ["", "", ""])
                            call[0] = call[0] or read_text(part.id)
                            name = read_text(part.function and part.function.name)
                            arguments = read_text(part.function and part.function.arguments)
                            call[1], call[2] = call[1] + name, call[2] + arguments
                            yield Aside(f"\n{name} {arguments}" if name else arguments)
            if not finish:
                raise MalformedResponse("its end is missing")
            yield conclude(
                self._config,
                question,
                text=strip_thinking("".join(text)),
                calls=[read_call(*calls[index]) for index in sorted(calls)],
                stop=finish,
                tokens=_tokens(usage),
                model=model,
            )

    async def _send(self, client: Any, question: ModelRequest, *, stream: bool = False) -> Any:
        while True:  # ends: each round omits one more feature
            request = self._request(question)
            if stream and self._dialect.stream_options:
                request["stream_options"] = {"include_usage": True}
            try:
                return await client.chat.completions.create(**request, stream=stream)
            except Exception as error:
                if not self._adapt(request, error):
                    raise

    def _request(self, question: ModelRequest) -> dict[str, Any]:
        parts, messages = split_system(question.messages)
        request: dict[str, Any] = {"model": self._config.model}
        tools: list[dict[str, Any]] = []
        if question.tools and self._dialect.tools:
            tools = [
                {"name": tool.name, "description": tool.description, "parameters": tool.schema}
                for tool in sorted(question.tools, key=lambda tool: tool.name)
            ]
        elif question.tools:
            parts.append(describe_tools(question.tools))
        if not self._dialect.tools:
            messages = write_out(messages)
        if question.schema is not None:
            shape = choose_shape(self._dialect, question.schema, has_tools=bool(question.tools))
            if shape == "tool":
                tools = [{"name": ANSWER, "description": GIVE, "parameters": question.schema}]
                request["tool_choice"] = {"type": "function", "function": {"name": ANSWER}}
            elif shape != "strict" or not self._config.at_home:
                # Servers of others that constrain the answer do not show the schema to the model.
                parts.append(describe_schema(question.schema))
            if shape in ("strict", "schema"):
                native = format_schema(question.schema, strict=shape == "strict")
                request["response_format"] = {"type": "json_schema", "json_schema": native}
        if tools:
            request["tools"] = [{"type": "function", "function": tool} for tool in tools]
        if question.cache_key and self._config.at_home:  # other servers may refuse a field they do not know
            request["prompt_cache_key"] = question.cache_key
        if self._config.effort:
            request["reasoning_effort"] = self._config.effort
        if self._config.temperature is not None:
            request["temperature"] = self._config.temperature
        if question.max_tokens:
            request[self._dialect.limit] = question.max_tokens
        system = [{"role": "system", "content": "\n\n".join(parts)}] if parts else []
        shown = [show(self._dialect, each) for each in arrange(messages)]
        return request | {"messages": [*system, *map(_message, shown)]}

    def _adapt(self, request: Mapping[str, Any], error: Exception) -> bool:
        """Whether to ask again, without the feature that the server refused."""
        # llama.cpp answers 500 if it was started without tools, OpenRouter 404.
        if getattr(error, "status_code", 0) not in (400, 404, 422, 500, 501):
            return False
        text = str(error).lower()
        attached = any(isinstance(each["content"], list) for each in request["messages"])
        if "response_format" in request:
            used: Shape = "strict" if request["response_format"]["json_schema"].get("strict") else "schema"
        else:
            used = "tool" if "tool_choice" in request else "text"
        if attached and self._dialect.hide(text):
            pass
        elif "tools" in request and used != "tool" and _NO_TOOLS.search(text):
            self._dialect.tools = False
        elif self._dialect.lower(used, text):
            pass
        elif "max_tokens" in request and "max_completion_tokens" in text:
            self._dialect.limit = "max_completion_tokens"
        elif "stream_options" in request and "stream_options" in text:
            self._dialect.stream_options = False
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
        given = take_answer(calls) if question.schema is not None else ""
        said = read_text(message.content) or read_text(getattr(message, "refusal", None))
        return conclude(
            self._config,
            question,
            text=given or strip_thinking(said),
            calls=[] if given else calls,
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


def format_schema(schema: dict[str, Any], *, strict: bool) -> dict[str, Any]:
    """The schema of an answer as OpenAI's formats name it."""
    name = re.sub(r"\W", "_", str(schema.get("title", "")))[:64] or "answer"
    if strict:
        return {"name": name, "schema": make_strict(schema), "strict": True}
    return {"name": name, "schema": schema}


def _part(attached: Attached) -> dict[str, Any]:
    if attached.is_image:
        return {"type": "image_url", "image_url": {"url": attached.url}}
    return {"type": "file", "file": {"filename": attached.name, "file_data": attached.url}}


def _message(message: Message) -> dict[str, Any]:
    entry: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.attached:
        text = [{"type": "text", "text": message.text}] if message.text.strip() else []
        entry["content"] = [*map(_part, message.attached), *text]
    if message.role == "tool":
        return entry | {"tool_call_id": message.tool_call_id}
    calls = [
        (call.id, {"name": call.name, "arguments": write_arguments(call)}) for call in message.tool_calls
    ]
    if calls:
        entry["tool_calls"] = [{"id": name, "type": "function", "function": call} for name, call in calls]
    return entry
