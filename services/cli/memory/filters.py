"""The filters that searching and listing share, as options."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from services.cli.moment import PastType, to_wire

Command = TypeVar("Command", bound=Callable[..., Any])


def _as_wire(_: click.Context, __: click.Parameter, moment: datetime | None) -> str:
    return to_wire(moment) if moment else ""


_OPTIONS = (
    click.option("--kind", "kinds", multiple=True, help="Only of this kind; may be given several times."),
    click.option("--tag", "tags", multiple=True, help="Only with this tag; may be given several times."),
    click.option("--agent", default="", metavar="NAME", help="Only what this agent remembered."),
    click.option("--session", default="", metavar="ID", help="Only what came from this session."),
    click.option(
        "--since",
        type=PastType(),
        callback=_as_wire,
        metavar="TIME",
        help="Only what changed since: 10m ago, or an ISO 8601 time.",
    ),
    click.option(
        "--until", type=PastType(), callback=_as_wire, metavar="TIME", help="Only what changed before that."
    ),
)


def filter_options(command: Command) -> Command:
    """The options kinds, tags, agent, session, since and until; times arrive as the contracts want them."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
