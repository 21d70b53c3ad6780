"""The ``mailroom`` command: its subcommands, and how errors reach people."""

import importlib
import io
import shutil
import sys
from collections.abc import Mapping
from typing import IO, Any

import click
from click.shell_completion import get_completion_class

from shared.errors import BusUnavailable, MailroomError


class LazyGroup(click.Group):
    """A group whose commands are named in a table: each its name and ``module:function``."""

    def __init__(self, *arguments: Any, table: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.table = dict(table or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the table."""
        return list(self.table)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it; an error names the command that was probably meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand:
            # Click itself looks among the commands that are imported already.
            raise click.NoSuchCommand(args[0], possibilities=self.table, ctx=ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command ``cmd_name``; None where there is none."""
        if cmd_name not in self.table:
            return None
        module, _, function = self.table[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), function)
        return command


COMMANDS = {
    "up": "services.cli.commands.up:up",
    "down": "services.cli.commands.up:down",
    "demo": "services.cli.commands.demo:demo",
    "provision": "services.cli.commands.up:provision",
    "submit": "services.cli.commands.submit:submit",
    "ask": "services.cli.commands.ask:ask",
    "mail": "services.cli.commands.mail:mail",
    "reminders": "services.cli.commands.reminders:reminders",
    "tasks": "services.cli.commands.tasks:tasks",
    "show": "services.cli.commands.show:show",
    "cancel": "services.cli.commands.tasks:cancel",
    "tail": "services.cli.commands.tail:tail",
    "status": "services.cli.commands.status:status",
    "agents": "services.cli.commands.status:agents",
    "memory": "services.cli.command:memory",
    "brief": "services.cli.commands.memory.recall:brief",
    "approvals": "services.cli.commands.approvals:approvals",
    "policy": "services.cli.commands.policy:policy",
    "dead": "services.cli.commands.dead:dead",
    "audit": "services.cli.commands.audit:audit",
    "kpi": "services.cli.commands.kpi:kpi",
    "doctor": "services.cli.commands.doctor:doctor",
    "completion": "services.cli.command:completion",
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
    from services.cli.output.console import wrap

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


PLACES = {
    "bash": 'eval "$(mailroom completion bash)"  # ~/.bashrc',
    "zsh": 'eval "$(mailroom completion zsh)"  # ~/.zshrc',
    "fish": "mailroom completion fish | source  # ~/.config/fish/config.fish",
}
"""Where each shell wants it."""


@click.command(epilog="\b\nPut it where your shell starts:\n" + "\n".join(PLACES.values()))
@click.argument("shell", metavar="SHELL", type=click.Choice(list(PLACES)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes 'mailroom' in SHELL.

    SHELL is bash, zsh or fish.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = ctx.find_root()
    click.echo(kind(root.command, {}, "mailroom", "_MAILROOM_COMPLETE").source())


MEMORY_COMMANDS = {
    "add": "services.cli.commands.memory.nodes:add",
    "search": "services.cli.commands.memory.recall:search",
    "get": "services.cli.commands.memory.nodes:get",
    "list": "services.cli.commands.memory.nodes:list_nodes",
    "retire": "services.cli.commands.memory.nodes:retire",
    "link": "services.cli.commands.memory.graph:link",
    "unlink": "services.cli.commands.memory.graph:unlink",
    "graph": "services.cli.commands.memory.graph:graph",
    "stats": "services.cli.commands.memory.maintenance:stats",
    "health": "services.cli.commands.memory.maintenance:health",
    "linker": "services.cli.commands.memory.maintenance:linker",
    "reindex": "services.cli.commands.memory.maintenance:reindex",
    "rebuild": "services.cli.commands.memory.maintenance:rebuild",
    "export": "services.cli.commands.memory.exports:export",
    "import": "services.cli.commands.memory.imports:import_records",
}
"""Where each command is: from remembering to looking after memory."""


@click.group(cls=LazyGroup, table=MEMORY_COMMANDS)
def memory() -> None:
    """Remember, search and read what the office knows."""
