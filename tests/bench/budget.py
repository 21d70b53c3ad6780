"""The budget of speed: ``python -m tests.bench.budget [--only NAME] [--lower | --set]``.

Measures small what ``budget.toml`` names, a ratio to a bound of the same run each, and prints what is slower
than it may be: over ``drift`` times its ratio is a warning. What is over FAILS times is measured again, up to
TRIES times in all, and the best counts: if that is over it too, the exit code is 1. ``--lower`` lowers the
ratios in the file to what was measured, ``--set`` writes all of them. The last line is one JSON object.
"""

import argparse
import importlib
import json
import re
import sys
import time
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import uvloop

from shared import log
from tests.bench import machine
from tests.bench.plan import Plan
from tests.bench.rows import Row
from tests.support.sweeper import leave_nothing

FILE = Path(__file__).with_suffix(".toml")
SMALL = Plan(tasks=400, rounds=3, small=True)
FAILS, TRIES = 2.0, 3


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a measure, the ratio to its bound that it may have, and how many times that is still noise."""

    measure: str
    row: str
    ratio: float
    drift: float

    def judge(self, ratio: float | None) -> str:
        """ "", "warning" or "failure"; a row that was not measured is a failure."""
        if ratio is None or ratio > FAILS * self.ratio:
            return "failure"
        return "warning" if ratio > self.drift * self.ratio else ""


def read_budget(text: str) -> list[Figure]:
    """The figures of a budget file."""
    return [
        Figure(measure=measure, row=row, ratio=ratio, drift=drift)
        for measure, rows in tomllib.loads(text).items()
        for row, (ratio, drift) in rows.items()
    ]


def write_budget(text: str, ratios: Mapping[str, float], *, lower: bool) -> str:
    """The file with the ratios of rows as they were measured; with ``lower`` none is raised."""

    def put(line: re.Match[str]) -> str:
        old = float(line[2])
        new = ratios.get(line[1], old)
        return f'"{line[1]}" = [{min(old, new) if lower else new:.3g}, {line[3]}]'

    return re.sub(r'^"(.+)" = \[([\d.]+), ([\d.]+)\]', put, text, flags=re.MULTILINE)


def measure(names: Iterable[str]) -> dict[str, dict[str, float]]:
    """The ratio of each row of these measures, of several of one name the first; no rows: none works here."""
    found: dict[str, dict[str, float]] = {}
    for name in names:
        begun = time.monotonic()
        rows: list[Row] = uvloop.run(importlib.import_module(f"tests.bench.{name}").measure(SMALL))
        found[name] = {row.name: row.ratio for row in reversed(rows) if row.ratio is not None}
        reason = "" if found[name] else f", {rows[0].name}: {rows[0].note}"
        print(f"{name}: {time.monotonic() - begun:.0f} s{reason}", flush=True)
    return found


def main() -> int:
    """Measure, print what is too slow, and tell by the exit code whether it is far too slow."""
    args = _arguments()
    log.configure("bench", level="warning")
    leave_nothing()
    figures = [each for each in read_budget(FILE.read_text()) if not args.only or each.measure in args.only]
    begun, ratios = time.monotonic(), dict[str, float]()
    again = list(dict.fromkeys(figure.measure for figure in figures))
    for _ in range(TRIES):
        for name, rows in measure(again).items():
            for row, ratio in rows.items():
                ratios[row] = min(ratio, ratios.get(row, ratio))
            figures = figures if rows else [each for each in figures if each.measure != name]
        failing = [each for each in figures if each.judge(ratios.get(each.row)) == "failure"]
        again = list(dict.fromkeys(figure.measure for figure in failing))
        if not again or args.set:
            break
        print("measured again:", *(figure.row for figure in failing), sep="\n  ")
    told = [_tell(each, ratios.get(each.row)) for each in figures]
    for each in told:
        print(f"{each['verdict'] or 'ok':<8} {each['figure']}: {each['ratio']} of {each['budget']}")
    if args.lower or args.set:
        FILE.write_text(write_budget(FILE.read_text(), ratios, lower=args.lower))
    met = not any(each["verdict"] == "failure" for each in told)
    seconds = round(time.monotonic() - begun, 1)
    print(json.dumps({"met": met, "seconds": seconds, "load": machine.load(), "figures": told}))
    return 0 if met else 1


def _tell(figure: Figure, ratio: float | None) -> dict[str, Any]:
    return {
        "figure": f"{figure.measure}: {figure.row}",
        "ratio": ratio and round(ratio, 3),
        "budget": figure.ratio,
        "verdict": figure.judge(ratio),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.budget", description="The budget of speed.")
    parser.add_argument("--only", action="append", metavar="NAME", help="this measure alone; may be repeated")
    parser.add_argument("--lower", action="store_true", help="lower the ratios to what was measured")
    parser.add_argument("--set", action="store_true", help="write all ratios as they were measured")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
