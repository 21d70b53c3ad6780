"""Parcels: files of a folder in one file that travels, and how they come out of it on another machine.

A parcel is one zlib stream: contents, each once, then the manifest and its length. It may leave out contents
that an earlier parcel holds. The reader trusts none of it: names stay beneath the target, sizes are
counted while they are inflated, and every content must have its digest.
"""

import contextlib
import os
import shutil
import stat
import tempfile
import time
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

import msgspec

from shared.errors import ActionError
from shared.sandbox.confined import ConfinedFolder, split
from shared.sandbox.restoring import CHUNK, LONGEST_PATH, FileState, format_path
from shared.sandbox.snapshots import FRESH_NS, MAX_BYTES, MAX_FILES

MAX_MANIFEST = 64 << 20  # The most bytes of a manifest: of MAX_FILES files with names of 200 bytes
LENGTH = 8  # Bytes of the number at the end
LEVEL = 1  # Of zlib: code to a third at 100 MB a second; 6 gains a tenth more and takes three times as long


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A file, folder or link: its mode and kind, time, a link's target, a file's size and digest."""

    path: bytes
    mode: int
    mtime_ns: int = 0
    target: bytes = b""
    size: int = 0
    digest: bytes = b""


class Known(msgspec.Struct, frozen=True, array_like=True):
    """A file as it was packed before: what shows that it changed, and when it was looked at."""

    key: tuple[int, int, int, int, int]
    seen_ns: int
    size: int
    digest: bytes


class Manifest(msgspec.Struct, frozen=True, array_like=True):
    """What a parcel is of, and where in it each content begins that it holds."""

    entries: tuple[Entry, ...]
    contents: dict[bytes, int]


class Packer:
    """Writes a parcel to ``out``; contents whose digests are ``known`` are left out of it.

    Files that have not changed since ``before`` are not read again; ``found`` is that for the next one.

    Raises ActionError if there is more than a parcel may have, OSError if ``out`` cannot be written.
    """

    def __init__(
        self,
        out: BinaryIO,
        known: Collection[bytes] = (),
        *,
        before: Mapping[bytes, Known] | None = None,
        max_bytes: int = MAX_BYTES,
        max_files: int = MAX_FILES,
    ) -> None:
        self.entries: list[Entry] = []
        self.contents: dict[bytes, int] = {}
        self.found: dict[bytes, Known] = {}
        self._before = before or {}
        self._out, self._known = out, known
        self._max_bytes, self._max_files = max_bytes, max_files
        self._zip = zlib.compressobj(LEVEL)
        self._at = self._size = 0

    def add(self, folder: ConfinedFolder, path: str, name: str = "") -> None:
        """Add what is at ``path`` of a folder, under ``name``; what is gone or no file is not added.

        A file that changes meanwhile is packed as it was read.
        """
        info = folder.stat(path)
        if info is None:
            return
        raw, mtime = os.fsencode(name or path), info.st_mtime_ns
        if len(self.entries) >= self._max_files:
            raise ActionError(f"There are more than {self._max_files:,} files", "Leave some out")
        if stat.S_ISDIR(info.st_mode):
            self.entries.append(Entry(raw, info.st_mode))
        elif stat.S_ISLNK(info.st_mode):
            parent, last = split(path)
            with folder.open_folder(parent) as at:
                target = os.fsencode(os.readlink(last, dir_fd=at))
            self.entries.append(Entry(raw, info.st_mode, target=target))
        elif stat.S_ISREG(info.st_mode):
            state = FileState(info.st_mode, info.st_size, mtime, info.st_ctime_ns, info.st_ino).key
            earlier, now = self._before.get(raw), time.time_ns()
            if earlier and earlier.key == state and info.st_ctime_ns < earlier.seen_ns - FRESH_NS:
                digest, size = earlier.digest, earlier.size
                self._count(size)
            else:
                with folder.open_file(path) as file:
                    digest, size = self._pack(file)
            self.found[raw] = Known(state, now, size, digest)
            self.entries.append(Entry(raw, info.st_mode, mtime, size=size, digest=digest))

    def finish(self) -> Manifest:
        """Write the end of the parcel."""
        manifest = Manifest(tuple(self.entries), self.contents)
        data = msgspec.msgpack.encode(manifest)
        self._write(data)
        self._write(len(data).to_bytes(LENGTH, "big"))
        self._out.write(self._zip.flush())
        self._out.flush()
        return manifest

    def _pack(self, file: BinaryIO) -> tuple[bytes, int]:
        """Write a content unless it is known; returns its digest and size."""
        first = file.read(CHUNK)
        if len(first) < CHUNK:
            digest = blake2b(first, digest_size=20).digest()
            self._count(len(first))
            if not self._has(digest):
                self.contents[digest] = self._at
                self._write(first)
            return digest, len(first)
        size = os.fstat(file.fileno()).st_size
        if self._size + size > self._max_bytes:
            self._count(size)  # raises, before all of it is read
        hashing = blake2b(first, digest_size=20)
        while chunk := file.read(CHUNK):
            hashing.update(chunk)
        if self._has(hashing.digest()):
            self._count(size)
            return hashing.digest(), size
        file.seek(0)
        begin, hashing, size = self._at, blake2b(digest_size=20), 0
        while chunk := file.read(CHUNK):
            self._count(len(chunk))
            hashing.update(chunk)
            self._write(chunk)
            size += len(chunk)
        self.contents.setdefault(hashing.digest(), begin)
        return hashing.digest(), size

    def _has(self, digest: bytes) -> bool:
        return digest in self.contents or digest in self._known

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self._max_bytes:
            raise ActionError(
                f"There are more than {self._max_bytes:,} bytes", "Leave out large files with .gitignore"
            )

    def _write(self, data: bytes) -> None:
        self._at += len(data)
        self._out.write(self._zip.compress(data))


# --- unpacking --------------------------------------------------------------------------------------


def unpack(
    parcels: Sequence[Path],
    target: Path,
    *,
    rename: Callable[[str], str] = str,
    is_closed: bool = False,
    max_bytes: int = MAX_BYTES,
    max_files: int = MAX_FILES,
) -> Manifest:
    """Put the files of the last parcel, whose contents lie in any of them, into the new folder ``target``.

    ``rename`` says what a name becomes, or empty if it does not belong there. If it ``is_closed``, no link
    leads out of it. Raises ActionError for a parcel that is damaged, too large or leads outside; then nothing
    is there.
    """
    try:
        target.mkdir(mode=0o700)
        with tempfile.TemporaryDirectory(prefix=".parcel-", dir=target.parent) as aside:
            found = [_inflate(each, Path(aside) / str(n), max_bytes) for n, each in enumerate(parcels)]
            _Unpacking(found, target, rename, is_closed, max_bytes, max_files).run()
            return found[-1][1]
    except BaseException as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, OSError):
            raise ActionError(f"The files cannot be unpacked: {error.strerror}", "Free disk space") from None
        raise


def _damaged(why: str) -> ActionError:
    return ActionError(f"The files cannot be unpacked: {why}", "Send them again")


def _inflate(parcel: Path, target: Path, max_bytes: int) -> tuple[Path, Manifest]:
    limit, size = max_bytes + MAX_MANIFEST, 0
    inflating = zlib.decompressobj()
    with parcel.open("rb") as source, target.open("wb") as out:
        while data := source.read(CHUNK):
            while data:
                try:
                    block = inflating.decompress(data, CHUNK)
                except zlib.error:
                    raise _damaged("what was sent is damaged") from None
                size += len(block)
                if size > limit:
                    raise _damaged(f"they have more than {max_bytes:,} bytes")
                out.write(block)
                data = inflating.unconsumed_tail
    if not inflating.eof or inflating.unused_data:
        raise _damaged("what was sent is not whole")
    with target.open("rb") as file:
        file.seek(max(0, size - LENGTH))
        length = int.from_bytes(file.read(LENGTH), "big")
        if size < LENGTH or length > min(MAX_MANIFEST, size - LENGTH):
            raise _damaged("its list of files is damaged")
        file.seek(size - LENGTH - length)
        try:
            return target, msgspec.msgpack.decode(file.read(length), type=Manifest)
        except msgspec.MsgspecError:
            raise _damaged("its list of files is damaged") from None


class _Unpacking:
    def __init__(
        self,
        found: Sequence[tuple[Path, Manifest]],
        target: Path,
        rename: Callable[[str], str],
        is_closed: bool,
        max_bytes: int,
        max_files: int,
    ) -> None:
        self.entries = found[-1][1].entries
        self.places = {digest: (path, at) for path, each in found for digest, at in each.contents.items()}
        self.rename, self.is_closed = rename, is_closed
        self.target = target
        if len(self.entries) > max_files or sum(max(0, each.size) for each in self.entries) > max_bytes:
            raise _damaged(f"they are more than {max_files:,} files or {max_bytes:,} bytes")

    def run(self) -> None:
        """Write everything; folders get their modes at the end, since one may be read-only."""
        modes: list[tuple[str, int]] = []
        with contextlib.ExitStack() as stack, ConfinedFolder(self.target) as folder:
            files = {path: stack.enter_context(path.open("rb")) for path, _ in self.places.values()}
            for entry in self.entries:
                name = self.rename(_require_name(entry.path))
                if not name:
                    continue
                if stat.S_ISDIR(entry.mode):
                    with folder.open_folder(name, make=True):
                        modes.append((name, entry.mode))
                elif stat.S_ISLNK(entry.mode):
                    self._link(folder, name, entry)
                elif stat.S_ISREG(entry.mode):
                    path, at = self.places.get(entry.digest, (None, 0))
                    if path is None or entry.size < 0:
                        raise _damaged(f"{format_path(entry.path)} is missing")
                    files[path].seek(at)
                    content = _Content(files[path], entry.size)
                    mode = stat.S_IMODE(entry.mode) & 0o777 | 0o600
                    mtime = max(0, min(entry.mtime_ns, 2**62))
                    folder.write(name, content, mode=mode, mtime_ns=mtime, is_last=False)  # type: ignore[arg-type]
                    if content.left or content.hashing.digest() != entry.digest:
                        raise _damaged(f"{format_path(entry.path)} is altered")
                else:
                    raise _damaged(f"{format_path(entry.path)} is neither a file nor a link")
            for name, mode in modes:
                with folder.open_folder(name) as at:
                    os.fchmod(at, stat.S_IMODE(mode) & 0o777 | 0o700)
            folder.sync()

    def _link(self, folder: ConfinedFolder, name: str, entry: Entry) -> None:
        if self.is_closed and not stays_inside(os.fsencode(name), entry.target):
            raise _damaged(f"{format_path(entry.path)} is a link that leads outside")
        parent, last = split(name)
        with folder.open_folder(parent, make=True) as at:
            os.symlink(os.fsdecode(entry.target), last, dir_fd=at)


def _require_name(raw: bytes) -> str:
    parts = raw.split(b"/")
    if not raw or len(raw) > LONGEST_PATH or b"\0" in raw or {b"", b".", b".."} & set(parts):
        raise _damaged(f"{format_path(raw[:80])!r} is no name beneath a folder")
    return os.fsdecode(raw)


def stays_inside(name: bytes, target: bytes) -> bool:
    """Whether the link ``name`` leads to something beneath the folder, whatever other links there are.

    ``..`` counts at the beginning alone: behind a name, which may be a link, it leads nobody knows where.
    """
    parts = [part for part in target.split(b"/") if part not in (b"", b".")]
    up = next((n for n, part in enumerate(parts) if part != b".."), len(parts))
    return not target.startswith(b"/") and b".." not in parts[up:] and up <= name.count(b"/")


class _Content:
    """So many bytes of a file, counted and hashed as they are read."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.left = file, size
        self.hashing = blake2b(digest_size=20)

    def read(self, size: int) -> bytes:
        """The next bytes."""
        data = self.file.read(min(size, self.left))
        self.left -= len(data)
        self.hashing.update(data)
        return data
