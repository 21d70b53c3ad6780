"""What the memory commands share: calling memory, printing a refusal, options."""

import difflib
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import click

from services.cli.commands.completion import AgentName, KindName, SessionName
from services.cli.commands.options import Command, NumberType, TimeType, combine, format_time_option
from services.cli.connection import run_connected
from services.cli.output.console import print_json
from shared.contracts import KINDS, ListQuery, Rejection
from shared.errors import NotFound, Refused
from shared.memory import Memory, WriteRefused
from shared.text.display import clean

T = TypeVar("T")
SIMILARITY = 0.8
"""How similar a kind must be to a known one to count as a typo of it: 'decison' and 'facts' are."""
MIN_ID = 4  # The fewest characters by which a memory can be named in place of its whole id
NOT_FOUND = "not in memory"  # Part of memory's error about an id that it does not hold

at_option = click.option(
    "--at", type=NumberType(), default=0, metavar="VERSION", help="As of this graph version."
)


def changed_since_option(text: str) -> Callable[[Command], Command]:
    """The option of a graph version after which something changed."""
    return click.option("--changed-since", type=NumberType(), default=0, metavar="VERSION", help=text)


time_option = partial(click.option, type=TimeType(), callback=format_time_option, metavar="TIME")
filter_options = combine(
    click.option("--kind", "kinds", type=KindName(), multiple=True, help="Only this kind. Repeatable."),
    click.option("--tag", "tags", multiple=True, help="Only with this tag. Repeatable."),
    click.option("--agent", type=AgentName(), default="", metavar="NAME", help="Only what this agent added."),
    click.option("--session", type=SessionName(), default="", metavar="ID", help="Only from this session."),
    time_option("--since", help="Only changed since TIME: a span such as 10m, or ISO 8601."),
    time_option("--until", help="Only changed before TIME."),
)
"""Options of searching and listing; times are passed on as ISO 8601."""


def suggest_kind(kind: str) -> str:
    """The known kind that ``kind`` is a typo of; empty if it is none."""
    if kind in KINDS:
        return ""
    return next(iter(difflib.get_close_matches(kind.lower(), KINDS, n=1, cutoff=SIMILARITY)), "")


def format_kind_hint(kinds: Iterable[str]) -> str:
    """A question to append to a sentence if one of ``kinds`` is a typo."""
    suggestions = [found for found in map(suggest_kind, kinds) if found]
    return f" Did you mean --kind {suggestions[0]}?" if suggestions else ""


def call_memory(work: Callable[[Memory], Awaitable[T]]) -> T:
    """Run ``work`` with memory, as the user; raises MailroomError."""
    try:
        return run_connected(lambda bus: work(Memory(bus)))
    except Refused as refused:
        if NOT_FOUND not in refused.cause or refused.cure:
            raise
        cause = re.sub(rf"^{NOT_FOUND}", NOT_FOUND.capitalize(), refused.cause)
        raise Refused(cause, "'mailroom memory search' finds ids") from None


async def find_ids(memory: Memory, names: Sequence[str]) -> list[str]:
    """The ids that ``names`` are, or that alone begin as they do; a name that fits none stays as it is.

    Raises NotFound if several begin so.
    """
    known = {node.id for node in await memory.get(*names)}
    return [name if name in known else await _find_id(memory, name) for name in dict.fromkeys(names)]


async def _find_id(memory: Memory, name: str) -> str:
    if len(name) < MIN_ID:
        return name
    page = await memory.nodes(ListQuery(after=name, limit=2, retired=True))
    near = [node.id for node in page.nodes if node.id.startswith(name)]
    if len(near) > 1:
        raise NotFound(f"Several memories begin with {name!r}", "Give more of the id")
    return near[0] if near else name


def write_memory(work: Callable[[Memory], Awaitable[T]], *, as_json: bool, insist: str = "") -> T:
    """Like ``call_memory``; if the write gate rejects the write, print the reason and exit with 1.

    ``insist`` says how it can be stored nevertheless.
    """
    try:
        return call_memory(work)
    except WriteRefused as refused:
        if refused.rejection is None:
            raise
        _print_rejection(refused, refused.rejection, as_json, insist)
        sys.exit(1)


def _print_rejection(refused: WriteRefused, rejection: Rejection, as_json: bool, insist: str) -> None:
    if as_json:
        print_json({"error": str(refused), "rejection": rejection})
        return
    click.echo(f"Error: Not stored: {clean(rejection.reason).rstrip('.')}.", err=True)
    facts = {"Check": rejection.check, "Suggestion": rejection.suggestion}
    if rejection.existing is not None:
        facts["There already"] = f"{rejection.existing.id}, {rejection.existing.title}"
    if "--insist" not in rejection.suggestion:
        facts["To store it nevertheless"] = insist
    for name, fact in facts.items():
        if fact:
            click.echo(f"{name}: {clean(fact)}", err=True)
