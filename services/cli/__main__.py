"""The ``mailroom`` command: its subcommands, and how errors reach people."""

import importlib
import io
import shutil
import sys
from typing import IO, Any

import click

from shared.errors import MailroomError

COMMANDS = {
    "up": "services.cli.office:up",
    "down": "services.cli.office:down",
    "demo": "services.cli.office:demo",
    "provision": "services.cli.office:provision",
    "submit": "services.cli.submission:submit",
    "ask": "services.cli.question:ask",
    "tasks": "services.cli.goals:tasks",
    "show": "services.cli.show:show",
    "cancel": "services.cli.goals:cancel",
    "tail": "services.cli.tail:tail",
    "status": "services.cli.status:status",
    "agents": "services.cli.agents:agents",
    "memory": "services.cli.memory:memory",
    "dead": "services.cli.dead:dead",
    "audit": "services.cli.audit:audit",
    "doctor": "services.cli.doctor:doctor",
    "completion": "services.cli.completion:completion",
}
"""Where each command is; its module is imported when the command is used, so that starting stays quick."""


class Failure(click.ClickException):
    """A MailroomError as people read it: on a terminal wrapped between words."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence to standard error."""
        text = f"Error: {self.message}"
        if sys.stderr.isatty():
            from services.cli.screen import wrap

            text = wrap(text, shutil.get_terminal_size().columns)
        click.echo(text, file=file, err=True)


class LazyGroup(click.Group):
    """A group that imports a command when it is needed; MailroomErrors end it with their sentence and 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the table: from starting the office to looking after it."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command ``cmd_name``; None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), function)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; raises ClickException instead of a MailroomError."""
        try:
            return super().invoke(ctx)
        except MailroomError as error:
            raise Failure(str(error)) from None


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from shared.process import package_version

        click.echo(f"mailroom {package_version()}")
        ctx.exit()


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version.",
)
def cli() -> None:
    """A team of AI agents run the way a good office runs its mail.

    'mailroom up' starts the office, 'mailroom submit "..."' gives it a goal. Exit codes: 0 it worked,
    1 it failed, 2 the command was not understood.
    """


def main() -> None:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        # What agents write may hold signs that the terminal's encoding lacks.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    cli(prog_name="mailroom")


if __name__ == "__main__":
    main()
