"""The command line itself: what it offers, how it refuses, how quickly it starts."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import cast

import click
import pytest
from click.testing import CliRunner, Result

from services.cli.command import COMMANDS, MCP_COMMANDS, MEANT, MEMORY_COMMANDS, SECTIONS, cli
from services.cli.commands.memory.session import suggest_kind
from services.cli.commands.options import NumberType, read_stdin
from services.cli.commands.up import format_usage
from services.cli.connection import find_url
from services.cli.supervisor.lock import InstanceLock
from shared import settings
from shared.bus.connecting import RunningInstance, find_instance
from shared.contracts import Goal, generate_iso_timestamp
from shared.errors import BusUnavailable, MailroomError, StartError
from shared.queries.checks import check_disk
from shared.views.listed import LatestGoals


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, prog_name="mailroom", input=text)


def test_every_command_of_the_table_exists() -> None:
    context = click.Context(cli)
    of_memory = cli.get_command(context, "memory")
    of_mcp = cli.get_command(context, "mcp")
    assert isinstance(of_memory, click.Group)
    assert isinstance(of_mcp, click.Group)
    for group, table in ((cli, COMMANDS), (of_memory, MEMORY_COMMANDS), (of_mcp, MCP_COMMANDS)):
        for name, (_, sentence) in table.items():
            command = group.get_command(context, name)
            assert isinstance(command, click.Command), name
            assert command.name == name
            assert command.get_short_help_str(500) == sentence, name
    assert cli.get_command(context, "nothing") is None


def test_help_lists_every_command() -> None:
    result = run("--help")
    assert result.exit_code == 0
    _, *sections = re.split(r"\n\n(?=\w.*:\n)", result.output.partition("Options:\n")[2])
    listed = {
        title: [line.split()[0] for line in rows.splitlines() if line.startswith("  ")]
        for title, _, rows in (section.partition(":\n") for section in sections)
    }
    assert listed == {title: list(names) for title, names in SECTIONS.items()}


def test_the_examples_of_the_help_are_valid_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("shop", "site"):
        (tmp_path / "src" / name).mkdir(parents=True)
    for name in ("notes", "archive"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    lines = [
        line.strip().removeprefix("TOKEN=$(").rstrip(")").partition(" | ")[0]
        for _, command in _commands(cli, "")
        for line in (command.epilog or "").splitlines()
        if "mailroom " in line and "Examples" in (command.epilog or "")
    ]
    assert len(lines) > 20
    for line in lines:
        program, *arguments = map(os.path.expanduser, shlex.split(line))
        assert program == "mailroom", line
        context, command = click.Context(cli), cast(click.Command, cli)
        while isinstance(command, click.Group):
            _, found, arguments = command.resolve_command(context, arguments)
            assert found is not None, line
            command = found
        command.make_context("mailroom", arguments, parent=context)


def test_help_fits_a_terminal_and_ends_no_sentence_early() -> None:
    for path in ["", *(path for path, _ in _commands(cli, "", groups=True))]:
        shown = run(*path.split(), "--help").output
        assert max(map(len, shown.splitlines())) <= 80, path
        _, _, listed = shown.partition("  -h, --help")
        assert "..." not in listed, path
        assert "RANGE" not in shown, path


def _commands(command: click.Command, path: str, groups: bool = False) -> list[tuple[str, click.Command]]:
    if not isinstance(command, click.Group):
        return [(path, command)]
    context = click.Context(command)
    found = [(path, command)] if groups and path else []
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        found += _commands(child, f"{path} {name}".strip(), groups)
    return found


def test_everything_that_tells_something_can_tell_it_in_json() -> None:
    without = {path for path, command in _commands(cli, "") if "--json" not in _options(command)}
    # asyncapi and mcp serve are JSON by themselves; cluster watch writes a log
    assert without == {"asyncapi", "cluster watch", "completion", "demo", "init", "mcp serve"}


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
        ("diff",),
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


def test_a_number_may_have_any_length() -> None:
    assert NumberType(1).convert("9" * 400, None, None) == 10**400 - 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("memory", "search", "x", "--limit", "many"), "'many' is not a whole number from 1 to 100"),
        (("memory", "search", "x", "--limit", "101"), "'101' is not a whole number from 1 to 100"),
        (("memory", "add", "x", "--importance", "nan"), "'nan' is not a number from 0 to 1"),
        (("dead", "show", "1.5"), "'1.5' is not a whole number of 1 or more"),
        (("ask", "x", "--timeout", "inf"), "'inf' is not a number of 0.1 or more"),
        (("up", "--port", "-1"), "'-1' is not a whole number from 0 to 65535"),
        (("memory", "add", "A fact of ours", "--kind", "decison"), "did you mean 'decision'?"),
        (("submit", "Gr\udcfc\udcdfe"), "is not valid text; write it in UTF-8"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_wanted_instead_is_said(arguments: tuple[str, ...], sentence: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert sentence in result.output


@pytest.mark.parametrize(
    ("kind", "meant"),
    [("decison", "decision"), ("facts", "fact"), ("fact", ""), ("procedure", ""), ("recipe", "")],
)
def test_a_kind_of_ones_own_is_no_slip(kind: str, meant: str) -> None:
    assert suggest_kind(kind) == meant


def test_ctrl_c_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("services.cli.commands.status._read", interrupt)
    result = run("status")
    assert (result.exit_code, result.output) == (1, "\nInterrupted.\n")


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BusUnavailable("No answer"), "No answer. 'mailroom doctor' looks for the reason"),
        (BusUnavailable("No answer", "Try again"), "No answer. Try again"),
        (StartError("No office"), "No office"),
    ],
)
def test_an_error_is_a_sentence_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, error: MailroomError, said: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("services.cli.commands.status._read", fail)
    result = run("status")
    assert (result.exit_code, result.output) == (1, f"Error: {said}\n")


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is there on Linux")
def test_a_folder_that_is_on_no_disk_is_not_called_full(tmp_path: Path) -> None:
    config = settings.load({"MAILROOM_STATE_DIR": "/proc/no-such-folder", "HOME": str(tmp_path)})
    check = check_disk(config)
    assert (check.verdict, check.finding) == ("fail", "/proc is on no disk")


@pytest.mark.parametrize("named", [True, False])
def test_what_is_to_be_pasted_works_in_another_terminal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: bool
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    usual = tmp_path / "mailroom"
    state = tmp_path / "elsewhere" if named else usual
    monkeypatch.setenv("MAILROOM_STATE_DIR", str(state))
    office = RunningInstance(
        pid=1, url="nats://127.0.0.1:4222", state_dir=str(state), started_at="", brain=""
    )
    (line,) = [line for line in format_usage(office, settings.load()).splitlines() if 'submit "' in line]
    assert (f"MAILROOM_STATE_DIR={state} " in line) is named


def test_what_is_no_utf_8_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with CliRunner().isolation(b"gr\xfc\xdfe"):
        assert read_stdin() == "gr\ufffd\ufffde"


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
        "import sys; from services.cli.command import cli\n"
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


def test_an_office_that_is_starting_is_waited_for(
    tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    config = office(tmp_path)
    lock = InstanceLock.acquire(config.state_dir)
    assert lock is not None
    with pytest.raises(StartError, match=r"did not get ready within 0\.2 s\. See why in .*logs"):
        find_url(config, wait=0.2)
    assert "Waiting for the office" in capsys.readouterr().err
    Timer(0.2, lock.release).start()
    with pytest.raises(StartError, match="No office is running"):  # it did not start, it stopped
        find_url(config)


@pytest.mark.parametrize("inside", [".", "run", "deeper/still"])
def test_a_file_where_the_state_directory_should_be(tmp_path: Path, inside: str) -> None:
    file = tmp_path / "file"
    file.write_text("")
    state = file / inside
    with pytest.raises(StartError, match=r"is a file, not a folder\. Name another with --state-dir"):
        InstanceLock.acquire(state)
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
        assert find_instance(config) is None


def test_nats_url_comes_before_the_running_office(tmp_path: object) -> None:
    assert find_url(office(tmp_path, NATS_URL="nats://elsewhere:4222")) == "nats://elsewhere:4222"


def test_words_that_are_no_commands_suggest_the_one_that_is_meant() -> None:
    assert "Did you mean 'tasks' or 'status'?" in run("goals").output
    assert "Did you mean 'show' or 'tail'?" in run("trail", "last").output
    assert "'status'" in run("statsu").output
    for word, commands in MEANT.items():
        assert word not in COMMANDS
        assert set(commands.split("' or '")) <= set(COMMANDS), word


def test_a_long_text_of_a_goal_is_shortened_off_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    now = generate_iso_timestamp()
    reason = "None fits: " + "a playbook; " * 100
    goal = Goal(goal_id="g1", text="Look", requester="user", submitted_at=now, reason=reason)
    found = LatestGoals(goals=[goal], others=0)
    monkeypatch.setattr("services.cli.api.get", lambda *_: found)
    lines = run("tasks").output.splitlines()
    assert max(map(len, lines)) <= 202
    assert lines[2].endswith("…")


def commands_below(
    group: click.Group, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command with its words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands_below(command, (*path, name))


def test_an_option_with_one_value_is_refused_if_it_is_given_twice() -> None:
    tried = 0
    for path, command in commands_below(cli):
        for option in (each for each in command.params if isinstance(each, click.Option)):
            if option.multiple or option.count or (option.is_flag and not option.secondary_opts):
                continue
            for one, other in {
                (option.opts[0], option.opts[-1]),
                (option.opts[0], (option.secondary_opts or option.opts)[0]),
            }:
                value = [] if option.is_flag else ["x"]
                with pytest.raises(click.UsageError, match="is given twice, and takes one value") as refused:
                    cli.main([*path, one, *value, other, *value], standalone_mode=False)
                assert refused.value.exit_code == 2
                tried += 1
    assert tried > 100


@pytest.mark.parametrize("words", [("queue", "add", "x"), ("submit", "x"), ("memory", "add", "fact", "x")])
def test_a_key_that_is_given_twice_is_refused(words: tuple[str, ...]) -> None:
    option = "-m" if words[0] == "memory" else "-c"
    with pytest.raises(click.UsageError, match="'repo' is given twice"):
        cli.main([*words, option, "repo=one", option, "repo=two"], standalone_mode=False)


def test_every_option_that_repeats_is_taken_whole(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(
            ["policy", "check", "-c", "rm -rf /", "-c", "ls", "-c", "git push --force"], standalone_mode=False
        )
    judged = [json.loads(line)["verdict"] for line in capsys.readouterr().out.splitlines()]
    assert (judged, ended.value.code) == (["deny", "allow", "ask"], 4)


def test_status_before_the_first_start_tells_the_room_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAILROOM_STATE_DIR", str(tmp_path / "not" / "made"))
    output = run("status").output
    assert "free for" in output
    assert "0 bytes" not in output
