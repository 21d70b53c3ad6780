"""``mailroom mcp``: MCP servers whose tools agents get: added, listed, tried, approved again, removed."""

import asyncio
import contextlib
import json
import textwrap
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import click
import msgspec
from rich.console import Console

from services.cli.commands.options import format_examples, json_option
from services.cli.output.console import open_console, print_block, print_json, print_result
from shared import settings
from shared.errors import ActionError, ConfigError, NotFound
from shared.mcp.config import ServerConfig, SignIn, add_server, read_host_file, read_servers, remove_server
from shared.mcp.pins import Pin, Tool, compare, read_pin, remove_pin, write_pin
from shared.mcp.remote import tokens_path
from shared.mcp.session import Session
from shared.settings import Settings
from shared.tasks.installed_agents import load_agents
from shared.text.display import clean, clean_block, count, escape_invisible
from shared.text.display import shorten as shorten_line

T = TypeVar("T")
MEANINGS = {
    "open": "it says that it reaches beyond its server, or not that it does not",
    "hidden": "it has characters that are not seen, which --schemas shows",
}
"""What marks of tools mean that do not say it themselves."""
WIDEST = 32  # Characters of a tool's name beyond which its line is not aligned


@click.command(
    epilog=format_examples(
        "mailroom mcp add time --for scout -- python -m mcp_server_time",
        "mailroom mcp add notes --for '*' --write ~/notes -- notes-server ~/notes",
        "mailroom mcp add tracker --for engineer --from ~/.claude.json",
    )
)
@click.argument("name")
@click.argument("command", nargs=-1, metavar="[URL | -- COMMAND...]")
@click.option("--for", "agents", multiple=True, metavar="AGENT", help="Who gets its tools; * for all.")
@click.option("--env", multiple=True, metavar="NAME=TEXT", help="A variable it sees.")
@click.option("--secret", multiple=True, metavar="NAME=FILE", help="A variable whose text is in a file.")
@click.option("--header", multiple=True, metavar="NAME=TEXT", help="Of a URL; ${NAME} is a secret.")
@click.option("--reach", multiple=True, metavar="HOST", help="A host it may connect to.")
@click.option("--read", multiple=True, metavar="PATH", help="What it may read.")
@click.option("--write", multiple=True, metavar="PATH", help="What it may change.")
@click.option("--allow", multiple=True, metavar="TOOL", help="A tool that is called without asking you.")
@click.option("--login", "signs_in", is_flag=True, help="Sign in at the URL first, by the browser.")
@click.option("--oauth", multiple=True, metavar="NAME=TEXT", help="How to sign in: see docs/mcp.md.")
@click.option("--from", "file", type=click.Path(path_type=Path), help="Take it from a host's settings file.")
@click.option("--schemas", is_flag=True, help="Print all that its tools say, and their schemas.")
@json_option
def add(
    name: str,
    command: tuple[str, ...],
    file: Path | None,
    signs_in: bool,
    schemas: bool,
    as_json: bool,
    **given: tuple[str, ...],
) -> None:
    """Add the server NAME: a COMMAND, run in the jail, or a URL.

    It is started once, its tools are shown and kept as they are: what is new or different later is off until
    'mailroom mcp pin NAME' approves it. A COMMAND has no network and sees no files but what is named here.
    """
    config = settings.load()
    values: dict[str, Any] = read_host_file(file).get(name, {}) if file else {}
    if file and not values:
        raise NotFound(f"{file} describes no server {clean(name)}")
    if command:
        is_url = len(command) == 1 and command[0].startswith(("http://", "https://"))
        values |= {"url": command[0]} if is_url else {"command": command[0], "args": command[1:]}
    pairs = {"env": given["env"], "secrets": given["secret"], "headers": given["header"]}
    values |= {key: {**values.get(key, {}), **_read_pairs(each)} for key, each in pairs.items() if each}
    values |= {key: given[key] for key in ("agents", "reach", "allow") if given[key]}
    # Agents run in another folder than this command.
    values |= {key: [_place(each) for each in given[key]] for key in ("read", "write") if given[key]}
    values |= {"secrets": {key: _place(each) for key, each in values.get("secrets", {}).items()}}
    if given["oauth"]:
        oauth = _read_pairs(given["oauth"])
        values["oauth"] = oauth | ({"secret": _place(oauth["secret"])} if "secret" in oauth else {})
    server = read_servers(msgspec.structs.replace(config, mcp={name: values}))[name]
    if name in config.mcp:
        raise ConfigError(f"There is a server {name!r} already", f"mailroom mcp remove {name} removes it")
    pin = _use(name, server, Session.list_tools, signs_in=signs_in and bool(server.url))
    path = add_server(config, name, server)
    write_pin(config, pin)
    if as_json:
        print_json({"server": name, "digest": pin.digest, "tools": pin.tools})
        return
    console = open_console()
    print_block(f"{clean(pin.program or name)} {clean(pin.version)}, MCP {pin.protocol}", console, hang=2)
    _print_tools({tool.title: tool for tool in pin.tools}, console, whole=schemas)
    print_block(f"\n{name} is in {path}, {_count(pin)}.", console, hang=2)
    if not schemas:
        click.echo(f"All that they say is printed by: mailroom mcp list {name} --schemas")
    using = [agent.name for agent in load_agents(config) if server.is_for(name, agent.profile)]
    if using:
        click.echo("If the office is up, have them start again to get it:")
        click.echo("\n".join(f"  mailroom agents restart {each}" for each in using))
    else:
        print_block(
            f"No agent has it yet: name some as 'agents' in [mcp.{name}], or 'mcp' in a profile.", console
        )


@click.command("list")
@click.argument("name", required=False)
@click.option("--schemas", is_flag=True, help="Print all that the tools say, and their schemas.")
@json_option
def list_servers(name: str | None, schemas: bool, as_json: bool) -> None:
    """List the servers, their tools, and who has them.

    Or the server NAME alone.

    None is started for it: the tools are those that were approved.
    """
    config = settings.load()
    servers = {name: _find(config, name)} if name else read_servers(config)
    agents, pins = load_agents(config), {each: read_pin(config, each) for each in servers}
    using = {
        each: [agent.name for agent in agents if server.is_for(each, agent.profile)]
        for each, server in servers.items()
    }
    if as_json:
        print_json({each: {"agents": using[each], "pin": pins[each]} for each in servers})
        return
    console = open_console()
    for each, server in servers.items():
        pin = pins[each]
        print_block(
            f"{each}  {clean(server.url or ' '.join((server.command, *server.args)))}", console, hang=2
        )
        state = _count(pin) if pin else f"nothing of it is approved: mailroom mcp pin {each}"
        print_block(f"  for {', '.join(using[each]) or 'no agent'}, {state}", console, hang=6)
        _print_tools(pin.actions() if pin else {}, console, whole=schemas)
    if not servers:
        click.echo("There is no server. 'mailroom mcp add' adds one.")


@click.command(
    "try", epilog=format_examples("""mailroom mcp try time get_current_time '{"timezone": "UTC"}\'""")
)
@click.argument("name")
@click.argument("tool")
@click.argument("args", default="{}")
@json_option
def try_tool(name: str, tool: str, args: str, as_json: bool) -> None:
    """Call TOOL of the server NAME with ARGS, a JSON object.

    It is your own call: no agent is asked, and no approval.
    """
    try:
        params = json.loads(args)
    except ValueError as error:
        raise click.UsageError(f"ARGS is no JSON: {error}") from None
    if not isinstance(params, dict):
        raise click.UsageError("ARGS has to be a JSON object")

    async def call(session: Session) -> Any:
        now = await session.list_tools()
        named = {**now.actions(), **{each.name: each for each in now.tools}}
        if tool not in named:
            known = ", ".join(each.name for each in now.tools)
            raise NotFound(f"{name} has no tool {clean(tool)}", f"It has {clean(known)}")
        return await session.call(named[tool], params)

    answer = _use(name, _find(settings.load(), name), call)
    if as_json:
        print_json(answer)
    else:
        print_block(clean_block(answer.text), open_console())
    if answer.failed:
        raise ActionError(f"{name} says that it failed")


@click.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Approve without asking.")
@json_option
def pin(name: str, yes: bool, as_json: bool) -> None:
    """Show what changed of the server NAME, and approve it.

    Agents get a tool only as it was approved: one that is new, renamed or different is off until then.
    """
    config = settings.load()
    before, now = read_pin(config, name), _use(name, _find(config, name), Session.list_tools)
    differences = list(compare(before, now))
    told = {"server": name, "digest": now.digest, "differences": [word for word, _ in differences]}
    for word, text in () if as_json else differences:
        click.secho(word, bold=True)
        click.echo("\n".join(f"  {line}" for line in text.split("\n")))
    if not differences and before is not None:
        same = f"Nothing changed: {count(len(now.tools), 'tool')}, pinned as {now.digest[:12]}."
        print_result(told, same, as_json)
        return
    if not yes:
        question = f"Approve {name} as it is now ({count(len(differences), 'difference')})?"
        click.confirm(question, abort=True, err=as_json)
    write_pin(config, now)
    print_result(told, f"Pinned as {now.digest[:12]}.", as_json)


@click.command()
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Remove the server NAME.

    Agents lose its tools at once; a server that runs for one ends when that agent starts again, or is idle.
    """
    config = settings.load()
    path = remove_server(config, name)
    remove_pin(config, name)
    for path_of_tokens in (tokens := tokens_path(config, name)), tokens.with_suffix(".lock"):
        path_of_tokens.unlink(missing_ok=True)
    print_result({"server": name, "file": path}, f"{name} is no longer in {path}.", as_json)


@click.command()
@click.argument("name")
@json_option
def login(name: str, as_json: bool) -> None:
    """Sign in at the server NAME, by the browser.

    Its tokens are kept in a file that only you can read. The browser has to be on this machine.
    """
    config = settings.load()
    server = _find(config, name)
    if not server.url:
        raise ActionError(f"{name} is a command, which has secrets in files instead", "See docs/mcp.md")
    _use(name, server, Session.list_tools, signs_in=True)
    path = tokens_path(config, name)
    print_result({"server": name, "file": path}, f"Signed in at {name}: {path}", as_json)


@contextlib.asynccontextmanager
async def _receive(redirect: str) -> AsyncIterator[SignIn]:
    """A page on this machine to which the browser comes back; one at a free port if its port is 0."""
    parts = urlsplit(redirect)
    came: asyncio.Queue[dict[str, str]] = asyncio.Queue()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        words = (await reader.readline()).decode("latin-1").split()
        query = dict(parse_qsl(urlsplit(words[1] if len(words) > 1 else "").query))
        if query.keys() & {"code", "error"}:
            came.put_nowait(query)
        text = b"You can close this page, and go on where you were."
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" + text)
        await writer.drain()
        writer.close()

    async def show(address: str) -> None:
        click.echo(f"Sign in there, if no browser opens:\n{address}", err=True)
        await asyncio.to_thread(webbrowser.open, address)

    async with await asyncio.start_server(answer, parts.hostname, parts.port) as listening:
        port = listening.sockets[0].getsockname()[1]
        address = parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{port}").geturl()
        yield SignIn(address=address, open=show, wait=came.get)


def _use(
    name: str, server: ServerConfig, work: Callable[[Session], Awaitable[T]], *, signs_in: bool = False
) -> T:
    """What ``work`` does with the server, which is started for it and ended; a person signs in first."""

    async def run() -> T:
        async with contextlib.AsyncExitStack() as stack:
            sign_in = await stack.enter_async_context(_receive(server.oauth.redirect)) if signs_in else None
            session = Session(name, server, settings=settings.load(), sign_in=sign_in)
            stack.push_async_callback(session.close)
            await session.start()
            return await work(session)

    return asyncio.run(run())


def _find(config: Settings, name: str) -> ServerConfig:
    servers = read_servers(config)
    if name not in servers:
        raise NotFound(f"There is no server {clean(name)}", "mailroom mcp list names the servers")
    return servers[name]


def _place(path: str) -> str:
    return str(Path(path).expanduser().absolute())


def _read_pairs(given: tuple[str, ...]) -> dict[str, str]:
    pairs = dict(each.split("=", 1) for each in given if "=" in each)
    if len(pairs) < len(given):
        raise click.UsageError("Write NAME=TEXT, each name once")
    return pairs


def _count(pin: Pin) -> str:
    return f"{count(len(pin.tools), 'tool')} pinned as {pin.digest[:12]}"


def _print_tools(tools: Mapping[str, Tool], console: Console, *, whole: bool) -> None:
    """A line for each tool, cut to the width; or all of it."""
    for name, tool in tools.items() if whole else ():
        click.secho(f"  {escape_invisible(name)}", bold=True)
        click.echo(textwrap.indent(tool.show(), "    "))
    if whole or not tools:
        return
    rows = [
        [escape_invisible(each) for each in (name, " ".join(tool.marks), tool.description.strip())]
        for name, tool in tools.items()
    ]
    names, marks = (max(len(row[column]) for row in rows) for column in (0, 1))
    for name, mark, said in rows:
        line = f"  {name:<{min(names, WIDEST)}}  {mark:<{marks}}  {said.split(chr(10))[0]}"
        click.echo(shorten_line(line, max(console.width, len(name) + 2)).rstrip())
    used = {mark for tool in tools.values() for mark in tool.marks}
    for mark, meaning in MEANINGS.items():
        if mark in used:
            print_block(f"  {mark}: {meaning}", console, hang=4)
