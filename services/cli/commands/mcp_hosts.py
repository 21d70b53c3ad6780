"""``mailroom mcp install`` and ``uninstall``: the office in a program that speaks MCP, and out again."""

import difflib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from services.cli import api
from services.cli.commands.mcp_serve import token_path
from services.cli.commands.options import format_examples, json_option
from services.cli.output.console import print_result
from shared import settings
from shared.errors import MailroomError, NotFound
from shared.files import write_atomically
from shared.settings import Settings, environment
from shared.text.display import clean

NAME = "mailroom"  # What the server is called in the settings of a host
CHECK = 30  # Seconds that the first answer through a host's own command may take


class Host(msgspec.Struct, frozen=True):
    """A program: its settings file below the home folder, on Linux and on macOS, and the section for servers.

    ``form`` is how it writes a server; the variable ``moved`` names another folder, in which the file has the
    rest of its path, without ``below``.
    """

    path: str
    section: str
    form: Literal["plain", "typed", "local", "toml"] = "plain"
    mac: str = ""
    moved: str = ""
    below: str = ""

    def find(self) -> Path:
        """The settings file of this user."""
        if self.mac and sys.platform == "darwin":
            return Path.home() / self.mac
        moved, below = (XDG, ".config/") if self.path.startswith(".config/") else (self.moved, self.below)
        folder = environment().get(moved, "") if moved else ""
        return Path(folder, self.path.removeprefix(below)) if folder else Path.home() / self.path


SUPPORT = "Library/Application Support"
XDG = "XDG_CONFIG_HOME"
HOSTS = {
    "claude-code": Host(".claude.json", "mcpServers", "typed", moved="CLAUDE_CONFIG_DIR"),
    "claude-desktop": Host(
        ".config/Claude/claude_desktop_config.json",
        "mcpServers",
        mac=f"{SUPPORT}/Claude/claude_desktop_config.json",
    ),
    "codex": Host(".codex/config.toml", "mcp_servers", "toml", moved="CODEX_HOME", below=".codex/"),
    "cursor": Host(".cursor/mcp.json", "mcpServers"),
    "vscode": Host(".config/Code/User/mcp.json", "servers", "typed", f"{SUPPORT}/Code/User/mcp.json"),
    "gemini": Host(".gemini/settings.json", "mcpServers", moved="GEMINI_CLI_HOME"),
    "opencode": Host(".config/opencode/opencode.json", "mcp", "local"),
    "zed": Host(".config/zed/settings.json", "context_servers"),
}
"""Claude Code, Codex, Gemini CLI and OpenCode were tried (tests/network/test_mcp_hosts.py); the others are as
they document it: code.visualstudio.com/docs/agents/reference/mcp-configuration, cursor.com/docs/mcp,
zed.dev/docs/ai/mcp, modelcontextprotocol.io/docs/develop/connect-local-servers."""


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    """What was written into ``path``, and what it was before: empty for a file that did not exist."""

    path: str
    existed: bool
    added: str
    digest: str
    backup: str = ""


@click.command(
    epilog=format_examples("mailroom mcp install claude-code", "mailroom mcp install vscode --print")
)
@click.argument("host", type=click.Choice(list(HOSTS)))
@click.option(
    "--scope",
    default="submit",
    show_default=True,
    type=click.Choice(["read", "submit", "approve"]),
    help="What the program may do; with approve its model can grant what agents ask for.",
)
@click.option("--person", default="", metavar="NAME", help="Whose it is of the people [a script's].")
@click.option("--file", "path", type=click.Path(path_type=Path), help="Another settings file than its own.")
@click.option("--print", "only_print", is_flag=True, help="Only print what would be written.")
@click.option("--yes", is_flag=True, help="Write without asking.")
@json_option
def install(
    host: str, scope: str, person: str, path: Path | None, only_print: bool, yes: bool, as_json: bool
) -> None:
    """Have HOST use the office: a token, and its own settings file.

    HOST is claude-code, claude-desktop, codex, cursor, vscode, gemini, opencode or zed. Shows what it adds
    to the settings, keeps a copy, and calls a tool through it; if that fails, all is undone. The token is
    in a file of the office and not in the settings. 'mailroom mcp uninstall HOST' takes both back.
    """
    config = settings.load()
    kind, place = HOSTS[host], (path or HOSTS[host].find()).absolute()
    record = _record_path(config, host)
    if record.exists() and not only_print:
        raise MailroomError(
            f"{host} has the office already", f"Take it out with 'mailroom mcp uninstall {host}'"
        )
    before = _read(place)
    added, after = add_server(kind, before, _command(host), _environment(config))
    changes = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), str(place), str(place)
    )
    shown = "".join(line if line.endswith("\n") else f"{line}\n" for line in changes).rstrip()
    click.echo(shown, err=as_json and not only_print)
    if only_print:
        return
    api.find_login(config)  # without an office nothing is written
    if not yes:
        whose = f"{person}'s " if person else ""
        click.confirm(
            f"Write this, and make a token for {whose}{host} that may {scope}?", abort=True, err=True
        )
    _make_token(config, host, scope, person)
    backup = _put(config, host, place, before, added, after)
    kept = f"; as it was, it is in {backup}" if before else ""
    click.echo(f"Written to {place}{kept}.", err=True)
    try:
        answer = _try(config, host)
    except BaseException:
        _take_back(config, host)
        click.echo(f"{host} could not call it, so it is undone: {place} is as it was.", err=True)
        raise
    value = {"host": host, "file": str(place), "backup": str(backup), "answer": answer}
    print_result(value, f"The tool agents, called as {host} will do it:\n{answer}", as_json)


def _put(config: Settings, host: str, place: Path, before: str, added: str, after: str) -> Path:
    """Write a settings file and what takes it back; returns the copy of it as it was."""
    record, existed = _record_path(config, host), place.exists()
    backup = record.with_suffix(".backup")
    digest = sha256(after.encode("utf-8", "surrogateescape")).hexdigest()
    made = _Record(path=str(place), existed=existed, added=added, digest=digest, backup=str(backup))
    try:
        write_atomically(backup, before.encode("utf-8", "surrogateescape"), mode=0o600)
        write_atomically(record, msgspec.json.encode(made), mode=0o600)
        _write(place, after, existed)
    except OSError as error:
        record.unlink(missing_ok=True)
        _drop_token(config, host)
        raise MailroomError(f"{error.filename or place} cannot be written: {error.strerror}") from None
    return backup


@click.command()
@click.argument("host", type=click.Choice(list(HOSTS)))
@json_option
def uninstall(host: str, as_json: bool) -> None:
    """Take the office out of HOST again, to the byte."""
    value = {"host": host, "file": _take_back(settings.load(), host)}
    print_result(value, f"{host} does not use the office any more; its token is revoked.", as_json)


def _take_back(config: Settings, host: str) -> str:
    """Take out of a settings file what was added, and revoke the token; returns the path of the file."""
    path = _record_path(config, host)
    try:
        record = msgspec.json.decode(path.read_bytes(), type=_Record)
    except FileNotFoundError:
        raise NotFound(f"{host} has no office that was installed here", "") from None
    place = Path(record.path)
    now = _read(place)
    is_same = sha256(now.encode("utf-8", "surrogateescape")).hexdigest() == record.digest
    before = _read(Path(record.backup)) if is_same else now.replace(record.added, "")
    if not is_same and now.count(record.added) != 1:
        click.echo(f"{place} was changed since: take {NAME} out of it yourself.", err=True)
    elif is_same and not record.existed:
        place.unlink()
    else:
        _write(place, before, True)
    _drop_token(config, host)
    for each in (path, Path(record.backup)):
        each.unlink(missing_ok=True)
    return record.path


# --- the settings of hosts --------------------------------------------------------------------------


def add_server(host: Host, text: str, command: list[str], environment: Mapping[str, str]) -> tuple[str, str]:
    """What is added to a settings file, and the file with it; nothing else in it changes.

    Comments and trailing commas stay. Raises MailroomError if the file cannot be read, or has such a server.
    """
    env = dict(environment)
    entry: dict[str, Any] = {"command": command[0], "args": command[1:], "env": env}
    if host.form == "typed":
        entry = {"type": "stdio", **entry}
    elif host.form == "local":
        entry = {"type": "local", "command": command, "environment": env, "enabled": True}
    if host.form == "toml":
        added = _format_toml(host.section, entry)
        added = added if text.endswith("\n") or not text else f"\n{added}"
        added = f"\n{added}" if text else added
        place = len(text)
    else:
        place, added = _fit_json(host.section, text, entry)
    result = text[:place] + added + text[place:]
    if NAME in _parse(host, text).get(host.section, {}):
        raise MailroomError(f"The file has a server {NAME!r} already", "Take it out, and try again")
    if _parse(host, result).get(host.section, {}).get(NAME) != entry:
        raise MailroomError("The file is of a form that cannot be added to safely", "Use --print")
    return added, result


def _parse(host: Host, text: str) -> dict[str, Any]:
    try:
        if host.form == "toml":
            return tomllib.loads(text)
        found = json.loads(_without_comments(text) or "{}")
    except (ValueError, RecursionError) as error:
        raise MailroomError(f"The settings file cannot be read: {error}", "Correct it first") from None
    section = found.get(host.section, {}) if isinstance(found, dict) else None
    if not isinstance(section, dict):
        raise MailroomError(f"The settings file has no object for {host.section}", "Correct it first")
    return found if isinstance(found, dict) else {}


_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|[{}\[\]:,]|[^\s{}\[\]:,"/]+|\S', re.DOTALL)


def _without_comments(text: str) -> str:
    """The JSON of a text with comments and trailing commas."""
    parts = [found for found in _TOKEN.findall(text) if not found.startswith(("//", "/*"))]
    kept = [
        part
        for part, following in zip(parts, [*parts, ""][1:], strict=True)
        if not (part == "," and following in ("}", "]"))
    ]
    return " ".join(kept).removeprefix("\ufeff")


def _fit_json(section: str, text: str, entry: Mapping[str, Any]) -> tuple[int, str]:
    """Where a server is added to a text with JSON, and how: at the beginning of its section, or of all."""
    if not text.strip():
        return 0, json.dumps({section: {NAME: entry}}, indent=2, ensure_ascii=False) + "\n"
    tokens = [each for each in _TOKEN.finditer(text) if not each[0].startswith(("//", "/*"))]
    depth, opening, inner = 0, -1, -1
    for number, token in enumerate(tokens):
        if token[0] in "{[":
            depth += 1
            opening = number if opening < 0 else opening
            is_section = depth == 2 and number > 2 and tokens[number - 1][0] == ":"
            if is_section and json.loads(tokens[number - 2][0]) == section:
                inner = number
        elif token[0] in "}]":
            depth -= 1
    if opening < 0:
        raise MailroomError("The settings file is no JSON object", "Correct it first")
    number = opening if inner < 0 else inner
    value = {NAME: entry} if inner >= 0 else {section: {NAME: entry}}
    indent = "  " * (2 if inner >= 0 else 1)
    lines = json.dumps(value, indent=2, ensure_ascii=False).splitlines()[1:-1]
    shown = "".join(f"\n{indent}{line[2:]}" for line in lines)
    is_empty = number + 1 < len(tokens) and tokens[number + 1][0] == "}"
    return tokens[number].end(), shown + ("" if is_empty else ",")


def _format_toml(section: str, entry: Mapping[str, Any]) -> str:
    """A table of TOML, whose basic strings are written as those of JSON."""
    env = ", ".join(f"{name} = {json.dumps(value)}" for name, value in entry["env"].items())
    command, args = json.dumps(entry["command"]), json.dumps(entry["args"])
    return f"[{section}.{NAME}]\ncommand = {command}\nargs = {args}\nenv = {{ {env} }}\n"


# --- what is kept of a host -------------------------------------------------------------------------


def _record_path(config: Settings, host: str) -> Path:
    return token_path(config, host).with_suffix(".json")


def _command(host: str) -> list[str]:
    """How a host starts the server, whatever its PATH is."""
    script = Path(sys.executable).with_name("mailroom")
    begin = [str(script)] if script.exists() else [sys.executable, "-m", "services.cli"]
    return [*begin, "mcp", "serve", "--as", host]


def _environment(config: Settings) -> dict[str, str]:
    found = {"MAILROOM_STATE_DIR": str(config.state_dir.absolute())}
    return found | ({"MAILROOM_URL": config.url} if config.url else {})


def _read(path: Path) -> str:
    """The text of a file, so that it can be written again to the byte; empty without one."""
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise MailroomError(f"{path} cannot be read: {error.strerror}") from None


def _write(path: Path, text: str, existed: bool) -> None:
    """Write it whole, through a link to the file itself, with the mode that it had."""
    place = path.resolve()
    mode = place.stat().st_mode & 0o777 if existed else 0o600
    write_atomically(place, text.encode("utf-8", "surrogateescape"), mode=mode)
    place.chmod(mode)


def _make_token(config: Settings, host: str, scope: str, person: str) -> None:
    wanted = {"name": host, "scopes": [scope], "person": person}
    secret = api.post("/tokens", dict[str, str], wanted)["token"]
    write_atomically(token_path(config, host), secret, mode=0o600)


def _drop_token(config: Settings, host: str) -> None:
    token_path(config, host).unlink(missing_ok=True)
    try:
        api.delete(f"/tokens/{host}")
    except NotFound:
        return
    except MailroomError as error:
        click.echo(f"The token {host} is not revoked: {error}", err=True)


def _try(config: Settings, host: str) -> str:
    """What a tool answers through the command that the host has been given."""
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": NAME, "version": "1"},
    }
    messages = (
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "agents", "arguments": {}}},
    )
    sent = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in messages)
    command = ["/usr/bin/env", *(f"{name}={value}" for name, value in _environment(config).items())]
    process = subprocess.Popen(
        [*command, *_command(host)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(sent)
        process.stdin.flush()
        for line in process.stdout:
            answer = json.loads(line)
            if answer.get("id") == 2 or "error" in answer:
                return _describe(answer)
        raise MailroomError("The office did not answer", "'mailroom doctor' says why")
    finally:
        process.stdin.close()
        process.terminate()
        process.wait(CHECK)


def _describe(answer: Mapping[str, Any]) -> str:
    result = answer.get("result")
    if result is None or result.get("isError"):
        error = answer.get("error") or {}
        raise MailroomError(clean(str(error.get("message") or result))[:1_000])
    agents = result["structuredContent"]["agents"]
    return "\n".join(f"{each['name']}: {each['state']}" for each in agents)
