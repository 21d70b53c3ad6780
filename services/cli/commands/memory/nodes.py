"""``mailroom memory add``, ``search``, ``get``, ``list``, ``retire``, and ``mailroom brief``."""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.text import Text

from services.cli.commands.completion import AgentName, KindName
from services.cli.commands.memory.session import (
    at_option,
    call_memory,
    changed_since_option,
    filter_options,
    find_ids,
    format_kind_hint,
    suggest_kind,
    write_memory,
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
from services.cli.connection import run_connected
from services.cli.installed_agents import load_agents, load_specialists
from services.cli.output.console import (
    colour,
    open_console,
    print_block,
    print_json,
    print_line,
    print_result,
    print_wrapped,
)
from shared import settings, subjects
from shared.bus import Bus
from shared.contracts import (
    KINDS,
    Briefing,
    BriefQuery,
    EdgesQuery,
    Hit,
    ListQuery,
    MemoryWritten,
    Node,
    Relation,
    Source,
)
from shared.contracts.queries import MAX_PAGE
from shared.errors import ActionError, MailroomError
from shared.memory import Memory
from shared.memory.ownership import author_of
from shared.text.display import clean, clean_block, count
from shared.text.times import format_date

ids_argument = click.argument("ids", metavar="ID...", nargs=-1, required=True)
"""Memories by their ids, or by how these begin."""


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
@json_option
def add(
    title: str, body: str, node_id: str, session: str, insist: bool, as_json: bool, **fields: Any
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

    async def add_node(memory: Memory) -> MemoryWritten:
        written = await memory.add(node, insist=insist)
        # Memory remembers for long that a write was applied, but not its ids.
        return msgspec.structs.replace(written, ids=written.ids or (node.id,))

    written = write_memory(add_node, as_json=as_json, insist="the same command with --insist")
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
    hits, later = call_memory(lambda memory: _search(memory, text, options))
    if as_json:
        print_json(hits)
        return
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


async def _search(memory: Memory, text: str, options: dict[str, Any]) -> tuple[list[Hit], dict[str, Node]]:
    """The hits, and by id what superseded them or may have."""
    searching = asyncio.ensure_future(memory.search(text, **options))
    if options["deep"]:
        await _show_progress(memory, searching)
    hits = await searching
    later = {node_id for hit in hits for node_id in (hit.superseded_by, hit.questioned_by)} - {""}
    return hits, {node.id: node for node in await memory.get(*sorted(later))} if later else {}


async def _show_progress(memory: Memory, searching: "asyncio.Future[list[Hit]]") -> None:
    """Until a deep search is done, say on stderr that it compares texts for the first time, if it does."""
    from rich.progress import Progress

    with Progress(console=open_console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bar:
        task = None
        while not (await asyncio.wait([searching], timeout=ASK_EVERY))[0]:
            comparing = (await memory.health())["comparing"]
            if task is None and comparing["of"]:
                task = bar.add_task("Comparing texts")
                click.echo(FIRST_TIME.format(comparing["of"]), err=True)
            if task is not None:
                bar.update(task, completed=comparing["read"], total=comparing["of"])


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
    nodes, later = call_memory(lambda memory: _get(memory, ids, at))
    if as_json:
        print_json(nodes)
    else:
        console = open_console()
        for node in nodes:
            _print_node(node, console, later[node.id])
    missing = sorted(name for name in set(ids) if not any(node.id.startswith(name) for node in nodes))
    if missing:
        raise MailroomError(
            f"There is no memory {', '.join(map(repr, missing))}", "'mailroom memory search' finds ids"
        )


async def _get(memory: Memory, ids: Sequence[str], at: int) -> tuple[list[Node], dict[str, list[Node]]]:
    """The nodes, and by id of each what superseded it."""
    nodes = await memory.get(*await find_ids(memory, ids), at=at)
    later: dict[str, list[Node]] = {}
    for node in nodes:
        query = EdgesQuery(node=node.id, direction="in", relations=(Relation.SUPERSEDES,), at=at)
        edges = (await memory.edges(query)).edges
        later[node.id] = await memory.get(*(edge.from_id for edge in edges), at=at) if edges else []
    return nodes, later


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
    page = call_memory(lambda memory: memory.nodes(query))
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

    async def retire_all(memory: Memory) -> tuple[list[str], MemoryWritten]:
        found = await (_find_of_file(memory, file) if file else find_ids(memory, ids))
        return found, await memory.retire(*found)

    found, written = call_memory(retire_all)
    what = count(len(found), "memory", "memories") if file else ", ".join(found)
    print_result(written, f"Retired {what} (graph version {written.version})", as_json)


async def _find_of_file(memory: Memory, file: str) -> list[str]:
    """The ids of what was taken in from a file and stands in no other; raises ActionError for none."""
    nodes = [node async for node in memory.iterate_nodes(ListQuery(session=file, limit=MAX_PAGE))]
    mine = [node.id for node in nodes if node.source.channel == "ingest" and not node.metadata.get("also_in")]
    if not mine:
        raise ActionError(
            f"Memory has nothing of a file '{file}'", "'mailroom memory get ID' shows the file of a memory"
        )
    return mine


_BRIEF_OPTIONS = (
    click.option("--compact", is_flag=True, help="Titles only, so that about four times as many have room."),
    click.option(
        "--max-chars", type=int, default=8_000, show_default=True, help="The most characters of it."
    ),
    click.option("--per-section", type=int, default=0, help="The most nodes of a section (0: any)."),
    click.option("--no-contradictions", is_flag=True, help="Without the contradictions under Unresolved."),
    at_option,
    click.option(
        "--prompt",
        is_flag=True,
        help="The whole prompt as the agent's model gets it: persona and briefing, sized to the model.",
    ),
    json_option,
)


def brief_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of an agent's briefing from memory."""
    for option in reversed(_BRIEF_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("agent", type=AgentName())
@brief_options
def brief(agent: str, **options: Any) -> None:
    """Print AGENT's briefing from memory."""
    print_agent_brief(agent, **options)


def print_agent_brief(
    agent: str,
    *,
    compact: bool,
    max_chars: int,
    per_section: int,
    no_contradictions: bool,
    at: int,
    prompt: bool,
    as_json: bool,
) -> None:
    """Print the briefing of an agent from memory, or the prompt of its model."""
    query = build(
        BriefQuery,
        agent=agent,
        compact=compact,
        at=at,
        max_chars=max_chars,
        per_section=per_section,
        include_contradictions=not no_contradictions,
    )
    if prompt and query != BriefQuery(agent=agent, at=at):
        raise click.UsageError("--prompt shows what the model gets: leave out --compact and the limits")
    briefing, system = run_connected(lambda bus: _read_briefing(bus, query, prompt))
    if as_json:
        print_json({**briefing.to_dict(), "prompt": system} if prompt else briefing)
    else:
        text = clean_block(system if prompt else briefing.text).strip()
        print_block(text, open_console(), hang=2)


async def _read_briefing(bus: Bus, query: BriefQuery, prompt: bool) -> tuple[Briefing, str]:
    """The briefing, and if wanted the system prompt as the agent composes it."""
    memory = Memory(bus)
    if not prompt:
        fields = msgspec.structs.asdict(query)
        return await memory.brief(**fields), ""
    from shared.reasoning.prompts import compose_prompt, fetch_soul, format_day, own_soul
    from shared.reasoning.recall import brief_for_prompt

    config = settings.load()
    briefing = await brief_for_prompt(memory, query.agent, config, query.at)
    agents = [*load_agents(config), *load_specialists(config)]
    own = next((own_soul(each.profile) for each in agents if each.name == query.agent), "")
    parts = compose_prompt(await fetch_soul(query.agent, config, own), briefing.text, day=format_day(config))
    return briefing, "\n\n".join(filter(None, parts))
