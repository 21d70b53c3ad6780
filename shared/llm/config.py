"""The configuration of the models, from the settings."""

import importlib.util
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from shared.errors import ConfigError
from shared.llm.protocol import Price, read_price
from shared.settings import Settings

HOMES = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
"""The providers' own servers."""
EXAMPLE = "openai:MODEL (any OpenAI-compatible server, at MAILROOM_BRAIN_URL) or anthropic:MODEL"


class NoKey(ConfigError):
    """A model is named at a provider that wants a key, and there is none."""


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A configured model; ``setting`` is the one that names it. Its repr does not show the key."""

    setting: Literal["brain", "cerebellum"]
    kind: str
    model: str
    url: str = ""
    key: str = ""
    price: Price = Price()
    timeout: float = 120.0

    @property
    def name(self) -> str:
        """The configured name, such as ``openai:NAME``."""
        return f"{self.kind}:{self.model}"

    @property
    def at_home(self) -> bool:
        """Whether its provider's own server is used."""
        return self.kind in HOMES and _host(self.url) == _host(HOMES[self.kind])

    @property
    def place(self) -> str:
        """The address of its server, without user and password."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()

    def __repr__(self) -> str:
        return f"ModelConfig({self.name!r} at {self.place!r})"


def configured_model(settings: Settings) -> ModelConfig | None:
    """The model that ``settings.brain`` names, None if it is empty; raises ConfigError."""
    return _choose(settings, "brain", settings.brain_url, settings.brain_key, settings.brain_price)


def configured_small_model(settings: Settings) -> ModelConfig | None:
    """The model that ``settings.cerebellum`` names, else that of ``settings.brain``; raises ConfigError.

    If both are of one kind, address and price default to those of the brain; the key does so only if both
    are on one server.
    """
    if not settings.cerebellum:
        return configured_model(settings)
    kind = settings.cerebellum.partition(":")[0]
    same = kind == settings.brain.partition(":")[0]
    url = settings.cerebellum_url or (settings.brain_url if same else "")
    # A key is sent to no other server than its own.
    same_server = same and _host(_read_url(kind, url, "MAILROOM_CEREBELLUM_URL")) == _host(
        _read_url(kind, settings.brain_url, "MAILROOM_BRAIN_URL")
    )
    return _choose(
        settings,
        "cerebellum",
        url,
        settings.cerebellum_key or (settings.brain_key if same_server else ""),
        settings.cerebellum_price
        or settings.prices.get(settings.cerebellum, "")
        or (settings.brain_price if same else ""),
    )


def _choose(
    settings: Settings, setting: Literal["brain", "cerebellum"], url: str, key: str, price: str
) -> ModelConfig | None:
    text: str = getattr(settings, setting)
    if not text.strip():
        return None
    kind, _, model = (part.strip() for part in text.partition(":"))
    variable = f"MAILROOM_{setting.upper()}"
    if kind not in (*HOMES, "scripted") or not model:
        raise ConfigError(f"{variable} is wrong: {text!r} names no model", f"Write {EXAMPLE}")
    address = _read_url(kind, url, f"{variable}_URL")
    keys = {
        _host(HOMES["openai"]): settings.openai_api_key,
        _host(HOMES["anthropic"]): settings.anthropic_api_key,
    }
    priced = f"{variable}_PRICE" if price else "MAILROOM_PRICES"
    price = price or settings.prices.get(f"{kind}:{model}", "")
    choice = ModelConfig(
        setting=setting,
        kind=kind,
        model=model,
        url=address,
        key=(key or keys.get(_host(address), "")).strip(),
        price=read_price(price, priced),
        timeout=settings.brain_timeout,
    )
    limit = "DAY_COST" if settings.day_cost else "NIGHT_COST" if settings.night_cost else ""
    if limit and not price:
        raise ConfigError(
            f"MAILROOM_{limit} limits the cost of models, but {choice.name} has no price",
            f"Set {variable}_PRICE to US dollars for a million tokens in and out, as 3/15",
        )
    if kind in HOMES:
        _require_usable(choice, variable)
    return choice


def _require_usable(choice: ModelConfig, variable: str) -> None:
    if not (choice.key.isascii() and choice.key.isprintable()):
        raise ConfigError(f"The key for {choice.name} holds characters no key has", f"Correct {variable}_KEY")
    if importlib.util.find_spec(choice.kind) is None:
        raise ConfigError(
            f"{variable} is {choice.name}, but the {choice.kind} package is not installed",
            f"pip install 'mailroom[{choice.kind}]'",
        )
    if choice.at_home and not choice.key:
        raise NoKey(
            f"{variable} is {choice.name}, but there is no key for {choice.url}",
            f"Set {variable}_KEY or {choice.kind.upper()}_API_KEY, or {variable}_URL for another server",
        )


def _read_url(kind: str, text: str, variable: str) -> str:
    """The address as it is configured, else that of the provider; raises ConfigError."""
    try:
        parts = urlsplit(text.strip())
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if text.strip() and not usable:
        raise ConfigError(f"{variable} is no http address", "Write one such as http://127.0.0.1:11434/v1")
    return text.strip().rstrip("/") or HOMES.get(kind, "")


def _host(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
