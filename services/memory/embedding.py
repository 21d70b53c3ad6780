"""The embedding model that the settings name: the local one, or one served by another program or package."""

import hashlib
import importlib.util
import logging
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np
import tenacity

from shared.errors import ActionError, StartError
from shared.settings import Settings

if TYPE_CHECKING:
    from services.memory.local_model import LocalEmbedder, Vectors

    Embedder: TypeAlias = "LocalEmbedder | HostedEmbedder"
    """Both have a ``model_name`` for their vectors, a ``slug`` for file names, and ``dimensions``."""

ATTEMPTS = 3
"""How often a request is tried: few enough that a server that is down is reported soon, not after minutes."""

FIRST_PAUSE = 0.5  # Seconds before the second attempt; each further one waits twice as long

TEXTS_AT_ONCE = 64
"""Texts of one request: few enough for the token limits of servers, enough to pay for the way there."""

MAX_CHARACTERS = 8_000
"""Cut before sending: servers with windows of 8,192 tokens refuse what is longer instead of cutting it."""

REQUESTS_AT_ONCE = 2  # Requests under way at the same time for one large batch

PROBE = "How many numbers does a vector have?"
CURE = "See that it runs, and check MAILROOM_EMBEDDING, MAILROOM_EMBEDDING_URL and MAILROOM_EMBEDDING_KEY"

EXTRAS = {
    "openai": ("openai", "embeddings-openai"),
    "ollama": ("ollama", "embeddings-ollama"),
    "sentence-transformers": ("sentence_transformers", "embeddings-sentence-transformers"),
}
"""What a family needs: the module, and the extra of Mailroom that installs it."""

REQUEST_TIMEOUT = 30.0
"""Seconds a server has for one request: a small model embeds 64 texts on one core in less."""

KEY_VARIABLE = "mailroom_embedding_key"


class HostedEmbedder:
    """A model behind an embedding function of LanceDB's registry, asked once for its dimensions.

    Raises ActionError with cause and cure if it cannot be asked, from the constructor and from ``embed``.
    """

    def __init__(self, model_name: str, function: Any, url: str = "") -> None:
        self.model_name = model_name
        self._function = function
        self._url = url
        self.dimensions = 0
        self.dimensions = self._request([PROBE]).shape[1]
        self.slug = f"{make_slug(model_name)}_{self.dimensions}"
        self._pool = ThreadPoolExecutor(REQUESTS_AT_ONCE, thread_name_prefix="embed")

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """Unit vectors of the texts, their first 8,000 characters each; raises ActionError if it fails.

        Transient failures are tried three times: a minute and a half if the server hangs.
        """
        parts = [texts[start : start + TEXTS_AT_ONCE] for start in range(0, len(texts), TEXTS_AT_ONCE)]
        if not parts:
            return np.zeros((0, self.dimensions), np.float32)
        if len(parts) == 1:
            return self._request(parts[0])
        return np.concatenate(list(self._pool.map(self._request, parts)))

    def close(self) -> None:
        """Stop the threads."""
        self._pool.shutdown(cancel_futures=True)

    def _request(self, texts: Sequence[str]) -> "Vectors":
        cut = [text[:MAX_CHARACTERS].strip() or "-" for text in texts]  # most refuse empty ones
        asking = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_is_passing),
            wait=tenacity.wait_exponential(FIRST_PAUSE),
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            reraise=True,
        )
        try:
            rows = asking(self._function.generate_embeddings, cut)
        except Exception as error:  # each client raises its own kinds
            raise self._explain(error) from None
        count = len(cut)
        if len(rows) != count or any(row is None for row in rows):
            given = sum(row is not None for row in rows)
            raise ActionError(f"{self.model_name} gave {given} vectors for {count} texts", CURE)
        if len({len(row) for row in rows}) != 1:
            raise ActionError(f"{self.model_name} gave vectors of several lengths", CURE)
        vectors = np.asarray(rows, np.float32)
        if self.dimensions not in (0, vectors.shape[1]):
            raise ActionError(
                f"{self.model_name} now gives {vectors.shape[1]} numbers a vector, not {self.dimensions}",
                "Its server has another model under that name: restart the memory daemon",
            )
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and (lengths > 0).all()):
            raise ActionError(f"{self.model_name} gave a vector that is zero, or not of numbers", CURE)
        unit: Vectors = vectors / lengths
        return unit

    def _explain(self, error: Exception) -> ActionError:
        where = f" at {self._url}" if self._url else ""
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        return ActionError(f"The embedding model {self.model_name}{where} does not answer ({reason})", CURE)


def make_slug(model_name: str) -> str:
    """A token for file names, another one for another model: its letters and digits, and some of its hash."""
    letters = re.sub(r"[^a-z0-9]+", "_", model_name.lower()).strip("_")[:48]
    return f"{letters}_{hashlib.sha256(model_name.encode()).hexdigest()[:8]}"


def _is_passing(error: BaseException) -> bool:
    """Whether asking again can help: not if the server understood and refused."""
    status = getattr(error, "status_code", None)
    return not isinstance(status, int) or status in (408, 409, 425, 429) or not 400 <= status < 500


class ModelChoice(msgspec.Struct, frozen=True):
    """A model of a family, as ``settings.embedding`` names it."""

    family: str
    name: str


def parse_choice(embedding: str) -> ModelChoice:
    """``openai:NAME`` and the like; raises StartError with the allowed families."""
    family, _, name = embedding.partition(":")
    if family not in EXTRAS or not name.strip():
        raise StartError(
            f"MAILROOM_EMBEDDING is {embedding!r}",
            f"Give {', '.join(f'{known}:NAME' for known in EXTRAS)}, or nothing for Mailroom's own model",
        )
    return ModelChoice(family, name.strip())


def open_embedder(settings: Settings) -> "Embedder":
    """The embedder ``settings.embedding`` names, asked once so that its dimensions are known.

    Raises StartError with cause and cure: an unknown family, a package that is not installed, no key, a
    server that does not answer, or the files of Mailroom's own model missing or broken.
    """
    if not settings.embedding:
        from services.memory.local_model import LocalEmbedder

        return LocalEmbedder(settings.models)
    choice = parse_choice(settings.embedding)
    module, extra = EXTRAS[choice.family]
    if importlib.util.find_spec(module) is None:
        raise StartError(
            f"MAILROOM_EMBEDDING asks for {choice.family}, but the package {module} is not installed",
            f"Run: pip install 'mailroom[{extra}]'",
        )
    root = logging.getLogger()
    if not any(isinstance(there, _NoChatter) for there in root.filters):
        root.addFilter(_NoChatter())
    try:
        return HostedEmbedder(settings.embedding, _create(choice, settings), settings.embedding_url)
    except ActionError as error:
        raise StartError(error.cause, error.cure) from None


def _create(choice: ModelChoice, settings: Settings) -> Any:
    make = {"openai": _create_openai, "ollama": _create_ollama}.get(choice.family, _create_local)
    try:
        return make(choice, settings)
    except Exception as error:  # a missing key, a URL that is none: each client raises its own kinds
        reason = " ".join(str(error).split())[:300]
        raise StartError(
            f"The embedding model {settings.embedding} cannot be opened ({reason})",
            "Check MAILROOM_EMBEDDING, MAILROOM_EMBEDDING_URL and MAILROOM_EMBEDDING_KEY",
        ) from None


def _create_openai(choice: ModelChoice, settings: Settings) -> Any:
    options = {"name": choice.name}
    if settings.embedding_url:
        options["base_url"] = settings.embedding_url
    if settings.embedding_key or settings.embedding_url:  # the client wants a key even if the server does not
        _registry().set_var(KEY_VARIABLE, settings.embedding_key or "none")
        options["api_key"] = f"$var:{KEY_VARIABLE}"
    function = _registry().get("openai").create(**options)
    # The registry has no setting for it, and the client would wait for ten minutes, three times.
    client = function._openai_client.with_options(timeout=REQUEST_TIMEOUT, max_retries=0)
    function.__dict__["_openai_client"] = client
    return function


def _create_ollama(choice: ModelChoice, settings: Settings) -> Any:
    client: dict[str, Any] = {"timeout": REQUEST_TIMEOUT}
    if settings.embedding_key:
        client["headers"] = {"Authorization": f"Bearer {settings.embedding_key}"}
    host = {"host": settings.embedding_url} if settings.embedding_url else {}
    return _registry().get("ollama").create(name=choice.name, ollama_client_kwargs=client, **host)


def _create_local(choice: ModelChoice, _: Settings) -> Any:
    # the registry's own default would run code that comes with a model
    return _registry().get("sentence-transformers").create(name=choice.name, trust_remote_code=False)


def _registry() -> Any:
    from lancedb.embeddings import get_registry

    return get_registry()


class _NoChatter(logging.Filter):
    """The registry logs whole texts and tracebacks to the root logger; the error itself says what failed."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "lancedb/embeddings" not in record.pathname


class KnownVectors:
    """An embedder that knows the vectors of some texts: embedding takes a thousand times as long as the rest
    of a write, and gives the same again.
    """

    def __init__(self, embedder: "Embedder", rows: dict[str, int], vectors: "Vectors") -> None:
        self.model_name, self.slug, self.dimensions = embedder.model_name, embedder.slug, embedder.dimensions
        self._embedder = embedder
        self._rows = rows
        self._vectors = vectors

    def embed(self, texts: Sequence[str]) -> "Vectors":
        """Unit vectors of the texts, known or made."""
        made = np.empty((len(texts), self.dimensions), np.float32)
        places = np.array([self._rows.get(text, -1) for text in texts], np.intp)
        known = places >= 0
        made[known] = self._vectors[places[known]]
        if not known.all():
            made[~known] = self._embedder.embed([texts[place] for place in np.flatnonzero(~known).tolist()])
        return made
