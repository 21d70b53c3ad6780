"""The ``mailroom`` command: the tables of its commands, and how errors are printed."""

import contextlib
import errno
import importlib
import io
import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from typing import IO, Any

import click
from click.shell_completion import get_completion_class

from shared.errors import BusUnavailable, MailroomError

SECTIONS = {
    "Start and stop": {
        "up": ("up:up", "Start the office: server, memory and agents."),
        "down": ("up:down", "Stop the office of the state directory."),
        "demo": ("demo:demo", "Check up on REPO in a temporary office."),
        "init": ("init:init", "Write mailroom.toml by asking, and try the model."),
        "backup": ("backup:backup", "Save the office to FILE, while it runs or not."),
        "restore": ("backup:restore", "Make the office of the backup FILE."),
        "status": ("status:status", "Show which agents run, what waits and what failed."),
        "doctor": ("doctor:doctor", "Check the installation, and say how to fix problems."),
    },
    "Give work": {
        "checkup": ("checkup:checkup", "Check up on projects: tests, lint, secrets, drift, history."),
        "submit": ("submit:submit", "Submit a goal."),
        "tasks": ("tasks:tasks", "List goals and their tasks, latest last."),
        "show": ("show:show", "Show everything about a goal or a task."),
        "diff": ("patches:diff", "Print the patches of GOAL, or those of the projects named."),
        "apply": ("patches:apply", "Apply the patches of GOAL to the folders they were made for."),
        "retry": ("retry:retry", "Do GOAL again from the beginning, as a new goal."),
        "resume": ("retry:resume", "Continue GOAL, with what you --say as a further instruction."),
        "cancel": ("tasks:cancel", "Cancel the goal ID and its open tasks."),
        "approvals": ("approvals:approvals", "Grant or refuse what agents may not do without a person."),
    },
    "Ask and talk": {
        "chat": ("chat.command:chat", "Talk to the front desk."),
        "ask": ("ask:ask", "Ask the front desk a question."),
        "sessions": (
            "chat.sessions:sessions",
            "List the conversations with the front desk, the latest first.",
        ),
        "mail": ("mail:mail", "Read mail, write to an agent, and reply."),
        "brief": ("brief:brief", "Print today's briefing, or AGENT's from memory."),
        "news": ("news:news", "List what was told of papers and news; keep or dismiss it."),
    },
    "Memory": {
        "memory": (".command:memory", "Add, search and maintain the agents' shared memory."),
    },
    "Later and again": {
        "reminders": ("later:reminders", "Set, list, snooze and end reminders."),
        "queue": ("later:queue", "The overnight queue: what waits for the night."),
        "schedule": ("later:schedule", "Goals on a schedule: each run is a goal of its own."),
        "deliver": ("deliver:deliver", "Try the channels that tell you what happens."),
    },
    "Watch and control": {
        "limits": ("limits:limits", "What the goals of people may use, and used."),
        "web": ("web:web", "Print a link that opens the dashboard."),
        "tail": ("tail:tail", "Follow all messages as they are stored."),
        "agents": ("agents:agents", "Show the agents; pause, resume, restart one."),
        "models": ("models:models", "Show which models the agents ask, and what leaves for them."),
        "kpi": ("kpi:kpi", "Show metrics with their targets: time, safety, learning."),
        "dead": ("dead:dead", "List dead letters, send them again, or drop them."),
        "audit": ("audit:audit", "Export the log, verify it, archive it, or prove a message."),
        "cluster": ("cluster:cluster", "Keep the log on three servers instead of one."),
        "hosts": ("hosts:hosts", "Show the hosts that run agents; invite one, revoke one."),
        "office": ("office:office", "Add offices to the server of this one, list and remove them."),
        "policy": ("policy:policy", "Check commands against the policy, without running them."),
    },
    "For scripts and servers": {
        "mcp": (".command:mcp", "MCP servers for the agents, and the office as one."),
        "people": ("people:people", "Add and remove people of the office, and make keys for them."),
        "token": ("token:token", "Make, list and revoke tokens for scripts."),
        "login": ("login:login", "Have commands ask the gateway at URL, as on its own machine."),
        "logout": ("login:logout", "Have commands ask the office of this machine again."),
        "completion": (".command:completion", "Print the script that completes 'mailroom' in SHELL."),
        "asyncapi": ("asyncapi:asyncapi", "Print the subjects of the bus as AsyncAPI 3.0, in JSON."),
        "join": ("hosts:join", "Have this machine run agents of an office elsewhere."),
        "leave": ("hosts:leave", "Stop the agents here, and give the keys back to the office."),
        "provision": ("up:provision", "Create keys, the server's configuration, and streams."),
    },
}
"""The commands by what they are for, as the help lists them: where each is, and the first sentence of its
help, so that the list is printed without importing all of them."""
COMMANDS = {name: listed for section in SECTIONS.values() for name, listed in section.items()}
MEMORY_COMMANDS = {
    "add": ("memory.nodes:add", "Add a memory, and print its id; with --id change one."),
    "search": ("memory.nodes:search", "Search memory for TEXT, best match first."),
    "get": ("memory.nodes:get", "Show the memories with these IDs in full."),
    "list": ("memory.nodes:list_nodes", "List memories in the order of their ids."),
    "retire": ("memory.nodes:retire", "Retire the memories with these IDs, or those of a file."),
    "brief": ("brief:agent_brief", "Print AGENT's briefing from memory."),
    "forget": ("memory.forget:forget", "Erase the memories with these IDs for good."),
    "share": ("memory.nodes:share", "Give the memories with these IDs to the team."),
    "end": ("memory.nodes:end", "Say that the memories with these IDs hold no longer."),
    "restore": ("memory.nodes:restore", "Take back that the memories with these IDs were retired or ended."),
    "link": ("memory.graph:link", "Add an edge from the node FROM to the node TO."),
    "unlink": ("memory.graph:unlink", "Remove the edge from the node FROM to the node TO."),
    "graph": ("memory.graph:graph", "Show the neighbourhood of the node ID."),
    "stats": ("memory.maintenance:stats", "Show the sizes of memory and its counters."),
    "health": ("memory.maintenance:health", "Check that memory can read and write."),
    "linker": ("memory.maintenance:linker", "Show the linker's status, or start a round of it."),
    "reindex": ("memory.maintenance:reindex", "Rebuild the search indices from the store."),
    "rebuild": ("memory.maintenance:rebuild", "Rebuild memory from the log of all writes."),
    "export": ("memory.transfer:export", "Export memory to FILE."),
    "import": ("memory.transfer:import_records", "Import nodes and edges from FILE."),
    "ingest": ("memory.ingest:ingest", "Have memory take in files, or all files of folders."),
}
MCP_COMMANDS = {
    "add": ("mcp:add", "Add the server NAME: a COMMAND, run in the jail, or a URL."),
    "list": ("mcp:list_servers", "List the servers, their tools, and who has them."),
    "try": ("mcp:try_tool", "Call TOOL of the server NAME with ARGS, a JSON object."),
    "login": ("mcp:login", "Sign in at the server NAME, by the browser."),
    "pin": ("mcp:pin", "Show what changed of the server NAME, and approve it."),
    "remove": ("mcp:remove", "Remove the server NAME."),
    "serve": ("mcp_serve:serve", "Offer the office as an MCP server on standard input and output."),
    "install": ("mcp_hosts:install", "Have HOST use the office: a token, and its own settings file."),
    "uninstall": ("mcp_hosts:uninstall", "Take the office out of HOST again, to the byte."),
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
    """A group that imports a command only when it is used.

    ``table`` maps names to ``module:function`` in ``services.cli.commands`` and the sentence for the list;
    ``meant`` maps words that are no commands to those to suggest.
    """

    def __init__(
        self,
        *arguments: Any,
        table: Mapping[str, tuple[str, str]] | None = None,
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
        module, _, function = self.table[cmd_name][0].partition(":")
        found = importlib.import_module(f".{module}", "services.cli.commands")
        command: click.Command = getattr(found, function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands of the table."""
        with formatter.section("Commands"):
            self.write_commands(formatter, self.table)

    def write_commands(self, formatter: click.HelpFormatter, names: Iterable[str]) -> None:
        """Write a line for each of these commands, all of them aligned."""
        widest = max(map(len, self.table))
        room = formatter.width - 6 - widest
        shown = (click.Command(name, help=self.table[name][1]) for name in names)
        formatter.write_dl(
            [(each.name.ljust(widest), each.get_short_help_str(room)) for each in shown if each.name]
        )


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
        for title, names in SECTIONS.items():
            with formatter.section(title):
                self.write_commands(formatter, names)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As in click; a usage error if an argument is not valid text, or an option is given twice."""
        # Raise a usage error if an argument has bytes that are not valid in the locale's encoding
        for argument in args:
            if any("\udc80" <= sign <= "\udcff" for sign in argument):
                shown = argument.encode(errors="surrogateescape").decode(errors="replace")[:100]
                raise WrappedUsageError(
                    f"{shown!r} is not valid text; write it in UTF-8, and set a UTF-8 locale: LC_ALL=C.UTF-8",
                    ctx,
                )
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


@click.group(cls=LazyGroup, table=MCP_COMMANDS)
def mcp() -> None:
    """MCP servers for the agents, and the office as one."""


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


UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)
"""What a disk that is full or broken says, and a reader that is gone."""


def run() -> None:
    """Run the command line of this process; exits with 1 if what it prints cannot be written."""
    for stream in (sys.stdout, sys.stderr):
        # Agents may write characters that the terminal's encoding lacks.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        try:
            cli(prog_name="mailroom")
        finally:
            sys.stdout.flush()  # or the interpreter does, when nobody can say any more why that failed
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the rest of what was printed goes nowhere
        with contextlib.suppress(OSError):
            if error.errno != errno.EPIPE:
                click.echo(f"Error: the output cannot be written: {error.strerror}", err=True)
        sys.exit(1)
