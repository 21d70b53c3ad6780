"""What the shell completes: agents, goals, sessions and kinds of memory, as the office has them now.

The bus is imported when something is completed: other commands may not need it.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from shared import subjects
from shared.contracts import KINDS
from shared.errors import MailroomError

if TYPE_CHECKING:
    from shared.bus import Bus

PATIENCE = 2.0  # Seconds that a completion may take; without an office there is none
MAX_ITEMS = 200

Named = tuple[str, str]  # What is completed, and a few words on it


async def list_goals(bus: "Bus") -> list[Named]:
    """The ids of all goals, the latest first, and the words for the latest."""
    from shared.queries.records import count_subjects

    names = await count_subjects(bus, subjects.OFFICE, subjects.goal("*"))
    ids = sorted((name.rpartition(".")[2] for name in names), reverse=True)
    return [("last", "the latest goal"), *((each, "") for each in ids)]


async def list_agents(bus: "Bus") -> list[Named]:
    """The agents at work."""
    from shared.bus.records import read_presences

    return [(name, "") for name in sorted({presence.agent for presence in await read_presences(bus)})]


async def list_sessions(bus: "Bus") -> list[Named]:
    """The sessions that can be continued, with how each began."""
    from shared.queries.office import list_conversations

    return [(each.session_id, each.title[:60]) for each in await list_conversations(bus)]


class OfficeName(click.ParamType[str]):
    """A name that the office knows; any text is accepted, and the names are completed."""

    name = "text"

    def __init__(self, read: Callable[["Bus"], Awaitable[list[Named]]]) -> None:
        self._read = read

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as it is."""
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin with what is written; none if the office cannot be asked."""
        return complete(_read_now(self._read), incomplete)


def complete(names: Iterable[Named], incomplete: str) -> list[CompletionItem]:
    """Those of ``names`` that begin with what is written."""
    found = [each for each in names if each[0].startswith(incomplete)]
    return [CompletionItem(name, help=words or None) for name, words in found[:MAX_ITEMS]]


def _read_now(read: Callable[["Bus"], Awaitable[list[Named]]]) -> list[Named]:
    import asyncio

    from services.cli.connection import connect

    async def connected() -> list[Named]:
        async with asyncio.timeout(PATIENCE), connect(wait=0.0) as bus:
            return await read(bus)

    with contextlib.suppress(MailroomError, OSError, TimeoutError):
        return asyncio.run(connected())
    return []


class AgentName(OfficeName):
    """The name of an agent."""

    def __init__(self) -> None:
        super().__init__(list_agents)


class GoalName(OfficeName):
    """The id of a goal, or its beginning or end."""

    def __init__(self) -> None:
        super().__init__(list_goals)


class SessionName(OfficeName):
    """The id of a session, or its beginning or end."""

    def __init__(self) -> None:
        super().__init__(list_sessions)


class KindName(click.ParamType[str]):
    """A kind of memory: one of Mailroom's, or another word."""

    name = "text"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as it is."""
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The kinds that begin with what is written."""
        return complete([(kind, "") for kind in KINDS], incomplete)
