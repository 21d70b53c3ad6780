"""``mailroom web``: a link that signs a browser in."""

from typing import Any

import click

from services.cli import api
from services.cli.commands.options import json_option
from services.cli.output.console import print_json
from shared import settings
from shared.access.credentials import LINK_LIFETIME


@click.command()
@click.option("--as", "person", default="", metavar="NAME", help="Sign in this person of gateway/users.toml.")
@click.option("--sign-out", is_flag=True, help="Instead: end the person's sessions in all browsers.")
@json_option
def web(person: str, sign_out: bool, as_json: bool) -> None:
    """Print a link that opens the dashboard.

    It signs one browser in, once, within ten minutes.
    """
    config = settings.load()
    if sign_out:
        done = api.post("/sessions/end", dict[str, Any], {"person": person})
        if as_json:
            print_json(done)
        else:
            sessions = "session" if done["ended"] == 1 else "sessions"
            click.echo(f"{done['ended']} {sessions} of {done['person']} ended.")
        return
    link, name = api.create_link(config, person)
    minutes = LINK_LIFETIME.total_seconds() / 60
    if as_json:
        print_json({"link": link, "person": name, "minutes": minutes})
        return
    click.echo(link)
    click.echo(f"\nIt signs {name} in, once, within {minutes:g} minutes.", err=True)
