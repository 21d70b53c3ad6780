"""``mailroom chat``: a conversation with the front desk in the terminal."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import click
import msgspec
from rich.text import Text

from services.cli import api
from services.cli.commands.chat.answering import (
    FOLLOWS,
    PATIENCE,
    Question,
    ShownAnswer,
    carry_out,
    choose_session,
    find_offers,
    find_session,
    follow_answer,
    list_sessions,
    make_session,
    stop_answer,
    wait_for_late,
)
from services.cli.commands.chat.line import COMMANDS, PROMPT, Words, is_terminal, open_line
from services.cli.commands.chat.sessions import print_sessions
from services.cli.commands.completion import SessionName, name_agents, name_goals, name_sessions
from services.cli.commands.options import json_option, print_resolved, resolve_text
from services.cli.output.console import open_console, print_block, print_json_line
from services.cli.output.outcomes import FAILED
from shared import settings, subjects
from shared.contracts import MAX_TEXT, Response, ResultOutcome
from shared.errors import BusUnavailable, MailroomError, NotFound
from shared.text.display import clean_block, shorten
from shared.views.desk import Note, Session

HELP = """Write as to a colleague: a question, a request, "remind me tomorrow at 9 to call Ana".
A short message goes on with what was said: "at 10 instead", "and who decided that?", "cancel that".

{commands}

Tab completes commands, agents, goals and paths; the arrow up brings back what was written.
Ctrl-C stops an answer, Ctrl-D leaves. "what can you do?" lists what the front desk does."""
SLOW = 20.0  # Seconds without a sign of the front desk after which one is told what to look at
STILL_WAITING = f"No answer yet: 'mailroom status' shows whether {subjects.NEXUS} runs. Ctrl-C ends the wait."
SHOWN_QUESTION = 80  # Characters of a question whose answer comes late
SHOWN_TURNS = 3  # Turns of a session that are shown when it is gone on with


@click.command()
@click.option("--session", type=SessionName(), default="", metavar="ID", help="Go on with this session.")
@click.option("--new", "fresh", is_flag=True, help="Begin a new session, though one is not old.")
@json_option
def chat(session: str, fresh: bool, as_json: bool) -> None:
    """Talk to the front desk.

    Without --new it goes on with the latest session, if that was within the last 8 hours; 'mailroom sessions'
    lists them. Where input or output is no terminal, and with --json, each line of the input is a message,
    and the session is new unless one is named: echo "what time is it?" | mailroom chat
    """
    if session and fresh:
        raise click.UsageError("--session and --new contradict each other")
    live = is_terminal() and not as_json
    conversation = TerminalChat(choose_session(session, recent=live and not fresh))
    if live:
        asyncio.run(conversation.run())
    elif not asyncio.run(conversation.run_lines(as_json=as_json)):
        raise SystemExit(FAILED)


class TerminalChat:
    """A conversation in a terminal, or over a pipe."""

    def __init__(self, session_id: str) -> None:
        self._session = session_id
        self._console = open_console()
        self._words = Words()
        self._ask: Callable[[str], Awaitable[str]] | None = None
        self._late: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Read messages from a terminal until Ctrl-D."""
        from prompt_toolkit.patch_stdout import patch_stdout

        line = open_line(settings.load(), self._words)
        self._ask = line.prompt_async
        self._show_session()
        while True:
            # Read what can be completed; without it there is less to complete
            with contextlib.suppress(MailroomError):
                self._words.names = [*name_agents(), *name_goals()]
                self._words.sessions = name_sessions()
            try:
                with patch_stdout(raw=True):  # an answer that comes late stands above the line
                    text = await line.prompt_async(PROMPT)
            except KeyboardInterrupt:
                click.echo("Ctrl-D leaves.")
                continue
            except EOFError:
                click.echo(f"Go on later: mailroom chat --session {self._session}")
                return
            if text.strip() in ("/quit", "/exit"):
                return
            if text.strip():
                await self._take(text.strip())

    async def run_lines(self, *, as_json: bool = False) -> bool:
        """Read messages line by line; False if the last one was not done."""
        done = True
        self._console.quiet = as_json
        async for line in _read_lines():
            if line.strip():
                answer = await self._say(line.strip())
                if as_json and answer:
                    print_json_line(answer)
                done = answer is not None and answer.outcome is not ResultOutcome.FAILED
        return done

    async def _take(self, text: str) -> None:
        """Follow a command, or say a message; an error is told, and the conversation goes on."""
        command, _, rest = text.partition(" ")
        try:
            match command:
                case "/help":
                    commands = "\n".join(f"{name:<10} {told}" for name, told in COMMANDS)
                    print_block(HELP.format(commands=commands), self._console)
                case "/new":
                    self._session = make_session()
                    self._show_session()
                case "/sessions":
                    print_sessions(list_sessions())
                case "/session":
                    self._session = find_session(list_sessions(), rest.strip()).session_id
                    self._show_session()
                case _:
                    await self._act(await self._say(text))
        except MailroomError as error:
            click.echo(f"Error: {error}", err=True)

    async def _act(self, answer: Response | None) -> None:
        """Offer to do what an answer names and only a person may do; on a terminal alone."""
        for offer in find_offers(answer) if answer and self._ask else ():
            await carry_out(offer, self._confirm)

    async def _confirm(self, question: str) -> bool:
        assert self._ask
        with contextlib.suppress(KeyboardInterrupt, EOFError):
            return (await self._ask(f"{question} [y/N] ")).strip().lower() in ("y", "yes")
        return False

    async def _say(self, text: str) -> Response | None:
        """Ask, show the answer as it is made, and stop it at Ctrl-C; None if there is no answer."""
        text, resolved = resolve_text(text[:MAX_TEXT])
        print_resolved(resolved)
        question = Question(session=self._session, text=text)
        shown = ShownAnswer(self._console)
        try:
            return await _until_interrupted(self._follow(question, shown))
        except TimeoutError:
            raise BusUnavailable(
                f"The front desk did not answer within {PATIENCE:g} s; the question stays in its mailbox",
                f"'mailroom status' shows whether {subjects.NEXUS} runs",
            ) from None
        except asyncio.CancelledError:
            shown.close()
            self._stop(question)
            return None
        finally:
            shown.close()

    async def _follow(self, question: Question, shown: ShownAnswer) -> Response | None:
        hint = asyncio.get_running_loop().call_later(SLOW, shown.show_hint, STILL_WAITING)
        try:
            async with asyncio.timeout(PATIENCE), aclosing(follow_answer(question)) as steps:
                async for step in steps:
                    hint.cancel()
                    if isinstance(step, Response):
                        shown.show(step)
                        if self._ask and FOLLOWS in step.text:
                            self._late.add(asyncio.create_task(self._show_late(question, step)))
                        return step
                    shown.show_note(step) if isinstance(step, Note) else shown.show_words(step)
        finally:
            hint.cancel()
        return None

    async def _show_late(self, question: Question, first: Response) -> None:
        """Show the answer of a model that was late, whenever it comes."""
        if answer := await wait_for_late(question, first):
            asked = shorten(clean_block(question.text), SHOWN_QUESTION)
            print_block(f"To “{asked}”:\n{clean_block(answer.text)}", open_console())

    def _stop(self, question: Question) -> None:
        """Have the answer end, and a goal that it started; says what was stopped."""
        click.echo("\nStopping.")
        answer = stop_answer(question).answer
        if answer is None:
            click.echo("The front desk has not answered yet; it stops as soon as it does.")
            return
        print_block(clean_block(answer.text), self._console)
        if answer.goal_id:
            with contextlib.suppress(MailroomError):  # it may have ended otherwise
                stopped = api.post(f"/goals/{api.segment(answer.goal_id)}/cancel", _Stopped)
                click.echo(f"The goal {answer.goal_id} is {stopped.status}.")

    def _show_session(self) -> None:
        try:
            turns = api.get(f"/desk/sessions/{api.segment(self._session)}", Session).turns
        except NotFound:
            turns = []
        for turn in turns[-SHOWN_TURNS:]:
            self._console.print(Text(f"{PROMPT}{clean_block(turn.text)}", style="bold dim"), soft_wrap=True)
            answer = clean_block(turn.answer.text) if turn.answer else ""
            print_block(answer, self._console, lead=len(answer), style="dim")
        begun = "Session" if turns else "New session"
        click.echo(f"{begun} {self._session}. /help helps, Ctrl-D leaves.")


class _Stopped(msgspec.Struct, frozen=True):
    status: str


async def _until_interrupted(work: Coroutine[Any, Any, Response | None]) -> Response | None:
    """The result of ``work``; raises CancelledError once Ctrl-C was pressed and it has ended."""
    task = asyncio.ensure_future(work)
    with _interrupts(task):
        await asyncio.wait({task})
    return task.result()


@contextmanager
def _interrupts(task: "asyncio.Future[Any]") -> Iterator[None]:
    """Have Ctrl-C cancel ``task`` alone."""
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    loop.add_signal_handler(signal.SIGINT, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


async def _read_lines() -> AsyncIterator[str]:
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield line
