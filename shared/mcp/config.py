"""The MCP servers of this installation, as ``[mcp.NAME]`` of mailroom.toml describes them."""

import json
import re
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from shared.errors import ActionError, ConfigError
from shared.files import write_atomically
from shared.mcp.pins import Tool
from shared.sandbox import Reach
from shared.setting_values import Seconds
from shared.settings import Settings, settings_file
from shared.tasks.profiles import Profile

NAME = re.compile(r"[a-z](?:_?[a-z0-9]){0,31}")
VARIABLE = re.compile(r"\$\{(\w+)\}")
OF_HOSTS = ("command", "args", "env", "cwd", "url", "headers")
"""What is taken from the ``mcpServers`` of a host's file; the rest means something to that host alone."""


class OAuth(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How to sign in at the ``url`` of a server, where it is not enough that Mailroom registers itself there.

    ``client`` is what the service calls Mailroom: an id that was given out, or the https address of a
    document that describes it. ``secret`` is the path of a file with the secret of that id, ``issuer`` the
    service that may get it. ``scope`` is asked for beside what the server wants; ``redirect`` is where the
    browser returns to, on this machine. With the ``grant`` client_credentials nobody signs in: the secret, or
    a private key (PEM) in its place, is enough.
    """

    client: str = ""
    secret: str = ""
    issuer: str = ""
    scope: str = ""
    redirect: str = "http://127.0.0.1:0/callback"
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"

    def __post_init__(self) -> None:
        if self.signs_itself and not (self.client and self.secret and self.issuer):
            raise ValueError("client_credentials need a client, a secret and an issuer")
        if not re.fullmatch(r"http://(127\.0\.0\.1|localhost|\[::1\]):\d{1,5}/\S*", self.redirect):
            raise ValueError("the redirect has to be of this machine, as http://127.0.0.1:8123/callback is")

    @property
    def signs_itself(self) -> bool:
        """Whether nobody has to sign in."""
        return self.grant == "client_credentials"


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A server: a ``command`` with ``args``, run in the jail, or the ``url`` of one elsewhere.

    ``agents`` are those that get its tools, as patterns (``*`` for all), beside those whose profile names it.
    A command sees the variables ``env`` and ``secrets`` (each the path of a file, whose content it is), the
    files ``read`` and ``write``, and of the network the hosts ``reach``. ``headers`` go to a ``url``;
    ``${NAME}`` in them is a secret. ``allow``, ``ask`` and ``deny`` are patterns of tools, in place of what
    their annotations say. ``timeout`` are the seconds of one call, ``idle`` those without one until the
    server is stopped. With ``sampling`` it may ask the agent's model, within the budget of the task.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    url: str = ""
    headers: dict[str, str] = {}
    oauth: OAuth = OAuth()
    env: dict[str, str] = {}
    secrets: dict[str, str] = {}
    cwd: str = ""
    agents: tuple[str, ...] = ()
    reach: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    sampling: bool = False
    timeout: Seconds = 120.0
    idle: Seconds = 300.0
    processes: Annotated[int, Meta(ge=1, le=2048)] = 256

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError("it needs either a command or a url")
        if not self.url and (self.headers or self.oauth != OAuth()):
            raise ValueError("headers and oauth go with a url")

    def is_for(self, name: str, profile: Profile) -> bool:
        """Whether the agent with this profile gets the tools of the server called ``name``."""
        return name in profile.mcp or any(fnmatchcase(profile.name, each) for each in self.agents)

    def allows(self, tool: Tool) -> bool:
        """Whether the settings name it as one that is called without asking."""
        return _is_among(self.allow, tool)

    def judge(self, tool: Tool) -> Literal["allow", "ask", "deny"]:
        """Whether it is called, or a person is asked first; where the settings are silent, it says so."""
        if _is_among(self.deny, tool):
            return "deny"
        is_allowed = not _is_among(self.ask, tool) and (self.allows(tool) or not tool.asks)
        return "allow" if is_allowed else "ask"

    def read_secrets(self) -> dict[str, str]:
        """The secrets, from their files; raises ActionError that names the one that cannot be read."""
        return {name: read_secret(name, place) for name, place in self.secrets.items()}

    def make_reach(self) -> Reach:
        """What it may connect to; raises ActionError for a malformed host."""
        return Reach(hosts=self.reach, allow_private=self.reach)


class SignIn(msgspec.Struct, frozen=True, kw_only=True):
    """How a person signs in: where the browser returns to, what opens it, and the query it returns with."""

    address: str
    open: Callable[[str], Awaitable[None]]
    wait: Callable[[], Awaitable[dict[str, str]]]


def read_secret(name: str, place: str) -> str:
    """The text of a file; raises ActionError that names it if it cannot be read."""
    try:
        return Path(place).expanduser().read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ActionError(f"The secret {name} cannot be read from {place}: {reason}") from None


def _is_among(patterns: tuple[str, ...], tool: Tool) -> bool:
    return any(fnmatchcase(each, pattern) for pattern in patterns for each in (tool.name, tool.label))


def read_servers(settings: Settings) -> dict[str, ServerConfig]:
    """The servers by name; raises ConfigError for one that is described wrongly."""
    return {name: _convert(name, values) for name, values in settings.mcp.items()}


def _convert(name: str, values: Any) -> ServerConfig:
    if not NAME.fullmatch(name):
        cure = "Give it one of small letters, digits and single '_', such as home_assistant"
        raise ConfigError(f"[mcp.{name[:60]}] is wrong: no server can have that name", cure)
    try:
        if isinstance(values, dict):
            values = {key: each for key, each in values.items() if key != "type"}  # which hosts write
        return msgspec.convert(values, ServerConfig)
    except msgspec.ValidationError as error:
        wrong, place = (
            (OAuth, f"mcp.{name}.oauth") if "`$.oauth" in str(error) else (ServerConfig, f"mcp.{name}")
        )
        known = ", ".join(wrong.__struct_fields__)
        raise ConfigError(f"[{place}] is wrong: {error}", f"Its settings are {known}") from None


def read_host_file(path: Path) -> dict[str, dict[str, Any]]:
    """The servers that a host's JSON file describes, without what only that host understands.

    Raises ConfigError if it has none.
    """
    try:
        content = json.loads(path.read_text("utf-8"))
        servers = content.get("mcpServers") or content["servers"]
        return {
            name.lower().replace("-", "_"): {key: each[key] for key in OF_HOSTS if each.get(key)}
            for name, each in servers.items()
        }
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        raise ConfigError(f"{path} has no servers that can be read: {error}") from None


# --- writing them to mailroom.toml -------------------------------------------------------------------


def add_server(settings: Settings, name: str, server: ServerConfig) -> Path:
    """Write a server to the end of mailroom.toml, which is returned; raises ConfigError if it has one."""
    path = settings_file(settings.state_dir)
    before = _read(path)
    if name in read_servers(settings):
        cure = f"Remove that first (mailroom mcp remove {name}), or change {path}"
        raise ConfigError(f"There is a server {name!r} already", cure)
    lines = [f"[mcp.{name}]"]
    for key, value in msgspec.to_builtins(server).items():
        if isinstance(value, Mapping):
            pairs = ", ".join(f"{_quote(each)} = {_quote(text)}" for each, text in value.items())
            lines.append(f"{key} = {{ {pairs} }}")
        else:
            lines.append(f"{key} = {_quote(value)}")
    _write(path, f"{before.rstrip()}\n\n{chr(10).join(lines)}\n".lstrip(), before, {name})
    return path


def remove_server(settings: Settings, name: str) -> Path:
    """Remove a server from mailroom.toml, which is returned; raises ConfigError if it is not there."""
    path = settings_file(settings.state_dir)
    before = _read(path)
    header = re.compile(
        rf"^\[(?:mcp|mcpServers)\.[\"']?{re.escape(name)}[\"']?(?:\.[^\]]+)?\][^\n]*\n?", re.MULTILINE
    )
    after = before
    while found := header.search(after):
        following = re.search(r"^\[", after[found.end() :], re.MULTILINE)
        end = found.end() + following.start() if following else len(after)
        after = after[: found.start()] + after[end:]
    if after == before:
        raise ConfigError(f"{path} has no [mcp.{name}]", "mailroom mcp list names the servers")
    _write(path, after, before, {name})
    return path


def _quote(value: Any) -> str:
    # JSON's strings, numbers, lists and booleans are TOML too, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from None


def _write(path: Path, text: str, before: str, names: set[str]) -> None:
    """Write ``text`` if it differs from ``before`` in the servers ``names`` alone; raises ConfigError."""

    def others(document: str) -> dict[str, Any]:
        values = tomllib.loads(document)
        for kind in ("mcp", "mcpServers"):
            kept = {name: each for name, each in values.pop(kind, {}).items() if name not in names}
            values |= {kind: kept} if kept else {}
        return values

    try:
        same = others(text) == others(before)
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise ConfigError(f"{path} is written in a way that is not changed here", "Change it with an editor")
    write_atomically(path, text, mode=0o600)
