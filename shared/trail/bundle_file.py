"""Bundles as files: lines of JSON with messages, commitments to erased ones, and seals, compressed or not."""

import contextlib
import fcntl
import gzip
import os
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from shared.bus import Stored
from shared.bus.entry import parse_block
from shared.contracts import Seal
from shared.errors import ActionError
from shared.files import sync_folder
from shared.trail.seals import make_leaf, root_of

GZIP = b"\x1f\x8b"
ANOTHER = "It is not the bundle that this office wrote, or was changed: 'mailroom audit verify' says more"


class Erased(NamedTuple):
    """What is left of an erased message: its place and the commitment to it."""

    seq: int
    leaf: bytes


Item = Stored | Erased | Seal


class _Line(msgspec.Struct):
    stream: str = ""
    seq: int = 0
    time: str = ""
    subject: str = ""
    headers: str = ""
    body: str = ""
    leaf: str = ""
    seal: Seal | None = None


_decode = msgspec.json.Decoder(_Line).decode


def message_line(stored: Stored) -> dict[str, Any]:
    """A message with all that its commitment is made of."""
    return {
        "stream": stored.stream,
        "seq": stored.seq,
        "time": stored.time,
        "subject": stored.subject,
        "headers": b64encode(stored.block).decode(),
        "body": b64encode(stored.data).decode(),
    }


def erased_line(stream: str, seq: int, leaf: bytes) -> dict[str, Any]:
    """An erased message."""
    return {"stream": stream, "seq": seq, "leaf": leaf.hex()}


def seal_line(seal: Seal) -> dict[str, Any]:
    """A seal, after the last of its messages."""
    return {"seal": seal.to_dict()}


def read_items(path: Path) -> Iterator[Item]:
    """What a bundle has, in its order.

    Raises ActionError at the first place that cannot be read.
    """
    last = 0
    try:
        with path.open("rb") as raw:
            file = gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == GZIP else raw
            for text in file:
                line = _decode(text)
                if line.seal is not None:
                    yield line.seal
                    continue
                last = line.seq
                if line.leaf:
                    yield Erased(line.seq, bytes.fromhex(line.leaf))
                else:
                    yield _message(line)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        where = f" after message {last:,}" if last else ""
        reason = getattr(error, "strerror", None) or f"it is damaged or cut off{where}"
        raise ActionError(f"The bundle {path} cannot be read: {reason}", ANOTHER) from None


def _message(line: _Line) -> Stored:
    block = b64decode(line.headers, validate=True)
    data = b64decode(line.body, validate=True)
    return Stored(line.stream, line.subject, line.seq, data, parse_block(block), line.time, block)


def check_bundle(path: Path, seals: Sequence[Seal]) -> None:
    """Raise ActionError unless a bundle has exactly the messages of these seals, and them."""
    left, leaves, expected = list(seals), list[bytes](), seals[0].first
    for item in read_items(path):
        if not left:
            raise ActionError(f"{path} goes on after message {seals[-1].last:,}", ANOTHER)
        seal = left[0]
        if isinstance(item, Seal):
            same = (item.number, item.chain, item.root) == (seal.number, seal.chain, seal.root)
            if not same or (len(leaves), root_of(leaves).hex()) != (seal.count, seal.root):
                what = f"{seal.stream} {seal.first:,} to {seal.last:,}"
                raise ActionError(f"{path} does not have {what} as it was sealed", ANOTHER)
            left, leaves = left[1:], []
        elif expected <= item.seq <= seal.last:
            leaves.append(item.leaf if isinstance(item, Erased) else make_leaf(item))
            expected = item.seq + 1
        else:
            raise ActionError(f"{path} has message {item.seq:,} where it does not belong", ANOTHER)
    if left:
        raise ActionError(f"{path} is cut off: message {left[0].last:,} is missing", ANOTHER)


class BundleWriter:
    """Writes a bundle beside its place, compressed; nothing is in that place until ``finish``.

    One at a time writes in a folder what begins with the same message. Raises OSError.
    """

    def __init__(self, folder: Path, stream: str, first: int) -> None:
        self.folder, self.size = folder, 0
        self._part = folder / f".{stream}-{first:010d}.part"
        self._file: BinaryIO = os.fdopen(os.open(self._part, os.O_RDWR | os.O_CREAT, 0o644), "r+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # It may have been finished and renamed since it was opened.
            if not os.path.samestat(os.fstat(self._file.fileno()), self._part.stat()):
                raise FileNotFoundError
        except OSError:
            self._file.close()
            raise ActionError(f"Another process writes {self._part}", "Wait until it has ended") from None
        self._file.truncate()
        self._packed = gzip.GzipFile(filename="", mode="wb", fileobj=self._file, mtime=0)

    def write(self, lines: Iterable[dict[str, Any]]) -> None:
        """Append lines."""
        data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
        self.size += len(data)
        self._packed.write(data)

    def finish(self, name: str, seals: Sequence[Seal]) -> Path:
        """Read what was written back from disk, and give it its name; raises ActionError if it is not these
        messages, or if another file has the name that has others.
        """
        self._packed.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        check_bundle(self._part, seals)
        path = self.folder / name
        if path.exists():
            check_bundle(path, seals)
        self._part.replace(path)
        sync_folder(self.folder)
        self._file.close()
        return path

    def discard(self) -> None:
        """Leave nothing of what was not finished."""
        if not self._file.closed:
            for close in (self._part.unlink, self._packed.close, self._file.close):
                with contextlib.suppress(OSError):
                    close()


def erase_in_bundle(path: Path, seqs: set[int], seals: Sequence[Seal]) -> None:
    """Replace messages of a bundle by the commitments to them, and overwrite the bytes of the file before.

    Raises ActionError, or OSError, and leaves the bundle as it was. Killed in between, ``overwrite_before``
    overwrites what is left.
    """
    first = seals[0]
    overwrite_before(path)
    writer = BundleWriter(path.parent, first.stream, first.first)
    try:
        for item in read_items(path):
            if isinstance(item, Seal):
                writer.write([seal_line(item)])
            elif isinstance(item, Erased) or item.seq in seqs:
                leaf = item.leaf if isinstance(item, Erased) else make_leaf(item)
                writer.write([erased_line(first.stream, item.seq, leaf)])
            else:
                writer.write([message_line(item)])
        with path.open("r+b") as before:
            with contextlib.suppress(OSError):  # a file system without links
                os.link(path, _before(path))
            writer.finish(path.name, seals)
            _overwrite(before)
        overwrite_before(path)
    finally:
        writer.discard()


def overwrite_before(path: Path) -> None:
    """Overwrite and remove the file that was a bundle before something was erased in it, if it is left.

    Raises OSError.
    """
    left = _before(path)
    try:
        with left.open("r+b") as file:
            if not (path.exists() and left.samefile(path)):
                _overwrite(file)
    except FileNotFoundError:
        return
    left.unlink()
    sync_folder(path.parent)


def _before(path: Path) -> Path:
    return path.with_name(f".{path.name}.before")


def _overwrite(file: BinaryIO) -> None:
    file.write(bytes(os.fstat(file.fileno()).st_size))
    file.flush()
    os.fsync(file.fileno())
