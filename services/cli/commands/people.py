"""``mailroom people``: who uses the office, and keys for those who use a NATS client."""

import shlex
from typing import Literal

import click

from services.cli.commands.options import format_examples, json_option
from services.cli.connection import require_office
from services.cli.output.console import print_json, print_result
from shared import settings, subjects
from shared.access.scopes import ROLES, People, User, list_scopes
from shared.bus.connecting import ensure_keys
from shared.errors import NotFound

ASKS = '{"method": "POST", "path": "/api/v1/goals", "body": {"text": "Say hello"}}'


@click.group()
def people() -> None:
    """Add and remove people of the office, and make keys for them.

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


@people.command(epilog=format_examples("mailroom people add ana --role member --email ana@example.org"))
@click.argument("name")
@click.option("--role", required=True, type=click.Choice(list(ROLES)), help="What NAME may do.")
@click.option("--email", default="", help="What the team's OpenID provider calls NAME.")
@json_option
def add(name: str, role: Literal["viewer", "member", "approver", "admin"], email: str, as_json: bool) -> None:
    """Let NAME use the office.

    Writes gateway/users.toml of this state directory, the first time with you as an administrator. A running
    office knows it at once. From the second person on, each has things of their own; what was there is the
    team's.
    """
    known = People(settings.load())
    known.add(name, User(role=role, email=email))
    if as_json:
        print_json({"person": name, "role": role, "file": str(known.path)})
        return
    click.echo(
        f"{name} is in {known.path}, beside {', '.join(each for each in known.read() if each != name)}."
    )
    click.echo(f"mailroom web --as {name}      # a link that signs {name} in, once")
    click.echo(
        f"mailroom token add {name}s-laptop --person {name} --scope {list_scopes(ROLES[role])[-1]}"
        "      # for commands and programs"
    )
    click.echo(f"mailroom people key {name}    # for a NATS client")


@people.command()
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Take NAME off the list, signed out everywhere, without a key.

    What is NAME's alone stays so, in the memory of the office and its log; who is added under that name again
    has it. The last one left sees everything, as in any office of one.
    """
    config = settings.load()
    known = People(config)
    known.remove(name)
    (config.keys / f"{subjects.PERSON}{name}.nk").unlink(missing_ok=True)
    left = known.read()
    alone = f"\n{next(iter(left))} is alone now, and sees what was {name}'s." if len(left) == 1 else ""
    tokens = "Tokens of that person count no more: mailroom token list"
    print_result({"person": name, "left": list(left)}, f"{name} is removed. {tokens}{alone}", as_json)


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
