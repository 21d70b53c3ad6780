"""``mailroom people``: who uses the office, and keys for those who use a NATS client."""

import shlex

import click

from services.cli.commands.options import format_examples, json_option
from services.cli.connection import require_office
from services.cli.output.console import print_json, print_result
from shared import settings, subjects
from shared.access.scopes import People
from shared.bus.connecting import ensure_keys
from shared.errors import NotFound

ASKS = '{"method": "POST", "path": "/api/v1/goals", "body": {"text": "Say hello"}}'


@click.group()
def people() -> None:
    """List the people of the office, and make keys for them.

    They are those of gateway/users.toml; a key is for a NATS client. Where there are several, each has
    conversations, reminders, mail and memory of their own.
    """


@people.command(name="list")
@json_option
def list_people(as_json: bool) -> None:
    """List the people, their roles, and who has a key."""
    config = settings.load()
    require_office(config)
    found = [
        {"person": name, "role": user.role, "key": (config.keys / f"{subjects.PERSON}{name}.nk").exists()}
        for name, user in People(config).read().items()
    ]
    if as_json:
        print_json(found)
        return
    for each in found:
        click.echo(f"{each['person']}: {each['role']}{', with a key' if each['key'] else ''}")


@people.command(epilog=format_examples("mailroom people key ana"))
@click.argument("name")
@json_option
def key(name: str, as_json: bool) -> None:
    """Make a key for the NATS client of NAME, and print where it is.

    It asks the gateway as NAME and does nothing else: no stream, no audit.>, nobody else's mail. Give the
    file to NAME alone. A running office knows it within seconds.
    """
    config = settings.load()
    require_office(config)
    identity = subjects.PERSON + People(config).choose(name)
    ensure_keys(config.keys, [identity])
    path = config.keys / f"{identity}.nk"
    if as_json:
        print_json({"identity": identity, "file": str(path)})
        return
    click.echo(str(path))
    click.echo(f"nats --nkey {shlex.quote(str(path))} req {subjects.API} '{ASKS}'", err=True)


@people.command()
@click.argument("name")
@json_option
def revoke(name: str, as_json: bool) -> None:
    """Make the key of NAME invalid.

    A running office knows it within seconds.
    """
    path = settings.load().keys / f"{subjects.PERSON}{name}.nk"
    if not path.exists():
        raise NotFound(f"{name[:64]!r} has no key", "'mailroom people list' shows who has")
    path.unlink()
    print_result({"person": name}, f"The key of {name} is gone.", as_json)
