"""``mailroom memory ingest``: files into the folder from which memory takes them in."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import click

from services.cli.commands.options import json_option
from services.cli.output.console import print_json
from shared import settings
from shared.errors import ActionError
from shared.text.phrases import count
from shared.text.printable import clean


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@json_option
def ingest(paths: tuple[Path, ...], as_json: bool) -> None:
    """Have memory take in files, or all files of folders.

    Markdown (with wikilinks), txt, json, yaml, csv and log. They are copied into the folder "ingest" of the
    office. Memory takes them in within seconds while the office runs, else when it starts, and puts what it
    cannot read into the folder "failed" there. A file that is taken in again replaces what it said. Hidden
    files are left out.
    """
    folder = settings.load().ingest
    names = {str(name): path for given in paths for name, path in _list_files(given)}
    if not names:
        raise ActionError("There is no file in what was named", "Name files, or a folder that has some")
    try:
        for name, path in names.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / name)
    except OSError as error:
        raise ActionError(
            f"{error.filename or folder} cannot be copied to {folder}: {error.strerror or error}",
            "Check the rights of both, and the space on the disk",
        ) from None
    if as_json:
        print_json({"folder": str(folder), "files": sorted(names)})
    else:
        click.echo(clean(f"{count(len(names), 'file')} copied to {folder}"))
        click.echo("Memory takes them in; what it cannot read it puts into 'failed' there.")


def _list_files(given: Path) -> Iterator[tuple[Path, Path]]:
    """The files of a path with their names beneath it."""
    if given.is_file():
        yield Path(given.name), given
        return
    for path in sorted(given.rglob("*")):
        name = path.relative_to(given)
        if path.is_file() and not any(part.startswith(".") for part in name.parts):
            yield name, path
