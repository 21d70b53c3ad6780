"""Reading a file takes as long as it is large, whatever is in it."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from services.memory.ingest.drafting import draft_nodes
from services.memory.ingest.reading import read_document
from tests.bench.ingest_files import make_calendar, make_line, make_mail, make_markdown

SIZE = 60_000
MOST = 10.0
"""Seconds of processor time: ten times what any of these takes on a slow machine, and far less than one took
that was read again for each of its lines, marks or words."""
FORMS: dict[str, Callable[[], str | bytes]] = {
    "notes.md": lambda: make_markdown(SIZE),
    "line.md": lambda: make_line(SIZE),
    "line.txt": lambda: make_line(SIZE),
    "words.md": lambda: "x" * SIZE,
    "items.md": lambda: "# List\n" + "\n".join(f"- item {n} of the list" for n in range(SIZE // 20)),
    "deep.md": lambda: "\n".join(f"{' ' * (2 * (n % 300))}- item {n} is here" for n in range(SIZE // 300)),
    "open-highlight.md": lambda: "==a " * (SIZE // 4),
    "open-strike.md": lambda: "~~a " * (SIZE // 4),
    "open-comment.md": lambda: "<!-- a " * (SIZE // 7),
    "open-link.md": lambda: "[[" * (SIZE // 2),
    "open-picture.md": lambda: "![a](" * (SIZE // 5),
    "open-tag.md": lambda: "<a " * (SIZE // 3),
    "blanks.md": lambda: "a" + " " * SIZE + "b c d",
    "lines.md": lambda: "\n" * SIZE + "a b c d",
    "pipes.md": lambda: "a|" * (SIZE // 2),
    "point.md": lambda: "1. Point\n   " + "A b c " * (SIZE // 6),
    "brackets.md": lambda: f"---\ntags: {'[' * SIZE}{']' * SIZE}\n---\nThe deploy is on Monday.\n",
    "braces.md": lambda: f"---\ntags: {'{a: ' * (SIZE // 4)}\n---\nThe deploy is on Monday.\n",
    "table.csv": lambda: "name,note\n" + "\n".join(f"row {n},a note on it" for n in range(SIZE // 20)),
    "cell.csv": lambda: "name,note\nrow," + "words in a cell " * (SIZE // 16),
    "calendar.ics": lambda: make_calendar(SIZE // 400),
    "received.eml": lambda: make_mail(2_000_000, "Received"),
    "recipients.eml": lambda: make_mail(2_000_000, "To"),
    "subject.eml": lambda: make_mail(2_000_000, "Subject"),
    "parameters.eml": lambda: make_mail(2_000_000, "Content-Type"),
    "body.eml": lambda: make_mail(100) + make_line(SIZE).encode(),
    "colons.eml": lambda: make_mail(100) + b"so it is:\n" * (SIZE // 10),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_file_is_read_in_linear_time(name: str, tmp_path: Path) -> None:
    content = FORMS[name]()
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    begun = time.process_time()
    drafts = draft_nodes(read_document(tmp_path, name, time.time()), name, time.time(), "note")
    assert time.process_time() - begun < MOST
    assert drafts.drafts


def test_many_levels_of_a_mail_are_not_read_and_the_others_are(tmp_path: Path) -> None:
    levels = "".join(f'Content-Type: multipart/mixed; boundary="b{n}"\n\n--b{n}\n' for n in range(1_000))
    deep = f"From: Eve <eve@example.org>\nSubject: Deep\nMIME-Version: 1.0\n{levels}\nNothing.\n\n"
    plain = "From: Anna <anna@example.org>\nSubject: Printer\n\nThe printer stands on the second floor.\n"
    mbox = "".join(f"From x Mon May  4 10:00:00 2026\n{mail}\n" for mail in (deep, plain))
    (tmp_path / "letters.mbox").write_text(mbox)
    pieces = read_document(tmp_path, "letters.mbox", time.time()).pieces
    assert "The printer stands on the second floor." in [piece.body for piece in pieces]
