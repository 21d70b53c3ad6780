"""How well notes that others wrote are taken apart: ``make bench-notes``.

``seen`` holds the notes on which the rules were made, ``unseen`` those that were put aside before. Each has a
file ``.gold`` beside it: kind, day (``-`` for that of the file) and words of each passage that must be a
piece of its own. ``sentences`` holds single sentences of both halves with their kinds, as in files without
headings. The last line is one JSON object: the shares of both halves, the targets, and ``met``.
"""

import argparse
import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from services.memory.classifier import open_classifier
from services.memory.ingest.kinds import KindChooser
from services.memory.ingest.passages import first_words
from services.memory.ingest.pieces import Document, Piece
from services.memory.ingest.reading import read_document
from services.memory.local_model import LocalEmbedder, Vectors, fetch
from services.memory.writes.change import join_text
from shared.settings import load

FOLDER = Path(__file__).parent
HALVES = ("seen", "unseen")
MODIFIED = datetime(2026, 6, 1, tzinfo=UTC).timestamp()
TARGETS = {"apart": 95.0, "kind": 80.0, "day": 95.0, "sentences": 80.0}
"""Percent of the passages that are a piece of their own, and of the right kind and day; and of the single
sentences of the right kind.
"""


class Gold(msgspec.Struct, frozen=True):
    """What a passage with these words is to become."""

    kind: str
    day: str
    words: str


class Judged(msgspec.Struct, frozen=True):
    """A passage, and what became of it."""

    file: str
    gold: Gold
    kind: str
    day: str
    apart: bool


def read_gold(file: Path) -> list[Gold]:
    """The lines of a ``.gold`` file."""
    return [Gold(*line.split("|", 2)) for line in file.read_text("utf-8").splitlines()]


async def settle(document: Document, chooser: KindChooser, embedder: LocalEmbedder) -> Document:
    """The document with the kind of every piece, as it has it once its nodes have their vectors."""
    document = await chooser.choose(document)
    unclear = [piece for piece in document.pieces if not piece.kind]
    texts = [join_text(piece.title, piece.body) for piece in unclear]
    kinds = iter(await chooser.settle(unclear, texts, embedder.embed(texts)))
    pieces = (
        piece if piece.kind else msgspec.structs.replace(piece, kind=next(kinds)) for piece in document.pieces
    )
    return msgspec.structs.replace(document, pieces=tuple(pieces))


async def judge_file(gold: Path, chooser: KindChooser, embedder: LocalEmbedder) -> list[Judged]:
    """What becomes of the passages of the note beside ``gold``."""
    note = next(other for other in gold.parent.glob(f"{gold.stem}.*") if other.suffix != ".gold")
    document = await settle(read_document(gold.parent, note.name, MODIFIED), chooser, embedder)
    expected = read_gold(gold)
    return [_judge(note.name, one, document.pieces, expected) for one in expected]


def _judge(file: str, gold: Gold, pieces: tuple[Piece, ...], expected: list[Gold]) -> Judged:
    found = [piece for piece in pieces if gold.words in piece.body]
    if not found:
        return Judged(file, gold, "", "", apart=False)
    piece = found[0]
    apart = sum(other.words in piece.body for other in expected) == 1
    return Judged(file, gold, piece.kind, piece.date[:10] or "-", apart)


def read_sentences(half: str) -> list[tuple[str, str]]:
    """The kind and the text of each single sentence of a half."""
    lines = (FOLDER / "sentences" / f"{half}.txt").read_text("utf-8").splitlines()
    return [(kind, text) for kind, _, text in (line.partition("|") for line in lines)]


async def judge_sentences(
    half: str, chooser: KindChooser, embedder: LocalEmbedder
) -> list[tuple[str, str, str]]:
    """The kind that each sentence has, its text, and the kind it got."""
    sentences = read_sentences(half)
    pieces = tuple(Piece(title=first_words(text), body=text) for _, text in sentences)
    document = await settle(Document(pieces=pieces), chooser, embedder)
    return [(*one, piece.kind) for one, piece in zip(sentences, document.pieces, strict=True)]


def sum_up(judged: list[Judged]) -> dict[str, Any]:
    """The shares of a half in percent."""
    hits = {
        "apart": sum(one.apart for one in judged),
        "kind": sum(one.kind == one.gold.kind for one in judged),
        "day": sum(one.day == one.gold.day for one in judged),
    }
    return {"passages": len(judged), **{name: round(100 * n / len(judged), 1) for name, n in hits.items()}}


async def measure(misses: bool) -> dict[str, Any]:
    """Take all notes apart and judge them; with ``misses`` each wrong passage is printed."""
    embedder = LocalEmbedder(fetch(load().models, lambda _: None))

    async def classify(_: Sequence[str], vectors: Vectors) -> Vectors:
        return open_classifier("kinds").score(vectors=vectors)

    chooser = KindChooser(classify)
    result: dict[str, Any] = {}
    for half in HALVES:
        judged = [
            one
            for gold in sorted((FOLDER / half).glob("*.gold"))
            for one in await judge_file(gold, chooser, embedder)
        ]
        sentences = await judge_sentences(half, chooser, embedder)
        right = sum(kind == found for kind, _, found in sentences)
        result[half] = {**sum_up(judged), "sentences": round(100 * right / len(sentences), 1)}
        for one in judged if misses else ():
            if (one.kind, one.day, one.apart) != (one.gold.kind, one.gold.day, True):
                print(f"{half} {one.file}: {one.gold} became {one.kind} {one.day} apart={one.apart}")
        for kind, text, found in sentences if misses else ():
            if kind != found:
                print(f"{half} sentence: {kind} became {found}: {text}")
    embedder.close()
    met = all(result["unseen"][name] >= target for name, target in TARGETS.items())
    return {**result, "targets": TARGETS, "met": met}


def main() -> None:
    """Measure, and print the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.notes", description="Notes taken apart.")
    parser.add_argument("--misses", action="store_true", help="print the passages that were judged wrong")
    result = asyncio.run(measure(parser.parse_args().misses))
    for half in HALVES:
        print(f"{half:<8}" + "  ".join(f"{name} {value}" for name, value in result[half].items()))
    print(json.dumps(result))
