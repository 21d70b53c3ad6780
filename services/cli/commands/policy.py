"""``mailroom policy``: the command policy's verdicts on commands."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click
from rich.text import Text

from services.cli.commands.options import format_examples, json_option
from services.cli.output.console import open_console, print_json_line, print_wrapped
from shared.errors import MailroomError
from shared.text.display import clean

NEWLINE = "\u2424"  # Stands for a newline within a command, so that each command is one line
MAX_LINE = 1 << 20
"""Bytes of a line that are read; the rest is skipped, and a command this long is never allowed."""
VERDICT_STYLES = {"allow": "green", "ask": "yellow", "deny": "red"}
EXIT_CODES = {"allow": 0, "ask": 3, "deny": 4}


@click.group()
def policy() -> None:
    """Check commands against the policy, without running them."""


@policy.command(
    epilog=format_examples(
        'mailroom policy check -c "git push --force"', "mailroom policy check commands.txt"
    )
)
@click.argument("file", required=False, default="", metavar="[FILE|-]")
@click.option(
    "--command",
    "-c",
    "texts",
    metavar="TEXT",
    multiple=True,
    help="Check TEXT instead of a file. Repeatable.",
)
@click.option("--workspace", "-w", default="", metavar="FOLDER", help="The folder the commands would run in.")
@click.option("--self-test", is_flag=True, help="Check the rules by the examples beside them instead.")
@json_option
def check(file: str, texts: tuple[str, ...], workspace: str, *, self_test: bool, as_json: bool) -> None:
    """Check the commands in FILE, one per line.

    '-' reads them from standard input. The character U+2424 stands for a newline within a command; empty
    lines are skipped. Prints the verdict on each command (allow, ask or deny), why, and what it needs of the
    network: registries and hosts. With --json, and where the output is no terminal, each is a line of JSON:
    command, verdict, reach, rule, why. No command is run.

    Exit codes: 0 all were checked, 1 FILE cannot be read, 2 usage error. With --command the exit code is
    the strictest verdict: 0 allow, 3 ask, 4 deny. With --self-test it is 1 if a rule fails its own examples.
    """
    if self_test:
        if file or texts:
            raise click.UsageError("--self-test checks no command: leave out FILE and --command.")
        _test_rules()
        return
    if bool(file) == bool(texts):
        raise click.UsageError("Name a FILE, '-' for standard input, or a --command TEXT.")
    folder = str(Path(workspace).expanduser().absolute()) if workspace else ""
    as_json = as_json or not sys.stdout.isatty()
    if texts:
        sys.exit(max(EXIT_CODES[_print(text, folder, as_json=as_json)] for text in texts))
    for line in _read(file):
        _print(line, folder, as_json=as_json)


def _test_rules() -> None:
    from shared.policy import find_faults

    if faults := find_faults():
        raise MailroomError("\n".join(faults), "Correct the rule or its example in shared/policy/rules.toml")
    click.echo("Every rule agrees with the examples beside it.")


def _read(file: str) -> Iterator[str]:
    """The commands of a file; raises MailroomError if it cannot be read."""
    try:
        with click.open_file(file, "rb") as stream:
            while line := stream.readline(MAX_LINE):
                cut = len(line) == MAX_LINE and not line.endswith(b"\n")
                while cut and not (rest := stream.readline(MAX_LINE)).endswith(b"\n") and rest:
                    continue
                command = line.rstrip(b"\r\n").decode(errors="replace")
                if command.strip():
                    yield command
    except OSError as error:
        raise MailroomError(
            f"{file[:200]!r} cannot be read ({error.strerror})", "Name a file, or '-' for standard input"
        ) from None


def _print(command: str, workspace: str, *, as_json: bool) -> str:
    """Print the verdict on a command, for people or as a line of JSON; returns it."""
    from shared.policy import judge

    ruling = judge(command.replace(NEWLINE, "\n"), workspace=workspace)
    if as_json:
        names = ("verdict", "reach", "rule", "why")
        print_json_line({"command": command} | {name: getattr(ruling, name) for name in names})
        return ruling.verdict.value
    style = VERDICT_STYLES[ruling.verdict.value]
    print_wrapped(Text.assemble((ruling.verdict.value, style), f"  {clean(command)}"), open_console())
    needs = f" It needs {', '.join(map(clean, ruling.reach))}." if ruling.reach else ""
    rule = f" [{ruling.rule}]" if ruling.rule else ""
    print_wrapped(Text(f"  {clean(ruling.why)}{needs}{rule}"), open_console())
    return ruling.verdict.value
