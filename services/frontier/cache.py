"""What sources answered, kept for some hours on disk: arXiv and feeds are asked no more often than that."""

import contextlib
import hashlib
import time
from pathlib import Path
from typing import Any

import msgspec

MOST = 500
"""Answers that are kept; the oldest make room."""


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """An answer, and when it came (seconds since the epoch)."""

    at: float
    items: list[dict[str, Any]]


class Cache:
    """Answers by key beneath ``folder``, for ``seconds``; 0 keeps none. What is damaged is missing."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder = folder
        self._seconds = seconds

    def get(self, *key: str) -> Kept | None:
        """What was kept under ``key``, unless it is too old; blocks."""
        try:
            kept = msgspec.json.decode(self._path(key).read_bytes(), type=Kept)
        except (OSError, msgspec.MsgspecError, UnicodeError):
            return None
        age = time.time() - kept.at
        return kept if 0 <= age < self._seconds else None

    def put(self, items: list[dict[str, Any]], *key: str) -> Kept:
        """Keep ``items``; blocks. A full disk only means that they are asked for again."""
        kept = Kept(at=time.time(), items=items)
        if self._seconds:
            try:
                self._write(self._path(key), msgspec.json.encode(kept))
            except OSError:
                with contextlib.suppress(OSError):
                    self._path(key).with_suffix(".part").unlink()
        return kept

    def _write(self, path: Path, data: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".part")
        draft.write_bytes(data)
        draft.replace(path)
        files = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime)
        for old in files[:-MOST]:
            old.unlink(missing_ok=True)

    def _path(self, key: tuple[str, ...]) -> Path:
        digest = hashlib.sha256("\0".join(key).encode("utf-8", "replace")).hexdigest()
        return self._folder / f"{digest[:32]}.json"
