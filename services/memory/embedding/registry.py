"""The embedder the settings ask for: the one that comes with Mailroom, or another by LanceDB's registry."""

import importlib.util
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from shared.errors import ActionError, StartError
from shared.settings import Settings

if TYPE_CHECKING:
    from services.memory.embedding.embedder import Vectors

EXTRAS = {
    "openai": ("openai", "embeddings-openai"),
    "ollama": ("ollama", "embeddings-ollama"),
    "sentence-transformers": ("sentence_transformers", "embeddings-sentence-transformers"),
}
"""What a family needs: the module, and the extra of Mailroom that installs it."""

REQUEST_TIMEOUT = 30.0
"""Seconds a server has for one request: a small model embeds 64 texts on one core in less."""

KEY_VARIABLE = "mailroom_embedding_key"


class AnyEmbedder(Protocol):
    """What the memory needs of an embedder."""

    @property
    def model_name(self) -> str:
        """What the vectors are marked with; vectors of two models are never compared."""

    @property
    def slug(self) -> str:
        """The name as part of a file name: lower-case letters, digits and ``_``."""

    @property
    def dimensions(self) -> int:
        """The length of a vector."""

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """Unit vectors of the texts as float32, one row each, in their order; for use by several threads."""

    def close(self) -> None:
        """Let the threads end."""


class Choice(msgspec.Struct, frozen=True):
    """A model of a family, as ``settings.embedding`` names it."""

    family: str
    name: str


def parse_choice(embedding: str) -> Choice:
    """``openai:NAME`` and the like; raises StartError with the allowed families."""
    family, _, name = embedding.partition(":")
    if family not in EXTRAS or not name.strip():
        raise StartError(
            f"MAILROOM_EMBEDDING is {embedding!r}",
            f"Give {', '.join(f'{known}:NAME' for known in EXTRAS)}, or nothing for Mailroom's own model",
        )
    return Choice(family, name.strip())


def open_embedder(settings: Settings) -> AnyEmbedder:
    """The embedder ``settings.embedding`` names, asked once so that its dimensions are known.

    Raises StartError with cause and cure: an unknown family, a package that is not installed, no key, a
    server that does not answer, or the files of Mailroom's own model missing or broken.
    """
    if not settings.embedding:
        from services.memory.embedding.embedder import Embedder

        return Embedder(settings.models)
    from services.memory.embedding.hosted import HostedEmbedder

    choice = parse_choice(settings.embedding)
    _require_package(choice)
    _quieten()
    try:
        return HostedEmbedder(settings.embedding, _create(choice, settings), settings.embedding_url)
    except ActionError as error:
        raise StartError(error.cause, error.cure) from None


def _require_package(choice: Choice) -> None:
    module, extra = EXTRAS[choice.family]
    if importlib.util.find_spec(module) is None:
        raise StartError(
            f"MAILROOM_EMBEDDING asks for {choice.family}, but the package {module} is not installed",
            f"Run: pip install 'mailroom[{extra}]'",
        )


def _create(choice: Choice, settings: Settings) -> Any:
    make = {"openai": _create_openai, "ollama": _create_ollama}.get(choice.family, _create_local)
    try:
        return make(choice, settings)
    except Exception as error:  # a missing key, a URL that is none: each client raises its own kinds
        reason = " ".join(str(error).split())[:300]
        raise StartError(
            f"The embedding model {settings.embedding} cannot be opened ({reason})",
            "Check MAILROOM_EMBEDDING, MAILROOM_EMBEDDING_URL and MAILROOM_EMBEDDING_KEY",
        ) from None


def _create_openai(choice: Choice, settings: Settings) -> Any:
    options = {"name": choice.name}
    if settings.embedding_url:
        options["base_url"] = settings.embedding_url
    if (
        settings.embedding_key or settings.embedding_url
    ):  # the client wants a key even where the server does not
        _registry().set_var(KEY_VARIABLE, settings.embedding_key or "none")
        options["api_key"] = f"$var:{KEY_VARIABLE}"
    function = _registry().get("openai").create(**options)
    # The registry has no setting for it, and the client would wait for ten minutes, three times.
    client = function._openai_client.with_options(timeout=REQUEST_TIMEOUT, max_retries=0)
    function.__dict__["_openai_client"] = client
    return function


def _create_ollama(choice: Choice, settings: Settings) -> Any:
    client: dict[str, Any] = {"timeout": REQUEST_TIMEOUT}
    if settings.embedding_key:
        client["headers"] = {"Authorization": f"Bearer {settings.embedding_key}"}
    host = {"host": settings.embedding_url} if settings.embedding_url else {}
    return _registry().get("ollama").create(name=choice.name, ollama_client_kwargs=client, **host)


def _create_local(choice: Choice, _: Settings) -> Any:
    # the registry's own default would run code that comes with a model
    return _registry().get("sentence-transformers").create(name=choice.name, trust_remote_code=False)


def _registry() -> Any:
    from lancedb.embeddings import get_registry

    return get_registry()


class _NoChatter(logging.Filter):
    """The registry logs whole texts and tracebacks to the root logger; the error itself tells what failed."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "lancedb/embeddings" not in record.pathname


def _quieten() -> None:
    root = logging.getLogger()
    if not any(isinstance(there, _NoChatter) for there in root.filters):
        root.addFilter(_NoChatter())
