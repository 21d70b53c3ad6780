"""``mailroom doctor``: whether everything the office needs is there, and what to do where it is not."""

import asyncio
from typing import TYPE_CHECKING

import click
from rich.console import Console

from services.cli.screen import clean, json_option, open_console, print_block, print_json

if TYPE_CHECKING:
    from services.cli.checks import Check

STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Check that all the office needs is there.

    Looks at bus, streams, keys, disk, embedding model, memory, brain and sandbox, and says what to do where
    one is not well. Exits with 1 where a check fails.
    """
    from services.cli.checks import examine

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
