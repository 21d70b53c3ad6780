"""What the goals of people may use in a day, and how many there may be."""

from typing import Annotated

import msgspec

from services.gateway.call import Call, Gateway
from services.gateway.problems import Failure, not_found
from services.gateway.routing import API, Endpoint
from shared import subjects
from shared.access.scopes import Scope
from shared.bus.entry import seal
from shared.bus.records import read_record, retry_on_conflict
from shared.contracts import PersonLimits
from shared.queries.people import find_refusal, id_of, list_standings
from shared.views.status import PersonStanding

LIMITS = f"{API}/limits"


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For a day (UTC) tokens, US dollars and goals, and how many goals may be open; 0 is no limit."""

    day_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    day_cost: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    open_goals: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 0
    day_goals: Annotated[int, msgspec.Meta(ge=0, le=1_000)] = 0


class Standings(msgspec.Struct, frozen=True, kw_only=True):
    """Those who have limits; ``everyone`` stands for people without limits of their own."""

    people: tuple[PersonStanding, ...]


async def list_limits(call: Call) -> Standings:
    """The limits of people, and what they used of these."""
    return Standings(people=await list_standings(call.gateway.bus))


async def set_limits(call: Call, body: Limits) -> None:
    """Set the limits of a person, or of ``everyone`` who has none; they count from the next goal on."""
    person, bus = call.path["person"], call.gateway.bus
    known = call.gateway.authenticator
    if person != EVERYONE and not (known.people.find(person) or known.tokens.find_named(person)):
        raise not_found(f"person or token {person[:64]!r}", "'mailroom token list' and users.toml name them")
    name = subjects.EVERYONE if person == EVERYONE else id_of(person)
    subject = subjects.record(subjects.GATEWAY, subjects.LIMITS, name)

    async def attempt() -> None:
        record = await read_record(bus, subject, PersonLimits)
        limits = PersonLimits(
            sender=subjects.GATEWAY, person=call.person.name, whose=person, **msgspec.structs.asdict(body)
        )
        await bus.commit([seal(subject, limits, expect=record.seq if record else 0)])

    await retry_on_conflict(attempt)


EVERYONE = "everyone"


async def require_room(gateway: Gateway, person: str, goal_id: str) -> None:
    """Raise Failure (429) if a person may not submit this goal now; the conductor counts it for certain."""
    if reason := await find_refusal(gateway.bus, person, goal_id):
        raise Failure(429, reason, "'mailroom limits' shows them; an admin sets them")


ENDPOINTS = (
    Endpoint("GET", LIMITS, list_limits, scope=Scope.READ, tag="people"),
    Endpoint("POST", f"{LIMITS}/{{person}}", set_limits, scope=Scope.ADMIN, tag="people"),
)
