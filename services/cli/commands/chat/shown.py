"""How an answer is shown while it is made: notes of agents, words as they come, then the rest of it."""

import click
from rich.console import Console
from rich.text import Text

from services.cli.commands.chat.answering import Note
from services.cli.output.answers import print_sources
from services.cli.output.console import print_block
from shared.contracts import AnswerWords, Response
from shared.text.printable import clean_block


class ShownAnswer:
    """One answer on the console; on a terminal with what is done for it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = console.is_terminal
        self._written = ""
        self._status = console.status("The front desk is answering") if self._live else None
        if self._status:
            self._status.start()

    def close(self) -> None:
        """Take the sign that it is being answered away."""
        if self._status:
            self._status.stop()
            self._status = None

    def show_note(self, note: Note) -> None:
        """Show what an agent does, on a terminal."""
        if self._live:
            line = Text(f"  {note.agent}: {note.text}", style="dim")
            self._console.print(line, no_wrap=True, overflow="ellipsis", crop=True)

    def show_hint(self, text: str) -> None:
        """Show what one can do while nothing comes."""
        click.echo(text, err=True)

    def show_words(self, words: AnswerWords) -> None:
        """Show words as they come, on a terminal."""
        if not self._live:
            return
        self.close()
        if words.number == 0 and self._written:
            self._console.print()
            self._written = ""
        self._written += words.text
        self._console.print(Text(clean_block(words.text)), end="", soft_wrap=True)

    def show(self, answer: Response) -> None:
        """Show the answer, or what is not shown of it yet, and its sources."""
        self.close()
        text = answer.text.strip()
        begun = self._written.strip()
        if begun and text.startswith(begun):
            rest = text.removeprefix(begun)
            self._console.print(Text(clean_block(rest)), soft_wrap=True)
        else:
            if begun:
                self._console.print("\n")
            print_block(clean_block(text), self._console)
        if not self._console.quiet:
            print_sources(answer)
