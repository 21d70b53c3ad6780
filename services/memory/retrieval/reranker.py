"""Reading the best hits again: a cross-encoder, ms-marco-MiniLM-L-12-v2 in int8 on onnxruntime."""

import math
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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
"""How many hits are read again: they hold 88 % of the evidence in conversations, 40 hold 92 %."""

AROUND = 100
"""Characters taken along of the node before and of the one after; 300 found 83.7 % where these found 85.2."""

FUSED = 10
"""What is added to a rank before its reciprocal is taken.

Each hit has three ranks: in the fast search, by what reading it alone gives, and by what reading it
within its passage gives. On 281 questions about the half of LoCoMo's conversations that constants are chosen
on, the sum of the three reciprocals found 85.2 % of the evidence where the fast search found 81.7 % (84.6 to
84.8 with 5, 20, 40 and 60); 83.2 without the passages, 84.3 with them alone. Adding both readings to the
score found 84.6 at best, and counting the first or the last of the three more 84.4 to 85.1."""

SHARE = 0.4
"""What reading again adds to the score at most: the order is that of the ranks."""

SOFTNESS = 4.0
"""By what the model's logits (-11 to 9) are divided before they are squeezed into 0..1."""

MAX_TOKENS = 160
"""Of question and passage together; the longer of the two is cut off at its end. Time grows in proportion."""

MAX_CHARACTERS = 1_000
"""Cut before tokenising: more would not fit into the tokens."""

WORKERS = max(2, min(8, os.cpu_count() or 2))
"""Threads that read."""

Context = tuple[Sequence[Node], Sequence[Node]]
"""The nodes before and after a node in its session, each in their order."""


class Reranker:
    """The model, loaded from ``directory`` when it is first used: that takes 0.3 s and 60 MB.

    What a text gets depends on question and text alone, because each is a run of its own: the int8 model
    scales its activations over the whole of a run. Batches of 4, 8 or 12 texts of one length took as much
    processor time (.51 to .64 s for 48 texts, .53 to .65 one by one).
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._model: tuple[Tokenizer, onnxruntime.InferenceSession] | None = None
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="rerank")

    def load(self) -> None:
        """Load the model if it is not; raises StartError with the cure if it is missing or broken."""
        with self._lock:
            self._model = self._model or open_model(self._directory, "reranker_en")

    def search(self, view: "View", query: MemoryQuery, vector: "Vectors", moment: float) -> list[Hit]:
        """A search of ``view`` whose best hits are read again; see ``rerank``."""
        wide = msgspec.structs.replace(query, limit=max(query.limit, CANDIDATES))
        hits = view.search(wide, vector, moment)
        contexts = [view.session_neighbours(hit.node.id) for hit in hits[:CANDIDATES]]
        return self.rerank(query.text, hits, contexts, query.limit)

    def rerank(self, text: str, hits: Sequence[Hit], contexts: Sequence[Context], limit: int) -> list[Hit]:
        """The best ``limit`` of ``hits``, which come best first as ``contexts`` do, reordered.

        Each of the first CANDIDATES is read alone, and with what was said just before and after it; the order
        is that of the sum of the reciprocal ranks (see FUSED), and those after the CANDIDATES stay behind
        them. To each score SHARE x the better of its readings (0 to 1) is added, in ``why`` as ``reading``;
        it is at least the score of the next one, and at most 1. All is read however long it takes: some
        .3 s on two free cores. Raises StartError as ``load`` does.
        """
        self.load()
        read, rest = hits[:CANDIDATES], hits[CANDIDATES:]
        alone = [_text_of(hit.node) for hit in read]
        passages = [make_passage(hit.node, *context) for hit, context in zip(read, contexts, strict=False)]
        marks = self._read(text, [*alone, *passages])
        own, around = marks[: len(read)], marks[len(read) :]
        order = fuse([-place for place in range(len(read))], own, around)
        ranked = [_add(read[place], SHARE * max(own[place], around[place])) for place in order]
        return _level([*ranked, *rest])[:limit]

    def read(self, question: str, passages: Sequence[str]) -> list[float]:
        """The logit of each passage as an answer to the question. Raises StartError as ``load`` does."""
        self.load()
        return list(self._pool.map(lambda passage: self._logit(question, passage), passages))

    def close(self) -> None:
        """Stop the threads; what is being read is finished first."""
        self._pool.shutdown(cancel_futures=True)

    def _read(self, text: str, passages: Sequence[str]) -> list[float]:
        """How well each passage answers, 0 to 1; the longest are read first, so that threads end together."""
        different = sorted(set(passages), key=len, reverse=True)
        marks = dict(zip(different, self._pool.map(partial(self._score, text), different), strict=True))
        return [marks[passage] for passage in passages]

    def _score(self, text: str, passage: str) -> float:
        return 1 / (1 + math.exp(-self._logit(text, passage) / SOFTNESS))

    def _logit(self, text: str, passage: str) -> float:
        assert self._model is not None
        tokenizer, session = self._model
        encoded = tokenizer.encode(text[:MAX_CHARACTERS], passage[:MAX_CHARACTERS])
        ids = np.array([encoded.ids], np.int64)
        kinds = np.array([encoded.type_ids], np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": kinds}
        (logits,) = session.run(["logits"], inputs)
        return float(logits[0, 0])


def fuse(*columns: Sequence[float]) -> list[int]:
    """Places in the order of their reciprocal ranks in all ``columns``; of equals, the first one is first."""
    total = [0.0] * len(columns[0])
    for column in columns:
        for rank, place in enumerate(sorted(range(len(column)), key=lambda place: -column[place]), 1):
            total[place] += 1 / (FUSED + rank)
    return sorted(range(len(total)), key=lambda place: -total[place])


def make_passage(node: Node, before: Sequence[Node], after: Sequence[Node]) -> str:
    """The text of a node between the end of the one before and the beginning of the one after it."""
    parts = [_text_of(other)[-AROUND:] for other in before[-1:]]
    parts += [_text_of(node), *(_text_of(other)[:AROUND] for other in after[:1])]
    return "\n".join(parts)


def _text_of(node: Node) -> str:
    """A node's title and body; the body alone if it begins with the title."""
    return node.body if node.body.startswith(node.title) else f"{node.title}\n{node.body}".strip()


def _level(hits: Sequence[Hit]) -> list[Hit]:
    """The hits in their order, none with a score below that of a later one."""
    least, levelled = 0.0, list[Hit]()
    for hit in reversed(hits):
        least = max(least, hit.score)
        levelled.append(msgspec.structs.replace(hit, score=least))
    return levelled[::-1]


def _add(hit: Hit, part: float) -> Hit:
    why = {**hit.why, "reading": round(part, 4)}
    return msgspec.structs.replace(hit, score=min(1.0, round(hit.score + part, 4)), why=why)


def open_model(directory: Path, name: str) -> "tuple[Tokenizer, onnxruntime.InferenceSession]":
    """The model ``name`` with the tokenizer of the cross-encoder; raises StartError with the cure."""
    import onnxruntime
    from tokenizers import Tokenizer

    vocabulary, model = (
        locate(directory, "reranker_en/tokenizer.json"),
        locate(directory, f"{name}/model.onnx"),
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = False  # would keep what the longest text took, and is no faster
    try:
        tokenizer = Tokenizer.from_file(str(vocabulary))
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # both raise their own kinds, Exception itself among them
        raise StartError(f"The model {name} in {directory} is broken ({error})", CURE) from None
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS, strategy="longest_first")
    return tokenizer, session
