"""``mailroom web``: a link that signs a browser in."""

import click

from services.cli.commands.options import json_option
from services.cli.output.console import print_json
from shared import settings
from shared.access.credentials import LINK_LIFETIME, Sessions, create_link
from shared.access.scopes import People


@click.command()
@click.option("--as", "person", default="", metavar="NAME", help="Sign in this person of gateway/users.toml.")
@click.option("--sign-out", is_flag=True, help="Instead: end the person's sessions in all browsers.")
@json_option
def web(person: str, sign_out: bool, as_json: bool) -> None:
    """Print a link that opens the dashboard.

    It signs one browser in, once, within ten minutes.
    """
    config = settings.load()
    name = People(config).choose(person)
    if sign_out:
        ended = Sessions(config).end_all(name)
        if as_json:
            print_json({"person": name, "ended": ended})
        else:
            click.echo(f"{ended} {'session' if ended == 1 else 'sessions'} of {name} ended.")
        return
    link = create_link(config, name)
    minutes = LINK_LIFETIME.total_seconds() / 60
    if as_json:
        print_json({"link": link, "person": name, "minutes": minutes})
        return
    click.echo(link)
    click.echo(f"\nIt signs {name} in, once, within {minutes:g} minutes.", err=True)
