"""What the shell completes: agents, goals, sessions and kinds of memory, as the gateway has them now."""

import contextlib
from collections.abc import Callable, Iterable

import click
import msgspec
from click.shell_completion import CompletionItem

from services.cli import api
from shared import settings
from shared.contracts import KINDS, Presence
from shared.errors import MailroomError
from shared.views.desk import SessionSummary

PATIENCE = 2.0  # Seconds that a completion may take; without an office there is none
MAX_ITEMS = 200

Named = tuple[str, str]  # What is completed, and a few words on it


class _Goal(msgspec.Struct, frozen=True):
    goal_id: str


class _Names(msgspec.Struct, frozen=True):
    processes: list[Presence] = []
    goals: list[_Goal] = []
    sessions: list[SessionSummary] = []


def name_goals() -> list[Named]:
    """The words for the latest goal, and the ids of the latest goals."""
    return [
        ("last", "the latest goal"),
        *((each.goal_id, "") for each in _ask(f"/goals?limit={MAX_ITEMS}").goals),
    ]


def name_agents() -> list[Named]:
    """The agents at work."""
    return [(name, "") for name in sorted({each.agent for each in _ask("/processes").processes})]


def name_sessions() -> list[Named]:
    """The sessions that can be continued, with how each began."""
    return [(each.session_id, each.title[:60]) for each in _ask("/desk/sessions").sessions]


def _ask(path: str) -> _Names:
    login = api.find_login(settings.load(), wait=0)
    return api.get(path, _Names, timeout=PATIENCE, is_fresh=False, login=login)


class OfficeName(click.ParamType[str]):
    """A name that the office knows; any text is accepted, and the names are completed."""

    name = "text"

    def __init__(self, read: Callable[[], list[Named]]) -> None:
        self._read = read

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text as it is."""
        return value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The names that begin with what is written; none if the office cannot be asked."""
        with contextlib.suppress(MailroomError, OSError):
            return complete(self._read(), incomplete)
        return []


def complete(names: Iterable[Named], incomplete: str) -> list[CompletionItem]:
    """Those of ``names`` that begin with what is written."""
    found = [each for each in names if each[0].startswith(incomplete)]
    return [CompletionItem(name, help=words or None) for name, words in found[:MAX_ITEMS]]


class AgentName(OfficeName):
    """The name of an agent."""

    def __init__(self) -> None:
        super().__init__(name_agents)


class GoalName(OfficeName):
    """The id of a goal, or its beginning or end."""

    def __init__(self) -> None:
        super().__init__(name_goals)


class SessionName(OfficeName):
    """The id of a session, or its beginning or end."""

    def __init__(self) -> None:
        super().__init__(name_sessions)


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
