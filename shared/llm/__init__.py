"""Language models behind one protocol, and the one that the settings name."""

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from shared.errors import NoModel
from shared.llm.config import ModelConfig, configured_fallbacks, configured_model, configured_small_model
from shared.llm.protocol import (
    AskOptions,
    LanguageModel,
    Message,
    Pieces,
    StreamOptions,
    Thought,
    Tool,
    ToolCall,
    Usage,
)
from shared.llm.provider import ask_for
from shared.settings import Settings

__all__ = [
    "LanguageModel",
    "Message",
    "Thought",
    "Tool",
    "ToolCall",
    "Usage",
    "ask_for",
    "make_model",
    "make_small_model",
]


class OfflineModel:
    """Stands in if no model is configured; every call raises NoModel."""

    name = "offline"
    available = False

    async def complete(self, messages: Sequence[Message], **options: Unpack[AskOptions]) -> Thought:
        """Raises NoModel."""
        raise NoModel(
            "No model is configured to think with",
            "Set MAILROOM_BRAIN to openai:MODEL (any OpenAI-compatible server, at MAILROOM_BRAIN_URL) or to "
            "anthropic:MODEL",
        )

    async def stream(self, messages: Sequence[Message], **options: Unpack[StreamOptions]) -> Pieces:
        """Raises NoModel."""
        yield await self.complete(messages, **options)


def make_model(settings: Settings, agent: str = "") -> LanguageModel:
    """The model of ``agent`` by ``settings.brain`` and ``brain_fallback``, or an OfflineModel.

    Raises ConfigError that names the setting and the allowed values, or the extra to install.
    """
    configs = (configured_model(settings), *configured_fallbacks(settings))
    models = [_guard(config, _make(config, agent), settings, agent) for config in configs]
    if len(models) == 1:
        return models[0]
    from shared.llm.fallback import FallbackModel

    return FallbackModel(models)


def make_small_model(settings: Settings, agent: str = "") -> LanguageModel:
    """The small model by ``settings.cerebellum``, else as ``make_model``; raises ConfigError."""
    if not settings.cerebellum:
        return make_model(settings, agent)
    config = configured_small_model(settings)
    return _guard(config, _make(config, agent), settings, agent)


def _guard(config: ModelConfig | None, model: LanguageModel, settings: Settings, agent: str) -> LanguageModel:
    """The model, which gets what may leave for it; raises ConfigError if only local ones may be asked."""
    if config is None:
        return model
    from shared.llm.leaving import GuardedModel, masks_of, require_local, rule_for
    from shared.llm.sent import SentLog

    require_local(settings, config)
    name = agent or "office"
    sent = SentLog(settings.sent / name, name, settings.days_kept("outputs"))
    return GuardedModel(model, rule_for(settings, config.url), masks_of(settings, name), sent)


def _make(config: ModelConfig | None, agent: str) -> LanguageModel:
    if config is None:
        return OfflineModel()
    if config.kind == "scripted":
        from shared.llm.scripted import ScriptedModel

        return ScriptedModel(Path(config.model).expanduser(), agent=agent, price=config.price)
    from shared.llm.remote import RemoteModel

    if config.kind == "openai-responses":
        from shared.llm.responses import ResponsesProvider

        return RemoteModel(config, ResponsesProvider(config))
    if config.kind == "openai":
        from shared.llm.openai import OpenAIProvider

        return RemoteModel(config, OpenAIProvider(config))
    from shared.llm.anthropic import AnthropicProvider

    return RemoteModel(config, AnthropicProvider(config))
