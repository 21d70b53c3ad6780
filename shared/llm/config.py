"""The configuration of the models, from the settings."""

import difflib
import importlib.util
import re
from collections.abc import Collection
from ipaddress import ip_address
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from shared.errors import ConfigError
from shared.llm.prices import find_price
from shared.llm.protocol import Price, read_price
from shared.settings import Settings

HOMES = {
    "openai": "https://api.openai.com/v1",
    "openai-responses": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
}
"""The providers' own servers, by the format that is spoken with them."""
Setting = Literal["brain", "cerebellum", "brain_fallback", "brain_plan", "brain_review"]
Role = Literal["plan", "review"]
"""What a model of its own can be set for: making plans, and judging what was done."""
ROLES: dict[Role, Setting] = {"plan": "brain_plan", "review": "brain_review"}
OF_OWN, OF_PROVIDER = 2, 16
"""Requests that are open at once at a server of one's own, which has one machine, and at a provider's."""
LEAST_CONTEXT = 4_000  # Tokens: with less no agent can work
OWN_KEY = ("brain", "cerebellum")  # The settings that have one for an address and a key beside them
EXAMPLE = (
    "openai:MODEL (any OpenAI-compatible server, at MAILROOM_BRAIN_URL), openai-responses:MODEL or "
    "anthropic:MODEL"
)


class NoKey(ConfigError):
    """A model is named at a provider that wants a key, and there is none."""


class ModelConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A configured model; ``setting`` is the one that names it. Its repr does not show the key."""

    setting: Setting
    kind: str
    model: str
    url: str = ""
    key: str = ""
    price: Price = Price()
    timeout: float = 120.0
    effort: str = ""
    temperature: float | None = None
    answer: int = 8_192
    images: bool = True
    concurrency: int = 16
    tokens_per_minute: int = 0

    @property
    def name(self) -> str:
        """The configured name, such as ``openai:NAME``."""
        return f"{self.kind}:{self.model}"

    @property
    def package(self) -> str:
        """The package that speaks its format, and the extra that installs it."""
        return self.kind.partition("-")[0]

    @property
    def at_home(self) -> bool:
        """Whether its provider's own server is used."""
        return self.kind in HOMES and _host(self.url) == _host(HOMES[self.kind])

    @property
    def variable(self) -> str:
        """The environment's name of the setting that names it."""
        return f"MAILROOM_{self.setting.upper()}"

    @property
    def url_setting(self) -> str:
        """Where its address is set."""
        return f"{self.variable}_URL" if self.setting in OWN_KEY else self.variable

    @property
    def key_setting(self) -> str:
        """Where its key is set: other models have that of the brain, at its server alone."""
        return f"{self.variable if self.setting in OWN_KEY else 'MAILROOM_BRAIN'}_KEY"

    @property
    def place(self) -> str:
        """The address of its server, without user and password."""
        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()

    def __repr__(self) -> str:
        return f"ModelConfig({self.name!r} at {self.place!r})"


OF_AGENTS = (
    "brain",
    "brain_url",
    "brain_key",
    "brain_price",
    "brain_fallback",
    "brain_plan",
    "brain_review",
    "brain_images",
    "brain_timeout",
    "brain_effort",
    "brain_temperature",
    "brain_answer",
    "brain_context",
    "brain_concurrency",
    "brain_tokens_per_minute",
    "brain_local",
    "leaves",
    "skills",
    "cerebellum",
    "cerebellum_url",
    "cerebellum_key",
    "cerebellum_price",
)
"""The settings that an agent may have for itself, in ``[agents.NAME]`` of mailroom.toml."""


def settings_of(settings: Settings, agent: str) -> Settings:
    """The settings with those of ``[agents.AGENT]``; raises ConfigError.

    An agent with a model of its own takes address, key, price and fallbacks from nobody: a model on this
    machine stays the only one that reads what the agent reads.
    """
    own = settings.agents.get(agent, {})
    if not isinstance(own, dict) or (unknown := sorted(own.keys() - set(OF_AGENTS))):
        named = (
            f"{unknown[0]!r} is none of an agent's settings" if isinstance(own, dict) else "it is no table"
        )
        near = difflib.get_close_matches(unknown[0], OF_AGENTS, n=1) if isinstance(own, dict) else []
        cure = f"Did you mean {near[0]!r}? " if near else ""
        raise ConfigError(f"[agents.{agent}] is wrong: {named}", f"{cure}Write one of {', '.join(OF_AGENTS)}")
    values = msgspec.structs.asdict(settings)
    if "brain" in own:  # its small model is this one too, unless it names another
        values |= {
            "brain_url": "",
            "brain_key": "",
            "brain_price": "",
            "brain_fallback": (),
            "brain_plan": "",
            "brain_review": "",
            "cerebellum": "",
        }
    if "brain" in own or "cerebellum" in own:
        values |= {"cerebellum_url": "", "cerebellum_key": "", "cerebellum_price": ""}
    if isinstance(own.get("leaves"), dict):  # of servers that it does not name, the office's entries hold
        own = own | {"leaves": settings.leaves | own["leaves"]}
    try:
        return msgspec.convert(values | own, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"[agents.{agent}] is wrong: {error}", "Correct it") from None


def configured_model(settings: Settings) -> ModelConfig | None:
    """The model that ``settings.brain`` names, None if it is empty; raises ConfigError."""
    return _choose(
        settings, "brain", settings.brain, settings.brain_url, settings.brain_key, settings.brain_price
    )


def require_known_agents(settings: Settings, agents: Collection[str]) -> None:
    """Raise ConfigError if ``[agents.NAME]`` names none of ``agents``, or has a wrong setting or model."""
    for name in settings.agents:
        if name not in agents:
            near = difflib.get_close_matches(name, agents, n=1)
            cure = f"Did you mean {near[0]!r}? " if near else ""
            raise ConfigError(
                f"[agents.{name}] is wrong: there is no agent {name!r}",
                f"{cure}The agents are {', '.join(sorted(agents))}",
            )
        own = settings_of(settings, name)
        try:
            configured_models(own)
        except ConfigError as error:
            raise ConfigError(f"[agents.{name}] is wrong: {error.cause}", error.cure) from None


def configured_models(settings: Settings) -> list[ModelConfig]:
    """Every model that ``settings`` name, each once: brain, fallbacks, those of roles, the small one.

    Raises ConfigError.
    """
    roles = (configured_for(settings, role) for role in ROLES)
    chosen = (
        configured_model(settings),
        *configured_fallbacks(settings),
        *roles,
        configured_small_model(settings),
    )
    found: dict[tuple[str, str], ModelConfig] = {}
    for each in filter(None, chosen):
        found.setdefault((each.name, each.url), each)
    return list(found.values())


def configured_fallbacks(settings: Settings) -> list[ModelConfig]:
    """The models that are asked where that of ``settings.brain`` cannot answer; raises ConfigError."""
    return [_choose_named(settings, "brain_fallback", text) for text in settings.brain_fallback]


def configured_for(settings: Settings, role: Role) -> ModelConfig | None:
    """The model that ``brain_plan`` or ``brain_review`` names, None if it is empty; raises ConfigError."""
    text = str(getattr(settings, ROLES[role]))
    return _choose_named(settings, ROLES[role], text) if text.strip() else None


def _choose_named(settings: Settings, setting: Setting, text: str) -> ModelConfig:
    """The model written as ``KIND:MODEL`` or ``KIND:MODEL@ADDRESS``; raises ConfigError.

    One without an address is at its provider's server, or at the brain's if it is of the same kind. A key is
    sent to no other server than its own.
    """
    variable = f"MAILROOM_{setting.upper()}"
    named, _, url = text.partition("@")
    kind, brain_kind = (each.partition(":")[0].strip() for each in (named, settings.brain))
    if not url and kind == brain_kind:
        url = settings.brain_url
    brain_url = _read_url(brain_kind, settings.brain_url, "MAILROOM_BRAIN_URL")
    own = _host(_read_url(kind, url, variable)) == _host(brain_url)
    choice = _choose(settings, setting, named, url, settings.brain_key if own else "", "")
    if choice is None:
        raise ConfigError(f"{variable} is wrong: {text!r} names no model", f"Write {EXAMPLE}")
    if not settings.brain:
        raise ConfigError(f"{variable} names a model, but MAILROOM_BRAIN none", "Set MAILROOM_BRAIN")
    return choice


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
        settings.cerebellum,
        url,
        settings.cerebellum_key or (settings.brain_key if same_server else ""),
        settings.cerebellum_price
        or settings.prices.get(settings.cerebellum, "")
        or (settings.brain_price if same else ""),
    )


LOCAL_ENDINGS = (".localhost", ".local", ".internal", ".home.arpa")
"""Endings of names that no public server has (RFC 6761, 6762, 8375; ICANN's resolution on .internal)."""


_SHORT = re.compile(r"[a-z][a-z0-9_-]*")


def is_local(url: str) -> bool:
    """Whether an address is this machine's or one in its network: a private address, or such a name.

    A name without a dot is one, as in a network of containers. Names are not looked up.
    """
    host = (urlsplit(url).hostname or "").rstrip(".")
    try:
        return not ip_address(host).is_global
    except ValueError:
        # A name that begins with a digit may be an address in another spelling.
        return not url or bool(_SHORT.fullmatch(host)) or host.endswith(LOCAL_ENDINGS)


def require_local(settings: Settings, config: ModelConfig) -> None:
    """Raise ConfigError if only local models may be asked (``brain_local``) and this one is not local."""
    if settings.brain_local and not is_local(config.url):
        raise ConfigError(
            f"{config.setting} names {config.name} at {config.place}, but brain_local allows only models in "
            "your own network",
            "Name one at an address there, or take brain_local away",
        )


def _choose(
    settings: Settings,
    setting: Setting,
    text: str,
    url: str,
    key: str,
    price: str,
) -> ModelConfig | None:
    if not text.strip():
        return None
    if 0 < settings.brain_context < LEAST_CONTEXT:
        raise ConfigError(
            f"MAILROOM_BRAIN_CONTEXT is {settings.brain_context}",
            f"Write a number of tokens from {LEAST_CONTEXT}, or 0 for what the model's server says",
        )
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
    known = read_price(price, priced) if price else find_price(address, model)
    choice = ModelConfig(
        setting=setting,
        kind=kind,
        model=model,
        url=address,
        key=(key or keys.get(_host(address), "")).strip(),
        price=known or Price(),
        timeout=settings.brain_timeout,
        effort=settings.brain_effort,
        temperature=settings.brain_temperature if settings.brain_temperature >= 0 else None,
        answer=settings.brain_answer,
        images=settings.brain_images,
        concurrency=settings.brain_concurrency or (OF_OWN if is_local(address) else OF_PROVIDER),
        tokens_per_minute=settings.brain_tokens_per_minute,
    )
    limit = next((name for name in ("day_cost", "goal_cost", "night_cost") if getattr(settings, name)), "")
    if limit and known is None:
        raise ConfigError(
            f"MAILROOM_{limit.upper()} limits the cost of models, but {choice.name} has no price",
            f"Set {variable}_PRICE to US dollars for a million tokens in and out, as 3/15",
        )
    require_local(settings, choice)
    if kind in HOMES:
        _require_usable(choice)
    return choice


def _require_usable(choice: ModelConfig) -> None:
    if not (choice.key.isascii() and choice.key.isprintable()):
        raise ConfigError(
            f"The key for {choice.name} holds characters no key has", f"Correct {choice.key_setting}"
        )
    if importlib.util.find_spec(choice.package) is None:
        raise ConfigError(
            f"{choice.variable} is {choice.name}, but the {choice.package} package is not installed",
            f"pip install 'mailroom[{choice.package}]'",
        )
    if choice.at_home and not choice.key:
        raise NoKey(
            f"{choice.variable} is {choice.name}, but there is no key for {choice.url}",
            f"Set {choice.key_setting} or {choice.package.upper()}_API_KEY, or {choice.url_setting} for "
            "another server",
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
