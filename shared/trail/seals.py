"""Seals over the log: commitments to messages, the tree of RFC 6962 over them, making and checking seals."""

import contextlib
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from struct import Struct

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.elsewhere import read_elsewhere
from shared.contracts import Seal
from shared.contracts.base import amended
from shared.errors import ConfigError
from shared.queries.records import scan

NODE = b"\x01"  # What the hash of two nodes begins with


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root over hashes of leaves; of no leaf, the hash of nothing."""
    level = list(leaves)
    if not level:
        return sha256().digest()
    while len(level) > 1:
        level = _next_level(level)
    return level[0]


def path_of(leaves: Sequence[bytes], index: int) -> list[tuple[bool, bytes]]:
    """The path from a leaf to the root: each hash beside it on the way, and whether that stands before it."""
    path: list[tuple[bool, bytes]] = []
    level = list(leaves)
    while len(level) > 1:
        beside = index ^ 1
        if beside < len(level):
            path.append((beside < index, level[beside]))
        level, index = _next_level(level), index // 2
    return path


def root_by_path(leaf: bytes, path: Sequence[tuple[bool, bytes]]) -> bytes:
    """The root that a path leads to."""
    for before, beside in path:
        leaf = _join(beside, leaf) if before else _join(leaf, beside)
    return leaf


def _next_level(level: Sequence[bytes]) -> list[bytes]:
    """The hashes of pairs; one without a neighbour stays as it is, which makes the tree of the RFC."""
    above = [_join(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
    return [*above, level[-1]] if len(level) % 2 else above


def _join(left: bytes, right: bytes) -> bytes:
    return sha256(NODE + left + right).digest()


SPAN = 1_000  # The most messages of one seal
CHAIN = b"\x02"  # What the hash of a seal begins with
MARK = 4  # The bytes of a mark
NO_MARK = bytes(MARK)
BEFORE_ALL = "0" * 64  # The chain that the first seal continues


def chain_of(before: str, seal: Seal) -> str:
    """The chain hash of a seal that continues the chain ``before``."""
    place = f"{seal.stream} {seal.number} {seal.first} {seal.last} {seal.count}".encode()
    return sha256(CHAIN + bytes.fromhex(before) + bytes.fromhex(seal.root) + place).hexdigest()


def make_seal(
    stream: str, before: Seal | None, leaves: Sequence[bytes | None], sender: str, first: int = 0
) -> Seal:
    """The seal after ``before`` over the commitments to the next messages, None for one that is missing.

    ``first`` is where it begins if the stream lost its end.
    """
    there = [leaf for leaf in leaves if leaf is not None]
    first = first or (before.last + 1 if before else 1)
    seal = Seal(
        sender=sender,
        stream=stream,  # type: ignore[arg-type]  # a stream of the log
        number=before.number + 1 if before else 1,
        first=first,
        last=first + len(leaves) - 1,
        count=len(there),
        root=root_of(there).hex(),
        chain=BEFORE_ALL,
        marks=b64encode(b"".join(leaf[:MARK] if leaf else NO_MARK for leaf in leaves)).decode(),
    )
    return amended(seal, chain=chain_of(before.chain if before else BEFORE_ALL, seal))


def marks_of(seal: Seal) -> list[bytes]:
    """The marks of its messages, in their order; empty if they are damaged."""
    try:
        data = b64decode(seal.marks, validate=True)
    except ValueError:
        return []
    marks = [data[at : at + MARK] for at in range(0, len(data), MARK)]
    return marks if len(marks) == seal.last - seal.first + 1 else []


def find_flaw(seal: Seal, before: Seal | None) -> str:
    """Why a seal does not continue the one before it; empty if it does."""
    if seal.number != (before.number + 1 if before else 1):
        return "its number does not follow that of the seal before"
    follows = seal.first == (before.last + 1 if before else 1) and seal.last >= seal.first
    if not follows and (before is None or not says_loss(seal, before)):
        return "its messages do not follow those of the seal before"
    if seal.chain != chain_of(before.chain if before else BEFORE_ALL, seal):
        return "its chain does not continue that of the seal before"
    return ""


def says_loss(seal: Seal, before: Seal) -> bool:
    """Whether a seal says that of what was sealed all after its last message was lost."""
    return 1 <= seal.first <= before.last and seal.first - 1 <= seal.last < before.last


async def find_void(bus: Bus, stream: str) -> set[int]:
    """The numbers of the seals over what a stream lost: a later one stands for what is left of each."""
    void: set[int] = set()
    standing: list[Seal] = []
    before: Seal | None = None
    async for _, seal in read_seals(bus, stream):
        if seal is not None and not find_flaw(seal, before):
            while standing and standing[-1].first >= seal.first:
                void.add(standing.pop().number)
            before = without_marks(seal)
            standing.append(before)
    return void


async def read_seals(bus: Bus, stream: str, since: int = 1) -> AsyncGenerator[tuple[int, Seal | None], None]:
    """The seals of a stream with their places in OFFICE, from a place on; None for what cannot be read."""
    async for stored in scan(bus, subjects.OFFICE, subjects.seal(stream), seq=since):
        yield stored.seq, parse_seal(stored.data, stream)


def parse_seal(data: bytes, stream: str) -> Seal | None:
    """The seal of a stream in a message; None if it is none."""
    try:
        seal = Seal.from_json(data)
    except (ValueError, RecursionError):
        return None
    return seal if seal.stream == stream else None


def without_marks(seal: Seal) -> Seal:
    """A seal as it is kept elsewhere: what it proves, in a few hundred bytes."""
    return amended(seal, marks="")


async def read_witness(witness: str) -> list[Seal]:
    """The seals that a witness of the settings has: a file that is here, or a subject of another NATS server.

    None of a witness that cannot be asked, such as a mailbox. Raises BusError or ConfigError.
    """
    if witness.startswith(("nats://", "tls://")):
        return _parse_seals(await read_elsewhere(witness))
    if witness.startswith("/") and Path(witness).is_file():
        return read_kept(Path(witness))
    return []


def _parse_seals(texts: Iterable[bytes]) -> list[Seal]:
    seals: list[Seal] = []
    for text in texts:
        with contextlib.suppress(ValueError, RecursionError):
            seals.append(Seal.from_json(text))
    return seals


def read_kept(path: Path) -> list[Seal]:
    """The seals in a file, one a line; raises ConfigError if it has none."""
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "Name a file of seals") from None
    kept = _parse_seals(line.strip().encode() for line in lines)
    if not kept:
        raise ConfigError(f"{path} has no seal", "A seal is a line of JSON, as a witness gets it")
    return kept


LEAF = b"\x00"  # What the hash of a leaf begins with, so that none is taken for one of a tree (RFC 6962)
_lengths = Struct(">6I")


def make_leaf(stored: Stored) -> bytes:
    """The commitment to a message: to its place, its time, its subject, and all bytes of headers and body.

    It has to be read in bulk or exactly. A SHA-256 over the byte LEAF, the lengths of the six parts (four
    bytes each, the first byte the highest), and the parts.
    """
    parts = (
        stored.stream.encode(),
        b"%d" % stored.seq,
        stored.time.encode(),
        stored.subject.encode(),
        stored.block,
        stored.data,
    )
    return sha256(b"".join((LEAF, _lengths.pack(*map(len, parts)), *parts))).digest()
