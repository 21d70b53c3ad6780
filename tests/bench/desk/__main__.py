"""Measure what the front desk understands without a model: ``python -m tests.bench.desk`` (``--help``).

Everyday messages in conversations are asked of the real nexus with the real memory over a real bus. Right is
an answer of a tool that the message means; wrong in effect is one that did what the message must not lead to.
The half ``held`` is not looked at: of it only figures are printed. ``fresh`` are the newest ones.
The last line is one JSON object.
"""

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

import uvloop

from shared import log
from tests.bench import machine
from tests.bench.desk.busy import open_busy, put_back
from tests.bench.desk.ground import Said, hold, hold_all, open_office
from tests.bench.desk.messages import BUSY, HALVES, read_talks
from tests.support.sweeper import leave_nothing

SEEN = ("work", "office", "ten", "people")  # The halves whose misses may be looked at
RIGHT, NEVER_WRONG = 90.0, 97.0
"""The targets, in percent of the messages of the half ``held``."""


def count(said: Sequence[Said]) -> dict[str, Any]:
    """Right and wrong messages, in percent: of all, of first ones and of follow-ups, by area."""
    first = [each for each in said if each.line is each.talk.lines[0]]
    later = [each for each in said if each.line is not each.talk.lines[0]]
    areas = sorted({each.talk.area for each in said})
    return {
        "messages": len(said),
        "right": _share(said),
        "right_first": _share(first),
        "right_follow_up": _share(later),
        "not_understood": _percent([each.tool == "unclear" and not each.is_right for each in said]),
        "never_wrong_in_effect": _percent([not each.is_wrong for each in said]),
        "slots": count_slots(said),
        "areas": {area: _share([each for each in said if each.talk.area == area]) for area in areas},
    }


def count_slots(said: Sequence[Said]) -> dict[str, Any]:
    """How many slots could be judged, and how many of them the answers tell, in percent: of all, by kind."""
    judged = [slot for each in said for slot in each.slots.items()]
    kinds = sorted({name for name, _ in judged})
    shares = {kind: _percent([right for name, right in judged if name == kind]) for kind in kinds}
    return {"judged": len(judged), "right": _percent([right for _, right in judged]), **shares}


def _share(said: Sequence[Said]) -> float:
    return _percent([each.is_right for each in said])


def _percent(flags: Sequence[bool]) -> float:
    return round(100 * sum(flags) / len(flags), 1) if flags else 0.0


def print_misses(said: Sequence[Said]) -> None:
    """Print what was not right, or wrong in effect."""
    for each in said:
        if not each.is_right or each.is_wrong:
            mark = "!" if each.is_wrong else " "
            means = "|".join([each.line.means, *each.line.also])
            print(f"{each.talk.id}{mark} {means} <- {each.tool}: {each.line.say[:110]!r} {each.line.tells}")
            print(f"      {each.answer[:300]!r}") if each.line.tells else None
        for name in (name for name, right in each.slots.items() if not right):
            wanted = each.line.slots[name]
            print(f"{each.talk.id}  {name} {wanted!r} <- {each.answer[:110]!r}: {each.line.say[:80]!r}")


async def measure(halves: Sequence[str]) -> dict[str, list[Said]]:
    """What was said in each half, in an office of its own."""
    found = {}
    for half in halves:
        if half in BUSY:
            async with open_busy(full=BUSY[half]) as office:
                found[half] = []
                for talk in read_talks(half):
                    found[half] += await hold(office, talk, now="")
                    if found[half][-1].tool == "stop":
                        await put_back(office)
            continue
        async with open_office() as office:
            found[half] = await hold_all(office, read_talks(half))
    return found


def main() -> None:
    """Measure, print the figures of each part, and the JSON as the last line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.desk", description=__doc__)
    parser.add_argument("--half", action="append", choices=HALVES, help="only this half; may be repeated")
    parser.add_argument(
        "--misses",
        action="store_true",
        help="print what was not right, of what may be looked at",
    )
    args = parser.parse_args()
    log.configure("bench", level="error")
    leave_nothing()
    begun = time.monotonic()
    found = uvloop.run(measure(args.half or HALVES))
    for half in SEEN if args.misses else ():
        print_misses(found.get(half, ()))
    figures = {half: count(said) for half, said in found.items()}
    for half, counted in figures.items():
        print(half, *(f"  {name}: {value}" for name, value in counted.items()), sep="\n")
    judged = figures.get("held") or next(iter(figures.values()))
    met = judged["right"] >= RIGHT and judged["never_wrong_in_effect"] >= NEVER_WRONG
    targets = {"right": RIGHT, "never_wrong_in_effect": NEVER_WRONG}
    seconds = round(time.monotonic() - begun, 1)
    print(
        json.dumps(
            {"met": met, "targets": targets, "seconds": seconds, "load": machine.load(), "halves": figures}
        )
    )


if __name__ == "__main__":
    main()
