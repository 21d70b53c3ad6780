"""``mailroom backup`` and ``mailroom restore``."""

import asyncio
import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import click
from rich.filesize import decimal

from services.cli.commands.options import format_examples, json_option
from services.cli.connection import require_office
from services.cli.output.console import open_console, print_result
from services.cli.output.reports import not_written
from services.cli.supervisor.backup import BackupWriter, Manifest, read_manifest
from services.cli.supervisor.lock import InstanceLock
from services.cli.supervisor.provisioning import read_tenants
from services.cli.supervisor.restoring import finish_restore, occupied_by
from services.cli.supervisor.restoring import restore as restore_office
from shared import settings, subjects
from shared.bus.connecting import find_instance
from shared.errors import ActionError, NotFound, StartError, TooLate
from shared.files import sync_folder
from shared.settings import Settings
from shared.text.display import count

COMPRESSED = (".gz", ".tgz")
LOCK_WAIT = 15.0  # Seconds until what a killed backup or restore left running has ended


@click.command(
    epilog=format_examples(
        "mailroom backup ~/mailroom.tar",
        "mailroom backup /mnt/disk",
        "mailroom backup --since /mnt/disk/sunday.tar /mnt/disk/monday.tar",
    )
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--since",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="EARLIER",
    help="Save only what the backup EARLIER, in the same folder, does not have.",
)
@click.option("--without-keys", is_flag=True, help="Leave out the keys and the token of commands.")
@click.option("--with-memory", is_flag=True, help="Also save memory's tables, which are else rebuilt.")
@json_option
def backup(file: Path, since: Path | None, without_keys: bool, with_memory: bool, as_json: bool) -> None:
    """Save the office to FILE, while it runs or not.

    FILE is a tar, compressed if its name ends with .gz or .tgz: all messages, settings, keys, reports, files
    for memory and jobs, and the workspaces of open goals; what is left out is rebuilt. It is as secret as
    the keys in it, and readable by you alone. A folder for FILE gets a file that is named by the time.
    """
    config = settings.load()
    if file.is_dir():
        file /= f"mailroom-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar"
    if file.exists():
        raise TooLate(f"{file} exists already", "Name another file, or a folder")
    if since is not None and since.absolute().parent != file.absolute().parent:
        raise ActionError(
            f"{since} is in another folder than {file}", "Both are needed to restore: keep them in one"
        )
    earlier = (since.name, read_manifest(since)) if since else None
    begun = time.monotonic()
    with _progress("Saving") as tell, _lock(config, always=False) as lock, _written(file) as output:
        writer = BackupWriter(config, since=earlier, keys=not without_keys, memory=with_memory, tell=tell)
        manifest = writer.write(output, lock, gzip=file.suffix in COMPRESSED)
    result = {**_describe(manifest, file), "seconds": round(time.monotonic() - begun, 2)}
    secret = "" if without_keys else " It holds the keys: keep it as secret as them."
    for name in manifest.unread:
        click.echo(f"Not saved, because you may not read it: {name}", err=True)
    print_result(result, f"Saved {_format(result)} to {file} ({decimal(result['size'])}).{secret}", as_json)


@click.command(
    epilog=format_examples(
        "mailroom restore ~/mailroom.tar",
        "mailroom restore ~/mailroom.tar --force ~/.local/state/mailroom",
    )
)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--force",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Replace the office in the state folder, which has to be named. It is kept in .replaced-TIME there.",
)
@json_option
def restore(file: Path, force: Path | None, as_json: bool) -> None:
    """Make the office of the backup FILE.

    The state folder has to be empty, and no office open. Everything is checked before anything is changed.
    'mailroom up' then goes on with the goals that were open; memory is rebuilt from its log meanwhile.
    """
    config = settings.load()
    begun = time.monotonic()
    with _progress("Restoring") as tell, _lock(config, always=True) as lock:
        assert lock is not None
        finish_restore(config.state_dir)  # of one that was killed at its end
        if tenants := read_tenants(config):
            names = ", ".join(each.nats_tenant for each in tenants)
            raise TooLate(f"The server here has the logs of {names} too", "Restore into another folder")
        if occupied := occupied_by(config.state_dir):
            own = config.state_dir.absolute()
            if force is None or force.absolute() != own:
                raise TooLate(
                    f"There is an office in {own} ({', '.join(occupied[:3])} ...)",
                    f"Set MAILROOM_STATE_DIR to another folder, or replace it with --force {own}",
                )
        try:
            manifest = asyncio.run(restore_office(config, lock, file, tell))
        except OSError as error:
            raise not_written(config.state_dir, error) from None
    result = {**_describe(manifest, file), "seconds": round(time.monotonic() - begun, 2)}
    kept = sorted(config.state_dir.glob(".replaced-*"))[-1:] if occupied else []
    result["replaced"] = str(kept[0]) if kept else ""
    before = f" What was there is in {kept[0]}." if kept else ""
    text = f"Restored {_format(result)} from {file}.{before} 'mailroom up' opens the office."
    print_result(result, text, as_json)


@contextlib.contextmanager
def _progress(what: str) -> Iterator[Any]:
    with open_console(stderr=True).status(what) as status:
        yield lambda text: status.update(f"{what} {text}")


@contextlib.contextmanager
def _lock(config: Settings, *, always: bool) -> Iterator[InstanceLock | None]:
    """The lock of the office while it stands still; None while it runs, unless it is needed ``always``."""
    require_office(config)
    deadline = time.monotonic() + LOCK_WAIT
    if config.nats_url and always:
        raise StartError(
            "NATS_URL names a server, whose streams are not replaced",
            "Unset it: a server of its own gets them",
        )
    while find_instance(config) is None and not config.nats_url:
        if not config.state_dir.exists() and not always:
            raise NotFound(f"There is no office in {config.state_dir}", "MAILROOM_STATE_DIR names its folder")
        if lock := InstanceLock.acquire(config.state_dir):
            try:
                if not always and not (config.state_dir / "nats" / "office.conf").exists():
                    raise NotFound(f"There is no office in {config.state_dir}")
                yield lock
            finally:
                lock.release()
            return
        if time.monotonic() > deadline:
            raise StartError(
                f"The office in {config.state_dir} is starting or stopping", "Try again in a moment"
            )
        time.sleep(0.1)
    if always:
        raise TooLate(f"The office in {config.state_dir} is open", "Close it: mailroom down")
    yield None


@contextlib.contextmanager
def _written(file: Path) -> Iterator[BinaryIO]:
    """A file of mode 0600 that is ``file`` at the end of the block, and nothing after an error or Ctrl-C.

    What a kill leaves, ``.FILE.part``, is written over by the next one.
    """
    draft = file.with_name(f".{file.name}.part")
    try:
        with os.fdopen(os.open(draft, os.O_RDWR | os.O_CREAT, 0o600), "wb") as output:
            try:
                fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TooLate(f"{file} is being written by another command") from None
            try:
                yield output
                output.flush()
                os.fsync(output.fileno())
                draft.rename(file)
            except BaseException:
                draft.unlink(missing_ok=True)
                raise
        sync_folder(file.parent)
    except OSError as error:
        raise not_written(file, error) from None


def _describe(manifest: Manifest, file: Path) -> dict[str, Any]:
    streams = {
        each.name: {
            "first": each.first,
            "last": each.last,
            "since": each.since,
            "messages": each.taken["state"]["messages"],
        }
        for each in manifest.streams
    }
    return {
        "path": str(file),
        "size": file.stat().st_size,
        "id": manifest.id,
        "made_at": manifest.made_at,
        "version": manifest.version,
        "continues": list(manifest.chain.values()),
        "keys": manifest.keys,
        "memory": manifest.memory,
        "goals": manifest.goals,
        "unread": manifest.unread,
        "files": sum(bool(each.digest) for each in manifest.files),
        "streams": streams,
    }


def _format(result: dict[str, Any]) -> str:
    messages = sum(result["streams"].get(each, {}).get("messages", 0) for each in subjects.LOG)
    parts = [
        count(messages, "message"),
        count(result["files"], "file"),
        count(len(result["goals"]), "open goal"),
    ]
    if result["continues"]:
        office = result["streams"]["OFFICE"]
        parts.append(f"of the log what came after message {office['since']:,}")
    return ", ".join(parts)
