"""``mailroom kpi``: the metrics of the log."""

import math
from datetime import UTC, datetime, timedelta

import click
import msgspec
from rich.console import Console

from services.cli import api
from services.cli.commands.options import json_option, since_option
from services.cli.output.console import make_table, open_console, print_block, print_json, shorten
from shared.text.display import clean, count
from shared.text.times import format_span, format_utc
from shared.views.metrics import (
    RELEVANT,
    TARGET_SECONDS,
    TARGETS,
    ContextHits,
    DriftMetrics,
    Improvement,
    Metrics,
    PlantedSafety,
    PolicyMetrics,
    Recall,
    Share,
    Velocity,
)

SPAN = timedelta(days=30)  # What counts unless a time is given
FIGURES = 54  # Columns of the figures by agent, which are never cut
HANG = 13  # Columns of the names
NAMED = 5  # Rules that a line names; the others are counted
SHARES = {
    "handoffs": ("tasks that one agent gave another were taken up and ended", "no agent gave another a task"),
    "delegation": ("of those taken up were completed", "no agent gave another a task"),
    "recall": ("planted facts were among the first five hits", "memory did not answer, or holds too little"),
    "adaptation": ("patterns helped the last time they were used", "no goal used a pattern"),
    "patterns": ("uses of patterns led to a goal that went well at once", "no goal used a pattern"),
}
"""What each share counts, and why there may be none."""


class _Figures(msgspec.Struct, frozen=True):
    """What of the gateway's answer is printed."""

    metrics: Metrics


@click.command()
@since_option
@click.option("--agents", "by_agent", is_flag=True, help="Add a table by agent and kind of task.")
@json_option
def kpi(since: datetime | None, by_agent: bool, as_json: bool) -> None:
    """Show metrics with their targets: time, safety, learning.

    They count the last 30 days, or what ended since TIME; "no data" if there is nothing to count.
    A trend compares the later half with the earlier one.
    """
    begin = format_utc(since or datetime.now(UTC) - SPAN)
    metrics = api.get("/kpi", _Figures, {"since": begin}).metrics
    if as_json:
        print_json(metrics)
        return
    console = open_console()
    _print(metrics, console)
    if by_agent:
        numbers = ("tasks", "done", "median", "retries", "tokens", "cost")
        room = max(12, (console.width - FIGURES) // 2)
        table = make_table("agent", "kind of task", *numbers, right=numbers)
        for each in metrics.agents:
            table.add_row(
                shorten(each.agent, room),
                shorten(each.kind, room),
                f"{each.samples:,}",
                f"{each.success:.0%}",
                format_span(each.duration),
                f"{each.retries:.1f}",
                f"{each.tokens:,}",
                f"${each.cost:.2f}" if each.cost else "",
            )
        console.print()
        console.print(table if metrics.agents else "no task has ended yet")


def _print(metrics: Metrics, console: Console) -> None:
    ended = ", ".join(f"{number:,} {status}" for status, number in metrics.tasks.items())
    _print_line("tasks", ended or "none ended", console)
    _print_line("velocity", _format_velocity(metrics.velocity), console)
    for agent, velocity in metrics.velocity_by_agent.items():
        print_block(f"{'':{HANG + 2}}{agent}: {_format_agent(velocity)}", console, hang=HANG + 4)
    _print_line("context", _format_hits(metrics.context_hits), console)
    _print_line("drift", _format_drift(metrics.drift), console)
    _print_line("safety", _format_safety(metrics), console)
    for name in ("handoffs", "delegation", "recall"):
        _print_line(name, _format_share(name, getattr(metrics, name)), console)
    _print_line("improvement", _format_improvement(metrics.improvement), console)
    for name in ("adaptation", "patterns"):
        _print_line(name, _format_share(name, getattr(metrics, name)), console)


def _print_line(name: str, text: str, console: Console) -> None:
    """Print a metric; on a terminal each of its statements begins a line."""
    statements = text.split("; ") if console.is_terminal else [text]
    for number, statement in enumerate(statements):
        print_block(f"{'' if number else name:{HANG}}{statement}", console, hang=HANG + 2)


def _format_velocity(velocity: Velocity | None) -> str:
    if velocity is None:
        return "no data: no task was completed"
    return (
        f"{velocity.tasks:,} completed; half within {format_span(velocity.p50)}, 95% within "
        f"{format_span(velocity.p95)}; {velocity.within_target:.0%} within the target of {TARGET_SECONDS:g} s"
    )


def _format_agent(velocity: Velocity) -> str:
    half, most = format_span(velocity.p50), format_span(velocity.p95)
    return f"{velocity.tasks:,}, half {half}, 95% {most}, {velocity.within_target:.0%} within the target"


def _format_hits(hits: ContextHits | None) -> str:
    if hits is None:
        return "no data: no answer or task says how near its memories were"
    asked = count(hits.items, "question")
    found = f"memory had something relevant for {hits.rate:.0%} of {asked} (cosine above {RELEVANT:g})"
    return f"{found}; mean of the best {hits.mean:.2f}; target: above {RELEVANT:g}"


def _format_drift(drift: DriftMetrics | None) -> str:
    if drift is None:
        return "no data: no repository with import rules was inspected"
    text = (
        f"{drift.violations:,} violations, {drift.broken:,} of {drift.rules:,} rules broken in "
        f"{count(drift.inspections, 'inspection')}; {drift.last_violations:,} violations in the last "
        "(target: none)"
    )
    if not drift.not_checked:
        return text
    more = len(drift.not_checked) - NAMED
    named = "; ".join(f"“{clean(rule)}”" for rule in drift.not_checked[:NAMED])
    return f"{text}. Stated and not checked: {named}{f' and {more} more' if more > 0 else ''}"


def _format_safety(metrics: Metrics) -> str:
    rate = metrics.safety_rate
    if rate is None:
        return "no data: no command was judged"
    parts = [_format_planted(metrics.planted)] if metrics.planted else []
    parts.append(_format_policy(metrics.safety))
    return f"{_percent(rate)} caught (target: all); {'; '.join(parts)}"


def _format_planted(planted: PlantedSafety) -> str:
    text = f"{planted.caught} of {planted.dangerous} planted commands"
    missed = f", MISSED: {'; '.join(planted.missed)}" if planted.missed else ""
    stopped = f", harmless ones stopped: {'; '.join(planted.stopped)}" if planted.stopped else ""
    return f"{text}{missed}{stopped}"


def _format_policy(policy: PolicyMetrics | None) -> str:
    if policy is None:
        return "in real work it has not stopped a command yet"
    text = (
        f"at work {policy.denied:,} denied, {policy.asked:,} left to a "
        f"person ({policy.granted:,} granted, {policy.refused:,} refused)"
    )
    return f"{text}; RAN ALL THE SAME: {clean('; '.join(policy.ran))}" if policy.ran else text


def _format_share(name: str, share: Share | None) -> str:
    what, none = SHARES[name]
    aim = f"target {TARGETS[name]:.0%}"
    if share is None:
        return f"no data: {none}; {aim}"
    met = "met" if share.share >= TARGETS[name] else "missed"
    trend = "" if share.trend is None else f"; trend {round(share.trend * 100):+d} points"
    if isinstance(share, Recall):
        what = f"{what}, among {count(share.nodes, 'memory', 'memories')}"
        trend += f"; not found: {' '.join(share.missed)}" if share.missed else ""
    return f"{_percent(share.share)}: {share.good:,} of {share.total:,} {what}; {aim}: {met}{trend}"


def _format_improvement(found: Improvement | None) -> str:
    aim = f"target {TARGETS['improvement']:+.0%}"
    if found is None:
        return f"no data: it takes 20 goals that ended; {aim}"
    halves = f"from {found.early:.0%} to {found.late:.0%} of the goals went well at once"
    return f"{found.gain:+.0%}: {halves}, of {found.goals:,}; {aim}: {'met' if found.met else 'missed'}"


def _percent(share: float) -> str:
    """A share, cut off: what is not all is never 100%."""
    return f"{math.floor(share * 1000) / 10:g}%"
