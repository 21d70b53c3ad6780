"""Measure what memory answers: ``python -m tests.bench.answers`` (``--help`` lists options).

A team's store of 60 days is made up from a seed number and written into a real memory daemon; what the linker
recognised, what ``mailroom ask`` and ``mailroom memory search`` answer, and what agents are briefed with is
counted. No language model takes part. The sentences of the half ``work`` may be worked with; those of
``held_out`` are only reported, so that nothing is tuned to them. The last line is one JSON object.
"""

import argparse
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from shared import log
from tests.bench import machine
from tests.bench.answers.figures import (
    Figure,
    answer_figures,
    briefing_figures,
    choose_questions,
    decline_figures,
    fact_figures,
    supersession_figures,
)
from tests.bench.answers.ground import Ground, open_ground
from tests.bench.answers.held import Held
from tests.bench.answers.others import OTHERS, measure_others
from tests.bench.answers.story import AGENTS, DAYS
from tests.bench.answers.surroundings import tell_story
from tests.bench.answers.times import measure_times
from tests.bench.answers.wording import HALVES, path_of, read_wording
from tests.support.sweeper import leave_nothing

SEEDS = {"work": 1, "held_out": 2}


async def measure(wording: Path, others: Path, every: slice, seed: int) -> list[Figure]:
    """Tell the story of ``seed`` in a wording, ask ``every`` one of the other teams' questions; count."""
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(days=DAYS)
    story = tell_story(read_wording(wording), seed, start)
    async with open_ground() as ground:
        await ground.fill(story, start)
        held = Held(story, await ground.nodes(), await ground.statements())
        seen = supersession_figures(held, ground.refused)
        seen = [*seen, *await _ask(ground, held), *await _brief(ground, held)]
    return [*seen, *await measure_others(others, every)]


async def _ask(ground: Ground, held: Held) -> list[Figure]:
    asked = choose_questions(held.story)
    questions = [change.question for change in asked]
    plain = [question for _, question in held.story.facts]
    return [
        *answer_figures(held, asked, await ground.ask(questions), await ground.search(questions)),
        *decline_figures(held, await ground.ask(held.story.unanswerable)),
        *fact_figures(held, await ground.search(plain), await ground.ask(plain)),
    ]


async def _brief(ground: Ground, held: Held) -> list[Figure]:
    briefings, same = {}, []
    for number, agent in enumerate(AGENTS):
        briefings[agent], is_same = await ground.brief_twice(agent, number)
        same.append(is_same)
    return briefing_figures(held, briefings, same)


def print_figures(figures: list[Figure], title: str) -> None:
    """Print a half's figures beside their targets."""
    table = Table(title=title, title_justify="left", pad_edge=False)
    for heading in ("figure", "value", "of", "target", "met"):
        table.add_column(heading, justify="right" if heading in {"value", "of"} else "left", overflow="fold")
    for figure in figures:
        name = f"{figure.name}\n  [dim]{figure.note}[/dim]" if figure.note else figure.name
        met = {True: "yes", False: "no", None: ""}[figure.met]
        table.add_row(name, f"{figure.value:g}", f"{figure.of}", figure.target, met)
    Console(width=120).print(table)


def print_misses(figures: list[Figure]) -> None:
    """Print the cases behind the figures."""
    for figure in figures:
        if figure.misses:
            print(f"\n{figure.name}:", *sorted(figure.misses), sep="\n  ")


def summarise(measured: dict[str, tuple[int, list[Figure]]], seconds: float) -> dict[str, Any]:
    """All figures with their targets; ``met`` if every target of every half is met."""
    halves = {
        half: {
            "seed": seed,
            "met": all(figure.met is not False for figure in figures),
            "figures": {
                figure.name: {name: getattr(figure, name) for name in ("value", "of", "target", "met")}
                for figure in figures
            },
        }
        for half, (seed, figures) in measured.items()
    }
    met = all(half["met"] for half in halves.values())
    return {"met": met, "seconds": round(seconds, 1), "load": machine.load(), "halves": halves}


def main() -> None:
    """Measure, print the tables, and print the JSON as the last line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.answers", description="What memory answers.")
    parser.add_argument("--seed", type=int, metavar="N", help="of both halves (1 for work, 2 for held_out)")
    parser.add_argument("--half", action="append", choices=HALVES, help="only this half; may be repeated")
    parser.add_argument("--wording", type=Path, metavar="FILE", help="one of your own, like work.toml")
    parser.add_argument("--others", type=Path, metavar="FILE", help="with it, one like others.toml")
    parser.add_argument("--stores", type=Path, nargs="+", metavar="FILE", help="only these, like others.toml")
    parser.add_argument("--times", choices=HALVES, help="only the stores with times, this half of them")
    parser.add_argument("--misses", action="store_true", help="print what was missed, case by case")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the last line to FILE too")
    args = parser.parse_args()
    log.configure("bench", level="warning")
    leave_nothing()
    begun = time.monotonic()
    measured: dict[str, tuple[int, list[Figure]]] = {}
    for path in args.stores or ():
        figures = uvloop.run(measure_others(path, slice(None)))
        print_figures(figures, path.stem)
        if args.misses:
            print_misses(figures)
    if args.times:
        figures = uvloop.run(measure_times(args.times))
        print_figures(figures, args.times)
        if args.misses:
            print_misses(figures)
    if args.stores or args.times:
        return
    for half in [args.wording.stem] if args.wording else args.half or HALVES:
        seed = SEEDS.get(half, 1) if args.seed is None else args.seed
        if args.wording:
            files, every = (args.wording, args.others or OTHERS), slice(None)
        else:
            files, every = (path_of(half), OTHERS), slice(HALVES.index(half), None, 2)
        figures = uvloop.run(measure(*files, every, seed))
        figures += [] if args.wording else uvloop.run(measure_times(half))
        print_figures(figures, f"{half}, seed {seed}")
        if args.misses:
            print_misses(figures)
        measured[half] = seed, figures
    text = json.dumps(summarise(measured, time.monotonic() - begun))
    if args.json:
        args.json.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
