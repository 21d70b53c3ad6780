"""Measure Mailroom: ``python -m tests.bench [--only NAME] [--json FILE] [--tasks N] [--big] [--nodes N]
[--quick]``.
"""

import argparse
import asyncio
import importlib
import json
import time
from collections.abc import Sequence
from pathlib import Path

import uvloop

from shared import log
from tests.bench import machine
from tests.bench.plan import Plan
from tests.bench.rows import Row, print_table
from tests.support.sweeper import leave_nothing

MEASURES = ("throughput", "latency", "footprint", "growth", "policy")
ON_DEMAND = tuple("memory thinking nexus jail checkup recovery gateway dashboard ingest commands".split())
"""Measured only where ``--only`` names them: they take some minutes of their own."""
QUICK = Plan(tasks=20, rounds=1, quick=True)


def main() -> None:
    """Measure, print the table, and write the JSON where it is asked for."""
    args = _arguments()
    plan = QUICK if args.quick else Plan(tasks=args.tasks, big=args.big, nodes=args.nodes)
    log.configure("bench", level="warning")
    leave_nothing()
    before, begun = machine.load(), time.monotonic()
    rows = uvloop.run(_measure(args.only or MEASURES, plan))
    result = {
        **machine.describe(),
        "load_before": before,
        "load_after": machine.load(),
        "seconds": round(time.monotonic() - begun, 1),
        "rows": [row.to_dict() for row in rows],
    }
    figures = [
        {"name": f"{row.measure}: {row.name}", "value": row.value, "unit": row.unit}
        | ({"target": row.target, "met": row.met} if row.target else {})
        for row in rows
    ]
    met = all(row.met is not False for row in rows)
    shown = {name: value for name, value in result.items() if name != "rows"}
    print(json.dumps({**shown, "figures": figures, "met": met}))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


async def _measure(names: Sequence[str], plan: Plan) -> list[Row]:
    """One measure after another; three at once where the figures do not count."""
    together = asyncio.Semaphore(3 if plan.quick else 1)

    async def run(name: str) -> list[Row]:
        async with together:
            rows: list[Row] = await importlib.import_module(f"tests.bench.{name}").measure(plan)
        print_table(rows, name)
        return rows

    return [row for rows in await asyncio.gather(*map(run, names)) for row in rows]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure Mailroom.")
    parser.add_argument(
        "--only",
        action="append",
        choices=(*MEASURES, *ON_DEMAND),
        help="measure only this; may be repeated",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything to FILE as JSON")
    parser.add_argument(
        "--tasks", type=int, default=Plan().tasks, metavar="N", help="tasks of a run (%(default)s)"
    )
    parser.add_argument("--big", action="store_true", help="measure memory with a million nodes too")
    parser.add_argument(
        "--nodes",
        type=int,
        default=0,
        metavar="N",
        help="measure memory with N nodes alone",
    )
    parser.add_argument("--quick", action="store_true", help="only see that everything runs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
