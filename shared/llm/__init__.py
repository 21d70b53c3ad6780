"""Language models behind one protocol, and the one that the settings name."""

from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from shared.errors import NoModel
from shared.llm.config import (
    ModelConfig,
    Role,
    configured_fallbacks,
    configured_for,
    configured_model,
    configured_small_model,
)
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
from shared.llm.provider import Provider, ask_for
from shared.llm.turns import OWN, Ledger
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
    "make_provider",
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


def make_model(
    settings: Settings, agent: str = "", role: Role | None = None, ledger: Ledger = OWN
) -> LanguageModel:
    """The model of ``agent`` by ``settings.brain`` and ``brain_fallback``, or an OfflineModel.

    That of a ``role`` comes before both. Requests take turns by ``ledger``. Raises ConfigError that names the
    setting and the allowed values, or the extra to install.
    """
    chosen = (
        configured_for(settings, role) if role else None,
        configured_model(settings),
        *configured_fallbacks(settings),
    )
    *others, last = filter(None, chosen) if any(chosen) else (None,)
    if last is None:
        return OfflineModel()
    made = [
        *((each, _make(each, agent, ledger, has_next=True)) for each in others),
        (last, _make(last, agent, ledger)),
    ]
    models = [_guard(config, model, settings, agent) for config, model in made]
    if len(models) == 1:
        return models[0]
    from shared.llm.fallback import FallbackModel

    return FallbackModel(models)


def make_small_model(settings: Settings, agent: str = "", ledger: Ledger = OWN) -> LanguageModel:
    """The small model by ``settings.cerebellum``, else as ``make_model``; raises ConfigError."""
    if not settings.cerebellum:
        return make_model(settings, agent, ledger=ledger)
    config = configured_small_model(settings)
    if config is None:
        return OfflineModel()
    return _guard(config, _make(config, agent, ledger), settings, agent)


def _guard(config: ModelConfig, model: LanguageModel, settings: Settings, agent: str) -> LanguageModel:
    """The model, which gets what may leave for it; raises ConfigError if that cannot be read."""
    from shared.llm.leaving import GuardedModel, masks_of, rule_for
    from shared.llm.sent import SentLog

    name = agent or "office"
    sent = SentLog(settings.sent / name, name, settings.days_kept("outputs"))
    return GuardedModel(model, rule_for(settings, config.url), masks_of(settings, name), sent)


def _make(config: ModelConfig, agent: str, ledger: Ledger, *, has_next: bool = False) -> LanguageModel:
    if config.kind == "scripted":
        from shared.llm.scripted import ScriptedModel

        return ScriptedModel(Path(config.model).expanduser(), agent=agent, price=config.price)
    from shared.llm.remote import RemoteModel, RetryPolicy

    policy = RetryPolicy(longest_refused=60.0) if has_next else RetryPolicy()
    return RemoteModel(config, make_provider(config), policy, ledger)


def make_provider(config: ModelConfig) -> Provider:
    """What speaks the wire format of the server that ``config`` names."""
    if config.kind == "openai-responses":
        from shared.llm.responses import ResponsesProvider

        return ResponsesProvider(config)
    if config.kind == "openai":
        from shared.llm.openai import OpenAIProvider

        return OpenAIProvider(config)
    from shared.llm.anthropic import AnthropicProvider

    return AnthropicProvider(config)
