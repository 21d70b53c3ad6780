"""``mailroom kpi``: the metrics of the log."""

from datetime import datetime

import click
from rich.console import Console

from services.cli.commands.options import json_option, since_option
from services.cli.connection import run_connected
from services.cli.output.console import make_table, open_console, print_block, print_json, shorten
from shared.bus import Bus
from shared.queries.metrics import (
    RELEVANT,
    TARGET_SECONDS,
    ContextHits,
    DriftMetrics,
    Metrics,
    PolicyMetrics,
    Velocity,
)
from shared.queries.metrics_reader import read_metrics
from shared.text.phrases import count
from shared.text.printable import clean
from shared.text.times import format_span

HANG = 10
"""Columns of the names."""


@click.command()
@since_option
@click.option("--agents", "by_agent", is_flag=True, help="Add a table by agent and kind of task.")
@json_option
def kpi(since: datetime | None, by_agent: bool, as_json: bool) -> None:
    """Show metrics: task velocity, context hits, drift, policy.

    Computed from the log on every call; "no data" if the log has none.
    """

    async def read(bus: Bus) -> Metrics:
        with open_console(stderr=True).status("Reading the log"):
            return await read_metrics(bus, since)

    metrics = run_connected(read)
    if as_json:
        print_json(metrics)
        return
    console = open_console()
    _print(metrics, console)
    if by_agent:
        _print_agents(metrics, console)


def _print(metrics: Metrics, console: Console) -> None:
    ended = ", ".join(f"{number:,} {status}" for status, number in metrics.tasks.items())
    print_block(f"tasks     {ended or 'none ended'}", console, hang=HANG)
    print_block(f"velocity  {_format_velocity(metrics.velocity)}", console, hang=HANG)
    for agent, velocity in metrics.velocity_by_agent.items():
        print_block(f"{'':{HANG}}{agent}: {_format_velocity(velocity)}", console, hang=HANG + 2)
    print_block(f"context   {_format_hits(metrics.context_hits)}", console, hang=HANG)
    print_block(f"drift     {_format_drift(metrics.drift)}", console, hang=HANG)
    print_block(f"safety    {_format_policy(metrics.safety)}", console, hang=HANG)


def _format_velocity(velocity: Velocity | None) -> str:
    if velocity is None:
        return "no data: no task was completed"
    return (
        f"{velocity.tasks:,} completed, half within {format_span(velocity.p50)}, 95% within "
        f"{format_span(velocity.p95)}, {velocity.within_target:.0%} within the target of {TARGET_SECONDS:g} s"
    )


def _format_hits(hits: ContextHits | None) -> str:
    if hits is None:
        return "no data: no answer or task says which memories it used"
    share = f"{hits.rate:.0%} of {hits.items:,} retrieved memories were relevant"
    return f"{share} (score above {RELEVANT:g}), mean score {hits.mean:.2f}"


def _format_drift(drift: DriftMetrics | None) -> str:
    if drift is None:
        return "no data: no repository with import rules was inspected"
    return (
        f"{drift.violations:,} violations, {drift.broken:,} of {drift.rules:,} rules broken in "
        f"{count(drift.inspections, 'inspection')}; {drift.last_violations:,} violations in the last"
    )


def _format_policy(policy: PolicyMetrics | None) -> str:
    if policy is None:
        return "no data: the policy has not stopped a command"
    text = (
        f"{policy.catch_rate:.0%} caught: {policy.denied:,} denied, {policy.asked:,} left to a "
        f"person ({policy.granted:,} granted, {policy.refused:,} refused)"
    )
    return f"{text}; RAN ALL THE SAME: {clean('; '.join(policy.ran))}" if policy.ran else text


def _print_agents(metrics: Metrics, console: Console) -> None:
    numbers = ("tasks", "success", "median", "retries", "tokens", "cost")
    table = make_table("agent", "kind of task", *numbers, right=numbers)
    for each in metrics.agents:
        table.add_row(
            shorten(each.agent, 24),
            shorten(each.kind, 32),
            f"{each.samples:,}",
            f"{each.success:.0%}",
            format_span(each.duration),
            f"{each.retries:.1f}",
            f"{each.tokens:,}",
            f"${each.cost:.2f}" if each.cost else "",
        )
    console.print()
    console.print(table if metrics.agents else "no task has ended yet")
