"""What is said in one train of thought: bounded, and short enough for a model to be shown."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from shared.llm.protocol import Message, Thought, ToolCall
from shared.text.excerpt import excerpt

MAX_THOUGHT = 50_000
"""Characters of a thought that are kept, and of the parameters of all its calls together."""
MAX_CALLS = 16
"""Actions called by one thought."""
MAX_FEEDBACK = 25_000
"""Characters of what is fed back about one action."""
WINDOW = 240_000
"""Characters of a conversation that a model is shown: about 60,000 tokens."""
SHORTENED = (600, 60)
"""Characters that are left of an older message where the conversation is longer than that; then, where that
is not enough, fewer. The task itself is always shown whole."""
RECENT = 4
"""The last messages, which are shown as they are while that leaves room; else as so many parts of half of
it."""


class Call(NamedTuple):
    """An action to be called: its name, its parameters as JSON, the id of the tool call if it was one."""

    name: str
    arguments: str
    call_id: str = ""


class Conversation:
    """The messages of one train of thought, from what went before it to now."""

    def __init__(self, task: str, history: Sequence[Message] = (), window: int = WINDOW) -> None:
        self.messages: list[Message] = [*history, Message(role="user", text=task)]
        self.written = len(self.messages)
        """How many of them are stored, or need not be."""
        self._task = len(history)
        self._window = window

    def shown(self) -> list[Message]:
        """The messages for a model: the oldest ones shortened where together they are longer than the window.

        Some more are shortened than must be, so that what a model has seen changes seldom.
        """
        messages = list(self.messages)
        excess = sum(map(_size, messages)) - self._window
        if excess <= 0:
            return messages
        step = self._window // 4
        excess = -(-excess // step) * step
        passes = [(limit, RECENT) for limit in SHORTENED] + [(self._window // (2 * RECENT), 0)]
        for limit, spared in passes:
            for position in range(max(0, len(messages) - spared)):
                if excess <= 0:
                    return messages
                if position != self._task:
                    short = _shorten(messages[position], limit)
                    excess -= _size(messages[position]) - _size(short)
                    messages[position] = short
        return messages

    def hear(self, thought: Thought) -> list[Call]:
        """Take over a thought; returns what it calls by tool calls.

        What is too long or malformed is not kept, but checked by whoever runs it, whole.
        """
        room, kept = MAX_THOUGHT, []
        taken = {call.id for message in self.messages for call in message.tool_calls}
        for number, call in enumerate(thought.tool_calls[:MAX_CALLS]):
            kept.append(_kept(call, room, taken, f"call_{len(self.messages)}_{number}"))
            room -= len(kept[-1].arguments)
        self.messages.append(
            Message(role="assistant", text=excerpt(thought.text, MAX_THOUGHT), tool_calls=tuple(kept))
        )
        return [
            Call(call.name, call.arguments, same.id)
            for same, call in zip(kept, thought.tool_calls, strict=False)
        ]

    def tell(self, text: str) -> None:
        """Say something to the model."""
        self.messages.append(Message(role="user", text=excerpt(text, MAX_FEEDBACK)))

    def answer(self, call: Call, text: str) -> None:
        """Say what came of a call."""
        if not call.call_id:
            self.tell(f"{call.name}: {text}")
            return
        text = excerpt(text, MAX_FEEDBACK)
        self.messages.append(Message(role="tool", text=text, tool_call_id=call.call_id))

    def take_unwritten(self) -> tuple[Message, ...]:
        """The messages that are not stored yet; from now on they count as stored."""
        new = tuple(self.messages[self.written :])
        self.written = len(self.messages)
        return new

    def restore(self, messages: Sequence[Message]) -> None:
        """Add what an earlier attempt stored."""
        self.messages += messages
        self.written = len(self.messages)

    def unanswered(self) -> list[Call] | None:
        """The tool calls of the last thought that nothing came of yet; None where there are none."""
        answered: set[str] = set()
        for message in reversed(self.messages[self._task + 1 :]):
            if message.role == "assistant":
                calls = [Call(call.name, call.arguments, call.id) for call in message.tool_calls]
                return [call for call in calls if call.call_id not in answered] or None
            answered.add(message.tool_call_id)
        return None


def _size(message: Message) -> int:
    return len(message.text) + sum(len(call.arguments) for call in message.tool_calls)


def _shorten(message: Message, limit: int) -> Message:
    calls = tuple(
        call if len(call.arguments) <= limit else msgspec.structs.replace(call, arguments=_left_out(call))
        for call in message.tool_calls
    )
    return msgspec.structs.replace(message, text=excerpt(message.text, limit), tool_calls=calls)


def _kept(call: ToolCall, room: int, taken: set[str], name: str) -> ToolCall:
    """The call as it is kept: with an id of its own, a name that providers take, parameters that are some."""
    own_id = call.id if call.id and len(call.id) <= 128 and call.id not in taken else name
    taken.add(own_id)
    fits = len(call.arguments) <= room and _is_object(call.arguments)
    return ToolCall(
        id=own_id,
        name=re.sub(r"[^\w-]", "_", call.name[:64], flags=re.ASCII) or "unnamed",
        arguments=call.arguments if fits else _left_out(call),
    )


def _left_out(call: ToolCall) -> str:
    """In place of parameters; no action takes them, so that nothing is run with less than was meant."""
    return f'{{"left_out": "{len(call.arguments)} characters"}}'


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text or "{}"), dict)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
