"""``mailroom login`` and ``mailroom logout``: the gateway of another machine, which commands then ask."""

import sys

import click
import msgspec

from services.cli import api
from services.cli.commands.options import format_examples, json_option
from services.cli.output.console import print_result
from shared import settings
from shared.access.credentials import login_path
from shared.errors import MailroomError


class _Session(msgspec.Struct, frozen=True):
    person: str
    scopes: list[str]


@click.command(epilog=format_examples("mailroom login https://office.example.org", "mailroom kpi"))
@click.argument("url")
@click.option("--insecure", is_flag=True, help="Send the token over http:// to another machine.")
@json_option
def login(url: str, insecure: bool, as_json: bool) -> None:
    """Have commands ask the gateway at URL, as on its own machine.

    Asks for a token, or reads it from standard input; 'mailroom token add NAME' prints one there. 'mailroom
    logout' ends it. Commands that need the bus or a key work on that machine alone.
    """
    config = settings.load()
    try:
        address = api.parse_address(url)
    except MailroomError as error:
        raise click.UsageError(str(error)) from None
    if address.scheme == "http" and not insecure and not api.is_loopback(address.hostname):
        raise MailroomError(
            f"Everybody between here and {address.hostname} can read a token that is sent over http://",
            "Use https:// (docs/gateway-security.md) or a tunnel; --insecure sends it nevertheless",
        )
    secret = click.prompt("Token", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline()
    given = api.Login(url=url.rstrip("/"), token=secret.strip())
    session = api.get("/session", _Session, login=given)
    api.keep_login(config, given)
    value = {"url": given.url, "person": session.person, "scopes": session.scopes}
    may = ", ".join(session.scopes)
    print_result(value, f"Commands ask {given.url} now, as {session.person or 'user'}: {may}.", as_json)


@click.command()
@json_option
def logout(as_json: bool) -> None:
    """Have commands ask the office of this machine again."""
    config = settings.load()
    known = api.read_login(config)
    try:
        login_path(config).unlink(missing_ok=True)
    except OSError as error:
        raise MailroomError(f"{login_path(config)} cannot be removed: {error.strerror}") from None
    text = f"Commands do not ask {known.url} any more." if known else "Commands asked no other machine."
    print_result({"url": known.url if known else None}, text, as_json)
