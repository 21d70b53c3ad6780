"""The briefings of morning and evening, as nexus recorded them; a new look; what a person thinks of news."""

import asyncio
from datetime import UTC, date, datetime
from typing import Annotated, Literal

import msgspec

from services.gateway.call import Call
from services.gateway.problems import not_found
from services.gateway.routing import Endpoint
from shared import subjects
from shared.access.scopes import Scope
from shared.bus.records import read_record
from shared.clock import read_zone
from shared.contracts import AgentReport
from shared.operations.news import find_told_item, judging_report, read_told_items
from shared.queries.records import count_subjects
from shared.views.listed import (
    BriefingList,
    BriefingNote,
    DayBriefing,
    Kind,
    NewsList,
    TodaysBriefings,
    ToldItem,
)

API = "/api/v1"
BRIEFINGS = f"{API}/briefings"
KINDS = ("morning", "evening")
WANTED = "briefing_wanted"  # The type of the report by which a person has nexus look again


class WantedBriefing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which briefing nexus is to make, or to add to."""

    kind: Kind


class NewsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How many."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 50


class Judgement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person thinks of an item; ``open``: they opened it."""

    verdict: Literal["keep", "dismiss", "open"]


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """The id of the request."""

    id: str


async def list_briefings(call: Call) -> BriefingList:
    """The briefings that were made, for the team or for the person who asks."""
    names = await count_subjects(call.gateway.bus, subjects.OFFICE, _subject("*"))
    own = f"_{call.person.audience}"
    made = {name.rpartition(".")[2].removesuffix(own) for name in names}
    notes = [
        BriefingNote(kind="morning" if kind == "morning" else "evening", day=day)
        for day, _, kind in (each.partition("_") for each in made)
        if kind in KINDS
    ]
    return BriefingList(
        briefings=sorted(notes, key=lambda each: (each.day, each.kind == "evening"), reverse=True)
    )


async def read_today(call: Call) -> TodaysBriefings:
    """The briefings of today, each line with its sources: one's own if it was made, else the team's."""
    name = call.gateway.settings.time_zone
    day = datetime.now(UTC).astimezone(read_zone(name)).date().isoformat()
    found = await asyncio.gather(*(_read(call, day, kind) for kind in reversed(KINDS)))
    return TodaysBriefings(day=day, time_zone=name, briefings=[each for each in found if each])


async def read_day_briefing(call: Call) -> DayBriefing:
    """A briefing by its day, as 2026-11-23, and its kind, morning or evening."""
    day, kind = call.path["day"], call.path["kind"]
    found = await _read(call, date.fromisoformat(day).isoformat(), kind) if kind in KINDS else None
    if found is None:
        raise not_found(f"{kind[:20]!r} briefing of {day}", f"Read {BRIEFINGS} for those there are")
    return found


async def make_briefing(call: Call, body: WantedBriefing) -> Accepted:
    """Have nexus look again, and add what is new to the briefing of today; it takes up to some minutes."""
    number = call.message_id()
    report = AgentReport(
        id=number,
        sender=subjects.USER,
        recipient=subjects.NEXUS,
        report_id=number,
        agent=subjects.USER,
        report_type=WANTED,
        summary=f"Write the {body.kind} briefing",
        metadata={"kind": body.kind},
        person=call.person.name,
        audience=call.person.audience,
    )
    return await _send(call, report)


async def _send(call: Call, report: AgentReport) -> Accepted:
    subject = subjects.mail(report.recipient, subjects.USER)
    await call.gateway.bus.store(subject, report.to_json(), headers={"Nats-Msg-Id": report.id})
    return Accepted(id=report.id)


async def list_news(call: Call, query: NewsQuery) -> NewsList:
    """The papers and news that were told, the latest first."""
    return NewsList(news=(await read_told_items(call.gateway.bus))[: query.limit])


async def read_news(call: Call) -> ToldItem:
    """An item by its id or the beginning of it."""
    return await find_told_item(call.gateway.bus, call.path["id"])


async def judge_news(call: Call, body: Judgement) -> Accepted:
    """Keep or dismiss an item by its id or the beginning of it, or say that it was opened."""
    item = await find_told_item(call.gateway.bus, call.path["id"])
    report = judging_report(item, body.verdict, call.message_id(), call.person.name)
    return await _send(call, report)


def _subject(name: str) -> str:
    return subjects.record(subjects.NEXUS, "briefing", name)


async def _read(call: Call, day: str, kind: str) -> DayBriefing | None:
    names = [f"{day}_{kind}_{call.person.audience}"] * bool(call.person.audience) + [f"{day}_{kind}"]
    for name in names:
        if record := await read_record(call.gateway.bus, _subject(name), AgentReport):
            break
    else:
        return None
    try:
        return msgspec.convert(record.value.metadata, DayBriefing)
    except msgspec.ValidationError:  # one of another version
        return None


ENDPOINTS = (
    Endpoint("GET", BRIEFINGS, list_briefings, scope=Scope.READ, tag="briefings"),
    Endpoint("GET", f"{BRIEFINGS}/today", read_today, scope=Scope.READ, tag="briefings"),
    Endpoint("GET", f"{BRIEFINGS}/{{day}}/{{kind}}", read_day_briefing, scope=Scope.READ, tag="briefings"),
    Endpoint("POST", BRIEFINGS, make_briefing, scope=Scope.SUBMIT, tag="briefings", status=202),
    Endpoint("GET", f"{API}/news", list_news, scope=Scope.READ, tag="briefings"),
    Endpoint("GET", f"{API}/news/{{id}}", read_news, scope=Scope.READ, tag="briefings"),
    Endpoint("POST", f"{API}/news/{{id}}", judge_news, scope=Scope.SUBMIT, tag="briefings", status=202),
)
