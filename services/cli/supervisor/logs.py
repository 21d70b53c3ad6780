"""The log files of an instance's processes: rotated, followed, and printed a line at a time."""

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from services.cli.output.console import colour

MAX_LOG = 10 * 1024 * 1024  # Bytes above which a log is rotated; one older file is kept
MAX_TEXT = 400  # The most characters of a log line that are printed
HIDDEN_KEYS = frozenset({"event", "level", "service", "module", "timestamp", "exception", "task", "cause"})
COLOURS = {"warning": "yellow", "error": "red", "critical": "red"}
"""The levels that are printed, and their colours."""
ROUTINE = (
    "Error trying to connect to route",
    "Waiting for routing",
    "not established contact with a meta leader",
    "store is closed",
    "Metalayer blocking snapshot",
    "system account not setup",
)
"""What servers of a cluster log whenever one of them starts or stops, which is reported itself."""
TOLD = "told"
"""The event, and the level of its line, by which the gateway tells people something here, with the bell."""


class LogLine(NamedTuple):
    """A line to print: the process it is about, its level, and the text."""

    name: str
    level: str
    text: str


def print_log_line(line: LogLine) -> None:
    """Print time, name and text; a closed terminal is ignored."""
    level = f"{line.level}: " if line.level in COLOURS else ""
    text = colour(f"{level}{line.text}", COLOURS.get(line.level))
    if line.level == TOLD and sys.stdout.isatty():
        text = f"\a{click.style(line.text, bold=True)}"
    with contextlib.suppress(OSError):
        click.echo(f"{datetime.now().astimezone():%H:%M:%S}  {line.name:<10}  {text}")


def print_log_json(line: LogLine) -> None:
    """Print the same as a line of JSON."""
    with contextlib.suppress(OSError):
        click.echo(msgspec.json.encode(line._asdict()))


def rotate(path: Path) -> None:
    """Move what is in the log to ``<name>.log.1`` if it is larger than MAX_LOG.

    The file stays, because its process has it open and appends to it.
    """
    if path.exists() and path.stat().st_size > MAX_LOG:
        shutil.copyfile(path, path.with_name(f"{path.name}.1"))
        os.truncate(path, 0)


def read_last_error(path: Path) -> str:
    """The last line an agent wrote: a sentence, the end of a traceback, or an event; else empty."""
    lines = _read_end(path)
    if not lines:
        return ""
    event = _parse_event(lines[-1])
    text = lines[-1] if event is None else _format_event(event)
    return text.removeprefix(f"{path.stem.partition('.')[0]}: ")[:MAX_TEXT]


def read_last_server_error(path: Path) -> str:
    """The last error that nats-server wrote; empty if there is none."""
    lines = [line for line in _read_end(path) if "[FTL]" in line or "[ERR]" in line]
    return lines[-1].partition("] ")[2].partition("] ")[2][:MAX_TEXT] if lines else ""


def _read_end(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 16_384))
            return [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        return []


class LogFollower:
    """Reads what is appended to a log from now on."""

    def __init__(self, name: str, path: Path) -> None:
        self._name = name
        self._path = path
        self._position = path.stat().st_size if path.exists() else 0
        self._rest = b""

    def read(self) -> Iterator[LogLine]:
        """The warnings and errors appended since the last call."""
        try:
            size = self._path.stat().st_size
            if size == self._position:
                return
            if size < self._position:  # truncated
                self._position = 0
            with self._path.open("rb") as file:
                file.seek(self._position)
                data = self._rest + file.read()
                self._position = file.tell()
        except OSError:
            return
        *lines, self._rest = data.split(b"\n")
        for line in lines:
            if parsed := _parse_line(self._name, line.decode("utf-8", "replace")):
                yield parsed


def _parse_line(name: str, line: str) -> LogLine | None:
    """A warning or an error; None for any other line."""
    event = _parse_event(line)
    if event is not None:
        if event["event"] == TOLD:
            return LogLine(name, TOLD, " ".join(str(event.get("title", "")).split())[:MAX_TEXT])
        level = str(event.get("level", ""))
        return LogLine(name, level, _format_event(event)) if level in COLOURS else None
    if any(text in line for text in ROUTINE):
        return None
    for mark, level in (("[WRN] ", "warning"), ("[ERR] ", "error"), ("[FTL] ", "error")):
        if mark in line:
            return LogLine(name, level, line.partition(mark)[2][:MAX_TEXT])
    return None


def _parse_event(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def _format_event(event: dict[str, Any]) -> str:
    words = [str(event["event"]).replace("_", " ")]
    words += [f"{key}={value}" for key, value in event.items() if key not in HIDDEN_KEYS]
    if trace := str(event.get("exception", "")).strip():
        words.append(trace.splitlines()[-1])
    return " ".join(" ".join(words).split())[:MAX_TEXT]
