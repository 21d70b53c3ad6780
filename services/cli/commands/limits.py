"""``mailroom limits``: what the goals of people may use in a day, and how many there may be."""

from typing import Any

import click
import msgspec

from services.cli import api
from services.cli.commands.options import NumberType, format_examples, json_option
from services.cli.output.console import print_json
from shared.tasks.submission import parse_budget
from shared.text.display import clean
from shared.views.status import PersonStanding


class _People(msgspec.Struct, frozen=True):
    people: tuple[PersonStanding, ...]


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def limits(context: click.Context, as_json: bool) -> None:
    """What the goals of people may use, and used."""
    if context.invoked_subcommand:
        return
    found = api.get("/limits", _People).people
    if as_json:
        print_json(found)
        return
    for each in found:
        click.echo(f"{clean(each.person)}: {each}")
    if not found:
        click.echo("Nobody has limits.\nmailroom limits set everyone --open 5 --budget 1M")


@limits.command(
    name="set", epilog=format_examples("mailroom limits set ada --open 3 --goals 20 --budget '200k,$1.50'")
)
@click.argument("person")
@click.option(
    "--budget", default="", help="Tokens, US dollars or both in a day (UTC), as 200k or '200k,$1.50'."
)
@click.option("--open", "most", type=NumberType(0, 1_000), default=0, help="Goals that may be open at once.")
@click.option("--goals", type=NumberType(0, 1_000), default=0, help="Goals in a day (UTC).")
@json_option
def set_limits(person: str, budget: str, most: float, goals: float, as_json: bool) -> None:
    """Set the limits of PERSON.

    'everyone' stands for people without limits of their own. What is not given is not limited.
    """
    try:
        amount = parse_budget(budget) if budget else None
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="'--budget'") from None
    wanted: dict[str, Any] = {"open_goals": int(most), "day_goals": int(goals)}
    if amount:
        wanted |= {"day_tokens": amount.tokens, "day_cost": amount.cost}
    api.post(f"/limits/{api.segment(person)}", object, wanted)
    given = PersonStanding(
        person=person,
        day_tokens=amount.tokens if amount else 0,
        day_cost=amount.cost if amount else 0.0,
        most_open=int(most),
        day_goals=int(goals),
    )
    if as_json:
        print_json(given)
    else:
        click.echo(f"{clean(person)}: {given}, from the next goal on.")
