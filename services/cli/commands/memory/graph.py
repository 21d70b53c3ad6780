"""``mailroom memory graph``, ``link`` and ``unlink``: the relations of nodes."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import click
from rich.text import Text

from services.cli.commands.completion import KindName
from services.cli.commands.memory.session import ask, at_option, changed_since_option, write
from services.cli.commands.options import SHARE, NumberType, build, combine, json_option
from services.cli.output.console import open_console, print_json, print_line, print_result
from shared.contracts import Edge, EdgeKey, Path, PathsQuery, Relation, Traversal, TraverseQuery, Visit
from shared.errors import MailroomError
from shared.text.display import clean, count
from shared.views.memory_change import MemoryChange

C = TypeVar("C", TraverseQuery, PathsQuery)
Prefix = tuple[str, str]  # The prefix of the first line of a branch, and that of its other lines


def format_walk(walk: Traversal, changed_since: int = 0) -> Iterator[Text]:
    """Two lines per node: the edge to the node above and the title, then the id.

    A node whose parent is not shown is at the top, marked with "…". With ``changed_since`` only nodes that
    were written or linked after that graph version are shown, and the paths to them.
    """
    shown = _changed_visits(walk, changed_since)
    ids = {visit.node.id for visit in shown}
    edges = {frozenset((edge.from_id, edge.to_id, str(edge.relation))): edge for edge in walk.edges}
    children: dict[str, list[Visit]] = {}
    for visit in shown:
        children.setdefault(visit.parent if visit.parent in ids else "", []).append(visit)
    # without recursion, since a walk may be deep
    waiting: list[tuple[Visit, Prefix]] = [(top, ("", "")) for top in reversed(children.get("", ()))]
    while waiting:
        visit, (first, further) = waiting.pop()
        below = children.get(visit.node.id, ())
        yield _format_visit(first, visit, edges)
        yield Text(f"{further}{'│ ' if below else '  '}{visit.node.id}", style="dim")
        for place, child in enumerate(reversed(below)):
            last = place == 0
            branch = (f"{further}{'└─' if last else '├─'} ", f"{further}{'   ' if last else '│  '}")
            waiting.append((child, branch))


def _changed_visits(walk: Traversal, changed_since: int) -> Sequence[Visit]:
    if not changed_since:
        return walk.visits
    linked = {
        end
        for edge in walk.edges
        if max(edge.version, edge.created_version) > changed_since
        for end in (edge.from_id, edge.to_id)
    }
    parents = {visit.node.id: visit.parent for visit in walk.visits}
    kept: set[str] = set()
    for visit in walk.visits:
        if visit.node.version > changed_since or visit.node.id in linked:
            step = visit.node.id
            while step in parents and step not in kept:
                kept.add(step)
                step = parents[step]
    return [visit for visit in walk.visits if visit.node.id in kept]


def _format_visit(first: str, visit: Visit, edges: dict[frozenset[str], Edge]) -> Text:
    line = Text(first)
    edge = edges.get(frozenset((visit.parent, visit.node.id, visit.relation)))
    if visit.parent and edge is None:
        line.append("… " if not first else "")
    if visit.parent:
        back = edge is not None and edge.to_id == visit.parent
        weight = f" {edge.weight:.2f}" if edge is not None else ""
        line.append(f"{'←' if back else '→'} {visit.relation}{weight} ", "cyan")
    return line.append(f"{visit.node.kind} ", "dim").append(clean(visit.node.title))


def format_path(path: Path) -> Iterator[Text]:
    """A path: its weight, then each node after the edge that leads to it."""
    yield Text(f"weight {path.weight:.3f}, {count(len(path.edges), 'step')}", style="bold")
    before = ""
    for node, edge in zip(path.nodes, (None, *path.edges), strict=True):
        lead = Text("  ")
        if edge is not None:
            arrow = "→" if edge.from_id == before else "←"
            lead.append(f"{arrow} {edge.relation} {edge.weight:.2f} ", "cyan")
        yield lead.append(f"{node.kind} ", "dim").append(clean(node.title))
        yield Text(f"    {node.id}", style="dim")
        before = node.id


relation_type = click.Choice([str(relation) for relation in Relation])
RELATIONS = f"RELATION is one of {', '.join(Relation)}."
edge_arguments = combine(
    click.argument("from_id", metavar="FROM"),
    click.argument("relation", metavar="RELATION", type=relation_type),
    click.argument("to_id", metavar="TO"),
)


@click.command(epilog=RELATIONS)
@edge_arguments
@click.option("--weight", type=SHARE, default=1.0, show_default=True, help="The strength of the edge.")
@json_option
def link(from_id: str, relation: str, to_id: str, weight: float, as_json: bool) -> None:
    """Add an edge from the node FROM to the node TO.

    If it exists, its weight is set.
    """
    edge = build(Edge, from_id=from_id, to_id=to_id, relation=Relation(relation), weight=weight)
    written = write(MemoryChange(edges=(edge,)), as_json=as_json)
    text = f"{from_id} {relation} {to_id}, weight {weight:g} (graph version {written.version})"
    print_result(written, text, as_json)


@click.command(epilog=RELATIONS)
@edge_arguments
@json_option
def unlink(from_id: str, relation: str, to_id: str, as_json: bool) -> None:
    """Remove the edge from the node FROM to the node TO."""
    key = build(EdgeKey, from_id=from_id, to_id=to_id, relation=Relation(relation))
    written = write(MemoryChange(unlink=(key,)))
    text = f"{from_id} {relation} {to_id} removed (graph version {written.version})"
    print_result(written, text, as_json)


@click.command()
@click.argument("node_id", metavar="ID")
@click.option("--depth", type=NumberType(0, 20), help="The most steps (default 2; 10 with --to).")
@click.option(
    "--direction",
    type=click.Choice(["out", "in", "both"]),
    default="both",
    show_default=True,
    help="Follow edges forward, backward, or both.",
)
@click.option(
    "--relation",
    "relations",
    type=relation_type,
    multiple=True,
    metavar="RELATION",
    help="Only such edges. Repeatable.",
)
@click.option(
    "--kind", "kinds", type=KindName(), multiple=True, help="Show only this kind; others are still traversed."
)
@click.option(
    "--strategy",
    type=click.Choice(["bfs", "dfs", "weighted"]),
    default="bfs",
    show_default=True,
    help="Breadth first, depth first, or strongest edge first.",
)
@click.option("--min-weight", type=SHARE, default=0.0, show_default=True, help="The least weight of an edge.")
@click.option("--limit", type=NumberType(1, 1_000), default=100, show_default=True, help="The most to show.")
@click.option("--to", default="", metavar="ID", help="Show the best paths to this node instead.")
@click.option("-k", type=NumberType(1, 20), default=3, show_default=True, help="With --to: how many paths.")
@changed_since_option("Only what changed after this graph version, and the paths to it.")
@at_option
@json_option
def graph(
    node_id: str, to: str, depth: int | None, changed_since: int, as_json: bool, **options: Any
) -> None:
    """Show the neighbourhood of the node ID.

    Prints a tree of the nodes around it, or with --to the best paths to one of them.
    """
    if to:
        most = 10 if depth is None else max(1, depth)
        _print_paths(_build_query(PathsQuery, options, from_id=node_id, to_id=to, depth=most), as_json)
        return
    query = _build_query(TraverseQuery, options, start=(node_id,), depth=2 if depth is None else depth)
    walk = ask("traverse", query, Traversal)
    if as_json:
        print_json(walk)
        return
    console = open_console()
    lines = list(format_walk(walk, changed_since))
    for line in lines:
        print_line(line, console)
    if not lines:
        click.echo("Nothing has changed since." if changed_since else "There is nothing to show.")
    if walk.truncated:
        click.echo(f"\nIncomplete: {walk.truncated}.", err=True)


def _build_query(kind: type[C], options: dict[str, Any], **more: Any) -> C:
    """A query of those options that it has."""
    relations = tuple(map(Relation, options["relations"]))
    known = {name: value for name, value in options.items() if name in kind.__struct_fields__}
    return build(kind, **known | more | {"relations": relations})


def _print_paths(query: PathsQuery, as_json: bool) -> None:
    found = ask("paths", query, list[Path])
    if as_json:
        print_json(found)
        return
    if not found:
        raise MailroomError(
            f"No path leads from {query.from_id} to {query.to_id} in {query.depth} steps",
            "Allow more with --depth, or other edges",
        )
    console = open_console()
    for path in found:
        for line in format_path(path):
            print_line(line, console)
