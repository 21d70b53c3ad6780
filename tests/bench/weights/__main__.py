"""Fit memory's classifiers anew: ``make weights`` (``ARGS="desk kinds"`` fits these alone).

Prints of each how it does on what it was not fitted to, before and after, and writes it into the folder of
memory's weights. Fitting supersession takes minutes; for certainty a real memory is asked first, which takes
some ten minutes.
"""

import argparse
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from services.memory.classifier import FOLDER, Classifier
from services.memory.local_model import LocalEmbedder
from shared import log
from shared.settings import load
from tests.bench.weights import EXAMPLES, answering, memories, routing
from tests.support.sweeper import leave_nothing


class Fitting(NamedTuple):
    """How a classifier is written to a path, and what it is judged by."""

    fit: Callable[[Path], None]
    judge: Callable[[Classifier], dict[str, float]]


def list_fittings(kept: Path | None) -> Mapping[str, Fitting]:
    """All of them, in their order: follow-ups are fitted to what the desk makes of messages."""
    embedder = LocalEmbedder(load().models)
    rows = cache(lambda: answering.read_rows(kept))

    def desk() -> Classifier:
        return Classifier(FOLDER / "desk.onnx")

    return {
        "desk": Fitting(
            lambda path: routing.fit_desk(path, embedder, routing.read_taught()),
            lambda found: routing.judge_desk(found, embedder),
        ),
        "following": Fitting(
            lambda path: routing.fit_following(path, routing.read_left_out(desk(), embedder)),
            lambda found: routing.judge_following(found, desk(), embedder),
        ),
        "playbooks": Fitting(lambda path: routing.fit_playbooks(path, embedder), lambda _: {}),
        "kinds": Fitting(
            lambda path: memories.fit_kinds(path, memories.read_kinds(embedder)),
            lambda found: memories.judge_kinds(found, embedder),
        ),
        "supersession": Fitting(
            lambda path: memories.fit_supersession(path, memories.read_claims()), memories.judge_supersession
        ),
        "meaning": Fitting(_fit_meaning, _judge_meaning),
        "certainty": Fitting(
            lambda path: answering.fit_certainty(path, rows()),
            lambda found: answering.judge_certainty(found, rows()),
        ),
    }


def _fit_meaning(path: Path) -> None:
    from tests.bench.weights.meaning import fit_meaning

    fit_meaning(path)


def _judge_meaning(classifier: Classifier) -> dict[str, float]:
    from tests.bench.weights.meaning import judge_meaning

    return judge_meaning(classifier)


def main() -> None:
    """Fit, compare and write."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.weights", description="Fit classifiers.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(EXAMPLES)}; all if none")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep there what memory was asked")
    parser.add_argument("--dry-run", action="store_true", help="print the figures only, write nothing")
    args = parser.parse_args()
    log.configure("bench", level="error")
    leave_nothing()
    fittings = list_fittings(args.keep)
    for name in args.names or fittings:
        old = FOLDER / f"{name}.onnx"
        with TemporaryDirectory() as folder:
            new = Path(folder) / old.name
            fittings[name].fit(new)
            for word, path in (("before", old), ("after", new)):
                figures = fittings[name].judge(Classifier(path)) if path.is_file() else {}
                told = "  ".join(f"{key} {value:g} %" for key, value in figures.items())
                print(f"{name:13} {word:7} {told}", flush=True)
            if not args.dry_run:
                old.write_bytes(new.read_bytes())


if __name__ == "__main__":
    main()
