"""Whether notes take the place of others: ``python -m tests.bench.claims``.

Counts, on written pairs that are held back from fitting, how many changes the linker is sure of and how many
it asks about, and how many of the pairs that both hold it joins wrongly, each
pair by itself. The last line is one JSON object.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from services.memory.linking import evidence, supersession
from services.memory.linking.statements import read_text
from tests.bench.claims.samples import Sample, measure, read_pairs


def judge(sample: Sample) -> str:
    """What is said of a pair: sure, asked or nothing."""
    (chance,) = supersession.estimate([supersession.Pair(sample.newer, sample.older, sample.cosine)])
    return "sure" if chance >= supersession.SURE else "asked" if chance >= supersession.ASKED else ""


def report() -> dict[str, Any]:
    """The shares of the held pairs, in percent, by label and kind."""
    counts: defaultdict[str, list[str]] = defaultdict(list)
    for sample in measure(read_pairs("held")):
        for name in (sample.label, f"{sample.label}, {sample.kind}"):
            counts[name].append(judge(sample))
    return {
        name: {"of": len(found), "sure": _share(found, "sure"), "asked": _share(found, "asked")}
        for name, found in sorted(counts.items())
    }


def _share(found: Sequence[str], answer: str) -> float:
    return round(100 * found.count(answer) / len(found), 1)


def gather(sample: Sample) -> evidence.Evidence | None:
    """The evidence of a sample; None if its texts are not compared."""
    new, old = read_text(sample.newer), read_text(sample.older)
    if not supersession.may_compare(new, old):
        return None
    others = [read_text(text).keys for text in sample.beside if text not in (sample.newer, sample.older)]
    return evidence.gather(new, old, sample.cosine, others)


def main() -> None:
    """Print the report as a table and as JSON."""
    shares = report()
    for name, row in shares.items():
        print(f"{name:32}", *(f"{key} {value:g}" for key, value in row.items()), sep="  ")
    print(json.dumps(shares))


if __name__ == "__main__":
    main()
