"""The line that one writes in on a terminal: its history, its completions."""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from services.cli.commands.completion import Named
from shared.settings import Settings

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import CompleteEvent, Completion
    from prompt_toolkit.document import Document
    from prompt_toolkit.history import History

PROMPT = "› "
HISTORY = "chat_history"  # The file in the state directory that has what was written in the office's chats
COMMANDS: Sequence[Named] = (
    ("/help", "what one can write here"),
    ("/new", "begin a new session"),
    ("/sessions", "list the sessions"),
    ("/session", "go on with a session"),
    ("/quit", "leave"),
)
MAX_PATHS = 50


def is_terminal() -> bool:
    """Whether a person sits at a terminal that can move its cursor."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    from prompt_toolkit.utils import is_dumb_terminal

    return not is_dumb_terminal()


class Words:
    """What is completed: commands at the beginning, then agents, goals, sessions and paths."""

    def __init__(self) -> None:
        self.names: list[Named] = []
        self.sessions: list[Named] = []

    def find(self, before: str) -> list[tuple[str, str, int]]:
        """The completions of the text before the cursor: each with words on it, and how much it replaces."""
        word = before.rsplit(" ", maxsplit=1)[-1]
        if before.startswith("/") and " " not in before:
            return _matching(COMMANDS, word)
        if before.startswith("/session "):
            return _matching(self.sessions, word)
        if word.startswith(("./", "../", "~", "/")):
            return _paths(word)
        return _matching(self.names, word) if len(word) > 1 else []


def _matching(names: Iterable[Named], word: str) -> list[tuple[str, str, int]]:
    return [(name, told, len(word)) for name, told in names if name.startswith(word) and name != word]


def _paths(word: str) -> list[tuple[str, str, int]]:
    folder, _, begun = word.rpartition("/")
    if not folder and word.startswith("~"):
        return []
    try:
        inside = sorted(Path(folder or "/").expanduser().iterdir())
        shown = [
            each
            for each in inside
            if each.name.startswith(begun) and (begun or not each.name.startswith("."))
        ]
        return [(each.name + "/" * each.is_dir(), "", len(begun)) for each in shown[:MAX_PATHS]]
    except (OSError, RuntimeError):
        return []


def open_line(config: Settings, words: Words) -> "PromptSession[str]":
    """The line on a terminal, with the office's history."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import Completer, Completion

    class WordCompleter(Completer):
        """Completes what ``words`` has."""

        def get_completions(self, document: "Document", _: "CompleteEvent") -> "Iterable[Completion]":
            """The completions at the cursor."""
            for name, told, replaced in words.find(document.text_before_cursor):
                yield Completion(name, start_position=-replaced, display_meta=told)

    return PromptSession(
        history=_open_history(config.state_dir / HISTORY),
        completer=WordCompleter(),
        complete_while_typing=False,
        enable_history_search=True,
    )


def _open_history(path: Path) -> "History":
    """The history in a file that its owner alone reads; for this session alone if it cannot be written."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))
