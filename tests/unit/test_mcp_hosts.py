"""The settings files of hosts: a server is added to each form, and nothing else in it changes."""

import json
import tomllib
from pathlib import Path

import pytest

from services.cli.commands.mcp_hosts import HOSTS, NAME, add_server, install
from shared.errors import MailroomError

COMMAND, ENVIRONMENT = ['/opt/a "b"/mailroom', "mcp", "serve"], {"MAILROOM_STATE_DIR": "/home/ä/.mailroom"}
JSON = [name for name, host in HOSTS.items() if host.form != "toml"]
FILES = {
    "none": "",
    "empty": "{}\n",
    "others": '{"theme": "dark", "SECTION": {"time": {"command": "uvx"}}}\n',
    "an empty section": '{\n  "SECTION": {}\n}',
    "only others": '{"theme": {"SECTION": {"x": 1}}, "list": [{"SECTION": {}}]}\n',
    "comments": '// "SECTION": {\n{\n  /* "SECTION": { */\n'
    '  "SECTION": { // here\n    "a": {"url": "http://x//y"},\n  },\n}\n',
    "escapes": '{"a": "\\"SECTION\\": {", "SECTION": {"b": {"command": "/*"}}}\r\n',
}


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("case", FILES)
def test_a_server_is_added_to_json_and_taken_out_to_the_byte(name: str, case: str) -> None:
    host = HOSTS[name]
    before = FILES[case].replace("SECTION", host.section)
    added, after = add_server(host, before, COMMAND, ENVIRONMENT)
    assert after.replace(added, "", 1) == before
    if "comments" not in case:
        found = json.loads(after)
        assert NAME in found[host.section]
        command = found[host.section][NAME]["command"]
        assert command == (COMMAND if host.form == "local" else COMMAND[0])
        if "theme" in before:
            assert found["theme"] == json.loads(before)["theme"]


@pytest.mark.parametrize("before", ["", 'model = "x"', "# mine\n[mcp_servers.time]\ncommand = 'uvx'\n"])
def test_a_server_is_added_to_toml(before: str) -> None:
    added, after = add_server(HOSTS["codex"], before, COMMAND, ENVIRONMENT)
    assert after.startswith(before)
    assert after.replace(added, "", 1) == before
    assert tomllib.loads(after)["mcp_servers"][NAME]["env"] == ENVIRONMENT


@pytest.mark.parametrize(
    ("name", "variable", "path"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("opencode", "XDG_CONFIG_HOME", "opencode/opencode.json"),
        ("zed", "XDG_CONFIG_HOME", "zed/settings.json"),
        ("cursor", "XDG_CONFIG_HOME", ""),
    ],
)
def test_a_host_may_have_its_settings_elsewhere(
    name: str, variable: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    for each in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(each, raising=False)
    usual = HOSTS[name].find()
    assert usual == Path.home() / HOSTS[name].path
    monkeypatch.setenv(variable, "/else/where")
    assert HOSTS[name].find() == (Path("/else/where", path) if path else usual)


STRUCTURE = {
    "claude-desktop": ("mcpServers", {"command": str, "args": list, "env": dict}),
    "cursor": ("mcpServers", {"command": str, "args": list, "env": dict}),
    "vscode": ("servers", {"type": str, "command": str, "args": list, "env": dict}),
    "zed": ("context_servers", {"command": str, "args": list, "env": dict}),
}
"""What the documentation named beside HOSTS shows of hosts that could not be run; nothing else is written."""


@pytest.mark.parametrize("name", STRUCTURE)
def test_a_server_has_the_structure_that_a_host_documents(name: str) -> None:
    section, types = STRUCTURE[name]
    found = json.loads(add_server(HOSTS[name], "", COMMAND, ENVIRONMENT)[1])
    assert list(found) == [section]
    entry = found[section][NAME]
    assert {key: type(value) for key, value in entry.items()} == types
    assert entry.get("type", "stdio") == "stdio"
    assert [entry["command"], *entry["args"]] == COMMAND
    assert entry["env"] == ENVIRONMENT


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("cursor", "{"),
        ("cursor", "[]"),
        ("cursor", '{"mcpServers": []}'),
        ("cursor", '{"mcpServers": {"mailroom": {}}}'),
        ("cursor", '{"a": 1} trailing'),
        ("codex", "mcp_servers = {}\n"),
        ("codex", "[mcp_servers.mailroom]\ncommand = 'x'\n"),
        ("codex", "not toml"),
    ],
)
def test_what_cannot_be_added_to_safely_is_refused(name: str, before: str) -> None:
    with pytest.raises(MailroomError):
        add_server(HOSTS[name], before, COMMAND, ENVIRONMENT)


def test_without_an_office_nothing_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAILROOM_STATE_DIR", str(tmp_path / "state"))
    place = tmp_path / "config.toml"
    with pytest.raises(MailroomError, match="No office is running"):
        install.main(["codex", "--yes", "--file", str(place)], standalone_mode=False)
    assert not list(tmp_path.rglob("*.toml"))
    assert not (tmp_path / "state" / "hosts").exists()
