"""Conversations with the front desk, as nexus keeps them: one, and those of the last month."""

import hashlib
from datetime import UTC, datetime, timedelta

from shared import subjects
from shared.bus import Bus
from shared.bus.records import Record, read_record
from shared.clock import parse_timestamp
from shared.contracts import Conversation
from shared.queries.records import count_subjects, read_last

KIND = "conversation"
LIFETIME = timedelta(days=30)
"""How long a conversation can be continued after what was said last."""


def conversation_subject(asker: str, session_id: str) -> str:
    """The record of a conversation with ``asker``: people, or an agent."""
    name = hashlib.sha256(f"{asker}\0{session_id}".encode()).hexdigest()[:32]
    return subjects.record(subjects.NEXUS, KIND, name)


async def read_conversation(bus: Bus, session_id: str, asker: str = subjects.USER) -> Record[Conversation]:
    """A conversation with its sequence; without turns and 0 if it never began or is too old.

    Raises BusError, and ValueError if what is stored is no conversation.
    """
    found = await read_record(bus, conversation_subject(asker, session_id), Conversation)
    if found is not None and not is_over(found.value):
        return found
    now = datetime.now(UTC).isoformat()
    fresh = Conversation(session_id=session_id, asker=asker, begun_at=now)
    return Record(fresh, found.seq if found else 0, "")


def is_over(conversation: Conversation, now: datetime | None = None) -> bool:
    """Whether a conversation is too old to be continued."""
    return (now or datetime.now(UTC)) - parse_timestamp(conversation.created_at) > LIFETIME


async def list_conversations(bus: Bus) -> list[Conversation]:
    """The conversations of people that can be continued, the latest first; raises BusError."""
    names = await count_subjects(bus, subjects.OFFICE, subjects.record(subjects.NEXUS, KIND, "*"))
    found = []
    for stored in (await read_last(bus, subjects.OFFICE, names)).values():
        try:
            found.append(Conversation.from_json(stored.data))
        except ValueError:
            continue
    mine = [each for each in found if each.asker == subjects.USER and not is_over(each)]
    return sorted(mine, key=lambda each: each.created_at, reverse=True)
