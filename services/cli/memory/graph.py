"""``mailroom memory graph``: what a node is connected with, and how it is connected with another."""

from typing import Any

import click

from services.cli.memory.edges import relation_type
from services.cli.memory.session import ask, at_option
from services.cli.numbers import NumberType
from services.cli.screen import json_option, open_console, print_json, print_line
from shared.contracts import PathsQuery, Relation, TraverseQuery
from shared.errors import MailroomError


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
    from services.cli.memory.tree import render_walk

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
    from services.cli.memory.tree import render_path

    if not found:
        raise MailroomError(
            f"No way leads from {query.from_id} to {query.to_id} in {query.depth} steps",
            "Allow more with --depth, or other edges",
        )
    console = open_console()
    for path in found:
        for line in render_path(path):
            print_line(line, console)
