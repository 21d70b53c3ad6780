"""The log files of the office's processes: kept from growing, followed, and read aloud a line at a time."""

import contextlib
import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from services.cli.output.console import colour

MAX_LOG = 10 * 1024 * 1024
"""Bytes above which a log is put aside when the office opens; the one put aside before is given up."""
WIDTH = 400
"""The most characters of one log line that are shown to a person."""
UNSAID = frozenset({"event", "level", "service", "module", "timestamp", "exception", "task", "cause"})
LOUD_LEVELS = frozenset({"warning", "error", "critical"})


class Line(NamedTuple):
    """Something for a person to read: who says it, how urgent it is, and what."""

    name: str
    level: str
    text: str


def rotate(path: Path) -> None:
    """Put the log aside as ``<name>.log.1`` where it has grown large."""
    if path.exists() and path.stat().st_size > MAX_LOG:
        path.replace(path.with_name(f"{path.name}.1"))


def last_complaint(path: Path) -> str:
    """The last thing an agent wrote: its sentence, the end of a traceback, or an event; else empty."""
    lines = _tail(path)
    if not lines:
        return ""
    event = _event(lines[-1])
    text = lines[-1] if event is None else _render(event)
    return text.removeprefix(f"{path.stem.partition('.')[0]}: ")[:WIDTH]


def last_server_complaint(path: Path) -> str:
    """The last error that nats-server wrote; empty where there is none."""
    lines = [line for line in _tail(path) if "[FTL]" in line or "[ERR]" in line]
    return lines[-1].partition("] ")[2].partition("] ")[2][:WIDTH] if lines else ""


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 16_384))
            return [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        return []


class Follower:
    """Reads what is added to one log from now on."""

    def __init__(self, name: str, path: Path) -> None:
        self._name = name
        self._path = path
        self._position = path.stat().st_size if path.exists() else 0
        self._rest = b""

    def read(self) -> Iterator[Line]:
        """The warnings and errors among the lines that were added since the last call."""
        try:
            size = self._path.stat().st_size
            if size == self._position:
                return
            if size < self._position:  # somebody emptied it
                self._position = 0
            with self._path.open("rb") as file:
                file.seek(self._position)
                data = self._rest + file.read()
                self._position = file.tell()
        except OSError:
            return
        *lines, self._rest = data.split(b"\n")
        for line in lines:
            if said := _say(self._name, line.decode("utf-8", "replace")):
                yield said


def _say(name: str, line: str) -> Line | None:
    """A log line for a person; None where it is none of a person's business."""
    event = _event(line)
    if event is not None:
        level = str(event.get("level", ""))
        return Line(name, level, _render(event)) if level in LOUD_LEVELS else None
    for sign, level in (("[WRN] ", "warning"), ("[ERR] ", "error"), ("[FTL] ", "error")):
        if sign in line:
            return Line(name, level, line.partition(sign)[2][:WIDTH])
    return None


def _event(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def _render(event: dict[str, Any]) -> str:
    words = [str(event["event"]).replace("_", " ")]
    words += [f"{key}={value}" for key, value in event.items() if key not in UNSAID]
    if trace := str(event.get("exception", "")).strip():
        words.append(trace.splitlines()[-1])
    return " ".join(" ".join(words).split())[:WIDTH]


COLOURS = {"warning": "yellow", "error": "red", "critical": "red"}


def print_line(line: Line) -> None:
    """One line for a person: the time, who, what; a closed terminal is no reason to stop."""
    level = f"{line.level}: " if line.level in COLOURS else ""
    text = colour(f"{level}{line.text}", COLOURS.get(line.level))
    with contextlib.suppress(OSError):
        click.echo(f"{datetime.now().astimezone():%H:%M:%S}  {line.name:<10}  {text}")


def print_event(line: Line) -> None:
    """The same for programs: a line of JSON."""
    with contextlib.suppress(OSError):
        click.echo(msgspec.json.encode(line._asdict()))
