"""The language model that the settings name."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NoReturn, Unpack

from shared.errors import NoModel
from shared.llm.config import ModelConfig, configured_model, configured_small_model
from shared.llm.protocol import AskOptions, LanguageModel, Message, Thought
from shared.settings import Settings


class OfflineModel:
    """Stands in if no model is configured; every call raises NoModel."""

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
    """The model of ``agent`` by ``settings.brain``, or an OfflineModel.

    Raises ConfigError that names the setting and the allowed values, or the extra to install.
    """
    return _make(configured_model(settings), agent)


def make_small_model(settings: Settings, agent: str = "") -> LanguageModel:
    """The small model by ``settings.cerebellum``, else that of ``settings.brain``; raises ConfigError."""
    return _make(configured_small_model(settings), agent)


def _make(config: ModelConfig | None, agent: str) -> LanguageModel:
    if config is None:
        return OfflineModel()
    if config.kind == "scripted":
        from shared.llm.scripted import ScriptedModel

        return ScriptedModel(Path(config.model).expanduser(), agent=agent, price=config.price)
    return _make_remote(config)


def _make_remote(config: ModelConfig) -> LanguageModel:
    from shared.llm.remote import RemoteModel

    if config.kind == "openai":
        from shared.llm.openai import OpenAIProvider

        return RemoteModel(config, OpenAIProvider(config))
    from shared.llm.anthropic import AnthropicProvider

    return RemoteModel(config, AnthropicProvider(config))
