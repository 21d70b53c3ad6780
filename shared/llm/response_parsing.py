"""What a server answered as a thought, whatever of its format it keeps to."""

import json
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from shared.errors import ModelError
from shared.llm.choice import ModelConfig
from shared.llm.protocol import Thought, ToolCall
from shared.llm.provider import ModelRequest
from shared.text.excerpt import sendable

CUT_OFF = ("length", "max_tokens", "model_context_window_exceeded")
"""How servers say that an answer reached its longest."""
REFUSED = ("refusal", "content_filter")
"""How they say that the model, or a filter in front of it, does not answer this."""


def conclude(
    choice: ModelConfig,
    question: ModelRequest,
    *,
    text: str,
    calls: Sequence[ToolCall] = (),
    stop: Any = "",
    tokens: tuple[Any, Any] = (None, None),
    model: Any = "",
) -> Thought:
    """The thought, its usage as the server counted it; raises ModelError where it is a refusal alone."""
    if stop in REFUSED and not (text.strip() or calls):
        raise ModelError(
            f"The model {choice.name} refuses to answer this",
            "Word the task differently, or take another model",
        )
    return Thought(
        text=text,
        tool_calls=tuple(calls),
        usage=choice.price.count(
            question.messages, text, calls, input_tokens=tokens[0], output_tokens=tokens[1]
        ),
        model=read_text(model),
        stop="tools" if calls else "length" if stop in CUT_OFF else "end",
    )


def read_call(call_id: Any, name: Any, arguments: Any) -> ToolCall:
    """A call; one without an id gets one, and arguments that are no text are written as one."""
    if arguments is None:
        arguments = {}
    return ToolCall(
        id=read_text(call_id) or f"call_{uuid4().hex[:12]}",
        name=read_text(name),
        arguments=read_text(arguments if isinstance(arguments, str) else json.dumps(arguments)) or "{}",
    )


def read_text(content: Any) -> str:
    """The text there is, parts of a list included, of whole characters."""
    if isinstance(content, list):
        return "".join(map(read_text, content))
    if isinstance(content, dict):
        content = content.get("text")
    return sendable(content) if isinstance(content, str) else ""
