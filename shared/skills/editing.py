"""Replacements in a text: all of them or none; and what stands there if a passage does not."""

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from shared.errors import ActionError
from shared.text.display import format_list

SHOWN_LINES = 30  # The most lines of what stands there that an error shows
SHOWN_WIDTH = 200  # The most characters of each
SEARCHED_LINES = 5_000  # The most lines that are compared with a passage that is missing
ALIKE = 0.6  # The least likeness of two lines, by difflib, that are taken for the same line, changed
NUMBERED = re.compile(r" *\d+\t", re.MULTILINE)


class Edit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A replacement of the passage ``old``, which stands there exactly once unless ``all`` are meant."""

    old: str
    new: str
    all: bool = False


def apply_edits(text: str, edits: Sequence[Edit], path: str) -> tuple[str, list[int]]:
    """``text`` of the file ``path`` after each of ``edits``, in order, and the lines of what was replaced.

    An ``old`` with plain line ends fits CRLF too, and what is put there gets the line ends of the file.
    Raises ActionError, which shows the nearest passage, unless all of them fit.
    """
    if not edits:
        raise ActionError("There are no edits", "Give at least one")
    changed: list[int] = []
    for number, edit in enumerate(edits, 1):
        made = ", made after those before it" if number > 1 else ""
        place = f"Edit {number} of {len(edits)}{made}: " if len(edits) > 1 else ""
        old, new = _with_line_ends(text, edit)
        if problem := _find_problem(text, old, new, edit.all, path):
            raise ActionError(f"{place}{problem[0]}", f"Nothing was changed. {problem[1]}".rstrip())
        changed += _places(text, old) if old else [1]
        text = text.replace(old, new) if old else new
    return text, changed


def with_line_ends_of(text: str, content: str) -> str:
    """``content``, with CRLF if all lines of ``text`` end so and none of its own does."""
    is_windows = "\r\n" in text and text.count("\r\n") == text.count("\n")
    return content.replace("\n", "\r\n") if is_windows and "\r" not in content else content


def _with_line_ends(text: str, edit: Edit) -> tuple[str, str]:
    windows = text.count("\r\n")
    if not windows or "\r" in edit.old + edit.new:
        return edit.old, edit.new
    # Of a passage on one line it cannot be seen: then the line ends that most lines have.
    fits = edit.old in text if "\n" in edit.old else 2 * windows < text.count("\n")
    if fits and windows < text.count("\n"):
        return edit.old, edit.new
    return edit.old.replace("\n", "\r\n"), edit.new.replace("\n", "\r\n")


def _find_problem(text: str, old: str, new: str, every: bool, path: str) -> tuple[str, str] | None:
    """What is wrong with a replacement, and the cure."""
    if not old:
        return (f"{path} is not empty, but old is", "Quote a passage of it") if text else None
    if old == new:
        return "old and new are the same", ""
    count = text.count(old)
    if count == 0:
        return f"old does not stand in {path}", explain_miss(text, old)
    if count > 1 and not every:
        listed = format_list([str(place) for place in _places(text, old)], 10)
        return (
            f"old stands in {path} {count} times, in the lines {listed}",
            "Quote more lines around the one that is meant, or set all",
        )
    return None


def _places(text: str, old: str) -> list[int]:
    """The lines in which ``old`` begins."""
    places, line, seen = [], 1, 0
    for found in re.finditer(re.escape(old), text):
        line, seen = line + text.count("\n", seen, found.start()), found.start()
        places.append(line)
    return places


def explain_miss(text: str, old: str) -> str:
    """What stands in ``text`` that is nearest to ``old``, with line numbers, and how it differs."""
    bare = NUMBERED.sub("", old)
    if bare != old and bare in text.replace("\r\n", "\n"):
        return "It begins with line numbers: leave them and the tab behind them out"
    lines = [line.removesuffix("\r") for line in text.split("\n")[:SEARCHED_LINES]]
    wanted = [line.removesuffix("\r") for line in old.strip("\r\n").split("\n")]
    found = _find_window([_squeeze(line) for line in lines], [_squeeze(line) for line in wanted])
    if found is None:
        return "Nothing in it is like that: read the file as it is now"
    there = lines[found.start : found.start + len(wanted)]
    last = min(found.start + len(there), found.start + SHOWN_LINES)
    shown = (f"{found.start + number}\t{line[:SHOWN_WIDTH]}" for number, line in enumerate(there, 1))
    head = "It differs only in white space from" if found.same else "The nearest passage is"
    return "\n".join(
        [
            f"{head} lines {found.start + 1} to {last}:",
            *list(shown)[:SHOWN_LINES],
            "The difference (- old, + the file):",
            *_compare(wanted, there, exact=found.same)[:SHOWN_LINES],
        ]
    )


def _squeeze(line: str) -> str:
    return " ".join(line.split())


class _Window(NamedTuple):
    start: int
    same: bool  # But for white space


def _find_window(lines: Sequence[str], wanted: Sequence[str]) -> _Window | None:
    """Where the lines are that come nearest to ``wanted``, all without their white space; None if nowhere."""
    width = len(wanted)
    first, last = wanted[0], wanted[-1]
    for start in range(len(lines) - width + 1):
        # The passage may begin and end within lines.
        if width == 1:
            same = bool(first) and first in lines[start]
        else:
            same = (
                lines[start].endswith(first)
                and lines[start + width - 1].startswith(last)
                and list(lines[start + 1 : start + width - 1]) == list(wanted[1:-1])
            )
        if same:
            return _Window(start, True)
    present = Counter(lines)
    known = {line: number for number, line in enumerate(wanted) if line and line in present}
    starts: Counter[int] = Counter()
    for position, line in enumerate(lines):
        if line in known and present[line] < 50:  # what is everywhere, such as a bracket, places nothing
            starts[max(0, position - known[line])] += len(line)
    if starts:
        return _Window(starts.most_common(1)[0][0], False)
    longest = max(wanted, key=len)
    near = difflib.get_close_matches(longest[:300], {line[:300] for line in lines if line}, 1, ALIKE)
    if not near:
        return None
    position = next(number for number, line in enumerate(lines) if line[:300] == near[0])
    return _Window(max(0, position - wanted.index(longest)), False)


def _compare(old: Sequence[str], there: Sequence[str], *, exact: bool) -> list[str]:
    """The lines that differ; with ``exact`` their tabs and blanks at the end can be seen."""
    show = _show_blanks if exact else str
    different = []
    matcher = difflib.SequenceMatcher(None, old, there, autojunk=False)
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind != "equal":
            different += [f"- {show(line)[:SHOWN_WIDTH]}" for line in old[first:last]]
            different += [f"+ {show(line)[:SHOWN_WIDTH]}" for line in there[begin:end]]
    return different


def _show_blanks(line: str) -> str:
    bare = line.rstrip()
    return bare.replace("\t", "\\t") + line[len(bare) :].replace("\t", "\\t").replace(" ", "·")
