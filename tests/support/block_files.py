"""The block files of nats-server's streams, changed as who has the host could: with right checksums."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from struct import Struct
from typing import NamedTuple

_HEAD = Struct("<IQqH")
_HEADERS = 1 << 31
_MASK = (1 << 64) - 1
_INIT = (
    (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3),
    (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377),
)


class Record(NamedTuple):
    """One message of a block file: its head (length, sequence, time), subject, headers and body."""

    seq: int
    time: int
    subject: bytes
    headers: bytes
    body: bytes


def change_blocks(folder: Path, stream: str, change: Callable[[list[Record]], list[Record]]) -> None:
    """Rewrite the block files of a stream from what ``change`` makes of their records."""
    for path in sorted(folder.glob("*.blk")):
        key = sha256(f"{stream}-{path.stem}".encode()).digest()
        data = path.read_bytes()
        assert b"".join(_write(each, key) for each in _read(data)) == data, "another format of block files"
        path.write_bytes(b"".join(_write(each, key) for each in change(list(_read(data)))))


def cut_blocks(folder: Path, number: int) -> None:
    """Leave the first messages of a stream alone, as the server does with what follows a damage."""
    (path,) = folder.glob("*.blk")
    kept = list(_read(path.read_bytes()))[:number]
    data = path.read_bytes()
    size = sum(_size_of(each) for each in kept)
    path.write_bytes(data[:size] + b"\0" * min(64, len(data) - size))
    for state in folder.glob("*.db"):
        state.unlink()


def _size_of(record: Record) -> int:
    headers = 4 + len(record.headers) if record.headers else 0
    return _HEAD.size + len(record.subject) + headers + len(record.body) + 8


def _read(data: bytes) -> Iterator[Record]:
    at = 0
    while at < len(data):
        length, seq, time, size = _HEAD.unpack_from(data, at)
        end = at + (length & ~_HEADERS)
        begin = at + _HEAD.size
        subject, rest = data[begin : begin + size], data[begin + size : end - 8]
        headers = b""
        if length & _HEADERS:
            length = int.from_bytes(rest[:4], "little")
            headers, rest = rest[4 : 4 + length], rest[4 + length :]
        yield Record(seq, time, subject, headers, rest)
        at = end


def _write(record: Record, key: bytes) -> bytes:
    seq, time, subject, headers, body = record
    block = len(headers).to_bytes(4, "little") + headers if headers else b""
    length = _HEAD.size + len(subject) + len(block) + len(body) + 8
    head = _HEAD.pack(length | (_HEADERS if headers else 0), seq, time, len(subject))
    return head + subject + block + body + highway_hash(key, head[4:20] + subject + headers + body)


def highway_hash(key: bytes, data: bytes) -> bytes:
    """HighwayHash of 64 bits, which nats-server's checksums are."""
    keys = [int.from_bytes(key[at : at + 8], "little") for at in range(0, 32, 8)]
    state = _State(keys)
    whole = len(data) // 32 * 32
    for at in range(0, whole, 32):
        state.update(data[at : at + 32])
    if rest := data[whole:]:
        state.finish(rest)
    return state.digest()


class _State:
    def __init__(self, keys: list[int]) -> None:
        self.mul0, self.mul1 = list(_INIT[0]), list(_INIT[1])
        self.v0 = [a ^ b for a, b in zip(_INIT[0], keys, strict=True)]
        self.v1 = [a ^ _swap(b) for a, b in zip(_INIT[1], keys, strict=True)]

    def update(self, packet: bytes) -> None:
        self._mix([int.from_bytes(packet[at : at + 8], "little") for at in range(0, 32, 8)])

    def _mix(self, lanes: list[int]) -> None:
        v0, v1 = self.v0, self.v1
        for i in range(4):
            v1[i] = (v1[i] + self.mul0[i] + lanes[i]) & _MASK
            self.mul0[i] ^= (v1[i] & 0xFFFFFFFF) * (v0[i] >> 32)
            v0[i] = (v0[i] + self.mul1[i]) & _MASK
            self.mul1[i] ^= (v0[i] & 0xFFFFFFFF) * (v1[i] >> 32)
        for source, target in ((v1, v0), (v0, v1)):
            for i in (0, 2):
                low, high = _merge(source[i + 1], source[i])
                target[i], target[i + 1] = (target[i] + low) & _MASK, (target[i + 1] + high) & _MASK

    def finish(self, rest: bytes) -> None:
        size, whole = len(rest), len(rest) & ~3
        for i in range(4):
            self.v0[i] = (self.v0[i] + (size << 32) + size) & _MASK
            low, high = self.v1[i] & 0xFFFFFFFF, self.v1[i] >> 32
            low, high = (((x << size) | (x >> (32 - size))) & 0xFFFFFFFF for x in (low, high))
            self.v1[i] = high << 32 | low
        packet = bytearray(32)
        packet[:whole] = rest[:whole]
        tail, odd = rest[whole:], size & 3
        if size & 16:
            packet[28:32] = rest[-4:]
        elif odd:
            packet[16], packet[17], packet[18] = tail[0], tail[odd >> 1], tail[odd - 1]
        self.update(bytes(packet))

    def digest(self) -> bytes:
        for _ in range(4):
            self._mix([_swap(self.v0[i]) for i in (2, 3, 0, 1)])
        total = self.v0[0] + self.v1[0] + self.mul0[0] + self.mul1[0]
        return (total & _MASK).to_bytes(8, "little")


def _swap(value: int) -> int:
    return (value >> 32 | value << 32) & _MASK


def _merge(v1: int, v0: int) -> tuple[int, int]:
    low = (
        (((v0 & 0xFF000000) | (v1 & 0xFF00000000)) >> 24)
        | (((v0 & 0xFF0000000000) | (v1 & 0xFF000000000000)) >> 16)
        | (v0 & 0xFF0000)
        | ((v0 & 0xFF00) << 32)
        | ((v1 & 0xFF00000000000000) >> 8)
        | (v0 << 56)
    )
    high = (
        (((v1 & 0xFF000000) | (v0 & 0xFF00000000)) >> 24)
        | (v1 & 0xFF0000)
        | ((v1 & 0xFF0000000000) >> 16)
        | ((v1 & 0xFF00) << 24)
        | ((v0 & 0xFF000000000000) >> 8)
        | ((v1 & 0xFF) << 48)
        | (v0 & 0xFF00000000000000)
    )
    return low & _MASK, high & _MASK
