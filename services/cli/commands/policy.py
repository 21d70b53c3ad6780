"""``mailroom policy``: the command policy's verdicts on commands."""

import sys
from collections.abc import Iterator
from pathlib import Path

import click

from shared.errors import MailroomError

NEWLINE = "\u2424"
"""Stands for a newline within a command, so that each command is one line."""
MAX_LINE = 1 << 20
"""Bytes of a line that are read; the rest is skipped, and a command this long is never allowed."""
EXIT_CODES = {"allow": 0, "ask": 3, "deny": 4}


@click.group()
def policy() -> None:
    """Check commands against the policy, without running them."""


@policy.command()
@click.argument("file", required=False, default="", metavar="[FILE|-]")
@click.option("--command", "-c", "text", metavar="TEXT", help="Check TEXT instead of a file.")
@click.option("--workspace", "-w", default="", metavar="FOLDER", help="The folder the commands would run in.")
@click.option("--self-test", is_flag=True, help="Check the rules by the examples beside them instead.")
@click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    help="Accepted for consistency; the output is always JSON Lines.",
)
def check(file: str, text: str | None, workspace: str, *, self_test: bool) -> None:
    """Check the commands in FILE, one per line.

    '-' reads them from standard input. The character U+2424 stands for a newline within a command; empty
    lines are skipped. Prints a line of JSON per command: command, verdict (allow, ask or deny), rule and
    why, and in reach what it needs of the network: registries and hosts. No command is run.

    Exit codes: 0 all were checked, 1 FILE cannot be read, 2 usage error. With --command the exit code is
    the verdict: 0 allow, 3 ask, 4 deny. With --self-test it is 1 if a rule fails its own examples.
    """
    if self_test:
        _test_rules()
        return
    if bool(file) == (text is not None):
        raise click.UsageError("Name a FILE, '-' for standard input, or a --command TEXT.")
    folder = str(Path(workspace).expanduser().absolute()) if workspace else ""
    if text is not None:
        sys.exit(EXIT_CODES[_print(text, folder)])
    for line in _read(file):
        _print(line, folder)


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


def _print(command: str, workspace: str) -> str:
    """Print the verdict on a command as a line of JSON; returns it."""
    import msgspec

    from shared.policy import judge

    ruling = judge(command.replace(NEWLINE, "\n"), workspace=workspace)
    shown = {
        "command": command,
        "verdict": ruling.verdict,
        "reach": ruling.reach,
        "rule": ruling.rule,
        "why": ruling.why,
    }
    click.echo(msgspec.json.encode(shown))
    return ruling.verdict.value
