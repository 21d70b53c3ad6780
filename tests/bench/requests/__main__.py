"""Measure where requests go: ``python -m tests.bench.requests`` (``--help``).

Sixty requests as people write them are submitted to the real conductor on a real server, without a model
and with one that chooses by rules (``chooser``). Right is a request that goes where a person would send it;
lost is one of which a part is neither given to anybody nor named as left out. ``careless`` is a model that
does the first part of each request alone: there only what is lost counts. The half ``before`` was written
before the routing that is measured, ``after`` later. The last line is one JSON object.
"""

import argparse
import asyncio
import functools
import importlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import uvloop

from services.conductor.__main__ import Conductor
from services.conductor.state_machine import BY_MODEL
from shared import log, subjects
from shared.agent.base import Agent
from shared.contracts import Goal, StateChanged, Task, TaskStatus
from shared.tasks.actions import Outcome
from shared.tasks.profiles import load_profile
from tests.bench.requests.chooser import choose
from tests.support.classifying import serve_classifiers
from tests.support.model_server import serve_model
from tests.support.server import ROOT
from tests.support.sweeper import leave_nothing
from tests.support.team import Team, open_team

HALVES = ("before", "after")
MODES = ("alone", "model", "careless")
COLLEAGUES = ("critic", "engineer", "scout", "frontier", "cortex", "nexus")
TARGET = 57  # Requests of 60 that are right, in each mode
LIMIT = 30.0  # Seconds a request may take


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A request; ``model`` and ``alone`` are where a person sends it with and without a model.

    ``parts`` must be found in what is done or named as left out: words, or alternatives between bars.
    """

    id: str
    say: str
    model: tuple[str, ...]
    alone: tuple[str, ...]
    parts: tuple[str, ...] = ()


class Colleague(Agent):
    """Has the actions of a real agent, and says of every task that it is done."""

    async def on_start(self) -> None:
        """Nothing: no work is done here."""

    async def on_stop(self) -> None:
        """Nothing either."""

    async def on_task(self, task: Task) -> Outcome:
        """Say that it is done."""
        return Outcome(output=f"Done: {task.text}")

    def endpoints(self) -> dict[str, Any]:
        """None."""
        return {}

    def signed_endpoints(self) -> dict[str, Any]:
        """None."""
        return {}


def read_rows(half: str) -> list[Row]:
    """The requests of a half."""
    path = Path(__file__).with_name(f"{half}.jsonl")
    return [msgspec.json.decode(line, type=Row) for line in path.read_bytes().splitlines()]


async def send(team: Team, goal_id: str, text: str) -> Goal | None:
    """Submit a request, and the goal once it has ended; None if it does not end in time."""
    body = json.dumps({"text": text, "goal_id": goal_id}).encode()
    await team.user.store(subjects.SUBMIT, body)
    for _ in range(int(LIMIT / 0.02)):
        stored = await team.user.last(subjects.OFFICE, subjects.goal(goal_id))
        goal = StateChanged.from_json(stored.data).goal if stored else None
        if goal is not None and goal.status.final:
            return goal
        await asyncio.sleep(0.02)
    return None


def route_of(goal: Goal | None) -> str:
    """Where a request went."""
    if goal is None:
        return "nowhere"
    if goal.question:
        return "question"
    if not goal.tasks:
        if goal.status is TaskStatus.COMPLETED:
            return "answer"
        return "desk" if "mailroom ask" in goal.reason else "refused"
    if goal.playbook != BY_MODEL:
        return f"playbook:{goal.playbook}"
    return f"agent:{goal.tasks[0].assignee}" if len(goal.tasks) == 1 else "plan"


def find_lost(row: Row, goal: Goal | None) -> list[str]:
    """The parts of a request that work was begun without, and that are not named."""
    if goal is None or not goal.tasks:
        return []
    held = [*(f"{task.text} {json.dumps(task.params)}" for task in goal.tasks), *goal.left_out]
    told = "\n".join(held).lower()
    ways = (tuple(map(re.escape, part.split("|"))) for part in row.parts)
    return [part for part, way in zip(row.parts, ways, strict=True) if not re.search("|".join(way), told)]


async def measure(mode: str, halves: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """What became of each request in one mode."""
    found: dict[str, list[dict[str, Any]]] = {}
    with (
        TemporaryDirectory(prefix="mailroom-bench-") as name,
        serve_model(by=functools.partial(choose, careless=mode == "careless")) as model,
    ):
        places = {place: Path(name, place) for place in ("shop", "site")}
        for place in (*places.values(), places["shop"] / "src" / "vendor"):
            place.mkdir(parents=True, exist_ok=True)
        brain = {"MAILROOM_BRAIN": "openai:small", "MAILROOM_BRAIN_URL": model.url, "MAILROOM_BRAIN_KEY": "k"}
        names = ["conductor", *COLLEAGUES, subjects.MEMORY_DAEMON]
        state = Path(name, "state")
        state.mkdir()
        async with open_team(state, names, **(brain if mode != "alone" else {})) as team:
            await serve_classifiers(team)
            for colleague in COLLEAGUES:
                module = importlib.import_module(f"services.{colleague}.__main__")
                real = next(
                    each
                    for each in vars(module).values()
                    if isinstance(each, type)
                    and each.__module__ == module.__name__
                    and issubclass(each, Agent)
                )
                stand_in = type(real.__name__, (Colleague, real), {})
                await team.join(stand_in, load_profile(ROOT / "services" / colleague / "profile.yaml"))
            await team.join(Conductor, load_profile(ROOT / "services" / "conductor" / "profile.yaml"))
            for half in halves:
                found[half] = [
                    await _judge(team, row, mode, {key: str(place) for key, place in places.items()})
                    for row in read_rows(half)
                ]
    return found


async def _judge(team: Team, row: Row, mode: str, places: dict[str, str]) -> dict[str, Any]:
    text = row.say
    for name, place in places.items():
        text = text.replace(f"{{{name}}}", place)
    goal = await send(team, row.id, text)
    route, wanted = route_of(goal), row.alone if mode == "alone" else row.model
    right = mode == "careless" or route in wanted
    lost = find_lost(row, goal)
    return {"id": row.id, "say": row.say, "route": route, "right": right and not lost, "lost": lost}


def main() -> None:
    """Measure, print the figures of each mode and half, and the JSON as the last line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.requests", description=__doc__)
    parser.add_argument("--mode", action="append", choices=MODES, help="only this mode; may be repeated")
    parser.add_argument("--half", action="append", choices=HALVES, help="only this half; may be repeated")
    parser.add_argument("--misses", action="store_true", help="print the requests that are not right")
    parser.add_argument("--routes", action="store_true", help="print where each request went")
    given = parser.parse_args()
    log.configure("bench", level="error")
    leave_nothing()
    figures: dict[str, dict[str, dict[str, int]]] = {}
    for mode in given.mode or MODES:
        found = uvloop.run(measure(mode, given.half or HALVES))
        for half, judged in found.items():
            counted = {
                "requests": len(judged),
                "right": sum(each["right"] for each in judged),
                "lost": sum(bool(each["lost"]) for each in judged),
            }
            figures.setdefault(mode, {})[half] = counted
            print(mode, half, *(f"{name}: {value}" for name, value in counted.items()), sep="  ")
            for each in judged:
                if given.routes or (given.misses and not each["right"]):
                    mark = " " if each["right"] else "!"
                    print(f"  {mark}{each['id']} {each['route']} {each['lost'] or ''} {each['say'][:90]!r}")
    whole = {
        mode: {name: sum(half[name] for half in halves.values()) for name in ("right", "lost")}
        for mode, halves in figures.items()
    }
    met = all(each["lost"] == 0 for each in whole.values()) and all(
        whole[mode]["right"] >= TARGET for mode in ("alone", "model") if mode in whole
    )
    print(json.dumps({"met": met, "target": TARGET, "all": whole, "halves": figures}))


if __name__ == "__main__":
    main()
