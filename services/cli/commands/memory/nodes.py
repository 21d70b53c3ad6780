"""``mailroom memory add``, ``search``, ``get``, ``list``, ``retire``, ``end`` and ``restore``."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal

import click
import msgspec
from rich.console import Console
from rich.text import Text

from services.cli.commands.completion import KindName
from services.cli.commands.memory.session import (
    FIND,
    NOT_FOUND,
    ask,
    at_option,
    changed_since_option,
    filter_options,
    find_ids,
    format_kind_hint,
    ids_argument,
    read_pages,
    suggest_kind,
    time_option,
    write,
)
from services.cli.commands.options import (
    SHARE,
    NumberType,
    TextType,
    build,
    format_examples,
    json_option,
    parse_context,
    read_stdin,
)
from services.cli.output.console import (
    colour,
    open_console,
    open_progress,
    print_block,
    print_json,
    print_line,
    print_result,
    print_wrapped,
)
from shared import subjects
from shared.contracts import (
    KINDS,
    EdgePage,
    EdgesQuery,
    GetQuery,
    Hit,
    ListQuery,
    MemoryQuery,
    Node,
    NodePage,
    Relation,
    Source,
)
from shared.contracts.base import amended
from shared.contracts.queries import MAX_PAGE
from shared.errors import ActionError, MailroomError
from shared.text.display import clean, clean_block, count
from shared.text.times import format_date
from shared.views.memory_change import MemoryChange, author_of


@click.command(
    epilog=format_examples('mailroom memory add "Deploys happen on Tuesdays at noon" --kind decision')
)
@click.argument("title", type=TextType())
@click.option("--body", default="", help="The full text; '-' reads it from standard input.")
@click.option(
    "--kind",
    type=KindName(),
    default="fact",
    show_default=True,
    help=f"One of {', '.join(KINDS)}; or a kind of your own.",
)
@click.option("--tag", "tags", multiple=True, help="A tag. Repeatable.")
@click.option("--importance", type=SHARE, default=0.5, show_default=True, help="How important it is.")
@click.option(
    "-m",
    "--metadata",
    metavar="KEY=VALUE",
    multiple=True,
    callback=parse_context,
    help="Metadata; a JSON object or list is decoded. Repeatable.",
)
@click.option("--id", "node_id", default="", metavar="ID", help="Write under this id: changes what has it.")
@click.option("--session", default="", metavar="ID", help="The session it comes from.")
@click.option("--insist", is_flag=True, help="Store it even if the write gate refuses it.")
@click.option(
    "--for",
    "audience",
    type=click.Choice(["me", "team"]),
    help="For whom it is, where there are several people [me; if it is there, whose it was].",
)
@json_option
def add(
    title: str,
    body: str,
    node_id: str,
    session: str,
    insist: bool,
    audience: Literal["me", "team"] | None,
    as_json: bool,
    **fields: Any,
) -> None:
    """Add a memory, and print its id; with --id change one.

    TITLE is one sentence, such as 'Deploys happen on Tuesdays'.
    """
    if not insist and (meant := suggest_kind(fields["kind"])):
        raise click.UsageError(
            f"{fields['kind']!r} is not a known kind; did you mean {meant!r}? --insist makes it a kind of "
            "your own"
        )
    text = read_stdin() if body == "-" else body
    source = build(Source, agent=subjects.USER, session=session, channel="command line")
    if node_id:
        fields["id"] = node_id
    node = build(Node, title=title.strip(), body=text, source=source, **fields)
    change = MemoryChange(nodes=(node,), insist=insist, audience=audience or "")
    written = write(change, as_json=as_json, insist="the same command with --insist")
    # Memory remembers for long that a write was applied, but not its ids.
    written = msgspec.structs.replace(written, ids=written.ids or (node.id,))
    text = f"Remembered as {', '.join(written.ids)} (graph version {written.version})"
    print_result(written, text, as_json)


ASK_EVERY = 0.3  # Seconds between two questions how far a deep search is

FIRST_TIME = "{:,} texts are compared for the first time: this takes long, and the next time does not."


@click.command(
    epilog=format_examples(
        'mailroom memory search "when do we deploy" --why',
        'mailroom memory search "when did we deploy" --history',
    )
)
@click.argument("text", type=TextType())
@click.option("--limit", type=NumberType(1, 100), default=10, show_default=True, help="The most to show.")
@filter_options
@click.option("--anchor", "anchors", metavar="ID", multiple=True, help="Rank nodes near this one higher.")
@click.option(
    "--deep", is_flag=True, help="Compare the top hits with TEXT word by word (slower, finds more)."
)
@click.option("--history", is_flag=True, help="Include what was superseded or has ended.")
@click.option("--why", is_flag=True, help="Show the parts of each score, and what superseded it.")
@at_option
@json_option
def search(text: str, why: bool, as_json: bool, **options: Any) -> None:
    """Search memory for TEXT, best match first.

    What was superseded or has ended is left out, unless --history or --at is given or TEXT asks for the past
    ('what was', 'before', 'used to').
    """
    query = build(MemoryQuery, text=text, **options)
    with _progress_shown(query.deep):
        hits = ask("search", query, list[Hit])
    if as_json:
        print_json(hits)
        return
    ends = {node_id for hit in hits for node_id in (hit.superseded_by, hit.questioned_by)} - {""}
    later = {node.id: node for node in _get_nodes(sorted(ends))}
    console = open_console()
    for hit in hits:
        _print_hit(hit, console, why, later)
    if not hits:
        click.echo(f"Memory holds nothing about it.{format_kind_hint(options['kinds'])}")
    if any("unread" in hit.why for hit in hits):
        click.echo(
            "These are the hits of the fast search: a model of --deep is missing where memory runs. "
            "Fetch it there with: python -m services.memory.local_model",
            err=True,
        )


@contextmanager
def _progress_shown(deep: bool) -> Iterator[None]:
    """While a deep search runs, say on stderr that it compares texts for the first time, if it does."""
    if not deep:
        yield
        return
    import threading

    done, bar = threading.Event(), open_progress()

    def show() -> None:
        task = None
        while not done.wait(ASK_EVERY):
            try:
                comparing = ask("health", None, dict[str, Any])["comparing"]
            except MailroomError:
                continue  # the search itself says what is wrong
            if task is None and comparing["of"]:
                task = bar.add_task("Comparing texts")
                click.echo(FIRST_TIME.format(comparing["of"]), err=True)
            if task is not None:
                bar.update(task, completed=comparing["read"], total=comparing["of"])

    with bar:
        threading.Thread(target=show, daemon=True).start()
        try:
            yield
        finally:
            done.set()


def _get_nodes(ids: Sequence[str], at: int = 0) -> list[Node]:
    """The nodes of these ids that there are, retired ones too."""
    return ask("get", build(GetQuery, ids=tuple(ids), at=at), list[Node]) if ids else []


def _print_hit(hit: Hit, console: Console, why: bool, later: Mapping[str, Node]) -> None:
    _print_two_lines(hit.node, console, lead=f"{hit.score:.2f} ", indent=5)
    by = later.get(hit.superseded_by)
    if until := _describe_end(hit.node, [by] if by else []):
        print_wrapped(Text(f"     {until}", style="yellow"), console, hang=5)
    elif newer := later.get(hit.questioned_by):
        text = f"     open question: superseded by {clean(newer.title)} ({newer.id})?"
        print_wrapped(Text(text, style="yellow"), console, hang=5)
    if why:
        parts = sorted(hit.why.items(), key=lambda part: -abs(part[1]))
        text = "  ".join(f"{clean(name)} {part:.3f}" for name, part in parts)
        print_wrapped(Text(f"     = {text}", style="cyan"), console, hang=7)


def _describe_end(node: Node, later: Sequence[Node]) -> str:
    """Until when a node held, and what superseded it; empty if nothing is known of an end."""
    until = f"valid until {format_date(node.valid_to)}" if node.valid_to else ""
    by = "; ".join(f"{clean(other.title)} ({other.id})" for other in later)
    return ", ".join(filter(None, (until, f"superseded by: {by}" if by else "")))


def _print_two_lines(node: Node, console: Console, *, lead: str = "", mark: str = "", indent: int) -> None:
    kind = (f"{node.kind:<11} ", "dim")
    print_line(Text.assemble((lead, "cyan"), kind, clean(node.title), (mark, "yellow")), console)
    source = f"{node.id}  {clean(author_of(node))}  {format_date(node.created_at)}"
    print_line(Text(f"{'':{indent}}{source}", style="dim"), console)


@click.command()
@ids_argument
@at_option
@json_option
def get(ids: tuple[str, ...], at: int, as_json: bool) -> None:
    """Show the memories with these IDs in full."""
    nodes = _get_nodes(find_ids(ids), at)
    if as_json:
        print_json(nodes)
    else:
        console = open_console()
        for node in nodes:
            query = EdgesQuery(node=node.id, direction="in", relations=(Relation.SUPERSEDES,), at=at)
            edges = ask("edges", query, EdgePage).edges
            _print_node(node, console, _get_nodes([edge.from_id for edge in edges], at))
    missing = sorted(name for name in set(ids) if not any(node.id.startswith(name) for node in nodes))
    if missing:
        raise MailroomError(f"There is no memory {', '.join(map(repr, missing))}", FIND)


def _print_node(node: Node, console: Console, later: Sequence[Node]) -> None:
    click.secho(clean(node.title), bold=True)
    source = " ".join(filter(None, (author_of(node), node.source.session, node.source.channel)))
    origin = clean(source) or "unknown"
    click.echo(f"{node.kind}, importance {node.importance:g}, {format_date(node.created_at)}, from {origin}")
    if node.retired_version:
        click.echo(colour(f"retired at graph version {node.retired_version}", "yellow"))
    if until := _describe_end(node, [other for other in later if not other.retired_version]):
        click.echo(colour(until, "yellow"))
    if node.tags:
        click.echo(f"tags: {clean(', '.join(node.tags))}")
    for key, value in node.metadata.items():
        click.echo(clean(f"{key}: {value}"))
    click.echo(f"id: {node.id}")
    if node.body:
        click.echo()
        print_block(clean_block(node.body), console)
    click.echo()


@click.command(name="list")
@click.option("--limit", type=NumberType(1, 1_000), default=20, show_default=True, help="The most to show.")
@click.option("--after", default="", metavar="ID", help="Start after this id.")
@filter_options
@changed_since_option("Only written after this graph version.")
@click.option("--retired", is_flag=True, help="Include retired memories.")
@at_option
@json_option
def list_nodes(as_json: bool, **options: Any) -> None:
    """List memories in the order of their ids.

    Those that were added one by one are listed oldest first, those of files in no order of time: there
    --since and --until tell what is new.
    """
    query = build(ListQuery, **options)
    page = ask("list", query, NodePage)
    if as_json:
        print_json(page)
        return
    console = open_console()
    for node in page.nodes:
        mark = f"  retired at {node.retired_version}" if node.retired_version else ""
        _print_two_lines(node, console, mark=mark, indent=12)
    if not page.nodes:
        click.echo(f"No memory matches.{format_kind_hint(query.kinds)}")
    if page.next:
        click.echo(f"\nThere are more: --after {page.next}")


@click.command(
    epilog=format_examples("mailroom memory retire 0193c9", "mailroom memory retire --file old/plan.md")
)
@click.argument("ids", nargs=-1, metavar="[IDS]...")
@click.option("--file", default="", help="All memories of this file alone, by its path in the ingest folder.")
@json_option
def retire(ids: tuple[str, ...], file: str, as_json: bool) -> None:
    """Retire the memories with these IDs, or those of a file.

    Searches no longer find them; 'mailroom memory get' still shows them. 'mailroom memory restore' takes it
    back.
    """
    if bool(ids) == bool(file):
        raise click.UsageError("Name the ids of memories, or a file with --file.")
    found = _find_of_file(file) if file else find_ids(ids)
    written = write(MemoryChange(retire=tuple(found)))
    what = count(len(found), "memory", "memories") if file else ", ".join(found)
    print_result(written, f"Retired {what} (graph version {written.version})", as_json)


def _find_of_file(file: str) -> list[str]:
    """The ids of what was taken in from a file and stands in no other; raises ActionError for none."""
    query = build(ListQuery, session=file, limit=MAX_PAGE)
    nodes = (node for page in read_pages("list", query, NodePage) for node in page.nodes)
    mine = [node.id for node in nodes if node.source.channel == "ingest" and not node.metadata.get("also_in")]
    if not mine:
        raise ActionError(
            f"Memory has nothing of a file '{file}'", "'mailroom memory get ID' shows the file of a memory"
        )
    return mine


@click.command()
@ids_argument
@time_option(
    "--on", "moment", help="When it ceased to be true: a span such as 2d, or ISO 8601. Default: now."
)
@json_option
def end(ids: tuple[str, ...], moment: str, as_json: bool) -> None:
    """Say that the memories with these IDs hold no longer.

    They are kept, with the day as their 'valid_to', and are no longer taken for what is true now.
    'mailroom memory restore' takes it back.
    """
    when = moment or datetime.now(UTC).isoformat(timespec="seconds")
    nodes = _require_nodes(ids, "ended")
    if retired := [node.id for node in nodes if node.retired_version]:
        raise MailroomError(
            f"{', '.join(retired)} is retired, so nothing was ended", "'mailroom memory restore ID' first"
        )
    _set_end(nodes, when, f"Ended on {when[:10]}:", as_json)


@click.command()
@ids_argument
@json_option
def restore(ids: tuple[str, ...], as_json: bool) -> None:
    """Take back that the memories with these IDs were retired or ended.

    They are as they were, without the edges that ended with them. What was forgotten cannot be restored.
    """
    nodes = _require_nodes(ids, "restored")
    if held := [node.id for node in nodes if not node.retired_version and not node.valid_to]:
        raise MailroomError(f"{', '.join(held)} was neither retired nor ended, so nothing was restored")
    _set_end(nodes, "", "Restored", as_json)


@click.command(epilog=format_examples("mailroom memory share 0193c9"))
@ids_argument
@click.option("--back", is_flag=True, help="Instead: keep them for yourself alone again.")
@json_option
def share(ids: tuple[str, ...], back: bool, as_json: bool) -> None:
    """Give the memories with these IDs to the team.

    They were yours alone. What the team has read stays known to it, whatever is taken back.
    """
    nodes = tuple(amended(node, updated_at="") for node in _require_nodes(ids, "shared"))
    written = write(MemoryChange(nodes=nodes, insist=True, audience="me" if back else "team"))
    done = f"{'Yours alone' if back else 'Shared'}: {', '.join(node.id for node in nodes)}"
    print_result(written, f"{done} (graph version {written.version})", as_json)


def _require_nodes(names: Sequence[str], done: str) -> list[Node]:
    """The memories with these names, retired ones too; raises MailroomError if one is not there."""
    found = find_ids(names)
    nodes = _get_nodes(found)
    if missing := sorted(set(found) - {node.id for node in nodes}):
        raise MailroomError(f"{', '.join(missing)} is {NOT_FOUND}, so nothing was {done}", FIND)
    return nodes


def _set_end(nodes: Sequence[Node], valid_to: str, done: str, as_json: bool) -> None:
    changed = tuple(amended(node, valid_to=valid_to, updated_at="") for node in nodes)
    written = write(MemoryChange(nodes=changed, insist=True))
    ids = ", ".join(node.id for node in nodes)
    print_result(written, f"{done} {ids} (graph version {written.version})", as_json)
