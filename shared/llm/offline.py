"""The brain where no model is configured."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, NoReturn

from shared.errors import NoModel
from shared.llm.protocol import Message, Thought, Tool


class OfflineModel:
    """No model: it says how to configure one."""

    name = "offline"
    available = False

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        schema: dict[str, Any] | None = None,
        max_tokens: int = 0,
        timeout: float = 0.0,
    ) -> Thought:
        """Raises NoModel."""
        _refuse()

    async def stream(
        self, messages: Sequence[Message], *, max_tokens: int = 0, timeout: float = 0.0
    ) -> AsyncIterator[str | Thought]:
        """Raises NoModel."""
        _refuse()
        yield ""


def _refuse() -> NoReturn:
    raise NoModel(
        "No model is configured to think with",
        "Set MAILROOM_BRAIN to openai:MODEL (any OpenAI-compatible server, at MAILROOM_BRAIN_URL) or to "
        "anthropic:MODEL",
    )
