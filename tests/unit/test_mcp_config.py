"""The MCP servers of mailroom.toml: read in both forms, written and removed; pins; what is imported."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from shared import settings
from shared.errors import ActionError, ConfigError
from shared.mcp.config import OAuth, ServerConfig, add_server, read_host_file, read_servers, remove_server
from shared.mcp.pins import MAX_DEPTH, Pin, Tool, compare, require_sound
from shared.settings import Settings
from shared.tasks.profiles import Profile

BEFORE = '# By hand\nnight = "always"\n\n[deliver]\nquiet_hours = "22:00-07:00"\n'
SERVER = ServerConfig(
    command="node", args=("a b", 'say "x"', "ü\x7f"), env={"A.B": "1", "C": "\\"}, agents=("*",), idle=5.0
)


def load(folder: Path, text: str = "") -> Settings:
    if text:
        (folder / "mailroom.toml").write_text(text)
    return settings.load({"MAILROOM_STATE_DIR": str(folder)})


def test_a_server_is_written_read_and_removed_to_the_byte(tmp_path: Path) -> None:
    config = load(tmp_path, BEFORE)
    path = add_server(config, "notes", SERVER)
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_servers(load(tmp_path)) == {"notes": SERVER}
    with pytest.raises(ConfigError, match="is a server 'notes' already"):
        add_server(load(tmp_path), "notes", SERVER)
    known_by = OAuth(client="office", secret="/x/y", issuer="https://example.org", grant="client_credentials")
    more = ServerConfig(url="https://example.org/mcp", oauth=known_by)
    add_server(load(tmp_path), "more", more)
    assert read_servers(load(tmp_path))["more"] == more
    remove_server(load(tmp_path), "notes")
    assert list(read_servers(load(tmp_path))) == ["more"]
    remove_server(load(tmp_path), "more")
    assert path.read_text().rstrip() == BEFORE.rstrip()
    with pytest.raises(ConfigError, match="has no"):
        remove_server(load(tmp_path), "more")


def test_what_cannot_be_cut_out_is_left(tmp_path: Path) -> None:
    text = '[mcp.notes]\ncommand = "x"\nargs = [\n"a",\n]\nenv.A = """\n[deliver]\n"""\n\n'
    config = load(tmp_path, f'{text}[deliver]\nquiet_hours = "21:00-22:00"\n')
    with pytest.raises(ConfigError, match="with an editor"):
        remove_server(config, "notes")
    assert "[mcp.notes]" in (tmp_path / "mailroom.toml").read_text()


def test_the_form_of_hosts_is_read_too(tmp_path: Path) -> None:
    text = '[mcpServers.time]\ntype = "stdio"\ncommand = "uvx"\nargs = ["mcp-server-time"]\n'
    assert read_servers(load(tmp_path, text))["time"].args == ("mcp-server-time",)
    file = tmp_path / "host.json"
    file.write_text(json.dumps({"mcpServers": {"Home-Assistant": {"url": "http://x/", "disabled": False}}}))
    assert read_host_file(file) == {"home_assistant": {"url": "http://x/"}}
    for wrong in ("", "[]", '{"mcpServers": []}', "[" * 5_000):
        file.write_text(wrong)
        with pytest.raises(ConfigError, match="no servers that can be read"):
            read_host_file(file)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[mcp.A]\ncommand = "x"', "no server can have that name"),
        ('[mcp.a__b]\ncommand = "x"', "no server can have that name"),
        ("[mcp.a]\n", "either a command or a url"),
        ('[mcp.a]\ncommand = "x"\nurl = "http://x"', "either a command or a url"),
        ('[mcp.a]\ncommand = "x"\nsecret = 1', "Its settings are command"),
        ('[mcp.a]\ncommand = "x"\nheaders = {A = "b"}', "headers and oauth go with a url"),
    ],
)
def test_a_wrong_server_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_servers(load(tmp_path, text))


def test_who_has_a_server() -> None:
    for patterns, name, named, has in (
        (("*",), "scout", (), True),
        (("specialist-*",), "scout", (), False),
        (("specialist-*",), "specialist-tax", (), True),
        ((), "scout", ("time",), True),
        ((), "scout", ("other",), False),
    ):
        server = ServerConfig(command="x", agents=patterns)
        assert server.is_for("time", Profile(name=name, description="d", mcp=named)) is has


@pytest.mark.parametrize(
    "oauth",
    [
        {"grant": "client_credentials", "client": "office"},
        {"redirect": "https://example.org:443/callback"},
        {"redirect": "http://127.0.0.1/callback"},
        {"client_secret": "/x"},
    ],
)
def test_a_sign_in_that_cannot_be_is_refused(oauth: dict[str, str]) -> None:
    values = {"url": "https://example.org/mcp", "oauth": oauth}
    with pytest.raises(ConfigError, match=r"\[mcp.far.oauth\] is wrong.* client, secret, issuer"):
        read_servers(msgspec.structs.replace(settings.Settings(state_dir=Path()), mcp={"far": values}))


def test_a_pin_is_of_the_set() -> None:
    one, two = Tool(name="one", description="d"), Tool(name="two", description="e")
    pin = Pin(server="s", tools=(one, two))
    assert pin.digest == Pin(server="s", tools=(two, one)).digest
    assert pin.digest != Pin(server="s", tools=(one,)).digest
    renamed = msgspec.structs.replace(two, name="three")
    assert [word for word, _ in compare(pin, Pin(server="s", tools=(one, renamed)))] == [
        "renamed from two",
        "gone",
    ]
    hinted = msgspec.structs.replace(two, annotations={"readOnlyHint": True})
    assert [word for word, _ in compare(pin, Pin(server="s", tools=(one, hinted)))] == ["changed: two"]
    assert two.asks
    assert not hinted.asks
    clash = Pin(server="s", tools=(Tool(name="a-b"), Tool(name="a.b"), Tool(name="x" * 80)))
    assert list(clash.actions()) == ["s__a_b"]
    assert clash.actions()["s__a_b"].name == "a-b"


def test_a_schema_that_nobody_reads_is_refused() -> None:
    deep: dict[str, object] = {}
    for _ in range(MAX_DEPTH + 1):
        deep = {"properties": deep}
    for tool in (Tool(name="deep", schema=deep), Tool(name="long", description="x" * 200_000)):
        with pytest.raises(ActionError, match="at a length or depth that nobody reads"):
            require_sound(tool)
    assert require_sound(Tool(name="quoted", description="[{" * 100))


def test_the_library_is_imported_by_none_who_has_no_server() -> None:
    heavy = ("mcp", "mcp_types", "pydantic")
    code = f"import sys, shared.agent.process; print([n for n in {heavy} if n in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
