"""The dashboard's files, served from memory: read again when they change, compressed once."""

import gzip
import hashlib
import mimetypes
import stat
from pathlib import Path

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

MAX_AGE = 60
"""Seconds for which a browser does not ask again: tabs that open together share one answer."""
LEAST = 512
"""Bytes below which a file is not compressed."""
_TEXTS = ("text/", "application/javascript", "image/svg+xml")


class _Kept(msgspec.Struct, frozen=True):
    """A file as it was when it was read; ``packed`` is empty where gzip would save nothing."""

    stamp: tuple[int, int]
    data: bytes
    packed: bytes
    tag: str
    kind: str


class Files:
    """The regular files below a folder, which may come to be while the gateway runs."""

    def __init__(self, folder: Path, cache: str = f"max-age={MAX_AGE}") -> None:
        self._folder, self._cache = folder, cache
        self._kept: dict[str, _Kept] = {}

    async def serve(self, request: Request) -> Response:
        """The file that the path names; raises HTTPException (404)."""
        return self.answer(request, request.path_params["path"])

    def answer(self, request: Request, name: str, status: int = 200) -> Response:
        """The file ``name``, or that the browser's copy is right; raises HTTPException (404)."""
        kept = self._find(name)
        if kept is None:
            raise HTTPException(404)
        headers = {"Cache-Control": self._cache, "ETag": kept.tag, "Vary": "Accept-Encoding"}
        if status == 200 and kept.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        data = kept.data
        if kept.packed and "gzip" in request.headers.get("accept-encoding", ""):
            data, headers["Content-Encoding"] = kept.packed, "gzip"
        return Response(data, status, headers, media_type=kept.kind)

    def _find(self, name: str) -> _Kept | None:
        if any(part in ("", ".", "..") or not part.isprintable() or "\\" in part for part in name.split("/")):
            return None
        path = self._folder / name
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                return None
            stamp = (found.st_mtime_ns, found.st_size)
            kept = self._kept.get(name)
            if kept is None or kept.stamp != stamp:
                kept = self._kept[name] = _read(path, stamp)
        except OSError:
            return None
        return kept


def _read(path: Path, stamp: tuple[int, int]) -> _Kept:
    data = path.read_bytes()
    kind = "text/javascript" if path.suffix == ".mjs" else mimetypes.guess_type(path.name)[0]
    kind = kind or "application/octet-stream"
    packed = b""
    if len(data) >= LEAST and kind.startswith(_TEXTS):
        packed = gzip.compress(data, mtime=0)
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    return _Kept(stamp, data, packed if len(packed) < len(data) else b"", tag, kind)
