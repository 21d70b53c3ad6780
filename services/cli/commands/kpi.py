"""``mailroom kpi``: how the office does, from its own log."""

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

import click
from rich.console import Console

from services.cli.commands.options import PastType, json_option
from services.cli.connection import connect
from services.cli.output.console import clean, make_table, open_console, print_block, print_json, shorten
from services.cli.output.times import format_span
from services.cli.queries.metrics_reader import read_figures

if TYPE_CHECKING:
    from services.cli.queries.metrics import DriftFigures, Figures, SafetyFigures, Velocity


NO_DRIFT = "no data: no repository that states import rules was inspected"
HANG = 10
"""Columns before what is told of a figure."""


@click.command()
@click.option(
    "--since", type=PastType(), metavar="TIME", help="Only what came since: 24h ago, or an ISO 8601 time."
)
@click.option("--agents", "by_agent", is_flag=True, help="How each agent did at each kind of task, too.")
@json_option
def kpi(since: datetime | None, by_agent: bool, as_json: bool) -> None:
    """Show how quick, how well informed and how safe the office is.

    Task velocity, context hit rate, drift and safety, reckoned anew from the log each time.
    """
    figures = asyncio.run(_reckon(since))
    if as_json:
        print_json(figures)
        return
    console = open_console()
    _print(figures, console)
    if by_agent:
        _print_agents(figures, console)


async def _reckon(since: datetime | None) -> "Figures":
    async with connect() as bus:
        with open_console(stderr=True).status("Reading the log"):
            return await read_figures(bus, since)


# --- for people ----------------------------------------------------------------------------------


def _print(figures: "Figures", console: Console) -> None:
    from services.cli.queries.metrics import HIT

    ended = ", ".join(f"{count:,} {status}" for status, count in figures.tasks.items())
    print_block(f"tasks     {ended or 'none ended'}", console, hang=HANG)
    print_block(f"velocity  {_velocity(figures.velocity)}", console, hang=HANG)
    for agent, velocity in figures.velocity_by_agent.items():
        print_block(f"{'':{HANG}}{agent}: {_velocity(velocity)}", console, hang=HANG + 2)
    hits = figures.context_hits
    told = (
        f"{hits.rate:.0%} of {hits.items:,} things that memory brought were relevant (above {HIT:g}), "
        f"on average {hits.mean:.2f}"
        if hits
        else "no data: no answer and no task says what memory brought it"
    )
    print_block(f"context   {told}", console, hang=HANG)
    drift = _drift(figures.drift) if figures.drift else NO_DRIFT
    print_block(f"drift     {drift}", console, hang=HANG)
    print_block(f"safety    {_safety(figures.safety)}", console, hang=HANG)


def _velocity(velocity: "Velocity | None") -> str:
    from services.cli.queries.metrics import ATOMIC

    if velocity is None:
        return "no data: no task was completed"
    return (
        f"{velocity.tasks:,} completed, half within {format_span(velocity.p50)}, 95% within "
        f"{format_span(velocity.p95)}, {velocity.within_target:.0%} within the target of {ATOMIC:g} s"
    )


def _drift(drift: "DriftFigures") -> str:
    many = "s" * (drift.inspections != 1)
    return (
        f"{drift.violations:,} violations, {drift.broken:,} of {drift.rules:,} rules broken in "
        f"{drift.inspections:,} inspection{many}; "
        f"{drift.last_violations:,} violations in the last"
    )


def _safety(safety: "SafetyFigures | None") -> str:
    if safety is None:
        return "no data: the policy has not had to stop a command"
    told = (
        f"{safety.catch_rate:.0%} caught: {safety.denied:,} denied, {safety.asked:,} left to a "
        f"person ({safety.granted:,} granted, {safety.refused:,} refused)"
    )
    return f"{told}; RAN ALL THE SAME: {clean('; '.join(safety.ran))}" if safety.ran else told


def _print_agents(figures: "Figures", console: Console) -> None:
    numbers = ("tasks", "success", "median", "retries", "tokens", "cost")
    table = make_table("agent", "kind of task", *numbers, right=numbers)
    for seen in figures.agents:
        table.add_row(
            shorten(seen.agent, 24),
            shorten(seen.kind, 32),
            f"{seen.samples:,}",
            f"{seen.success:.0%}",
            format_span(seen.duration),
            f"{seen.retries:.1f}",
            f"{seen.tokens:,}",
            f"${seen.cost:.2f}" if seen.cost else "",
        )
    console.print()
    console.print(table if figures.agents else "no task has ended yet")
