"""``mailroom memory end``, and ``restore``: until when memories hold."""

from datetime import UTC, datetime

import click

from services.cli.commands.memory.nodes import ids_argument
from services.cli.commands.memory.session import NOT_FOUND, call_memory, find_ids
from services.cli.commands.options import TimeType, format_time_option, json_option
from services.cli.output.console import print_result
from shared.contracts import MemoryWritten, Node
from shared.contracts.base import amended
from shared.errors import MailroomError
from shared.memory import Memory


@click.command()
@ids_argument
@click.option(
    "--on",
    "moment",
    type=TimeType(),
    callback=format_time_option,
    metavar="TIME",
    help="When it ceased to be true: a span such as 2d, or ISO 8601. Default: now.",
)
@json_option
def end(ids: tuple[str, ...], moment: str, as_json: bool) -> None:
    """Say that the memories with these IDs hold no longer.

    They are kept, with the day as their 'valid_to', and are no longer taken for what is true now.
    'mailroom memory restore' takes it back.
    """
    when = moment or datetime.now(UTC).isoformat(timespec="seconds")

    async def end_all(memory: Memory) -> tuple[list[str], MemoryWritten]:
        nodes = await _get_all(memory, ids, "ended")
        if retired := [node.id for node in nodes if node.retired_version]:
            raise MailroomError(
                f"{', '.join(retired)} is retired, so nothing was ended", "'mailroom memory restore ID' first"
            )
        return await _write(memory, nodes, valid_to=when)

    found, written = call_memory(end_all)
    text = f"Ended on {when[:10]}: {', '.join(found)} (graph version {written.version})"
    print_result(written, text, as_json)


@click.command()
@ids_argument
@json_option
def restore(ids: tuple[str, ...], as_json: bool) -> None:
    """Take back that the memories with these IDs were retired or ended.

    They are as they were, without the edges that ended with them. What was forgotten cannot be restored.
    """

    async def restore_all(memory: Memory) -> tuple[list[str], MemoryWritten]:
        nodes = await _get_all(memory, ids, "restored")
        if held := [node.id for node in nodes if not node.retired_version and not node.valid_to]:
            raise MailroomError(f"{', '.join(held)} was neither retired nor ended, so nothing was restored")
        return await _write(memory, nodes, valid_to="")

    found, written = call_memory(restore_all)
    text = f"Restored {', '.join(found)} (graph version {written.version})"
    print_result(written, text, as_json)


async def _get_all(memory: Memory, ids: tuple[str, ...], done: str) -> list[Node]:
    """The memories with the ids, retired ones too; raises MailroomError if one is not there."""
    found = await find_ids(memory, ids)
    nodes = await memory.get(*found)
    if missing := sorted(set(found) - {node.id for node in nodes}):
        raise MailroomError(
            f"{', '.join(missing)} is {NOT_FOUND}, so nothing was {done}",
            "'mailroom memory search' finds ids",
        )
    return nodes


async def _write(memory: Memory, nodes: list[Node], *, valid_to: str) -> tuple[list[str], MemoryWritten]:
    changed = [amended(node, valid_to=valid_to, updated_at="") for node in nodes]
    return [node.id for node in nodes], await memory.add(*changed, insist=True)
