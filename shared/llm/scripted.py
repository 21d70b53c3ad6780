"""A model that follows a script, for tests."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

import msgspec

from shared.errors import ConfigError, ModelError, ModelUnavailable
from shared.llm.protocol import AskOptions, Message, Pieces, Price, StreamOptions, Thought, ToolCall

PIECE = 16  # Characters a piece of a streamed answer has


class Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool call; arguments that are a text are used unchanged, even if malformed."""

    name: str
    arguments: dict[str, Any] | str = {}

    @property
    def text(self) -> str:
        """The arguments as a model writes them."""
        given = self.arguments
        return given if isinstance(given, str) else msgspec.json.encode(given).decode()


class Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One answer: a text, JSON, calls (with a text or without), or an error; ``delay`` in seconds."""

    call: Call | None = None
    calls: tuple[Call, ...] = ()
    text: str | None = None
    json: Any = msgspec.UNSET
    error: Literal["", "unavailable"] = ""
    delay: float = 0.0

    def __post_init__(self) -> None:
        if not (self.all_calls or self.error or self.text is not None or self.json is not msgspec.UNSET):
            raise ValueError("a reply needs one of call, calls, text, json and error")
        if self.text is not None and self.json is not msgspec.UNSET:
            raise ValueError("a reply has a text or json, not both")

    @property
    def all_calls(self) -> tuple[Call, ...]:
        """``call`` and ``calls``."""
        return (*((self.call,) if self.call else ()), *self.calls)

    @property
    def words(self) -> str:
        """The reply's text, empty if it only calls tools."""
        if self.json is not msgspec.UNSET:
            return msgspec.json.encode(self.json).decode()
        return self.text or ""


class ScriptEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The replies for the conversations of ``agent`` (empty: any) whose first user message has ``match``."""

    replies: tuple[Reply, ...]
    agent: str = ""
    match: str = ""

    def __post_init__(self) -> None:
        if not self.replies:
            raise ValueError("replies are empty")
        try:
            re.compile(self.match)
        except re.error as error:
            raise ValueError(f"match {self.match!r} is no regular expression: {error}") from None


def read_script(path: Path) -> tuple[ScriptEntry, ...]:
    """The entries of a script; raises ConfigError that names the problem and its place."""
    import yaml

    try:
        return msgspec.convert(yaml.safe_load(path.read_text()) or [], tuple[ScriptEntry, ...])
    except OSError as error:
        raise ConfigError(f"The script {path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.YAMLError, msgspec.ValidationError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"The script {path} is wrong: {reason}") from None


class ScriptedModel:
    """Answers by a script. The reply is a function of the conversation, so that a restart changes nothing.

    The first entry that matches is used; its n-th reply is given if the conversation has n assistant messages
    after the first user message, and the last one repeats.
    """

    available = True

    def __init__(self, path: Path, *, agent: str = "", price: Price | None = None) -> None:
        """Reads ``path``; raises ConfigError. ``agent`` is whose model it is; if empty, prompts decide."""
        self.name = f"scripted:{path}"
        self._entries = read_script(path)
        self._agent = agent
        self._price = price or Price()

    async def complete(self, messages: Sequence[Message], **options: Unpack[AskOptions]) -> Thought:
        """The reply that is due; ModelUnavailable for a delay beyond ``timeout``, ModelError if none fits."""
        timeout = options.get("timeout", 0.0)
        turn, reply = self._find(messages)
        if timeout and reply.delay > timeout:
            await asyncio.sleep(timeout)
            raise ModelUnavailable(f"The script did not answer within {timeout:g} s")
        if reply.delay:
            await asyncio.sleep(reply.delay)
        if reply.error:
            raise ModelUnavailable("The script says that the model is out of reach")
        calls = tuple(
            ToolCall(id=f"call_{turn}_{number}", name=call.name, arguments=call.text)
            for number, call in enumerate(reply.all_calls)
        )
        if on_piece := options.get("on_piece"):
            on_piece(None)
            on_piece(reply.words)
        return Thought(
            text=reply.words,
            tool_calls=calls,
            usage=self._price.count(messages, reply.words, calls),
            model=self.name,
            stop="tools" if calls else "end",
        )

    async def stream(self, messages: Sequence[Message], **options: Unpack[StreamOptions]) -> Pieces:
        """The reply in pieces of 16 characters, then whole."""
        thought = await self.complete(messages, **options)
        for start in range(0, len(thought.text), PIECE):
            yield thought.text[start : start + PIECE]
        yield thought

    def _find(self, messages: Sequence[Message]) -> tuple[int, Reply]:
        first = next((i for i, message in enumerate(messages) if message.role == "user"), len(messages))
        asked = messages[first].text if first < len(messages) else ""
        prompt = next((message.text for message in messages if message.role == "system"), "")
        turn = sum(message.role == "assistant" for message in messages[first:])
        for entry in self._entries:
            if self._is_of(entry, prompt) and re.search(entry.match, asked):
                return turn, entry.replies[min(turn, len(entry.replies) - 1)]
        whose = f" of {self._agent}" if self._agent else ""
        raise ModelError(
            f"No entry of the script fits the conversation{whose} that begins with {asked[:200]!r}"
        )

    def _is_of(self, entry: ScriptEntry, prompt: str) -> bool:
        if not entry.agent or self._agent:
            return entry.agent in ("", self._agent)
        return re.search(rf"\b{re.escape(entry.agent)}\b", prompt, re.IGNORECASE) is not None
