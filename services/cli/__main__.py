"""The ``mailroom`` command: its subcommands, and how errors reach people."""

import io
import shutil
import sys
from typing import IO, Any

import click

from services.cli.lazy import LazyGroup
from shared.errors import MailroomError

COMMANDS = {
    "up": "services.cli.office:up",
    "down": "services.cli.office:down",
    "demo": "services.cli.office:demo",
    "provision": "services.cli.office:provision",
    "submit": "services.cli.submission:submit",
    "ask": "services.cli.question:ask",
    "mail": "services.cli.mail:mail",
    "reminders": "services.cli.reminders:reminders",
    "tasks": "services.cli.goals:tasks",
    "show": "services.cli.show:show",
    "cancel": "services.cli.goals:cancel",
    "tail": "services.cli.tail:tail",
    "status": "services.cli.status:status",
    "agents": "services.cli.agents:agents",
    "memory": "services.cli.memory.group:memory",
    "brief": "services.cli.memory.briefing:brief",
    "approvals": "services.cli.approvals:approvals",
    "policy": "services.cli.policy:policy",
    "dead": "services.cli.dead:dead",
    "audit": "services.cli.audit:audit",
    "kpi": "services.cli.kpi:kpi",
    "doctor": "services.cli.doctor:doctor",
    "completion": "services.cli.completion:completion",
}
"""Where each command is."""


class Failure(click.ClickException):
    """A MailroomError as people read it: on a terminal wrapped between words."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence to standard error."""
        text = f"Error: {self.message}"
        if sys.stderr.isatty():
            from services.cli.screen import wrap

            text = wrap(text, shutil.get_terminal_size().columns)
        click.echo(text, file=file, err=True)


class Office(LazyGroup):
    """The commands from starting the office to looking after it; MailroomErrors end one with 1."""

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
    cls=Office,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
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
