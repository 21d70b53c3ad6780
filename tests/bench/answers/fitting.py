"""Fit what decides whether memory tells what is asked: ``make answers-weights`` (``--help`` lists options).

The questions of made-up stores are asked of a real memory daemon once; steps of many signs are then boosted
to whether the best sentence answers. Each store is judged by steps fitted to the others: the table has, for
several limits, how many known ones are told and unknown ones declined. Only numpy is needed.
"""

import argparse
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import uvloop

from services.nexus.answers import weighing
from services.nexus.answers.answer_type import lacks_amount
from services.nexus.answers.evidence import Evidence
from services.nexus.answers.weighing import LEAST as LEAST_WEIGHT
from services.nexus.answers.weighing import (
    LEAST_NAMED,
    LIGHTEST,
    Asked,
    Fitted,
    Steps,
    measure_certainty,
    weigh,
    weigh_terms,
)
from shared import log
from shared.text.questions import find_phrases
from tests.bench.answers.samples import TEAMS, TOLD, Sample, read_store
from tests.support.sweeper import leave_nothing

ROUNDS, RATE, BAGS = 400, 0.1, 4
"""Steps that are added, what each counts, and how often all is done with other samples for the mean."""
SHARE, TRIED, LEAST, CALM = 0.5, 0.2, 10, 1.0
"""The share of samples of a step, of signs that are tried for it, the fewest samples of a side, and what
keeps a side of few from counting much."""
CUTS = 24
"""The limits that a sign may have."""
WEIGHTS = {"fact": 1.5, "change": 1.0, "unknown": 2.0, "crossed": 0.7}
"""What questions of each kind count."""
WITHOUT, FROM_FRAMES = 0.5, 1.0
"""What one counts from which the answer was taken away, and one of a store that is told by frames."""
LIMITS = (
    (-np.inf, np.inf), (-3.5, 0.0), (-3.5, -0.5), (-3.5, -1.0), (-2.5, -0.5), (-2.0, -0.5), (-1.5, -1.5),
)  # fmt: skip
"""The least log-odds if the weight is enough, and if it is not: of the first, the weights decide alone."""

Numbers = npt.NDArray[np.float64]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The signs of the best sentence for a question, and whether it is the answer."""

    store: str
    kind: str
    question: str
    signs: dict[str, float]
    right: bool
    weight: float
    whole: bool


def read_rows(samples: Sequence[Sample]) -> list[Row]:
    """The rows of all questions, and of those that have an answer also without it."""
    rows = []
    framed = {path.stem for path in TOLD}
    for sample in samples:
        item = sample.item
        weight = WEIGHTS[item.kind] * (FROM_FRAMES if sample.store in framed else 1)
        rest = [each for each in sample.evidence if each.hit.node.id not in item.gold]
        for evidence, share in ((sample.evidence, 1.0), (rest, WITHOUT)) if item.gold else ((rest, 1.0),):
            if found := _find_best(item.question, evidence):
                signs, best = found
                right = best.hit.node.id in item.gold
                rows.append(
                    Row(
                        store=sample.store, kind=item.kind, question=item.question, signs=signs, right=right,
                        weight=weight * share, whole=share == 1,
                    )
                )  # fmt: skip
    return rows


def _find_best(question: str, evidence: Sequence[Evidence]) -> tuple[dict[str, float], Evidence] | None:
    """The sentence that ``choose`` would judge, with its signs."""
    phrases = frozenset(chain.from_iterable(find_phrases(question, each.text) for each in evidence))
    asked = Asked(question, phrases, weigh_terms(question, evidence))
    support = {each.hit.node.id: weigh(asked, each) for each in evidence}
    may_answer = [each for each in evidence if not lacks_amount(question, each.text)]
    if not may_answer:
        return None
    best = max(may_answer, key=lambda each: support[each.hit.node.id])
    return measure_certainty(asked, best, evidence, support), best


def fit(rows: Sequence[Row], bags: int = BAGS) -> Fitted:
    """The steps for these rows."""
    names = list(rows[0].signs)
    signs = np.array([[float(row.signs[name]) for name in names] for row in rows])
    right = np.array([row.right for row in rows], float)
    weights = np.array([row.weight for row in rows])
    start = float(np.log((weights * right).sum() / (weights * (1 - right)).sum()))
    steps: dict[str, dict[float, list[float]]] = {name: {} for name in names}
    for seed in range(bags):
        for place, limit, below, above in _boost(signs, right, weights, start, seed):
            found = steps[names[place]].setdefault(limit, [0.0, 0.0])
            found[0] += below / bags
            found[1] += above / bags
    return Fitted(start=round(start, 4), steps={name: _join(found) for name, found in steps.items() if found})


def _boost(
    signs: Numbers, right: Numbers, weights: Numbers, start: float, seed: int
) -> list[tuple[int, float, float, float]]:
    """Steps one after another, each by what those before it leave: sign, limit, both values."""
    random = np.random.default_rng(seed)
    limits = [_find_limits(column) for column in signs.T]
    bins = [np.searchsorted(each, column, side="right") for each, column in zip(limits, signs.T, strict=True)]
    odds = np.full(len(right), start)
    found = []
    for _ in range(ROUNDS):
        chance = 1 / (1 + np.exp(-odds))
        drawn = random.random(len(right)) < SHARE
        pull, calm = weights * (right - chance) * drawn, weights * chance * (1 - chance) * drawn
        tried = random.choice(len(limits), max(1, int(TRIED * len(limits))), replace=False)
        splits = {n: _split(bins[n], len(limits[n]), pull, calm, drawn) for n in tried.tolist()}
        place = max(splits, key=lambda place: splits[place][0])
        gain, cut, below, above = splits[place]
        if gain > 0:
            odds += RATE * np.where(bins[place] <= cut, below, above)
            found.append((place, float(limits[place][cut]), RATE * below, RATE * above))
    return found


def _find_limits(column: Numbers) -> Numbers:
    """Between which values of a sign a step may be: CUTS at most, with as many samples between two."""
    values = np.unique(np.quantile(column, np.linspace(0, 1, CUTS + 2)))
    return np.asarray((values[1:] + values[:-1]) / 2)


def _split(
    bins: npt.NDArray[np.int64], cuts: int, pull: Numbers, calm: Numbers, drawn: npt.NDArray[np.bool_]
) -> tuple[float, int, float, float]:
    """The cut of a sign that gains most, with what is added up to it and behind it."""
    if not cuts:
        return 0.0, 0, 0.0, 0.0
    counts, pulls, calms = (
        np.cumsum(np.bincount(bins, weights=each, minlength=cuts + 1)) for each in (drawn, pull, calm)
    )
    left, right = pulls[:-1], pulls[-1] - pulls[:-1]
    calm_left, calm_right = calms[:-1] + CALM, calms[-1] - calms[:-1] + CALM
    gains = left**2 / calm_left + right**2 / calm_right - pulls[-1] ** 2 / (calms[-1] + CALM)
    gains[(counts[:-1] < LEAST) | (counts[-1] - counts[:-1] < LEAST)] = 0.0
    cut = int(np.argmax(gains))
    return float(gains[cut]), cut, float(left[cut] / calm_left[cut]), float(right[cut] / calm_right[cut])


def _join(found: Mapping[float, Sequence[float]]) -> Steps:
    """Many steps of one sign as one row of values."""
    limits = sorted(found)
    value = sum(below for below, _ in found.values())
    values = [value]
    for limit in limits:
        below, above = found[limit]
        value += above - below
        values.append(value)
    rounded = [tuple(round(each, 4) for each in some) for some in (limits, values)]
    return Steps(limits=rounded[0], values=rounded[1])


def judge_left_out(rows: Sequence[Row]) -> list[float]:
    """The log-odds of each row by steps that are fitted to the rows of the other stores."""
    fitted = {
        store: fit([row for row in rows if row.store != store], bags=2)
        for store in dict.fromkeys(row.store for row in rows)
    }
    return [fitted[row.store].weigh(row.signs) for row in rows]


def print_trade(rows: Sequence[Row], odds: Sequence[float]) -> None:
    """Print for each limit what is told and declined rightly: of stores of teams, and of those of frames."""
    framed = {path.stem for path in TOLD}
    whole = [(row, each) for row, each in zip(rows, odds, strict=True) if row.whole]
    teams = [pair for pair in whole if pair[0].store not in framed]
    frames = [pair for pair in whole if pair[0].store in framed]
    print("limits        teams: told    declined     frames: told    declined     crossed")
    for limit in LIMITS:
        known, unknown = ("fact", "change"), ("unknown",)
        columns = (
            (teams, known),
            (teams, unknown),
            (frames, known),
            (frames, unknown),
            (frames, ("crossed",)),
        )
        print(f"{limit[0]:5} {limit[1]:5}", *(f"{_count(side, limit, kinds):>12}" for side, kinds in columns))


def _count(judged: Sequence[tuple[Row, float]], limits: tuple[float, float], kinds: Sequence[str]) -> str:
    some = [(row, _is_told(row, odds, limits)) for row, odds in judged if row.kind in kinds]
    asks_known = kinds[0] == "fact"
    good = sum((told and row.right) if asks_known else not told for row, told in some)
    return f"{good}/{len(some)}"


def _is_told(row: Row, odds: float, limits: tuple[float, float]) -> bool:
    weight = row.signs["support"]
    is_enough = weight >= (LEAST_NAMED if row.signs["shared"] else LEAST_WEIGHT)
    return weight >= LIGHTEST and odds >= limits[not is_enough]


def read_samples(kept: Path | None) -> list[Sample]:
    """The samples of all stores; a folder keeps them, so that they are read once."""
    samples: list[Sample] = []
    for path in (*TEAMS, *TOLD):
        file = kept / f"{path.stem}.msgpack" if kept else None
        if file and file.is_file():
            samples += msgspec.msgpack.decode(file.read_bytes(), type=list[Sample])
            continue
        print(f"Reading {path.stem}", flush=True)
        found = uvloop.run(read_store(path))
        samples += found
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(msgspec.msgpack.encode(found))
    return samples


def format_fitted(fitted: Fitted) -> str:
    """The steps as JSON, each sign on a line of its own."""
    rows = (f'"{name}":{msgspec.json.encode(steps).decode()}' for name, steps in fitted.steps.items())
    return f'{{"start":{fitted.start},"steps":{{\n' + ",\n".join(rows) + "\n}}\n"


def main() -> None:
    """Read the samples, print how the trade is on stores that were left out, and write the steps."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.answers.fitting", description="Fit answers.")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="keep what was read there, for the next time"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the trade only, write nothing")
    args = parser.parse_args()
    log.configure("bench", level="error")
    leave_nothing()
    rows = read_rows(read_samples(args.keep))
    print_trade(rows, judge_left_out(rows))
    if not args.dry_run:
        fitted = fit(rows)
        weighing.FILE.write_text(format_fitted(fitted))
        print(f"{weighing.FILE.name}: {len(rows)} rows, {len(fitted.steps)} signs")


if __name__ == "__main__":
    main()
