"""Tokens and what they cost."""

from collections.abc import Sequence
from typing import Any

import msgspec

from shared.errors import ConfigError
from shared.llm.protocol import Message, ToolCall, Usage

CHARACTERS_A_TOKEN = 4
"""What the common tokenizers come to with English text; used only where a server does not count."""
MOST_TOKENS = 20_000_000
"""More than any model takes or writes in one call: a count beyond is none, and would spend a day's budget."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """US dollars for a million tokens in and out."""

    input: float = 0.0
    output: float = 0.0

    def usage(self, input_tokens: int, output_tokens: int, *, estimated: bool = False) -> Usage:
        """One call's usage, with its cost."""
        return Usage(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cost=(input_tokens * self.input + output_tokens * self.output) / 1e6,
            calls=1,
            estimated=estimated,
        )

    def count(
        self,
        messages: Sequence[Message],
        text: str,
        calls: Sequence[ToolCall] = (),
        *,
        input_tokens: Any = None,
        output_tokens: Any = None,
    ) -> Usage:
        """The usage as the server counted it; what it did not count, or counted as nonsense, is estimated."""
        read, written = _sensible(input_tokens), _sensible(output_tokens)
        return self.usage(
            read or estimate_tokens(*(part for message in messages for part in _texts(message))),
            written or estimate_tokens(text, *(part for call in calls for part in _parts(call))),
            estimated=not (read and written),
        )


def read_price(text: str, setting: str = "brain_price") -> Price:
    """The price written as ``in/out``, such as ``3/15``; empty is none. Raises ConfigError."""
    if not text.strip():
        return Price()
    try:
        low, high = (float(part) for part in text.split("/"))
    except ValueError:
        low = high = -1.0
    if not (0 <= low < 1e6 and 0 <= high < 1e6):
        raise ConfigError(
            f"{setting} is wrong: {text!r} is no price",
            "Write US dollars for a million tokens in and out, as 3/15",
        )
    return Price(input=low, output=high)


def estimate_tokens(*texts: str) -> int:
    """How many tokens the texts have, roughly; at least one."""
    return max(1, sum(map(len, texts)) // CHARACTERS_A_TOKEN)


def _sensible(count: Any) -> int:
    return count if isinstance(count, int) and 0 < count <= MOST_TOKENS else 0


def _texts(message: Message) -> list[str]:
    return [message.text, *(part for call in message.tool_calls for part in _parts(call))]


def _parts(call: ToolCall) -> tuple[str, str]:
    return call.name, call.arguments
