"""What the memory commands share: asking memory by way of the gateway, printing a refusal, options."""

import difflib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import click

from services.cli import api
from services.cli.commands.completion import AgentName, KindName, SessionName
from services.cli.commands.options import Command, NumberType, TimeType, combine, format_time_option
from services.cli.output.console import print_json
from shared.contracts import KINDS, EdgePage, EdgesQuery, ListQuery, MemoryWritten, NodePage
from shared.contracts.base import amended
from shared.errors import BusUnavailable, MailroomError
from shared.text.display import clean
from shared.views.memory_change import MemoryChange

T = TypeVar("T")
Page = TypeVar("Page", NodePage, EdgePage)
SLOW = 310.0  # Seconds until a slow answer must be there; the gateway gives up before
SIMILARITY = 0.8
"""How similar a kind must be to a known one to count as a typo of it: 'decison' and 'facts' are."""
NOT_FOUND = "not in memory"  # Part of memory's error about an id that it does not hold
FIND = "'mailroom memory search' finds ids"

at_option = click.option(
    "--at", type=NumberType(), default=0, metavar="VERSION", help="As of this graph version."
)
ids_argument = click.argument("ids", metavar="ID...", nargs=-1, required=True)
"""Memories by their ids, or by how these begin."""


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


def ask(verb: str, query: object, kind: type[T]) -> T:
    """What memory answers to a query (None: one without parameters); raises MailroomError."""
    return api.post(f"/memory/{verb}", kind, query, timeout=SLOW)


def read_pages(verb: str, query: ListQuery | EdgesQuery, kind: type[Page]) -> Iterator[Page]:
    """The pages of a list, one after another; what is written meanwhile may be among them or not."""
    while True:
        page = ask(verb, query, kind)
        yield page
        if not page.next:
            return
        query = amended(query, after=page.next)


def find_ids(names: Sequence[str]) -> list[str]:
    """The ids that ``names`` are, or that alone begin as they do; a name that fits none stays as it is.

    Raises NotFound if several begin so.
    """
    return ask("ids", {"names": names}, dict[str, list[str]])["ids"]


def write(change: MemoryChange, *, as_json: bool = False, insist: str = "") -> MemoryWritten:
    """Have memory change something; raises MailroomError if it does not.

    If the write gate rejects it, prints the reason and exits with 1; ``insist`` says how it can be stored
    nevertheless.
    """
    try:
        written = ask("write", change, MemoryWritten)
    except BusUnavailable as error:
        stored = "It may be stored: look with 'mailroom memory search' before you repeat it"
        raise BusUnavailable(error.cause, error.cure or stored) from None
    if (rejection := written.rejection) is None:
        if written.error:
            raise MailroomError(written.error, FIND if NOT_FOUND in written.error else "")
        return written
    reason = f"Not stored: {rejection.reason.rstrip('.')}"
    if as_json:
        print_json({"error": str(MailroomError(reason, rejection.suggestion)), "rejection": rejection})
        sys.exit(1)
    click.echo(f"Error: {clean(reason)}.", err=True)
    facts = {"Check": rejection.check, "Suggestion": rejection.suggestion}
    if rejection.existing is not None:
        facts["There already"] = f"{rejection.existing.id}, {rejection.existing.title}"
    if "--insist" not in rejection.suggestion:
        facts["To store it nevertheless"] = insist
    for name, fact in facts.items():
        if fact:
            click.echo(f"{name}: {clean(fact)}", err=True)
    sys.exit(1)
