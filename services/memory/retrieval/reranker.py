"""Reading passages for an answer: a cross-encoder, ms-marco-MiniLM-L-12-v2 in int8 on onnxruntime."""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from services.memory.allocator import release_ram
from services.memory.model import CURE, locate
from shared.errors import StartError

if TYPE_CHECKING:
    import onnxruntime
    from tokenizers import Tokenizer

MAX_TOKENS = 160
"""Of question and passage together; the longer of the two is cut off at its end. Time grows in proportion."""

MAX_CHARACTERS = 1_000
"""Cut before tokenising: more would not fit into the tokens."""

WORKERS = max(2, min(8, os.cpu_count() or 2))
"""Threads that read."""


class Reranker:
    """The model, loaded from ``directory`` when it is first used: that takes 0.3 s and 40 MB.

    What a text gets depends on question and text alone, because each is a run of its own: the int8 model
    scales its activations over the whole of a run. Batches of 4, 8 or 12 texts of one length took as much
    processor time (.51 to .64 s for 48 texts, .53 to .65 one by one).
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._model: tuple[Tokenizer, onnxruntime.InferenceSession] | None = None
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="rerank")

    def read(self, question: str, passages: Sequence[str]) -> list[float]:
        """The logit of each passage as an answer to the question.

        Raises StartError with the cure if the model is missing or broken.
        """
        with self._lock:
            self._model = self._model or open_model(self._directory, "reranker_en")
        return list(self._pool.map(lambda passage: self._logit(question, passage), passages))

    def unload(self) -> None:
        """Give back the model's memory; to be called while nothing is read."""
        with self._lock:
            self._model = None

    def close(self) -> None:
        """Stop the threads; what is being read is finished first."""
        self._pool.shutdown(cancel_futures=True)

    def _logit(self, text: str, passage: str) -> float:
        assert self._model is not None
        tokenizer, session = self._model
        encoded = tokenizer.encode(text[:MAX_CHARACTERS], passage[:MAX_CHARACTERS])
        ids = np.array([encoded.ids], np.int64)
        kinds = np.array([encoded.type_ids], np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": kinds}
        (logits,) = session.run(["logits"], inputs)
        return float(logits[0, 0])


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
    release_ram()  # what parsing the file took: 23 MB
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS, strategy="longest_first")
    return tokenizer, session
