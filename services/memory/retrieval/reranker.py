"""Reading the best hits again: a cross-encoder, ms-marco-MiniLM-L-12-v2 in int8 on onnxruntime."""

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from services.memory.model import CURE, locate
from shared.contracts import Hit, MemoryQuery, Node
from shared.errors import StartError

if TYPE_CHECKING:
    import onnxruntime
    from tokenizers import Tokenizer

    from services.memory.retrieval.vectors import Vectors
    from services.memory.retrieval.view import View

CANDIDATES = 24
"""How many hits are worth reading again: they hold 89 % of the evidence in conversations, 40 hold 92 %."""

KEPT = 4
"""How many of the first hits keep the others below them, of an answer of ten; of a shorter one, two fifths.
They are read last: time is better spent on hits that may or may not belong to the answer."""

PASSAGES = 7
"""How many passages are read at most about the hits below those. A passage is a hit with what was said just
before and after it, and covers all three; so 9 in all, which is usual, cover most of the CANDIDATES.

Without a deadline they found 84.2 % of the evidence in conversations where the fast search found 83.0 %,
with it 83.0 if that found 82.7. Of a quarter of the questions, on which this was chosen, 12 from the top
down found no more, nor did one for each of the 24, at 2.5 times the cost."""

AROUND = 100
"""Characters taken along of the node before and of the one after."""

SHARE = 0.4
"""What reading again adds to the score at most. Alone, it finds less than with what it is added to."""

SOFTNESS = 4.0
"""By what the model's logits (-11 to 9) are divided before they are squeezed into 0..1."""

MAX_TOKENS = 160
"""Of question and passage together; the longer of the two is cut off at its end. Time grows in proportion."""

MAX_CHARACTERS = 1_000
"""Cut before tokenising: more would not fit into the tokens."""

PATIENCE = 0.13
"""Seconds that reading may take; one core alone reads about six passages in them."""

WORKERS = 2
"""Threads that read."""

Context = tuple[Sequence[Node], Sequence[Node]]
"""The nodes before and after a node in its session, each in their order."""


class Passage(msgspec.Struct, frozen=True, kw_only=True):
    """What is read in one run, and the ids of the nodes that it covers."""

    text: str
    ids: tuple[str, ...]


class Reranker:
    """The model, loaded from ``directory`` when it is first used: that takes 0.3 s and 60 MB.

    The score of a passage depends on question and passage alone, because each is a run of its own: the
    int8 model scales its activations over the whole of a run. Two threads with one passage each were as quick
    as batches of any size.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._model: tuple[Tokenizer, onnxruntime.InferenceSession] | None = None
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="rerank")

    def load(self) -> None:
        """Load the model if it is not; raises StartError with the cure if it is missing or broken."""
        with self._lock:
            self._model = self._model or _open(self._directory)

    def search(self, view: "View", query: MemoryQuery, vector: "Vectors", moment: float) -> list[Hit]:
        """A search of ``view`` whose best hits are read again; see ``rerank``."""
        wide = msgspec.structs.replace(query, limit=max(query.limit, CANDIDATES))
        hits = view.search(wide, vector, moment)
        contexts = [view.session_neighbours(hit.node.id) for hit in hits[:CANDIDATES]]
        return self.rerank(query.text, hits, contexts, query.limit)

    def rerank(
        self,
        text: str,
        hits: Sequence[Hit],
        contexts: Sequence[Context],
        limit: int,
        patience: float = PATIENCE,
    ) -> list[Hit]:
        """The best ``limit`` of ``hits``, which come best first as ``contexts`` do, reordered.

        Passages about the first CANDIDATES are made and read (see ``make_passages``), until ``patience`` (in
        seconds) would run out; the first is read in any case. To each score is added SHARE x sigmoid(logit /
        SOFTNESS) of the best passage that covers the node, in ``why`` as ``reading``; the score is at most
        1. What was not read counts as the worst that was, and the first KEPT as no worse than the best of
        the others. Raises StartError as ``load`` does.
        """
        self.load()
        kept = min(KEPT, 2 * limit // 5)
        passages = make_passages(hits[:CANDIDATES], contexts, kept)
        marks = self._read(text, passages, time.monotonic() + patience)
        best: dict[str, float] = {}
        for passage, mark in zip(passages, marks, strict=False):
            best.update({node_id: max(mark, best.get(node_id, 0.0)) for node_id in passage.ids})
        least = min(best.values(), default=0.0)
        values = [best.get(hit.node.id, least) for hit in hits]
        most = max(values[kept:], default=0.0)
        parts = [SHARE * max(value, most if place < kept else 0.0) for place, value in enumerate(values)]
        order = sorted(range(len(hits)), key=lambda place: -hits[place].score - parts[place])
        return [_add(hits[place], parts[place]) for place in order[:limit]]

    def close(self) -> None:
        """Stop the threads; what is being read is finished first."""
        self._pool.shutdown(cancel_futures=True)

    def _read(self, text: str, passages: Sequence[Passage], deadline: float) -> list[float]:
        """How well the passages answer, 0 to 1, as far as there was time: none is begun that may end late."""
        taken: list[float] = []

        def mark(place: int) -> float | None:
            begun = time.monotonic()
            usual = sum(taken) / max(1, len(taken))
            if place and begun + usual > deadline:
                return None
            value = self._score(text, passages[place].text)
            taken.append(time.monotonic() - begun)
            return value

        marks: list[float] = []
        for value in self._pool.map(mark, range(len(passages))):
            if value is None:
                break
            marks.append(value)
        return marks

    def _score(self, text: str, passage: str) -> float:
        assert self._model is not None
        tokenizer, session = self._model
        encoded = tokenizer.encode(text[:MAX_CHARACTERS], passage[:MAX_CHARACTERS])
        ids = np.array([encoded.ids], np.int64)
        kinds = np.array([encoded.type_ids], np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": kinds}
        (logits,) = session.run(["logits"], inputs)
        return 1 / (1 + math.exp(-float(logits[0, 0]) / SOFTNESS))


def make_passages(hits: Sequence[Hit], contexts: Sequence[Context], kept: int) -> list[Passage]:
    """What to read, in this order: of the hits from place ``kept`` on, at most PASSAGES; of those before it.

    There is one for each hit that none before it covers.
    """
    passages: list[Passage] = []
    told: set[str] = set()
    for place in (*range(kept, len(hits)), *range(min(kept, len(hits)))):
        full = place >= kept and len(passages) == PASSAGES
        if hits[place].node.id not in told and not full:
            passages.append(_make_passage(hits[place].node, *contexts[place]))
            told.update(passages[-1].ids)
    return passages


def _make_passage(node: Node, before: Sequence[Node], after: Sequence[Node]) -> Passage:
    previous, following = before[-1:], after[:1]
    parts = [_text_of(other)[-AROUND:] for other in previous]
    parts += [_text_of(node), *(_text_of(other)[:AROUND] for other in following)]
    ids = tuple(other.id for other in (*previous, node, *following))
    return Passage(text="\n".join(parts), ids=ids)


def _text_of(node: Node) -> str:
    """A node's title and body; the body alone if it begins with the title."""
    return node.body if node.body.startswith(node.title) else f"{node.title}\n{node.body}".strip()


def _add(hit: Hit, part: float) -> Hit:
    why = {**hit.why, "reading": round(part, 4)}
    return msgspec.structs.replace(hit, score=min(1.0, round(hit.score + part, 4)), why=why)


def _open(directory: Path) -> "tuple[Tokenizer, onnxruntime.InferenceSession]":
    import onnxruntime
    from tokenizers import Tokenizer

    vocabulary, model = (
        locate(directory, f"reranker_en/{name}") for name in ("tokenizer.json", "model.onnx")
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = False  # would keep what the longest text took, and is no faster
    try:
        tokenizer = Tokenizer.from_file(str(vocabulary))
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # both raise their own kinds, Exception itself among them
        raise StartError(f"The reranking model in {directory} is broken ({error})", CURE) from None
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS, strategy="longest_first")
    return tokenizer, session
