"""``mailroom memory graph``: what a node is connected with, and how it is connected with another."""

from collections.abc import Iterator, Sequence
from typing import Any

import click
from rich.text import Text

from services.cli.commands.memory.session import ask, at_option, store
from services.cli.commands.options import NumberType, json_option
from services.cli.output.console import clean, open_console, print_json, print_line
from shared.contracts import Edge, EdgeKey, Node, Path, PathsQuery, Relation, Traversal, TraverseQuery, Visit
from shared.errors import MailroomError

Prefix = tuple[str, str]
"""What stands before the first line of a branch, and before its further lines."""


def render_walk(walk: Traversal, changed_since: int = 0) -> Iterator[Text]:
    """Two lines a node: how it is joined to the one above and its title, then its id.

    A node whose parent was walked through but is not shown stands at the top, marked with "…". With
    ``changed_since`` only nodes that were written, or joined, after that graph version are shown, and the
    way to them.
    """
    shown = _chosen(walk, changed_since)
    ids = {visit.node.id for visit in shown}
    edges = {frozenset((edge.from_id, edge.to_id, str(edge.relation))): edge for edge in walk.edges}
    children: dict[str, list[Visit]] = {}
    for visit in shown:
        children.setdefault(visit.parent if visit.parent in ids else "", []).append(visit)
    for top in children.get("", ()):
        yield from _branch(top, children, edges, ("", ""))


def _chosen(walk: Traversal, changed_since: int) -> Sequence[Visit]:
    if not changed_since:
        return walk.visits
    joined = {
        end
        for edge in walk.edges
        if max(edge.version, edge.created_version) > changed_since
        for end in (edge.from_id, edge.to_id)
    }
    parents = {visit.node.id: visit.parent for visit in walk.visits}
    kept: set[str] = set()
    for visit in walk.visits:
        if visit.node.version > changed_since or visit.node.id in joined:
            step = visit.node.id
            while step in parents and step not in kept:
                kept.add(step)
                step = parents[step]
    return [visit for visit in walk.visits if visit.node.id in kept]


def _branch(
    top: Visit, children: dict[str, list[Visit]], edges: dict[frozenset[str], Edge], prefix: Prefix
) -> Iterator[Text]:
    """The lines of a node and of all beneath it, without recursion: a walk may be deep."""
    waiting = [(top, prefix)]
    while waiting:
        visit, (first, further) = waiting.pop()
        below = children.get(visit.node.id, ())
        yield _join(first, visit, edges)
        yield Text(f"{further}{'│ ' if below else '  '}{visit.node.id}", style="dim")
        for place, child in enumerate(reversed(below)):
            last = place == 0
            branch = (f"{further}{'└─' if last else '├─'} ", f"{further}{'   ' if last else '│  '}")
            waiting.append((child, branch))


def _join(first: str, visit: Visit, edges: dict[frozenset[str], Edge]) -> Text:
    line = Text(first)
    edge = edges.get(frozenset((visit.parent, visit.node.id, visit.relation)))
    if visit.parent and edge is None:
        line.append("… " if not first else "")
    if visit.parent:
        back = edge is not None and edge.to_id == visit.parent
        weight = f" {edge.weight:.2f}" if edge is not None else ""
        line.append(f"{'←' if back else '→'} {visit.relation}{weight} ", "cyan")
    return line.append(f"{visit.node.kind} ", "dim").append(clean(visit.node.title))


def render_path(path: Path) -> Iterator[Text]:
    """A way through the graph: its weight, then each node under the edge that leads to it."""
    steps = len(path.edges)
    yield Text(f"weight {path.weight:.3f}, {steps} step{'s' * (steps != 1)}", style="bold")
    for place, node in enumerate(path.nodes):
        edge = path.edges[place - 1] if place else None
        yield from _step(node, edge, path.nodes[place - 1].id if place else "")


def _step(node: Node, edge: Edge | None, before: str) -> Iterator[Text]:
    lead = Text("  ")
    if edge is not None:
        lead.append(f"{'→' if edge.from_id == before else '←'} {edge.relation} {edge.weight:.2f} ", "cyan")
    yield lead.append(f"{node.kind} ", "dim").append(clean(node.title))
    yield Text(f"    {node.id}", style="dim")


relation_type = click.Choice([str(relation) for relation in Relation])
RELATIONS = f"RELATION is one of {', '.join(Relation)}."


@click.command(epilog=RELATIONS)
@click.argument("from_id", metavar="FROM")
@click.argument("relation", metavar="RELATION", type=relation_type)
@click.argument("to_id", metavar="TO")
@click.option(
    "--weight",
    type=NumberType(0, 1, whole=False),
    default=1.0,
    show_default=True,
    help="How strongly it holds.",
)
@json_option
def link(from_id: str, relation: str, to_id: str, weight: float, as_json: bool) -> None:
    """Relate the node FROM to the node TO.

    Doing it again sets the weight.
    """
    try:
        edge = Edge(from_id=from_id, to_id=to_id, relation=Relation(relation), weight=weight)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    written = store(lambda memory: memory.link(edge), as_json=as_json)
    if as_json:
        print_json(written)
    else:
        click.echo(f"{from_id} {relation} {to_id}, weight {weight:g} (graph version {written.version})")


@click.command(epilog=RELATIONS)
@click.argument("from_id", metavar="FROM")
@click.argument("relation", metavar="RELATION", type=relation_type)
@click.argument("to_id", metavar="TO")
@json_option
def unlink(from_id: str, relation: str, to_id: str, as_json: bool) -> None:
    """Take away the relation of the node FROM to the node TO."""
    try:
        key = EdgeKey(from_id=from_id, to_id=to_id, relation=Relation(relation))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    written = ask(lambda memory: memory.unlink(key))
    if as_json:
        print_json(written)
    else:
        click.echo(f"{from_id} {relation} {to_id} is gone (graph version {written.version})")


@click.command()
@click.argument("node_id", metavar="ID")
@click.option(
    "--depth", type=NumberType(0, 20), help="How many steps away at most (default 2; 10 with --to)."
)
@click.option(
    "--direction",
    type=click.Choice(["out", "in", "both"]),
    default="both",
    show_default=True,
    help="Along the edges, against them, or both.",
)
@click.option(
    "--relation",
    "relations",
    type=relation_type,
    multiple=True,
    metavar="RELATION",
    help="Only along such edges, led_to for instance; may be given several times.",
)
@click.option("--kind", "kinds", multiple=True, help="Show only this kind; others are walked through.")
@click.option(
    "--strategy",
    type=click.Choice(["bfs", "dfs", "weighted"]),
    default="bfs",
    show_default=True,
    help="Step by step, branch by branch, or the strongest edge first.",
)
@click.option(
    "--min-weight",
    type=NumberType(0, 1, whole=False),
    default=0.0,
    show_default=True,
    help="Only along edges as strong.",
)
@click.option("--limit", type=NumberType(1, 1_000), default=100, show_default=True, help="The most to show.")
@click.option("--to", default="", metavar="ID", help="The best ways to this node instead.")
@click.option("-k", type=NumberType(1, 20), default=3, show_default=True, help="With --to: how many ways.")
@click.option(
    "--changed-since",
    type=NumberType(),
    default=0,
    metavar="VERSION",
    help="Only what changed after this graph version, and the way to it.",
)
@at_option
@json_option
def graph(node_id: str, to: str, as_json: bool, **options: Any) -> None:
    """Show what the node ID is connected with.

    That is a tree of the nodes around it, or with --to the best ways to one of them.
    """
    try:
        if to:
            _show_paths(_paths_query(node_id, to, **options), as_json)
        else:
            _show_walk(_walk_query(node_id, **options), options["changed_since"], as_json)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _walk_query(node_id: str, *, depth: int | None, **options: Any) -> TraverseQuery:
    return TraverseQuery(
        start=(node_id,),
        depth=2 if depth is None else depth,
        **{name: value for name, value in options.items() if name in TraverseQuery.__struct_fields__},
    )


def _paths_query(
    node_id: str, to: str, *, depth: int | None, relations: tuple[str, ...], **options: Any
) -> PathsQuery:
    return PathsQuery(
        from_id=node_id,
        to_id=to,
        depth=10 if depth is None else max(1, depth),
        relations=tuple(map(Relation, relations)),
        **{name: value for name, value in options.items() if name in PathsQuery.__struct_fields__},
    )


def _show_walk(query: TraverseQuery, changed_since: int, as_json: bool) -> None:
    walk = ask(lambda memory: memory.traverse(query))
    if as_json:
        print_json(walk)
        return

    console = open_console()
    lines = 0
    for line in render_walk(walk, changed_since):
        print_line(line, console)
        lines += 1
    if not lines:
        click.echo("Nothing of it has changed since." if changed_since else "Nothing there is to be shown.")
    if walk.truncated:
        click.echo(f"\nThis is not all ({walk.truncated}).", err=True)


def _show_paths(query: PathsQuery, as_json: bool) -> None:
    found = ask(lambda memory: memory.paths(query))
    if as_json:
        print_json(found)
        return

    if not found:
        raise MailroomError(
            f"No way leads from {query.from_id} to {query.to_id} in {query.depth} steps",
            "Allow more with --depth, or other edges",
        )
    console = open_console()
    for path in found:
        for line in render_path(path):
            print_line(line, console)
