"""Parcels: what goes in comes out, and what a hostile one holds does not."""

import os
import stat
import zlib
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import msgspec
import pytest

from shared.errors import ActionError
from shared.sandbox.confined import ConfinedFolder
from shared.sandbox.parcels import Entry, Manifest, Packer, stays_inside, unpack
from shared.sandbox.restoring import scan

FILE, LINK, FOLDER = stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777, stat.S_IFDIR | 0o755


def pack(folder: Path, out: Path, known: tuple[bytes, ...] = ()) -> Manifest:
    with ConfinedFolder(folder) as confined, out.open("wb") as file:
        packer = Packer(file, known)
        for path in sorted(scan(confined).entries):
            packer.add(confined, os.fsdecode(path))
        return packer.finish()


def forge(out: Path, *entries: Entry, body: bytes = b"", contents: dict[bytes, int] | None = None) -> Path:
    listed = msgspec.msgpack.encode(Manifest(entries, contents or {}))
    out.write_bytes(zlib.compress(body + listed + len(listed).to_bytes(8, "big")))
    return out


def listed(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def tree(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in folder.rglob("*"):
        is_link = path.is_symlink()
        content = str(path.readlink()) if is_link else "" if path.is_dir() else path.read_bytes()
        found[str(path.relative_to(folder))] = (stat.S_IMODE(path.lstat().st_mode), content)
    return found


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "empty").mkdir(parents=True)
    (source / "deep" / "er").mkdir(parents=True)
    (source / "deep" / "er" / "tool").write_bytes(b"#!/bin/sh\n")
    (source / "deep" / "er" / "tool").chmod(0o755)
    (source / "a name\nwith 'all' \"of\" it").write_bytes(b"one\n")
    Path(os.fsdecode(os.fsencode(source) + b"/caf\xe9")).write_bytes(b"two\n")
    (source / "large").write_bytes(os.urandom(1 << 20) * 3 + b"end")
    (source / "again").write_bytes((source / "large").read_bytes())
    (source / "link").symlink_to("deep/er/tool")
    (source / "out").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")
    first = pack(source, tmp_path / "one")
    (source / "pipe").unlink()
    unpack([tmp_path / "one"], tmp_path / "copy")
    assert tree(tmp_path / "copy") == tree(source)
    assert (tmp_path / "one").stat().st_size < 5 << 20, "what is twice in it lies in it once"

    # What an earlier one holds is not sent again
    (source / "new").write_bytes(b"three\n")
    (source / "link").unlink()
    pack(source, tmp_path / "two", tuple(first.contents))
    assert (tmp_path / "two").stat().st_size < 2_000
    unpack([tmp_path / "one", tmp_path / "two"], tmp_path / "later")
    assert tree(tmp_path / "later") == tree(source)
    with pytest.raises(ActionError, match="is missing"):
        unpack([tmp_path / "two"], tmp_path / "half")
    with pytest.raises(ActionError, match="leads outside"):
        unpack([tmp_path / "one"], tmp_path / "closed", is_closed=True)
    assert not (tmp_path / "half").exists()
    assert not (tmp_path / "closed").exists()


BODY = b"content"
DIGEST = blake2b(BODY, digest_size=20).digest()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        (b"/etc/x", "no name"),
        (b"../x", "no name"),
        (b"a/../../x", "no name"),
        (b"a//x", "no name"),
        (b"./x", "no name"),
        (b"", "no name"),
        (b"a\0b", "no name"),
        (b"a/" * 2_000 + b"x", "no name"),
        (b"link/x", "link"),
    ],
)
def test_names_stay_beneath_the_folder(tmp_path: Path, name: bytes, why: str) -> None:
    (tmp_path / "outside").mkdir()
    parcel = forge(
        tmp_path / "parcel",
        Entry(b"link", LINK, target=b"../outside"),
        Entry(name, FILE, size=len(BODY), digest=DIGEST),
        body=BODY,
        contents={DIGEST: 0},
    )
    with pytest.raises(ActionError, match=why):
        unpack([parcel], tmp_path / "target")
    assert listed(tmp_path) == ["outside", "parcel"]
    assert not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: data[:-5], "not whole"),
        (lambda data: data + b"more", "not whole"),
        (lambda data: data[:20] + bytes([data[20] ^ 1]) + data[21:], "damaged|altered|not whole"),
        (lambda data: b"", "not whole"),
        (lambda data: b"no zlib", "damaged"),
        (lambda data: zlib.compress(b"x"), "damaged"),
        (lambda data: zlib.compress((1 << 62).to_bytes(8, "big")), "damaged"),
        (lambda data: zlib.compress(b"\xc1" + (1).to_bytes(8, "big")), "damaged"),
    ],
)
def test_damaged_parcels(tmp_path: Path, change: Callable[[bytes], bytes], why: str) -> None:
    parcel = forge(
        tmp_path / "parcel", Entry(b"x", FILE, size=7, digest=DIGEST), body=BODY, contents={DIGEST: 0}
    )
    parcel.write_bytes(change(parcel.read_bytes()))
    with pytest.raises(ActionError, match=why):
        unpack([parcel], tmp_path / "target")
    assert listed(tmp_path) == ["parcel"]


@pytest.mark.parametrize(
    "entry",
    [
        Entry(b"x", FILE, size=6, digest=DIGEST),
        Entry(b"x", FILE, size=-1, digest=DIGEST),
        Entry(b"x", FILE, size=7, digest=b"another"),
        Entry(b"x", FILE, size=1 << 50, digest=DIGEST),
        Entry(b"x", stat.S_IFCHR | 0o666, size=7, digest=DIGEST),
        Entry(b"x", stat.S_IFREG | 0o4755, size=7, digest=blake2b(b"other", digest_size=20).digest()),
    ],
)
def test_contents_have_their_digests(tmp_path: Path, entry: Entry) -> None:
    with pytest.raises(ActionError):
        unpack([forge(tmp_path / "p", entry, body=BODY, contents={DIGEST: 0})], tmp_path / "target")
    assert listed(tmp_path) == ["p"]


def test_no_mode_is_more_than_a_files(tmp_path: Path) -> None:
    entry = Entry(b"x", stat.S_IFREG | 0o6755, size=7, digest=DIGEST)
    unpack([forge(tmp_path / "p", entry, body=BODY, contents={DIGEST: 0})], tmp_path / "target")
    assert stat.S_IMODE((tmp_path / "target" / "x").stat().st_mode) == 0o755


def test_a_bomb_is_stopped(tmp_path: Path) -> None:
    parcel = tmp_path / "bomb"
    parcel.write_bytes(zlib.compress(bytes(200 << 20)))
    with pytest.raises(ActionError, match="more than 1,000 bytes"):
        unpack([parcel], tmp_path / "target", max_bytes=1_000)
    # One content that many files have is not stored once either
    entries = [Entry(b"%d" % n, FILE, size=7, digest=DIGEST) for n in range(200)]
    with pytest.raises(ActionError, match="more than"):
        unpack(
            [forge(parcel, *entries, body=BODY, contents={DIGEST: 0})], tmp_path / "target", max_bytes=1_000
        )
    assert listed(tmp_path) == ["bomb"]
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "x").write_bytes(bytes(2_000))
    with ConfinedFolder(folder) as confined, (tmp_path / "out").open("wb") as file:
        with pytest.raises(ActionError, match="more than 1,000 bytes"):
            Packer(file, max_bytes=1_000).add(confined, "x")
        with pytest.raises(ActionError, match="more than 0 files"):
            Packer(file, max_files=0).add(confined, "x")


@pytest.mark.parametrize(
    ("name", "target", "inside"),
    [
        (b"a/l", b"../b", True),
        (b"a/l", b"b/c", True),
        (b"a/l", b"./b", True),
        (b"l", b"../b", False),
        (b"a/l", b"../../b", False),
        (b"l", b"/etc", False),
        (b"l", b"self/self/../..", False),
        (b"l", b".", True),
    ],
)
def test_links_inside(name: bytes, target: bytes, inside: bool) -> None:
    assert stays_inside(name, target) is inside
