"""What a process of the tests loads once: the embedding model, and the certificates that clients trust."""

import contextlib
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import httpcore2
import onnxruntime

from services.memory.local_model import LocalEmbedder, fetch
from shared.errors import StartError
from shared.settings import load

_load = onnxruntime.InferenceSession
_loaded: dict[tuple[object, ...], Any] = {}


@cache
def find_models() -> Path:
    """The folder of the models, checked; they are fetched where they are missing."""
    return fetch(load().models, lambda line: None)


def load_model(path: str | bytes, options: Any, providers: list[str]) -> Any:
    """A session of onnxruntime, which keeps nothing from one text to the next: one for each file (0.2 s), or
    for its bytes.
    """
    if isinstance(path, bytes):
        key: tuple[object, ...] = (hashlib.sha256(path).digest(),)
    else:
        stat = Path(path).stat()
        key = path, stat.st_mtime_ns, stat.st_size
    if key not in _loaded:
        _loaded[key] = _load(path, options, providers=providers)
    return _loaded[key]


def share_certificates() -> None:
    """Have all clients of HTTP here, and in forks of this process, read the certificates once (25 ms)."""
    httpcore2.default_ssl_context = cache(httpcore2.default_ssl_context)


def load_for_forks() -> None:
    """Load what processes need that are forked from this one; who misses a file says so."""
    share_certificates()
    onnxruntime.InferenceSession = load_model
    with contextlib.suppress(StartError):
        LocalEmbedder(load().models).close()
