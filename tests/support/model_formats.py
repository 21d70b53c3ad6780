"""The wire formats of models' servers: chat completions, OpenAI's responses and Anthropic's messages."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the server answers.

    ``calls``: pairs of a tool and its arguments (an object, or text as it stands). ``body``: sent instead of
    an answer of the format. ``hang``: seconds before anything is sent. ``reset``: the connection is reset
    instead. ``cut``: the body ends after so many bytes, or in a stream after so many events, as the
    connection does. ``stall``: seconds between two events. ``counted``: whether it tells the usage;
    ``input_tokens`` holds those of the cache. ``reasoning``: encrypted thoughts that come along, as the
    responses and messages formats have them.
    """

    text: str = ""
    calls: Sequence[tuple[str, dict[str, Any] | str]] = ()
    status: int = 200
    headers: Mapping[str, str] = {}
    body: str | None = None
    hang: float = 0.0
    reset: bool = False
    cut: int | None = None
    stall: float = 0.0
    stop: str = ""
    counted: bool = True
    input_tokens: int = 11
    output_tokens: int = 7
    cached_tokens: int = 0
    written_tokens: int = 0
    reasoning: str = ""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


def _arguments(arguments: dict[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _pieces(text: str) -> list[str]:
    return [text[start : start + 8] for start in range(0, len(text), 8)]


def refuse_strict(schema: dict[str, Any], place: str = "()") -> str:
    """What OpenAI says of a schema that no model can be held to; empty if one can."""
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            return f"In context={place}, 'additionalProperties' is required to be supplied and to be false."
        names = schema.get("properties", {})
        if sorted(schema.get("required", ())) != sorted(names):
            return f"In context={place}, 'required' is required to be supplied and to include every key."
    if "default" in schema:
        return f"In context={place}, 'default' is not permitted."
    if not schema.keys() & {"type", "anyOf", "$ref", "enum", "const"}:
        return f"In context={place}, schema must have a 'type' key."
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    inner += [*schema.get("$defs", {}).values(), *([schema["items"]] if "items" in schema else ())]
    wrong = next(filter(None, (refuse_strict(each, f"{place}.") for each in inner)), "")
    return wrong and f"Invalid schema for response_format 'answer': {wrong}"


def refuse_parts(content: Any, kinds: Sequence[str]) -> str:
    """What is wrong with the content of a message, a text or parts of these ``kinds``; empty if nothing."""
    if isinstance(content, str):
        return ""
    for part in content:
        if part["type"] not in kinds:
            return f"Invalid value: '{part['type']}'. Supported values are: {kinds}."
        inner = part.get("image_url") or part.get("file") or part
        data = inner.get("url") or inner.get("file_data") if isinstance(inner, dict) else inner
        if data and not base64.b64decode(data.partition(";base64,")[2], validate=True):
            return "Invalid base64"
    return ""


class Completions:
    """OpenAI's chat completions."""

    def error(self, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}

    def refuse(self, request: Request) -> str:
        waiting: list[str] = []
        shape = request.body.get("response_format", {}).get("json_schema", {})
        if shape.get("strict") and (wrong := refuse_strict(shape["schema"])):
            return wrong
        for message in request.body["messages"]:
            if message["role"] == "tool":
                if message["tool_call_id"] not in waiting:
                    return "a tool message must follow a message with its tool_calls"
                waiting.remove(message["tool_call_id"])
                continue
            if waiting:
                return f"tool_call_ids did not have response messages: {waiting}"
            for call in message.get("tool_calls", ()):
                json.loads(call["function"]["arguments"])
                waiting.append(call["id"])
            if wrong := refuse_parts(message["content"], ("text", "image_url", "file")):
                return wrong
        return f"tool_call_ids did not have response messages: {waiting}" if waiting else ""

    def whole(self, asked: dict[str, Any], answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if answer.calls:
            message["tool_calls"] = [
                {
                    "id": f"call_{number}",
                    "type": "function",
                    "function": {"name": name, "arguments": _arguments(arguments)},
                }
                for number, (name, arguments) in enumerate(answer.calls)
            ]
        choice = {"index": 0, "message": message, "finish_reason": self._stop(answer), "logprobs": None}
        return self._frame(asked, "chat.completion", [choice]) | self._usage(answer)

    def events(self, asked: dict[str, Any], answer: Answer) -> Iterator[str]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": piece} for piece in _pieces(answer.text)]
        for index, (name, given) in enumerate(answer.calls):
            begun = {"name": name, "arguments": ""}
            deltas.append({"tool_calls": [{"index": index, "id": f"call_{index}", "function": begun}]})
            deltas += [
                {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
                for piece in _pieces(_arguments(given))
            ]
        for delta in deltas:
            yield self._event(asked, [{"index": 0, "delta": delta, "finish_reason": None}])
        yield self._event(asked, [{"index": 0, "delta": {}, "finish_reason": self._stop(answer)}])
        if asked.get("stream_options", {}).get("include_usage") and answer.counted:
            yield self._event(asked, [], **self._usage(answer))
        yield "data: [DONE]\n\n"

    def _event(self, asked: dict[str, Any], choices: list[Any], **more: Any) -> str:
        return f"data: {json.dumps(self._frame(asked, 'chat.completion.chunk', choices) | more)}\n\n"

    def _frame(self, asked: dict[str, Any], kind: str, choices: list[Any]) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": asked["model"], "choices": choices}

    def _usage(self, answer: Answer) -> dict[str, Any]:
        tokens = (answer.input_tokens, answer.output_tokens)
        counts = {
            "prompt_tokens": tokens[0],
            "completion_tokens": tokens[1],
            "total_tokens": sum(tokens),
            "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
        }
        return {"usage": counts} if answer.counted else {}

    def _stop(self, answer: Answer) -> str:
        return answer.stop or ("tool_calls" if answer.calls else "stop")


class Messages:
    """Anthropic's messages."""

    def error(self, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}

    def refuse(self, request: Request) -> str:
        asked = request.body
        if "anthropic-version" not in request.headers:
            return "anthropic-version: header is required"
        if "max_tokens" not in asked:
            return "max_tokens: Field required"
        if [message["role"] for message in asked["messages"][:1]] != ["user"]:
            return "messages: first message must use the user role"
        waiting: set[str] = set()
        for message in asked["messages"]:
            if message["role"] not in ("user", "assistant"):
                return f"messages: Unexpected role {message['role']!r}"
            blocks = message["content"]
            if not blocks or any(block["type"] == "text" and not block["text"].strip() for block in blocks):
                return "messages: text content blocks must contain non-whitespace text"
            answered = {block["tool_use_id"] for block in blocks if block["type"] == "tool_result"}
            if answered != waiting:
                return "messages: `tool_use` ids were found without `tool_result` blocks immediately after"
            waiting = {block["id"] for block in blocks if block["type"] == "tool_use"}
        return ""

    def whole(self, asked: dict[str, Any], answer: Answer) -> dict[str, Any]:
        content: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
        if answer.reasoning:
            content.insert(0, {"type": "redacted_thinking", "data": answer.reasoning})
        calls = list(answer.calls)
        forced = asked.get("tool_choice", {})
        if forced.get("type") == "tool" and not calls:
            content, calls = [], [(forced["name"], answer.text)]
        content += [
            {
                "type": "tool_use",
                "id": f"toolu_{number}",
                "name": name,
                "input": json.loads(_arguments(given)),
            }
            for number, (name, given) in enumerate(calls)
        ]
        return self._frame(asked, answer) | {
            "content": content,
            "stop_reason": answer.stop or ("tool_use" if calls else "end_turn"),
        }

    def events(self, asked: dict[str, Any], answer: Answer) -> Iterator[str]:
        yield self._event("message_start", message=self._frame(asked, answer) | {"content": []})
        yield self._event("content_block_start", index=0, content_block={"type": "text", "text": ""})
        yield self._event("ping")
        for piece in _pieces(answer.text):
            yield self._event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
        yield self._event("content_block_stop", index=0)
        for index, (name, given) in enumerate(answer.calls, 1):
            block = {"type": "tool_use", "id": f"toolu_{index - 1}", "name": name, "input": {}}
            yield self._event("content_block_start", index=index, content_block=block)
            for piece in _pieces(_arguments(given)):
                delta = {"type": "input_json_delta", "partial_json": piece}
                yield self._event("content_block_delta", index=index, delta=delta)
            yield self._event("content_block_stop", index=index)
        stop = answer.stop or ("tool_use" if answer.calls else "end_turn")
        yield self._event(
            "message_delta",
            delta={"stop_reason": stop, "stop_sequence": None},
            usage={"output_tokens": answer.output_tokens if answer.counted else 0},
        )
        yield self._event("message_stop")

    def _event(self, kind: str, **data: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"

    def _frame(self, asked: dict[str, Any], answer: Answer) -> dict[str, Any]:
        tokens = (answer.input_tokens, answer.output_tokens) if answer.counted else (0, 0)
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": asked["model"],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": tokens[0] - answer.cached_tokens - answer.written_tokens,
                "cache_read_input_tokens": answer.cached_tokens,
                "cache_creation_input_tokens": answer.written_tokens,
                "output_tokens": tokens[1],
            }
            if answer.counted
            else {"input_tokens": 0, "output_tokens": 0},
        }


class Responses:
    """OpenAI's responses."""

    def error(self, message: str) -> dict[str, Any]:
        return Completions().error(message)

    def refuse(self, request: Request) -> str:
        waiting: list[str] = []
        shape = request.body.get("text", {}).get("format", {})
        if shape.get("strict") and (wrong := refuse_strict(shape["schema"])):
            return wrong
        if request.body.get("store", True):
            return "this server keeps nothing: store must be false"
        for item in request.body["input"]:
            kind = item.get("type", "message")
            if kind == "function_call":
                waiting.append(item["call_id"])
            elif kind == "function_call_output":
                if item["call_id"] not in waiting:
                    return f"No tool call found for function call output with call_id {item['call_id']}."
                waiting.remove(item["call_id"])
            elif kind == "reasoning":
                if "encrypted_content" not in item:
                    return "Item 'rs_1' of type 'reasoning' was not found: it was not stored."
            elif waiting:
                return f"No tool output found for function call {waiting[0]}."
            elif wrong := refuse_parts(item["content"], ("input_text", "input_image", "input_file")):
                return wrong
        return f"No tool output found for function call {waiting[0]}." if waiting else ""

    def whole(self, asked: dict[str, Any], answer: Answer) -> dict[str, Any]:
        output: list[dict[str, Any]] = []
        if answer.reasoning:
            output.append(
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": answer.reasoning}
            )
        if answer.text:
            text = {"type": "output_text", "text": answer.text, "annotations": []}
            output.append(
                {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
            )
        output += [
            {
                "type": "function_call",
                "id": f"fc_{number}",
                "call_id": f"call_{number}",
                "name": name,
                "arguments": _arguments(given),
            }
            for number, (name, given) in enumerate(answer.calls)
        ]
        cut = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(answer.stop)
        usage = {
            "input_tokens": answer.input_tokens,
            "output_tokens": answer.output_tokens,
            "total_tokens": answer.input_tokens + answer.output_tokens,
            "input_tokens_details": {"cached_tokens": answer.cached_tokens},
            "output_tokens_details": {"reasoning_tokens": 2 if answer.reasoning else 0},
        }
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 1,
            "model": asked["model"],
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": cut} if cut else None,
            "error": None,
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": usage if answer.counted else None,
        }

    def events(self, asked: dict[str, Any], answer: Answer) -> Iterator[str]:
        whole = self.whole(asked, answer)
        begun = whole | {"status": "in_progress", "output": [], "usage": None}
        yield self._event("response.created", response=begun)
        for piece in _pieces(answer.text):
            yield self._event(
                "response.output_text.delta", delta=piece, item_id="m", output_index=0, content_index=0
            )
        yield self._event(f"response.{whole['status']}", response=whole)

    def _event(self, kind: str, **data: Any) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, 'sequence_number': 0, **data})}\n\n"


FORMATS: dict[str, Any] = {
    "/v1/chat/completions": Completions(),
    "/v1/responses": Responses(),
    "/v1/messages": Messages(),
}
