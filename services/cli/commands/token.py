"""``mailroom token``: tokens with which scripts use the gateway."""

from datetime import datetime, timedelta

import click

from services.cli import api
from services.cli.commands.options import format_examples, json_option
from services.cli.output.console import print_json
from shared import settings
from shared.access.credentials import TokenList, TokenRow, public_address
from shared.access.scopes import list_scopes, parse_scope
from shared.text.times import format_date, format_utc, parse_span

LATEST = timedelta(days=3_650)  # The longest time until a token expires


@click.group()
def token() -> None:
    """Make, list and revoke tokens for scripts.

    A script sends one as 'Authorization: Bearer TOKEN'. What is changed counts at once, at every gateway.
    """


@token.command(epilog=format_examples("TOKEN=$(mailroom token add ci --scope submit)"))
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    default="read",
    show_default=True,
    metavar="SCOPE",
    help="What it may do: read, submit, approve or admin; each includes those before it.",
)
@click.option("--expires", metavar="SPAN", help="When it ends, such as 30d or 12h [default: never].")
@click.option("--person", default="", metavar="NAME", help="Whose it is of gateway/users.toml [a script's].")
@json_option
def add(name: str, scopes: str, expires: str | None, person: str, as_json: bool) -> None:
    """Make a token and print it, this once.

    What a script does with it is recorded under NAME. A person's token acts as that person, with the role of
    that person at most.
    """
    lifetime = _parse_lifetime(expires) if expires else None
    scope = parse_scope(scopes.split(","))
    config = settings.load()
    login = api.find_login(config)
    days = lifetime.total_seconds() / 86_400 if lifetime else None
    wanted = {"name": name, "scopes": list_scopes(scope), "days": days, "person": person}
    secret = api.post("/tokens", dict[str, str], wanted, login=login)["token"]
    if as_json:
        print_json({"name": name, "token": secret, "scopes": list_scopes(scope)})
        return
    click.echo(secret)
    limit = f", as far as {person}'s role allows" if person else ""
    click.echo(f"\nThis is shown once. It may {', '.join(list_scopes(scope))}{limit}.", err=True)
    address = public_address(config, login.url) if login.is_here else login.url
    click.echo(f"curl -H 'Authorization: Bearer {secret[:6]}...' {address}/api/v1/session", err=True)


@token.command(name="list")
@json_option
def list_tokens(as_json: bool) -> None:
    """List the tokens, without their secrets."""
    found = api.get("/tokens", TokenList).tokens
    if as_json:
        print_json([_to_dict(each) for each in found])
        return
    if not found:
        click.echo("There are no tokens.\nmailroom token add NAME --scope read")
        return
    for each in found:
        used = f"used {_format_moment(each.used_at)}" if each.used_at else "never used"
        ends = "does not expire"
        if each.expires_at:
            ends = f"{'expired' if each.expired else 'expires'} {_format_moment(each.expires_at)}"
        whose = f" of {each.person}" if each.person else ""
        click.echo(f"{each.name}{whose}  {', '.join(each.scopes)}; {ends}; {used}")


@token.command()
@click.argument("name")
@json_option
def revoke(name: str, as_json: bool) -> None:
    """Make a token invalid, from now on."""
    api.delete(f"/tokens/{api.segment(name)}")
    if as_json:
        print_json({"name": name, "revoked": True})
    else:
        click.echo(f"The token {name} is revoked.")


def _parse_lifetime(text: str) -> timedelta:
    try:
        lifetime = timedelta(seconds=parse_span(text))
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(str(error), param_hint="'--expires'") from None
    if not timedelta() < lifetime <= LATEST:
        raise click.BadParameter(f"{text!r} is not between 1s and {LATEST.days}d", param_hint="'--expires'")
    return lifetime


def _format_moment(moment: datetime) -> str:
    return format_date(moment.isoformat())


def _to_dict(each: TokenRow) -> dict[str, object]:
    return {
        "name": each.name,
        "person": each.person,
        "scopes": each.scopes,
        "created_at": format_utc(each.created_at),
        "expires_at": format_utc(each.expires_at) if each.expires_at else None,
        "used_at": format_utc(each.used_at) if each.used_at else None,
        "expired": each.expired,
    }
