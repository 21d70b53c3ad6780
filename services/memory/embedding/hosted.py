"""An embedding model that another program or package serves, held to unit vectors of one length."""

import hashlib
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from shared.errors import ActionError

if TYPE_CHECKING:
    from services.memory.embedding.embedder import Vectors

ATTEMPTS = 3
"""How often a request is tried; a server that is down is to be told of soon, not after minutes."""

FIRST_PAUSE = 0.5
"""Seconds before the second attempt; each further one waits twice as long."""

TEXTS_AT_ONCE = 64
"""Texts of one request: few enough for the token limits of servers, enough to pay for the way there."""

MAX_CHARACTERS = 8_000
"""Cut before sending: servers with windows of 8,192 tokens refuse what is longer instead of cutting it."""

REQUESTS_AT_ONCE = 2
"""Requests under way at the same time for one large batch."""

PROBE = "How many numbers does a vector have?"
CURE = "See that it runs, and check MAILROOM_EMBEDDING, MAILROOM_EMBEDDING_URL and MAILROOM_EMBEDDING_KEY"


class HostedEmbedder:
    """A model behind an embedding function of LanceDB's registry, asked once for its dimensions.

    Raises ActionError with cause and cure where it cannot be asked, from the constructor and from ``embed``.
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
        """Unit vectors of the texts, their first 8,000 characters each; raises ActionError where it fails.

        What can pass is tried three times, which takes a server that hangs a minute and a half.
        """
        parts = [texts[start : start + TEXTS_AT_ONCE] for start in range(0, len(texts), TEXTS_AT_ONCE)]
        if not parts:
            return np.zeros((0, self.dimensions), np.float32)
        if len(parts) == 1:
            return self._request(parts[0])
        return np.concatenate(list(self._pool.map(self._request, parts)))

    def close(self) -> None:
        """Let the threads end."""
        self._pool.shutdown(cancel_futures=True)

    def _request(self, texts: Sequence[str]) -> "Vectors":
        cut = [text[:MAX_CHARACTERS].strip() or "-" for text in texts]  # most refuse empty ones
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._check(self._function.generate_embeddings(cut), len(cut))
            except ActionError:
                raise
            except Exception as error:  # each client raises its own kinds
                if attempt == ATTEMPTS or not _is_passing(error):
                    raise self._explain(error) from None
            time.sleep(FIRST_PAUSE * 2 ** (attempt - 1))
        raise AssertionError("the last attempt returns or raises")

    def _check(self, rows: Sequence[Any], count: int) -> "Vectors":
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


def _is_passing(error: Exception) -> bool:
    """Whether asking again can help: not where the server understood and refused."""
    status = getattr(error, "status_code", None)
    return not isinstance(status, int) or status in (408, 409, 425, 429) or not 400 <= status < 500
