"""The command line itself: what it offers, how it refuses, how quickly it starts."""

import io
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from services.cli import agents, approvals
from services.cli.__main__ import COMMANDS, cli
from services.cli.checks import check_disk
from services.cli.connection import find_office, find_url
from services.cli.lock import OfficeLock
from services.cli.screen import clean, clean_block, shorten, wrap
from services.cli.standing import Standing
from services.cli.watching import print_outcome
from shared import settings
from shared.contracts import ApprovalRequest, Goal, Presence
from shared.errors import StartError


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, prog_name="mailroom", input=text)


def test_every_command_of_the_table_exists() -> None:
    context = click.Context(cli)
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert isinstance(command, click.Command), name
        assert command.name == name
        assert command.get_short_help_str(), name
    assert cli.get_command(context, "nothing") is None


def test_help_lists_every_command() -> None:
    result = run("--help")
    assert result.exit_code == 0
    listed = [line.split()[0] for line in result.output.partition("Commands:")[2].strip().splitlines()]
    assert [name for name in listed if name in COMMANDS] == list(COMMANDS)


def _commands(command: click.Command, path: str) -> list[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        return [(path, command)]
    context = click.Context(command)
    found = []
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        found += _commands(child, f"{path} {name}".strip())
    return found


def test_everything_that_tells_something_can_tell_it_in_json() -> None:
    without = {path for path, command in _commands(cli, "") if "--json" not in _options(command)}
    assert without == {"completion", "demo"}


def _options(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


@pytest.mark.parametrize(
    "arguments",
    [
        ("frobnicate",),
        ("submit",),
        ("submit", ""),
        ("submit", "   \n"),
        ("submit", "x" * 100_001),
        ("submit", "x", "--context", "no-value"),
        ("submit", "x", "--context", "=value"),
        ("submit", "x", "--context", 'params={"broken": '),
        ("submit", "x", "--priority", "yesterday"),
        ("submit", "x", "--deadline", "soon"),
        ("submit", "x", "--deadline", "2020-01-01"),
        ("ask", ""),
        ("ask", "x", "--timeout", "0"),
        ("tail", "--since", "a while"),
        ("show",),
        ("cancel",),
        ("dead", "show", "zero"),
        ("dead", "retry"),
        ("dead", "retry", "1", "--all"),
        ("dead", "drop"),
        ("memory", "add", "x", "--importance", "7"),
        ("memory", "add", "x" * 300),
        ("memory", "add", "x", "--kind", "Not A Kind"),
        ("memory", "search", "x", "--limit", "0"),
        ("completion", "tcsh"),
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_what_is_not_understood_ends_with_2(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert "Error: " in result.output
    assert "Traceback" not in result.output
    assert len(result.output) < 1_000


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [(("submitt",), "submit"), (("memory", "serach"), "search"), (("xyzzy",), "")],
)
def test_a_slip_of_the_pen_is_answered_with_what_was_meant(arguments: tuple[str, ...], meant: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert (f"Did you mean '{meant}'?" in result.output) is bool(meant)
    assert ("Did you mean" in result.output) is bool(meant)


def test_empty_standard_input_is_refused_like_an_empty_text() -> None:
    result = run("submit", "-", text=" \n")
    assert result.exit_code == 2
    assert "it is empty" in result.output


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    result = run("completion", shell)
    assert result.exit_code == 0
    assert "_MAILROOM_COMPLETE" in result.output


@pytest.mark.parametrize(
    ("words", "expected"),
    [("mailroom sub", "submit"), ("mailroom dead re", "retry"), ("mailroom tail --go", "--goal")],
)
def test_words_are_completed(words: str, expected: str) -> None:
    environment = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
        "_MAILROOM_COMPLETE": "bash_complete",
    }
    result = CliRunner().invoke(cli, prog_name="mailroom", env=environment)
    assert result.output.split() == [f"plain,{expected}"]


def test_starting_loads_neither_the_bus_nor_the_commands() -> None:
    code = (
        "import sys; from services.cli.__main__ import cli\n"
        "heavy = {'nats', 'rich', 'structlog', 'msgspec', 'yaml'}\n"
        "print([name for name in sys.modules if name in heavy])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_version() -> None:
    result = run("--version")
    assert (result.exit_code, result.output.split()[0]) == (0, "mailroom")


# --- finding the office --------------------------------------------------------------------------


def office(tmp_path: object, **more: str) -> settings.Settings:
    return settings.load({"MAILROOM_STATE_DIR": str(tmp_path), "HOME": str(tmp_path), **more})


def test_without_an_office_the_error_says_how_to_start_one(tmp_path: object) -> None:
    with pytest.raises(StartError, match=r"No office is running in .* 'mailroom up'"):
        find_url(office(tmp_path))


def test_an_office_that_is_being_opened_is_to_be_waited_for(tmp_path: object) -> None:
    config = office(tmp_path)
    lock = OfficeLock.acquire(config.state_dir)
    assert lock is not None
    with pytest.raises(StartError, match=r"is just being opened or closed\. Try again in a moment"):
        find_url(config)
    lock.release()
    with pytest.raises(StartError, match="No office is running"):
        find_url(config)


@pytest.mark.parametrize("inside", [".", "run", "deeper/still"])
def test_a_file_where_the_state_directory_should_be(tmp_path: Path, inside: str) -> None:
    file = tmp_path / "file"
    file.write_text("")
    state = file / inside
    with pytest.raises(StartError, match=r"is a file, not a folder\. Name another with --state-dir"):
        OfficeLock.acquire(state)
    check = check_disk(office(state))
    assert (check.verdict, check.finding) == ("fail", f"{file} is a file, not a folder")


def test_an_office_whose_process_is_gone_does_not_run(tmp_path: object) -> None:
    config = office(tmp_path)
    record = config.state_dir / "run" / "office.json"
    record.parent.mkdir()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for content in ("", "{}", "not json", json.dumps({"pid": ended.pid, "url": "nats://x:1"})):
        record.write_text(content)
        assert find_office(config) is None


def test_nats_url_comes_before_the_running_office(tmp_path: object) -> None:
    assert find_url(office(tmp_path, NATS_URL="nats://elsewhere:4222")) == "nats://elsewhere:4222"


# --- text on the screen --------------------------------------------------------------------------


def test_text_is_shown_without_what_steers_a_terminal() -> None:
    assert clean("a\tb\r\nc\x1b[2J\u2028d") == "a b c[2J d"
    assert clean_block("one\r\n\x07two\n\tthree") == "one\ntwo\n    three"


def test_lines_are_broken_between_words_and_paths_stay_whole() -> None:
    path = "/a/long-path/" + "b" * 30
    assert wrap(f"ok   the model is in {path}, all right\n\n- two", 20, hang=5) == (
        f"ok   the model is in\n     {path},\n     all right\n\n- two"
    )


@pytest.mark.parametrize(
    ("reason", "answer", "told"),
    [
        ("page: no field `repo`. Name it", "no field repo. Name it", True),
        ("page: it cannot be reached for", "it cannot be reached for now. Try…", True),
        ("it rained", "it rained", True),
        ("it rained", "All is well.", False),
        ("it rained", "", False),
    ],
)
def test_a_reason_is_told_once(reason: str, answer: str, told: bool) -> None:
    goal = Goal(
        goal_id="g1",
        text="Go",
        requester="user",
        reason=reason,
        answer=answer,
        submitted_at="2026-01-02T03:04:05Z",
    )
    console = Console(file=io.StringIO(), width=80)
    print_outcome(goal, console)
    assert isinstance(console.file, io.StringIO)
    assert ("Reason: " not in console.file.getvalue()) is told


def test_shortened_text_says_so() -> None:
    assert shorten("short", 10) == "short"
    assert shorten("0123456789abc", 10) == "012345678…"


def test_on_a_terminal_lines_break_between_words_and_a_path_stays_whole() -> None:
    path = f"/tmp/{'x' * 90}/node_modules"
    request = ApprovalRequest(
        sender="engineer",
        recipient="user",
        approval_id="0" * 32,
        task_id="t1",
        what="run it",
        rule="destroy.workspace",
        why=f"{path} holds work of the workspace.",
        expires_at="2100-01-01T00:00:00+00:00",
    )
    presence = Presence(
        sender="scout",
        recipient="user",
        agent="scout",
        instance="1",
        version="1",
        actions={"read": "word " * 40},
    )
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, color_system=None, width=80)
    approvals._print(Standing(request, None, "waiting"), console)
    agents._print([presence], console, whole=True)
    lines = screen.getvalue().splitlines()
    assert any(path in line for line in lines)
    assert [line for line in lines if line != line.rstrip()] == []
