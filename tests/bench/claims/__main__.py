"""Whether notes take the place of others: ``python -m tests.bench.claims``.

Counts, on written pairs that are held back from fitting, how many changes the linker is sure of and how many
it asks about, and how many of the pairs that both hold it joins wrongly, each
pair by itself. The last line is one JSON object.
"""

import json
from collections import defaultdict
from collections.abc import Sequence

from services.memory.linking import evidence, supersession
from services.memory.linking.meaning import PairReader
from services.memory.linking.statements import read_text
from services.memory.linking.supersession import Read
from services.memory.retrieval.deep_search import Reranker
from shared.settings import load
from tests.bench.claims.samples import Sample, measure, read_changes, read_pairs

LEAST, MOST = 60.0, 2.0  # The share of paraphrases that is asked for, and of what holds that may be ended

Shares = dict[str, dict[str, float]]


def judge(sample: Sample, read: Read) -> str:
    """What is said of a pair: sure, asked or nothing."""
    pair = supersession.Pair(sample.newer, sample.older, sample.cosine)
    (chance,) = supersession.estimate([pair], (), read)
    return "sure" if chance >= supersession.SURE else "asked" if chance >= supersession.ASKED else ""


def report(samples: Sequence[Sample], read: Read) -> Shares:
    """The shares of pairs, in percent, by label and kind."""
    counts: defaultdict[str, list[str]] = defaultdict(list)
    for sample in measure(samples):
        for name in (sample.label, f"{sample.label}, {sample.kind}"):
            counts[name].append(judge(sample, read))
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
    """Print the report of the files as a table, and as JSON."""
    read = PairReader(Reranker(load().models)).read
    halves = {
        "pairs.jsonl": report(read_pairs("held"), read),
        **{f"changes/{name}.txt": report(read_changes(name), read) for name in ("held", "fresh")},
    }
    for half, shares in halves.items():
        print(half)
        for name, row in shares.items():
            print(f"  {name:32}", *(f"{key} {value:g}" for key, value in row.items()), sep="  ")
    met = all(
        # In fresh.txt all are in other words, and named by what changed
        shares.get("replaces, paraphrase", shares["replaces"])["sure"] >= LEAST
        and shares["apart"]["sure"] <= MOST
        for shares in halves.values()
    )
    print(json.dumps({"met": met, "halves": halves}))


if __name__ == "__main__":
    main()
