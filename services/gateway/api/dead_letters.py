"""Dead letters: the messages that no agent could handle. Sending one again, or dropping it, needs the admin's
key, which the gateway never opens: ``mailroom dead`` does it on the office's machine.
"""

from typing import Annotated

import msgspec

from services.gateway.api.approvals import MAX_LIMIT
from services.gateway.api.messages import API
from services.gateway.call import Call
from services.gateway.inbox import read_dead
from services.gateway.routing import Endpoint
from shared.access.scopes import Scope
from shared.contracts import DeadLetter
from shared.operations.dead_letters import read_dead_letter
from shared.views.listed import DeadLetterList, DeadLetterView

MAX_ORIGINAL = 4_000  # Characters of a message that a list shows of it


class DeadLetterQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters: of one agent, or of each in turn."""

    agent: str = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT)] = 500


async def list_dead_letters(call: Call, query: DeadLetterQuery) -> DeadLetterList:
    """The latest dead letters, latest last."""
    found, more = await read_dead(call.gateway, query.limit, query.agent)
    shown = [view_dead_letter(number, letter, MAX_ORIGINAL) for number, letter in found]
    return DeadLetterList(dead_letters=shown, total=len(shown) + sum(more.values()), more=more)


async def show_dead_letter(call: Call) -> DeadLetterView:
    """A dead letter, and what is kept of its message."""
    text = call.path["number"]
    number = int(text) if text.isdecimal() and len(text) <= 18 else 0
    return view_dead_letter(number, await read_dead_letter(call.gateway.bus, number))


def view_dead_letter(number: int, letter: DeadLetter, characters: int | None = None) -> DeadLetterView:
    """A dead letter as it is shown, with so many characters of its message; None: all that is kept."""
    return DeadLetterView(
        number=number,
        agent=letter.sender,
        reason=letter.reason,
        subject=letter.subject,
        since=letter.created_at,
        deliveries=letter.deliveries,
        goal_id=letter.goal_id,
        task_id=letter.task_id,
        stream=letter.stream,
        stream_seq=letter.stream_seq,
        headers=letter.headers,
        original=letter.original[:characters],
        original_size=letter.original_size,
    )


ENDPOINTS = (
    Endpoint("GET", f"{API}/dead-letters", list_dead_letters, scope=Scope.READ, tag="dead letters"),
    Endpoint("GET", f"{API}/dead-letters/{{number}}", show_dead_letter, scope=Scope.READ, tag="dead letters"),
)
