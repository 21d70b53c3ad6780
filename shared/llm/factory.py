"""The language model that the settings name."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NoReturn, Unpack

from shared.errors import NoModel
from shared.llm.config import ModelConfig, configured_model, configured_small_model
from shared.llm.protocol import AskOptions, LanguageModel, Message, Thought
from shared.settings import Settings


class OfflineModel:
    """No model: it says how to configure one."""

    name = "offline"
    available = False

    async def complete(self, messages: Sequence[Message], **options: Unpack[AskOptions]) -> Thought:
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


def make_model(settings: Settings, agent: str = "") -> LanguageModel:
    """The brain of ``agent`` by ``settings.brain``; without one, an offline brain.

    Raises ConfigError that names the setting and what is allowed, or the extra that is to be installed.
    """
    return _make(configured_model(settings), agent)


def make_small_model(settings: Settings, agent: str = "") -> LanguageModel:
    """The model for small work by ``settings.cerebellum``, else the brain; raises ConfigError."""
    return _make(configured_small_model(settings), agent)


def _make(choice: ModelConfig | None, agent: str) -> LanguageModel:
    if choice is None:
        return OfflineModel()
    if choice.kind == "scripted":
        from shared.llm.scripted import ScriptedModel

        return ScriptedModel(Path(choice.model).expanduser(), agent=agent, price=choice.price)
    return _make_remote(choice)


def _make_remote(choice: ModelConfig) -> LanguageModel:
    from shared.llm.remote import RemoteModel

    if choice.kind == "openai":
        from shared.llm.openai import OpenAIProvider

        return RemoteModel(choice, OpenAIProvider(choice))
    from shared.llm.anthropic import AnthropicProvider

    return RemoteModel(choice, AnthropicProvider(choice))
