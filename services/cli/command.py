"""The ``mailroom`` command: its subcommands, and how errors reach people."""

import io
import shutil
import sys
from typing import IO, Any

import click

from services.cli.lazy import LazyGroup
from shared.errors import BusUnavailable, MailroomError

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
LOOK = "'mailroom doctor' looks for the reason"
"""What to do where the bus does not answer and nothing better is known."""


class Failure(click.ClickException):
    """A MailroomError as people read it."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence to standard error."""
        click.echo(_fit(f"Error: {self.message}"), file=file, err=True)


class Misunderstood(click.UsageError):
    """A usage error of click's as people read it."""

    def format_message(self) -> str:
        """The message, broken where the line that it stands in is full."""
        return _fit(f"Error: {self.message}").removeprefix("Error: ")


def _fit(text: str) -> str:
    """``text``, broken between words on a terminal."""
    if not sys.stderr.isatty():
        return text
    from services.cli.screen import wrap

    return wrap(text, shutil.get_terminal_size().columns)


class Office(LazyGroup):
    """The commands from starting the office to looking after it; MailroomErrors end one with 1."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does it; a usage error where an argument is not valid text."""
        _require_text(args, ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; raises ClickException instead of a MailroomError, and ends with 1 on Ctrl-C."""
        try:
            return super().invoke(ctx)
        except BusUnavailable as error:
            raise Failure(str(error if error.cure else BusUnavailable(error.cause, LOOK))) from None
        except MailroomError as error:
            raise Failure(str(error)) from None
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.UsageError as error:
            raise Misunderstood(error.format_message(), error.ctx) from None
        except click.Abort:
            click.echo("Nothing was done.", err=True)
            raise SystemExit(1) from None
        except KeyboardInterrupt:
            click.echo("\nInterrupted.", err=True)
            raise SystemExit(1) from None


def _require_text(arguments: list[str], ctx: click.Context) -> None:
    """Raise a usage error where an argument holds bytes that the locale knows no signs for."""
    for argument in arguments:
        if any("\udc80" <= sign <= "\udcff" for sign in argument):
            shown = argument.encode(errors="surrogateescape").decode(errors="replace")[:100]
            raise Misunderstood(
                f"{shown!r} is no text here; write it in UTF-8, and set a locale of it: LC_ALL=C.UTF-8", ctx
            )


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from shared.agent.process import package_version

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


def run() -> None:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        # What agents write may hold signs that the terminal's encoding lacks.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    cli(prog_name="mailroom")
