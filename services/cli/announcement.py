"""What ``mailroom up`` says: where things are, what to paste, and what happens in the office."""

import contextlib
import json
import shlex
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click
import msgspec

from services.cli.connection import RunningOffice
from services.cli.logbook import Line
from services.cli.screen import colour
from shared import settings, subjects
from shared.settings import Settings

COLOURS = {"warning": "yellow", "error": "red", "critical": "red"}
EXAMPLE = "Check up on the repository at"


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


def where_things_are(office: RunningOffice, config: Settings) -> Iterator[str]:
    """The lines that say where the office is and how to use it, ready to paste."""
    key = shlex.quote(str(config.keys / f"{subjects.USER}.nk"))
    server = f"--server {office.url} --nkey {key}"
    yield f"  server   {office.url}"
    yield f"  state    {config.state_dir}"
    yield f"  logs     {config.logs}"
    yield f"  reports  {config.outputs}"
    yield f"  model    {office.brain or 'none; MAILROOM_BRAIN names one'}"
    yield ""
    yield "Give it work and watch, from another terminal:"
    yield ""
    yield f'  {_command(config)} submit "{EXAMPLE} $PWD"'
    yield f"  {_command(config)} tail"
    yield ""
    yield "The same with any NATS client:"
    yield ""
    yield f"  nats pub {subjects.SUBMIT} {shlex.quote(json.dumps({'text': f'{EXAMPLE} {Path.cwd()}'}))} \\"
    yield f"    {server}"
    yield f"  nats sub '{subjects.AUDIT_ALL}' \\"
    yield f"    {server}"


def _command(config: Settings) -> str:
    """How this very command is called again for this office."""
    called = Path(sys.argv[0])
    if called.name != "mailroom":
        command = f"{shlex.quote(sys.executable)} -m services.cli"
    elif found := shutil.which("mailroom"):
        command = (
            "mailroom" if Path(found).resolve() == called.resolve() else shlex.quote(str(called.absolute()))
        )
    else:
        command = shlex.quote(str(called.absolute()))
    if config.state_dir == _usual_state_dir():
        return command
    return f"MAILROOM_STATE_DIR={shlex.quote(str(config.state_dir))} {command}"


def _usual_state_dir() -> Path:
    """Where another terminal looks for an office: what is set in this one alone is not known there."""
    bare = {name: text for name, text in settings.environment().items() if name != "MAILROOM_STATE_DIR"}
    return settings.load(bare).state_dir
