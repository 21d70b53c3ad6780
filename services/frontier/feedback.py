"""What people kept, opened and dismissed: a record of it, and how it changes what is told. It fades."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from services.frontier.relevance import relevance_of_cosine
from shared import subjects
from shared.bus import Bus
from shared.bus.entry import seal
from shared.bus.records import read_record, retry_on_conflict
from shared.clock import parse_timestamp
from shared.contracts import AgentReport, DiscoveryResult
from shared.text.words import find_terms
from shared.web.quoting import clean

MAX_JUDGED = 200
"""How many judgements are kept: the latest."""
HALF_LIFE = 30.0
"""Days until a judgement counts half."""
POINTS = {"keep": 4.0, "open": 1.5, "dismiss": -6.0}
"""By how much, of 10, an item is rated higher that is the very thing that was judged today."""

Verdict = Literal["keep", "open", "dismiss"]


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What a person thought of an item; ``at`` is when."""

    item_id: str
    title: str
    verdict: Verdict
    at: str

    def points(self, now: datetime) -> float:
        """How much it counts now."""
        try:
            days = (now - parse_timestamp(self.at)).total_seconds() / 86_400
        except ValueError:
            return 0.0
        return float(POINTS[self.verdict] * 0.5 ** (max(0.0, days) / HALF_LIFE))


class Feedback:
    """The judgements, in one record of the agent that ``bus`` belongs to."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._subject = subjects.record(bus.name, "judged", "all")

    async def read(self) -> list[Judged]:
        """The judgements, the latest last."""
        return (await self._read())[0]

    async def accept(self, report: AgentReport) -> None:
        """Keep what a person's report says of an item that was told; a later one replaces an earlier one."""
        item_id, verdict = str(report.metadata.get("item", "")), report.metadata.get("verdict")
        if verdict not in POINTS or not item_id.isalnum():
            return
        told = subjects.record(self._bus.name, "reported", item_id)
        record = await read_record(self._bus, told, DiscoveryResult)
        if record is None:
            return
        judged = Judged(
            item_id=item_id, title=clean(record.value.query, 300), verdict=verdict, at=report.created_at
        )

        async def attempt() -> None:
            known, seq = await self._read()
            before = next((each for each in known if each.item_id == item_id), None)
            if before is not None and verdict in (before.verdict, "open"):
                return
            kept = [*(each for each in known if each.item_id != item_id), judged][-MAX_JUDGED:]
            await self._bus.commit([seal(self._subject, self._report(kept), expect=seq)])

        await retry_on_conflict(attempt)

    def _report(self, kept: Sequence[Judged]) -> AgentReport:
        return AgentReport(
            sender=self._bus.name,
            report_id="judged",
            agent=self._bus.name,
            report_type="judged_items",
            summary=f"{len(kept)} items kept, opened or dismissed",
            metadata={"items": msgspec.to_builtins(kept)},
        )

    async def _read(self) -> tuple[list[Judged], int]:
        record = await read_record(self._bus, self._subject, AgentReport)
        if record is None:
            return [], 0
        return msgspec.convert(record.value.metadata.get("items", []), list[Judged]), record.seq


def apply_feedback(
    items: Sequence[dict[str, Any]],
    judged: Sequence[Judged],
    vectors: Mapping[str, Sequence[float]],
    now: datetime | None = None,
) -> list[dict[str, Any]]:
    """The items with ``liking``, the points that they get or lose, and ``like``, the title that was kept.

    ``vectors`` are of titles; those of items and of what was judged are compared, words where one is missing.
    """
    moment = now or datetime.now(UTC)
    weighted = [(each, each.points(moment)) for each in judged]
    return [_with_liking(item, weighted, vectors) for item in items]


def _with_liking(
    item: dict[str, Any], judged: Sequence[tuple[Judged, float]], vectors: Mapping[str, Sequence[float]]
) -> dict[str, Any]:
    rated = [(points * _likeness(item["title"], each.title, vectors), each) for each, points in judged]
    best = max(rated, key=lambda each: each[0], default=None)
    gain = max(0.0, best[0]) if best else 0.0
    loss = min((points for points, _ in rated), default=0.0)
    liking = round(gain + min(0.0, loss), 2)
    if not liking:
        return item
    like = best[1].title if best and gain >= 1 and best[1].verdict == "keep" else ""
    return {**item, "liking": liking, **({"like": like} if like else {})}


def _likeness(one: str, other: str, vectors: Mapping[str, Sequence[float]]) -> float:
    if one in vectors and other in vectors:
        cosine = sum(a * b for a, b in zip(vectors[one], vectors[other], strict=True))
        return relevance_of_cosine(cosine) / 10
    words, known = find_terms(one).keys(), find_terms(other).keys()
    return len(words & known) / max(1, len(words | known))
