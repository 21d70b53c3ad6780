"""Sending folders of this machine to an office whose agents do not have them."""

import os
import platform
import re
import secrets
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import click

from services.cli import api
from services.cli.commands.options import quote
from shared import settings
from shared.errors import MailroomError
from shared.operations.sending import find_root, pack_folder
from shared.text.display import clean, count
from shared.views.listed import SentFolder, SentPiece

PIECE = 4 << 20  # Bytes that are sent at once
SHOWN = 10  # What is left out that is named; the rest is counted
NAMING = ("repo", "folder")  # What of a goal's context names a folder


def must_send() -> bool:
    """Whether agents of the office that is asked may lack the folders of this machine."""
    config = settings.load()
    if api.find_office_elsewhere(config):
        return True
    if not (config.keys / "hosts.json").exists():
        return False
    from shared.bus.hosts import read_hosts  # it imports much

    return bool(read_hosts(config.keys).joined)


def send_named(text: str, context: Mapping[str, Any], paths: Iterable[str]) -> tuple[str, dict[str, Any]]:
    """``text`` and ``context`` of a goal with the ``paths`` that they name where the office has them now.

    Raises MailroomError if one cannot be sent.
    """
    sent: dict[Path, str] = {}
    changed = dict(context)
    for path in sorted({*paths} - {""}, key=len, reverse=True):
        root = find_root(Path(path) if Path(path).is_dir() else Path(path).parent)
        if root not in sent:
            sent[root] = send_folder(root)
        there = str(Path(sent[root], Path(path).relative_to(root)))
        parts = re.split(rf"{re.escape(path)}(?![\w-]|\.\w)", text)
        text = there.join(parts)
        for name in NAMING:
            if changed.get(name) == path:
                changed[name] = there
    return text, changed


def send_folder(root: Path) -> str:
    """Send a folder, with progress on standard error; returns its path in the office."""
    if root in (Path.home(), Path(root.anchor)):
        raise MailroomError(f"{root} is not sent: it holds more than a project", "Name a folder in it")
    with tempfile.TemporaryFile() as file:
        packed = pack_folder(root, file)
        size = file.seek(0, os.SEEK_END)
        told = f"Sends {quote(str(root))}: {count(packed.files, 'file')}, {size:,} bytes packed"
        click.echo(told, err=True)
        for each in packed.left_out[:SHOWN]:
            click.echo(f"  left out: {clean(each)}", err=True)
        if (more := len(packed.left_out) - SHOWN) > 0:
            click.echo(f"  left out: {more:,} more", err=True)
        file.seek(0)
        with click.progressbar(range(size), file=sys.stderr) as bar:
            return _send(file, size, root, bar.update)


def _send(file: BinaryIO, size: int, root: Path, tell: Callable[[int], None]) -> str:
    digest, login = sha256(), api.find_login(settings.load())
    while data := file.read(1 << 20):
        digest.update(data)
    file.seek(0)
    upload, offset = secrets.token_urlsafe(18), 0
    source = os.fsencode(root).decode("utf-8", "replace")
    while True:
        piece = SentPiece(
            upload=upload,
            offset=offset,
            data=file.read(PIECE),
            size=size,
            digest=digest.hexdigest(),
            source=source,
            host=platform.node()[:100],
        )
        answer = api.post("/inputs", SentFolder, piece, login=login, timeout=300.0)
        tell(len(piece.data))
        offset += len(piece.data)
        if answer.folder:
            return answer.folder
        if not piece.data:
            raise MailroomError(f"{root} was not taken whole", "Send it again")
