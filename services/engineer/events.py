"""The events that reporters in the tested project write: which tests started, and how they ended."""

import re
from collections import Counter
from pathlib import Path

import msgspec

from services.engineer.console_results import script_place
from services.engineer.results import (
    Results,
    failure,
    format_cut,
    format_place,
    needs_network,
    tally,
    traceback_place,
)
from shared.contracts import TestFailure
from shared.errors import ActionError
from shared.sandbox.confined import ConfinedFolder

MAX_EVENTS = 100_000_000
"""The most bytes of events that are read."""


class Event(msgspec.Struct, frozen=True):
    """One line of the file; all of it is written by the tested project. ``run`` is a process of a runner."""

    event: str
    test: str = ""
    outcome: str = ""
    name: str = ""
    message: str = ""
    text: str = ""
    place: tuple[str, int] | None = None
    nested: bool | None = None
    counts: dict[str, int] = {}
    tests: tuple[str, ...] = ()
    run: int = 0


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """What the events come to: ``running`` are tests that have not ended, ``runner`` who wrote them."""

    results: Results
    runner: str
    running: tuple[str, ...] = ()
    hung: tuple[str, ...] = ()


class _Run:
    """One process of a runner: the tests it collected, and how far it came."""

    def __init__(self) -> None:
        self.collected: dict[str, None] = {}
        self.running: dict[str, None] = {}
        self.ended: set[str] = set()
        self.left: int | None = None
        """How many tests never ran, if the runner says so: those of a skipped class are not missed."""
        self.unselected = 0
        self.problem: str | None = None
        """Why the runner says it ended early; empty: it did not; None: it did not say that it ended."""

    def note(self, event: Event) -> None:
        if event.event == "start":
            self.running[event.test] = None
        elif event.event == "collected":
            self.collected |= dict.fromkeys(event.tests)
        elif event.event == "end":
            self.running.pop(event.test, None)
            self.ended.add(event.test)
        elif event.event == "done":
            self.problem, self.left = event.message, event.counts.get("left")
            self.unselected = event.counts.get("unselected", 0)

    def find_cut(self, root: Path) -> str:
        """Why this is not the whole run; empty if it is."""
        missing = [test for test in self.collected if test not in self.ended and self.left is None]
        # The end of a test that is part of another is not always told: once all is done, only those count
        # that were collected.
        begun = [test for test in self.running if self.problem is None or test in missing]
        never = (self.left or 0) + sum(test not in self.running for test in missing)
        if self.problem is None or begun or never:
            cut = format_cut([test.removeprefix(f"{root}/") for test in begun], never)
            return f"{self.problem}. {cut}" if self.problem else cut
        return self.problem


def read_events(path: Path, root: Path) -> Events | None:
    """The events in a file; None if there are none."""
    decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event, strict=False)
    counts: Counter[str] = Counter()
    said: Counter[str] = Counter()
    failures: list[TestFailure] = []
    runs: list[_Run] = []
    latest: dict[int, _Run] = {}
    hung: dict[str, None] = {}
    runner, networked = "", 0
    for line in _read(path).splitlines():
        try:
            event = decoder.decode(line)
        except (msgspec.MsgspecError, ValueError):
            continue
        if event.event == "runner":
            runner = event.name
            runs.append(_Run())
            latest[event.run] = runs[-1]
        elif event.event == "hung":
            hung[event.test] = None
        elif event.event == "counts":
            said.update(event.counts)
        elif event.event == "end":
            if not event.nested:
                counts[event.outcome] += 1
            if event.outcome in ("failed", "error") and not event.nested:
                failures.append(_failure(event, root))
                networked += needs_network(f"{event.message}\n{event.text}")
        if event.run in latest:
            latest[event.run].note(event)
    if not runner:
        return None
    cut = next((found for each in runs if (found := each.find_cut(root))), "")
    results = tally((said or counts).items(), failures, cut)
    unselected = sum(each.unselected for each in runs)
    results = msgspec.structs.replace(results, networked=networked, unselected=unselected)
    running = (test for each in runs for test in each.running)
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
