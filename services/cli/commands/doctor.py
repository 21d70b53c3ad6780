"""``mailroom doctor``: whether everything the office needs is there, and what to do where it is not."""

import asyncio
from collections.abc import Awaitable, Callable

import click
from rich.console import Console

from services.cli.commands.options import json_option
from services.cli.connection import connect
from services.cli.output.console import clean, open_console, print_block, print_json
from services.cli.queries.health import (
    Check,
    check_agents,
    check_brain,
    check_disk,
    check_keys,
    check_memory,
    check_model,
    check_sandbox,
    check_server,
    check_streams,
    failed,
)
from shared import settings
from shared.bus import Bus
from shared.errors import ConfigError, MailroomError
from shared.settings import Settings


async def examine() -> list[Check]:
    """Every check; one that needs the bus is left out where there is none, since that failed already."""
    try:
        config = settings.load()
    except ConfigError as error:
        return [failed("settings", error)]
    checks = [
        check_keys(config),
        check_disk(config),
        await check_model(config.models),
        await check_brain(config),
        await check_sandbox(),
    ]
    try:
        async with connect() as bus:
            return [check_server(bus), *await _ask_around(bus, config), *checks]
    except MailroomError as error:
        return [failed("bus", error), *checks]


async def _ask_around(bus: Bus, config: Settings) -> list[Check]:
    probes: dict[str, Callable[[], Awaitable[Check]]] = {
        "streams": lambda: check_streams(bus, config),
        "agents": lambda: check_agents(bus, config),
        "memory": lambda: check_memory(bus),
    }
    checks = []
    for name, probe in probes.items():
        try:
            checks.append(await probe())
        except MailroomError as error:
            checks.append(failed(name, error))
    return checks


STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check that all the office needs is there.

    Looks at bus, streams, keys, disk, embedding model, memory, brain and sandbox, and says what to do where
    one is not well. Exits with 1 where a check fails.
    """
    checks = asyncio.run(examine())
    if as_json:
        print_json(checks)
    else:
        console = open_console()
        for check in checks:
            _print(check, console)
    if any(check.verdict == "fail" for check in checks):
        raise SystemExit(1)


def _print(check: "Check", console: Console) -> None:
    line = f"{check.verdict:<5}{check.name:<11}{clean(check.finding)}"
    print_block(line, console, hang=16, lead=5, style=STYLES[check.verdict])
    if check.fix:
        print_block(f"{'':16}fix: {clean(check.fix)}", console, hang=21)
