"""``mailroom memory link`` and ``unlink``: how one node bears on another."""

import click

from services.cli.memory.session import ask, store
from services.cli.numbers import NumberType
from services.cli.screen import json_option, print_json
from shared.contracts import Edge, EdgeKey, Relation

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
