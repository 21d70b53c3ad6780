"""The events that reporters in the tested project write: which tests started, and how they ended."""

import re
from collections import Counter
from pathlib import Path

import msgspec

from services.engineer.console_results import script_place
from services.engineer.results import Results, failure, format_place, needs_network, tally, traceback_place
from shared.contracts import TestFailure
from shared.errors import ActionError
from shared.sandbox.confined import ConfinedFolder

MAX_EVENTS = 100_000_000
"""The most bytes of events that are read."""


class Event(msgspec.Struct, frozen=True):
    """One line of the file; all of it is written by the tested project."""

    event: str
    test: str = ""
    outcome: str = ""
    name: str = ""
    message: str = ""
    text: str = ""
    place: tuple[str, int] | None = None
    nested: bool | None = None
    counts: dict[str, int] = {}


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """What the events come to: ``running`` are tests that have not ended, ``runner`` who wrote them."""

    results: Results
    runner: str
    running: tuple[str, ...] = ()
    hung: tuple[str, ...] = ()


def read_events(path: Path, root: Path) -> Events | None:
    """The events in a file; None if there are none."""
    decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event, strict=False)
    counts: Counter[str] = Counter()
    said: Counter[str] = Counter()
    failures: list[TestFailure] = []
    running: dict[str, None] = {}
    hung: dict[str, None] = {}
    runner, networked = "", 0
    for line in _read(path).splitlines():
        try:
            event = decoder.decode(line)
        except (msgspec.MsgspecError, ValueError):
            continue
        runner = event.name if event.event == "runner" else runner
        if event.event == "start":
            running[event.test] = None
        elif event.event == "hung":
            hung[event.test] = None
        elif event.event == "counts":
            said.update(event.counts)
        elif event.event == "end":
            running.pop(event.test, None)
            if not event.nested:
                counts[event.outcome] += 1
            if event.outcome in ("failed", "error") and not event.nested:
                failures.append(_failure(event, root))
                networked += needs_network(f"{event.message}\n{event.text}")
    if not runner:
        return None
    results = tally((said or counts).items(), failures)
    results = msgspec.structs.replace(results, networked=networked)
    return Events(results=results, runner=runner, running=tuple(running), hung=tuple(hung))


def count_events(path: Path) -> tuple[int, int]:
    """How many tests have ended so far, and how many of them failed."""
    data = _read(path)
    ended = data.count(b'"outcome"') - data.count(b'"nested":true')
    return ended, len(re.findall(rb'"outcome": ?"(?:failed|error)"', data))


def _read(path: Path) -> bytes:
    try:
        # The tested code could have put a link or a pipe in its place.
        with ConfinedFolder(path.parent) as folder:
            return folder.read(path.name, MAX_EVENTS)
    except ActionError:
        return b""


def _failure(event: Event, root: Path) -> TestFailure:
    source = traceback_place(event.text, root)
    source = source or script_place(event.text, root)
    if not source and event.place:
        source = format_place(*event.place, root) if event.place[0] else ""
    name = event.name or event.test.removeprefix(f"{root}/")
    return failure(name, event.message or _last_line(event.text), source)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("E ")] or text.splitlines()
    return lines[-1].removeprefix("E ").strip() if lines else ""
