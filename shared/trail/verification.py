"""Verifying a stream of the log: nothing is missing or altered, and what was erased is on record."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec

from shared import subjects
from shared.bus import Bus, Stored
from shared.bus.replica import connect_replica
from shared.contracts import Seal
from shared.errors import ActionError, MailroomError, NotFound
from shared.queries.records import call_server, last_sequence
from shared.queries.seals import SEALS, Cut, name_of, read_cuts
from shared.settings import Settings
from shared.trail.archives import Archive, ErasedBy, Erasures, pages_of, read_archives, read_erasures
from shared.trail.bundle_file import Erased
from shared.trail.seals import (
    MARK,
    NO_MARK,
    find_flaw,
    find_void,
    make_leaf,
    marks_of,
    read_kept,
    read_seals,
    read_witness,
    root_of,
    says_loss,
)

MAX_LISTED = 20  # The most problems that are described; the others are only counted
READ_TIMEOUT = 30.0
ALL = "all"  # All servers, in place of the name of one
_LIMITS = {"max_msgs": -1, "max_bytes": -1, "max_age": 0, "max_msgs_per_subject": -1}
"""What a stream's configuration says that keeps everything."""

Report = Callable[[str], None]


class Verification(msgspec.Struct, kw_only=True):
    """What was found in a stream, as the server ``replica`` has it; empty: whichever answered.

    ``messages`` were read, up to ``last``, ``archived`` of them from bundles; ``erased`` are gone by the
    ``orders`` of people, on record. ``bundles`` were read, those ``away`` were not, so that only what of them
    is still on the server was compared.
    ``seals`` were checked, and cover what is up to ``sealed``; what follows is not proven yet. ``witnessed``
    is the last message that a seal kept elsewhere covers, 0 if none was compared; ``outside`` counts those
    that are not of this host's gateway. ``unread`` are witnesses of the settings that could not be compared,
    and why.
    """

    stream: str
    replica: str = ""
    messages: int = 0
    last: int = 0
    archived: int = 0
    bundles: list[str] = []
    away: list[str] = []
    erased: int = 0
    orders: list[ErasedBy] = []
    seals: int = 0
    sealed: int = 0
    witnessed: int = 0
    outside: int = 0
    unread: list[str] = []
    problem_count: int = 0
    problems: list[str] = []

    def add_problem(self, problem: str, count: int = 1) -> None:
        """Count a problem, and keep its description."""
        self.problem_count += count
        if len(self.problems) < MAX_LISTED:
            self.problems.append(problem)


async def verify_log(
    bus: Bus, kept: Sequence[Seal] = (), folder: Path | None = None, report: Report = lambda _: None
) -> list[Verification]:
    """Verify both streams of the log; ``kept`` are seals of them that were kept elsewhere."""
    return [
        await verify_stream(bus, stream, [seal for seal in kept if seal.stream == stream], folder, report)
        for stream in subjects.LOG
    ]


async def verify_replicas(
    config: Settings,
    urls: Sequence[str],
    wanted: str,
    verify: Callable[[Bus], Awaitable[list[Verification]]],
) -> list[Verification]:
    """The same with the copy of each server at ``urls`` for itself, or with that of the server ``wanted``.

    Raises NotFound if there is none of this name, BusUnavailable if a server does not answer from its own
    copy, and Denied without the admin's key, who alone can be sure of that.
    """
    results, names = [], []
    for url in urls:
        async with connect_replica(subjects.ADMIN, url, config.keys / f"{subjects.ADMIN}.nk") as bus:
            names.append(bus.server_name)
            if wanted not in (ALL, bus.server_name):
                continue
            found = await verify(bus)
            results += [msgspec.structs.replace(each, replica=bus.server_name) for each in found]
    if not results:
        raise NotFound(f"No server is named {wanted!r}", f"There are {', '.join(names)}")
    return results


async def verify_here(
    bus: Bus,
    config: Settings,
    outside: Sequence[Seal] = (),
    folder: Path | None = None,
    report: Report = lambda _: None,
) -> list[Verification]:
    """The same, compared with seals from outside and with what this host's gateway knows.

    Without such seals, with those of the witnesses of the settings that can be read: files here, and NATS.
    What the gateway knows are its seals, which tell if the end was cut off, and what it found to be lost.
    """
    kept, unread = list(outside), list[str]()
    for witness in () if outside else config.audit_witness:
        try:
            kept += await read_witness(witness)
        except MailroomError as error:
            unread.append(f"{name_of(witness)}: {error}")
    own = config.gateway / SEALS
    known = read_kept(own) if own.is_file() else []
    results = await verify_log(bus, [*kept, *known], folder, report)
    for result in results:
        result.outside = sum(seal.stream == result.stream for seal in kept)
        result.unread = unread
    for cut in read_cuts(config):
        next(each for each in results if each.stream == cut.stream).add_problem(str(cut))
    return results


async def verify_stream(
    bus: Bus,
    stream: str,
    kept: Sequence[Seal] = (),
    folder: Path | None = None,
    report: Report = lambda _: None,
) -> Verification:
    """Verify what a stream has now: that no message is missing, and that each is what was sealed.

    What was archived is read from its bundles, in ``folder`` or where they were written; what of it is still
    on the server has to be the same.

    A page of messages and the commitments of one seal are in memory at a time, beside the commitments to
    what was erased. ``report`` gets the progress. Raises BusUnavailable if the stream cannot be read.
    """
    result = Verification(stream=stream, orders=[], problems=[], bundles=[], away=[])
    info: dict[str, Any] = await call_server(bus, f"STREAM.INFO.{result.stream}")
    config = info["config"]
    if not config.get("deny_purge"):
        result.add_problem(
            f"{result.stream} is not protected: deny_purge is off; 'mailroom provision' sets it"
        )
    for name, wanted in _LIMITS.items():
        if config.get(name) != wanted:
            result.add_problem(f"{result.stream} may lose messages: its {name} is {config.get(name)}")
    end = await last_sequence(bus, stream)
    archives = await read_archives(bus, folder) if stream == subjects.OFFICE else []
    async with aclosing(read_seals(bus, stream)) as seals:
        walk = _Walk(bus, result, seals, kept)
        await walk.open()
        for each in archives:
            await _verify_archive(bus, walk, each)
            report(f"{stream}: {each.order.last:,} of {end:,} messages read")
        start = archives[-1].order.last + 1 if archives else 1
        async for page in bus.read_all(stream, start, end, timeout=READ_TIMEOUT):
            leaves = await asyncio.to_thread(_make_leaves, page)
            for stored, leaf in zip(page, leaves, strict=True):
                await walk.take(stored.seq, leaf)
            report(f"{stream}: {page[-1].seq:,} of {end:,} messages read")
        await walk.end(end)
    return result


def _make_leaves(page: list[Stored]) -> list[bytes]:
    return [make_leaf(stored) for stored in page]


async def _verify_archive(bus: Bus, walk: "_Walk", archive: Archive) -> None:
    """Verify a part that was archived: by its bundle, and what is left of it on the server."""
    order, result = archive.order, walk.result
    left: dict[int, bytes] = {}
    async for page in bus.read_all(result.stream, order.first, order.last, timeout=READ_TIMEOUT):
        left |= zip((stored.seq for stored in page), await asyncio.to_thread(_make_leaves, page), strict=True)
    if not archive.is_here:
        result.away.append(archive.absence)
        await walk.pass_away(order.last, left)
        return
    result.bundles.append(archive.path.name)
    walk.bundle = archive.path.name
    try:
        async for items in pages_of(archive.path):
            messages = [item for item in items if isinstance(item, Stored)]
            made = iter(await asyncio.to_thread(_make_leaves, messages))
            for item in items:
                if isinstance(item, Seal):
                    continue
                leaf = item.leaf if isinstance(item, Erased) else next(made)
                if not walk.reached < item.seq <= order.last:
                    result.add_problem(f"{archive.path} is not the bundle of {archive.span}")
                    raise ActionError("It is read no further", "")
                if left.pop(item.seq, leaf) != leaf:
                    result.add_problem(f"{result.stream} {item.seq} on the server is not what the bundle has")
                if isinstance(item, Stored):
                    await walk.take(item.seq, leaf)
                    result.archived += 1
    except ActionError as error:
        if error.cure:
            result.add_problem(error.cause)
    await walk.end_bundle(order.last)


class _Walk:
    """Goes through a stream and its seals side by side."""

    def __init__(
        self,
        bus: Bus,
        result: Verification,
        seals: AsyncIterator[tuple[int, Seal | None]],
        kept: Sequence[Seal],
    ) -> None:
        self._bus, self.result, self._seals = bus, result, seals
        self._kept = sorted(kept, key=lambda seal: seal.number)
        self._erasures = Erasures()
        self.reached = 0
        self._before: Seal | None = None
        self._next: Seal | None = None
        self._void: set[int] = set()
        """The numbers of the seals over what the stream lost."""
        self._leaves: list[bytes | None] = []
        """The commitments since the last seal that was checked; None for what is missing."""
        self.bundle = ""
        """The bundle that is read; empty if that is the server."""
        self._is_away = False

    async def open(self) -> None:
        """Read what was erased until now, which seals stand, and the first of them."""
        self._erasures = await read_erasures(self._bus, self.result.stream)
        self._void = await find_void(self._bus, self.result.stream)
        await self._advance()

    async def take(self, seq: int, leaf: bytes) -> None:
        """Go on to a message that is there."""
        await self._pass_missing(seq - 1)
        self.result.messages += 1
        if self.bundle and seq in self._erasures.leaves:
            self.result.add_problem(f"{self.result.stream} {seq} was erased, and {self.bundle} still has it")
        await self._add(leaf)

    async def end_bundle(self, last: int) -> None:
        """Go on to the end of a bundle."""
        await self._pass_missing(last)
        self.bundle = ""

    async def pass_away(self, last: int, left: Mapping[int, bytes]) -> None:
        """Go on to the end of a bundle that is not here; ``left`` is what the server still has of it."""
        self._is_away = True
        while self.reached < last:
            leaf = left.get(self.reached + 1)
            self.result.messages += leaf is not None
            await self._add(leaf)
        self._is_away = False

    async def end(self, last: int) -> None:
        """Say what the whole came to; ``last`` is the last message that there ever was."""
        await self._pass_missing(last)
        await self._check_reached()
        result = self.result
        result.last, result.orders = self.reached, self._erasures.orders
        if self._next is not None and self._next.last > (
            end := await last_sequence(self._bus, result.stream)
        ):
            lost = f"{end + 1:,} to {self._next.last:,}"
            result.add_problem(f"{result.stream} ends at {end:,}, and lost {lost}, which were sealed")
        for kept in self._kept:  # those that the log came to were taken out
            result.add_problem(
                f"The seal {kept.number} that was kept elsewhere covers {result.stream} up to {kept.last}, "
                f"and the log has {result.seals} seals of it"
            )

    async def _pass_missing(self, last: int) -> None:
        """Go on to ``last``; what is missing until there is on record, or a problem."""
        if self.reached < last and not all(
            seq in self._erasures.leaves for seq in range(self.reached + 1, last + 1)
        ):
            # It may have been erased meanwhile: the record comes before that.
            self._erasures = await read_erasures(self._bus, self.result.stream)
        unexplained = 0
        while self.reached < last:
            leaf = self._erasures.leaves.get(self.reached + 1)
            if leaf is None:
                unexplained += 1
            else:
                self._tell_missing(unexplained)
                unexplained = 0
                self.result.erased += 1
            await self._add(leaf)
        self._tell_missing(unexplained)

    def _tell_missing(self, number: int) -> None:
        if number:
            first, last = self.reached - number + 1, self.reached
            which = f"{first} is" if number == 1 else f"{first} to {last} are"
            where = f" in {self.bundle}" if self.bundle else ""
            what = f"{self.result.stream} {which} missing or damaged{where}, and no person ordered that"
            self.result.add_problem(what, number)

    async def _add(self, leaf: bytes | None) -> None:
        self.reached += 1
        self._leaves.append(leaf)
        await self._check_reached()

    async def _check_reached(self) -> None:
        while self._next is not None and self._next.last <= self.reached:
            # Compare the messages of a seal with it
            seal = self._next
            size = seal.last - seal.first + 1
            leaves, self._leaves = self._leaves[:size], self._leaves[size:]
            there = [leaf for leaf in leaves if leaf is not None]
            is_part = self._is_away and None in leaves  # what is left is compared by its marks
            if is_part or (len(there), root_of(there).hex()) != (seal.count, seal.root):
                self._tell_changed(seal, leaves)
            if self._note(seal):
                self.result.witnessed = seal.last
            self.result.sealed = seal.last
            await self._advance()

    async def _advance(self) -> None:
        """Find the next seal that continues those before it."""
        while True:
            found = await anext(self._seals, None)
            if found is None:
                self._next = None
                return
            place, seal = found
            flaw = find_flaw(seal, self._before) if seal is not None else "it cannot be read"
            if seal is not None and not flaw:
                if self._before is not None and says_loss(seal, self._before):
                    self._tell_lost(seal, self._before)
                if seal.number not in self._void and seal.first == self.result.sealed + 1:
                    self._next = seal
                    return
                if seal.number in self._void:
                    self._note(seal)
                    continue
                flaw = "it begins within another"
            self.result.add_problem(f"The seal in OFFICE {place} is none: {flaw}")

    def _tell_lost(self, seal: Seal, before: Seal) -> None:
        cut = Cut(stream=seal.stream, first=seal.last + 1, last=before.last, found_at=seal.created_at)
        self.result.add_problem(f"{cut} by the {seal.sender} (seal {seal.number})", before.last - seal.last)

    def _note(self, seal: Seal) -> bool:
        """Count a seal, and compare it with one that was kept elsewhere; whether that is the same."""
        self.result.seals += 1
        self._before = seal
        same = False
        while self._kept and self._kept[0].number == seal.number:
            kept = self._kept.pop(0)
            same = (kept.chain, kept.last) == (seal.chain, seal.last)
            if not same:
                what = f"Seal {seal.number} of {seal.stream} is not the one that was kept elsewhere"
                self.result.add_problem(f"{what}: the log was rewritten")
        return same

    def _tell_changed(self, seal: Seal, leaves: list[bytes | None]) -> None:
        """Name the messages that are not those that were sealed; what is missing was named before."""
        marks = marks_of(seal)
        changed = [
            seal.first + at
            for at, (leaf, mark) in enumerate(zip(leaves, marks, strict=bool(marks)))
            if leaf is not None and leaf[:MARK] != mark
        ]
        for seq in changed:
            late = marks[seq - seal.first] == NO_MARK
            what = "was not there when it was sealed" if late else "is not what was sealed: it was changed"
            where = f" in {self.bundle}" if self.bundle else ""
            self.result.add_problem(f"{seal.stream} {seq}{where} {what}")
        if not changed and None not in leaves:
            what = f"{seal.stream} {seal.first} to {seal.last} are not what seal {seal.number} was made of"
            self.result.add_problem(what)
