"""The messages of one agent loop, bounded, and summarised or shortened to what fits a model's context."""

import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from shared.llm.leaving import TASK, UNKNOWN, own_kinds
from shared.llm.protocol import Message, Thought, ToolCall
from shared.text.display import excerpt

MAX_THOUGHT = 50_000
"""Characters of a model message that are kept, and of the parameters of all its calls together."""
MAX_KEPT = 200_000  # Bytes of a message's reasoning that are kept
MAX_CALLS = 16  # Actions called by one model message
MAX_FEEDBACK = 25_000  # Characters of a note or an action's result that are kept
WINDOW = 240_000  # Characters of a conversation that are sent to a model: about 60,000 tokens
SHORTENED = (600, 60)
"""Characters that older messages are shortened to if the conversation is too long: first, then if that is not
enough. The task itself is never shortened."""
RECENT = 4
"""The last messages, shortened only if that is not enough: each to an equal share of half the window."""
FULL = 0.8
"""The part of the window beyond which older messages are summarised: the question for it needs the rest."""
TAIL = 4  # The part of the window that stays word for word beside a summary is one of so many
MAX_SUMMARY = 16_000  # Characters of a summary that are kept

TOLD = "The person who asked for this says now, and it counts more than what was asked before:"
GO_ON = "Your message was cut off at the limit of its length. Go on exactly where it ended."
CUT_CALL = (
    "It was not run, since your message was cut off here at the limit of its length. Call it again with less "
    "at once, or in pieces."
)
UNSETTLED = ("It failed", "It was not", "It has findings")  # How results of calls begin that did not go well
SUMMARY = """\
This conversation gets too long: all but its last messages will be replaced by what you write now. Call no \
action. Write down for yourself, in plain text and briefly, what you need in order to go on:
- the goal with all its conditions, and what the person said since;
- what was decided, and why; what was tried in vain;
- the files that were read and changed, with their paths, and what was changed in them;
- what was found out: names, lines, values;
- commands that fail, with the part of their output that matters, word for word;
- what is left to do."""
SUMMED = "Your own summary of what was done before (the messages themselves are left out):"


class Call(NamedTuple):
    """An action to be called: its name, its parameters as JSON, the id of the tool call if it was one."""

    name: str
    arguments: str
    call_id: str = ""


class Conversation:
    """The messages of one agent loop: its history, its task, and everything since.

    If it ``goes_on`` with an earlier one, its history begins with a task, which is never shortened either.
    """

    def __init__(
        self,
        task: str,
        history: Sequence[Message] = (),
        window: int = WINDOW,
        *,
        goes_on: bool = False,
    ) -> None:
        self.messages: list[Message] = [*history, Message(role="user", text=task)]
        self.written = len(self.messages)
        """How many of them are stored in checkpoints, or need not be."""
        self._begin = self.written
        self._task = len(history)
        self._kept = {self._task} | ({0} if goes_on else set())
        self._window = window
        self._ask_from = int(FULL * window)
        self.summary = ""
        self.summed = 0
        """How many messages, of those that ``position`` counts, the summary stands for."""

    @property
    def is_full(self) -> bool:
        """Whether older messages are to be summarised before the model is asked again."""
        return (
            sum(map(_size, self._seen())) > self._ask_from and self._find_tail() > self._begin + self.summed
        )

    def narrow(self) -> None:
        """Take it that the model can read half of what it was sent last, which its server refused."""
        self._window = sum(map(_size, self.shortened())) // 2
        self._ask_from = int(FULL * self._window)

    def summarise(self, text: str) -> None:
        """Have ``text`` stand for all but the last messages; without one it is not asked for any more."""
        if not text.strip():
            self._ask_from = sys.maxsize
            return
        self.summary, self.summed = excerpt(text, MAX_SUMMARY), self._find_tail() - self._begin
        left = sum(map(_size, self._seen()))
        self._ask_from = max(int(FULL * self._window), left + self._window // TAIL)

    def _find_tail(self) -> int:
        """Where the messages begin that stay: with a turn of the model; 0 if there is none."""
        size = start = 0
        for position in range(len(self.messages) - 1, self._begin + self.summed - 1, -1):
            size += _size(self.messages[position])
            if self.messages[position].role == "assistant":
                if start and size > self._window // TAIL:
                    break
                start = position
        return start

    def _seen(self) -> list[Message]:
        """The messages as the model sees them; what a person said stays, also beside a summary of it."""
        if not self.summary:
            return list(self.messages)
        end = self._begin + self.summed
        said = [message for message in self.messages[self._begin : end] if message.text.startswith(TOLD)]
        # It may tell of all that was seen.
        kinds = {kind for message in self.messages for kind in own_kinds(message)}
        summary = Message(role="user", text=f"{SUMMED}\n{self.summary}", kinds=tuple(sorted(kinds)))
        return [*self.messages[: self._begin], summary, *said, *self.messages[end:]]

    def shortened(self) -> list[Message]:
        """The messages to send to a model: the oldest ones shortened if all exceed the window.

        More are shortened than necessary, a quarter of the window at a time, so that the beginning of the
        conversation changes seldom (providers cache it).
        """
        messages = self._seen()
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
                if position not in self._kept:
                    short = _shorten(messages[position], limit)
                    excess -= _size(messages[position]) - _size(short)
                    messages[position] = short
        return messages

    def add_thought(self, thought: Thought) -> list[Call]:
        """Add a model message; returns the tool calls to run.

        Arguments that are too long or malformed are not kept in the conversation; the returned calls have
        them whole, to be checked when they are run. Of a message that reached its length limit the last call
        is refused, since it may lack a part; if it has none, the model is told to go on.
        """
        remaining, kept = MAX_THOUGHT, []
        used = {call.id for message in self.messages for call in message.tool_calls}
        for number, call in enumerate(thought.tool_calls[:MAX_CALLS]):
            kept.append(_as_kept(call, remaining, used, f"call_{len(self.messages)}_{number}"))
            remaining -= len(kept[-1].arguments)
        self.messages.append(
            Message(
                role="assistant",
                text=excerpt(thought.text, MAX_THOUGHT),
                tool_calls=tuple(kept),
                # Without its call, or cut, reasoning is refused.
                kept=thought.kept if len(msgspec.json.encode(thought.kept)) <= MAX_KEPT else (),
                kept_for=thought.by if thought.kept else "",
                kinds=thought.shown,
            )
        )
        calls = [
            Call(call.name, call.arguments, stored.id)
            for stored, call in zip(kept, thought.tool_calls, strict=False)
        ]
        if thought.stop == "length" and calls:
            self.add_result(calls.pop(), CUT_CALL, (TASK,))
        elif thought.stop == "length":
            self.add_note(GO_ON)
        return calls

    def add_note(self, text: str, kinds: Sequence[str] = ()) -> None:
        """Add a message to the model, of the task's own kind if it names no others."""
        self.messages.append(Message(role="user", text=excerpt(text, MAX_FEEDBACK), kinds=tuple(kinds)))

    def add_result(self, call: Call, text: str, kinds: Sequence[str] = ()) -> None:
        """Add the result of a call, and the kinds of text that are in it; empty if they are unknown."""
        if not call.call_id:
            self.add_note(f"{call.name}: {text}", kinds)
            return
        text = excerpt(text, MAX_FEEDBACK)
        self.messages.append(Message(role="tool", text=text, tool_call_id=call.call_id, kinds=tuple(kinds)))

    @property
    def answer(self) -> str:
        """The text of the last message, which may go on from messages that were cut off."""
        position = len(self.messages) - 1
        text = self.messages[position].text
        while position > 1 and self.messages[position - 1].text == GO_ON:
            position -= 2
            text = self.messages[position].text + text
        return text

    def list_unsettled(self) -> list[str]:
        """The actions called by the last model message that failed, were not run, or have findings."""
        names: dict[str, str] = {}
        results: list[Message] = []
        for message in reversed(self.messages[self._begin :]):
            if message.role == "assistant":
                names = {call.id: call.name for call in message.tool_calls}
                break
            results.insert(0, message)
        bad = [each.tool_call_id for each in results if each.text.startswith(UNSETTLED)]
        return [names[call_id] for call_id in bad if call_id in names]

    def take_unwritten(self) -> tuple[Message, ...]:
        """The messages that are not stored yet; after this call they count as stored."""
        new = tuple(self.messages[self.written :])
        self.written = len(self.messages)
        return new

    @property
    def position(self) -> int:
        """How many messages there are beside those that it began with: the number of the next one."""
        return len(self.messages) - self._begin

    @property
    def task(self) -> str:
        """The text of the task."""
        return self.messages[self._task].text

    def restore(self, messages: Sequence[Message], task: str = "") -> None:
        """Add messages that an earlier attempt stored; ``task`` is the text that it began with, if known."""
        if task:
            self.messages[self._task] = Message(role="user", text=task)
        self.messages += messages
        self.written = len(self.messages)

    def unanswered(self) -> list[Call] | None:
        """The tool calls of the last model message that have no result yet; None if there are none."""
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
    text = excerpt(message.text, limit)
    # What is cut may have lost the marks of its sections, and with them what kinds they are of.
    kinds = (UNKNOWN,) if message.role == "user" and text != message.text and "<data" in message.text else ()
    return msgspec.structs.replace(message, text=text, tool_calls=calls, kinds=kinds or message.kinds)


def _as_kept(call: ToolCall, remaining: int, used: set[str], name: str) -> ToolCall:
    """The call as it is kept: a unique id, a name that providers accept, arguments that are an object."""
    own_id = call.id if call.id and len(call.id) <= 128 and call.id not in used else name
    used.add(own_id)
    fits = len(call.arguments) <= remaining and _is_object(call.arguments)
    return ToolCall(
        id=own_id,
        name=re.sub(r"[^\w-]", "_", call.name[:64], flags=re.ASCII) or "unnamed",
        arguments=call.arguments if fits else _left_out(call),
    )


def _left_out(call: ToolCall) -> str:
    """A placeholder for arguments; no action accepts it, so nothing runs with a part of them."""
    return f'{{"left_out": "{len(call.arguments)} characters"}}'


def _is_object(text: str) -> bool:
    try:
        return isinstance(msgspec.json.decode(text or "{}"), dict)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False
