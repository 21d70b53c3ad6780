"""The ``mailroom`` command: the tables of its commands, and how errors are printed."""

import importlib
import io
import shutil
import sys
from collections.abc import Mapping
from typing import IO, Any

import click
from click.shell_completion import get_completion_class

from shared.errors import BusUnavailable, MailroomError

SECTIONS = {
    "Start and stop": {
        "up": "services.cli.commands.up:up",
        "down": "services.cli.commands.up:down",
        "demo": "services.cli.commands.demo:demo",
        "init": "services.cli.commands.init:init",
        "status": "services.cli.commands.status:status",
        "doctor": "services.cli.commands.doctor:doctor",
    },
    "Give work": {
        "checkup": "services.cli.commands.checkup:checkup",
        "submit": "services.cli.commands.submit:submit",
        "tasks": "services.cli.commands.tasks:tasks",
        "show": "services.cli.commands.show:show",
        "diff": "services.cli.commands.patches:diff",
        "apply": "services.cli.commands.patches:apply",
        "retry": "services.cli.commands.retry:retry",
        "resume": "services.cli.commands.retry:resume",
        "cancel": "services.cli.commands.tasks:cancel",
        "approvals": "services.cli.commands.approvals:approvals",
    },
    "Ask and talk": {
        "chat": "services.cli.commands.chat.command:chat",
        "ask": "services.cli.commands.ask:ask",
        "sessions": "services.cli.commands.chat.sessions:sessions",
        "mail": "services.cli.commands.mail:mail",
        "brief": "services.cli.commands.brief:brief",
        "news": "services.cli.commands.news:news",
    },
    "Memory": {
        "memory": "services.cli.command:memory",
    },
    "Later and again": {
        "reminders": "services.cli.commands.later:reminders",
        "queue": "services.cli.commands.later:queue",
        "schedule": "services.cli.commands.later:schedule",
        "deliver": "services.cli.commands.deliver:deliver",
    },
    "Watch and control": {
        "web": "services.cli.commands.web:web",
        "tail": "services.cli.commands.tail:tail",
        "agents": "services.cli.commands.agents:agents",
        "kpi": "services.cli.commands.kpi:kpi",
        "dead": "services.cli.commands.dead:dead",
        "audit": "services.cli.commands.audit:audit",
        "policy": "services.cli.commands.policy:policy",
    },
    "For scripts and servers": {
        "token": "services.cli.commands.token:token",
        "completion": "services.cli.command:completion",
        "asyncapi": "services.cli.commands.asyncapi:asyncapi",
        "provision": "services.cli.commands.up:provision",
    },
}
"""The commands by what they are for, as the help lists them."""
COMMANDS = {name: function for section in SECTIONS.values() for name, function in section.items()}
MEMORY_COMMANDS = {
    "add": "services.cli.commands.memory.nodes:add",
    "search": "services.cli.commands.memory.nodes:search",
    "get": "services.cli.commands.memory.nodes:get",
    "list": "services.cli.commands.memory.nodes:list_nodes",
    "retire": "services.cli.commands.memory.nodes:retire",
    "brief": "services.cli.commands.memory.nodes:brief",
    "forget": "services.cli.commands.memory.forgetting:forget",
    "end": "services.cli.commands.memory.validity:end",
    "restore": "services.cli.commands.memory.validity:restore",
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
    "ingest": "services.cli.commands.memory.ingest:ingest",
}
MEANT = {
    "approve": "approvals",
    "dashboard": "web",
    "events": "tail",
    "config": "init",
    "configure": "init",
    "goal": "show",
    "goals": "tasks' or 'status",
    "inbox": "approvals",
    "log": "tail",
    "logs": "tail",
    "metrics": "kpi",
    "patch": "diff' or 'apply",
    "ps": "status",
    "remind": "reminders",
    "report": "show",
    "result": "show",
    "run": "submit",
    "setup": "init",
    "start": "up",
    "stop": "down' or 'cancel",
    "trail": "show' or 'tail",
}
"""What is meant by words that are no commands, and not similar to the one that is."""
DOCTOR_HINT = "'mailroom doctor' looks for the reason"
"""The cure of a BusUnavailable that has none of its own."""
COMPLETION_LINES = {
    "bash": 'eval "$(mailroom completion bash)"  # ~/.bashrc',
    "zsh": 'eval "$(mailroom completion zsh)"  # ~/.zshrc',
    "fish": "mailroom completion fish | source  # ~/.config/fish/config.fish",
}


class LazyGroup(click.Group):
    """A group that imports a command only when it is used: ``table`` maps names to ``module:function``.

    ``meant`` maps words that are no commands to those to suggest.
    """

    def __init__(
        self,
        *arguments: Any,
        table: Mapping[str, str] | None = None,
        meant: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.table = dict(table or {})
        self._meant = meant or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of the table."""
        return list(self.table)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in click, which suggests only commands that are imported already; here all are suggested."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand:
            if meant := self._meant.get(args[0], ""):
                raise click.NoSuchCommand(
                    args[0], f"No such command {args[0]!r}. Did you mean '{meant}'?", ctx=ctx
                ) from None
            raise click.NoSuchCommand(args[0], possibilities=self.table, ctx=ctx) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command ``cmd_name``; None if there is none."""
        if cmd_name not in self.table:
            return None
        module, _, function = self.table[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), function)
        return command


class CommandError(click.ClickException):
    """A MailroomError, printed as one sentence."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence to standard error."""
        click.echo(_wrap(f"Error: {self.message}"), file=file, err=True)


class WrappedUsageError(click.UsageError):
    """A usage error, wrapped at the width of the terminal."""

    def format_message(self) -> str:
        """The message without click's ``Error: ``, which counts for the first line."""
        return _wrap(f"Error: {self.message}").removeprefix("Error: ")


def _wrap(text: str) -> str:
    """``text`` wrapped between words on a terminal."""
    if not sys.stderr.isatty():
        return text
    from services.cli.output.console import wrap

    return wrap(text, shutil.get_terminal_size().columns)


class MailroomGroup(LazyGroup):
    """All commands; a MailroomError ends one with exit code 1."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands of SECTIONS, each section under its title."""
        widest = max(map(len, self.table))
        for title, names in SECTIONS.items():
            found = {name: self.get_command(ctx, name) for name in names}
            rows = [
                (name.ljust(widest), command.get_short_help_str(formatter.width - 6 - widest))
                for name, command in found.items()
                if command
            ]
            with formatter.section(title):
                formatter.write_dl(rows)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As in click; a usage error if an argument is not valid text, or an option is given twice."""
        _require_valid_text(args, ctx)
        if not ctx.resilient_parsing:  # as for the shell's completion
            _require_once(self, args, ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; raises ClickException for a MailroomError, and exits with 1 on Ctrl-C."""
        try:
            return super().invoke(ctx)
        except BusUnavailable as error:
            known = error if error.cure else BusUnavailable(error.cause, DOCTOR_HINT)
            raise CommandError(str(known)) from None
        except MailroomError as error:
            raise CommandError(str(error)) from None
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.UsageError as error:
            raise WrappedUsageError(error.format_message(), error.ctx) from None
        except click.Abort:
            click.echo("Nothing was done.", err=True)
            raise SystemExit(1) from None
        except KeyboardInterrupt:
            click.echo("\nInterrupted.", err=True)
            raise SystemExit(1) from None


def _require_valid_text(arguments: list[str], ctx: click.Context) -> None:
    """Raise a usage error if an argument has bytes that are not valid in the locale's encoding."""
    for argument in arguments:
        if any("\udc80" <= sign <= "\udcff" for sign in argument):
            shown = argument.encode(errors="surrogateescape").decode(errors="replace")[:100]
            raise WrappedUsageError(
                f"{shown!r} is not valid text; write it in UTF-8, and set a UTF-8 locale: LC_ALL=C.UTF-8", ctx
            )


def _require_once(command: click.Command, arguments: list[str], ctx: click.Context) -> None:
    """Raise a usage error if an option that has one value is given twice: click takes the last one silently.

    What cannot be parsed is left to click, which says why.
    """
    own = command.context_class(
        command, parent=ctx.parent, info_name=ctx.info_name, **command.context_settings
    )
    try:
        _, rest, given = command.make_parser(own).parse_args(list(arguments))
        for option in given:
            if not isinstance(option, click.Option) or option.multiple or option.count:
                continue
            if given.count(option) > 1 and (not option.is_flag or option.secondary_opts):
                raise WrappedUsageError(f"{option.opts[0]} is given twice, and takes one value", own)
        if isinstance(command, click.Group) and rest:
            name, chosen, rest = command.resolve_command(own, rest)
            if chosen is not None:
                inner = click.Context(chosen, parent=own, info_name=name)
                _require_once(chosen, rest, inner)
    except WrappedUsageError:
        raise
    except click.UsageError:
        return


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from shared.agent.process import package_version

        click.echo(f"mailroom {package_version()}")
        ctx.exit()


@click.group(
    cls=MailroomGroup,
    table=COMMANDS,
    meant=MEANT,
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
    """Run a team of AI agents that work together over a message bus.

    'mailroom up' starts the office: server, memory and agents. 'mailroom checkup' examines the project in the
    current folder, 'mailroom submit "..."' gives the office any goal. Where a goal's ID is asked for, its
    beginning or end is enough; 'last' and '-' are the latest goal.

    Exit codes: 0 done; 1 failed, refused or not checked; 2 not understood (usage); 3 done with findings that
    --fail-on names.
    """


@click.group(cls=LazyGroup, table=MEMORY_COMMANDS)
def memory() -> None:
    """Add, search and maintain the agents' shared memory."""


@click.command(
    epilog="\b\nAdd this line to the start file of your shell:\n" + "\n".join(COMPLETION_LINES.values())
)
@click.argument("shell", metavar="SHELL", type=click.Choice(list(COMPLETION_LINES)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes 'mailroom' in SHELL.

    SHELL is bash, zsh or fish.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "mailroom", "_MAILROOM_COMPLETE").source())


def run() -> None:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        # Agents may write characters that the terminal's encoding lacks.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    cli(prog_name="mailroom")
